"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from multiturn.errors import ErrorDetail
from multiturn.pipelines.contract import FACTS, Contract, Stage, contract_of, ordered_facts
from multiturn.pipelines.registry import provider_of

_MAX_TRIED = 10_000
_Facts = frozenset[str]
_UNKNOWN = Contract(_Facts(), _Facts(), _Facts())


def order_errors(stages: Sequence[Stage], *, is_legal: bool = True) -> Iterator[ErrorDetail]:
    """Yield what is wrong with an order of stages, or else with its end.

    A stage without a contract is unchecked: after it, every fact is taken to be true, and the end
    of the pipeline is not checked. ``is_legal`` says whether another order of them is legal.
    """
    along, is_right = facts_along(stages), True
    consumers: dict[str, int] = {}
    for number, (stage, facts) in enumerate(zip(stages, along, strict=False)):
        contract = contract_of(stage)
        if contract is not None:
            for what in _missing(contract.requires - facts, number, stages, consumers, is_legal):
                is_right = False
                yield ErrorDetail(what, number)
            consumers |= dict.fromkeys(contract.consumes & facts, number)
    if is_right and not _is_end(stages, along[-1]):
        yield ErrorDetail(
            "attached files are left, and no stage turns them into text; add embed_files, or"
            ' a stage of your own that declares consumes={"files"}'
        )


def facts_along(stages: Sequence[Stage]) -> list[frozenset[str]]:
    """Return the facts that are true before each stage of an order, and after the last."""
    known, along = _known_facts(stages), [_Facts()]
    for stage in stages:
        along.append(_after(contract_of(stage), along[-1], known))
    return along


def legal_order(stages: Sequence[Stage]) -> list[Stage] | None:
    """Return the stages in an order that their contracts allow, close to the given one; or None.

    Each place is taken by the first stage that has what it requires and with which the others
    still find an order. No more than 10,000 beginnings are tried.
    """
    known = _known_facts(stages)
    tried: set[tuple[frozenset[int], _Facts]] = set()

    def complete(left: frozenset[int], facts: _Facts) -> list[int] | None:
        if not left:
            return [] if _is_end(stages, facts) else None
        if (left, facts) in tried or len(tried) >= _MAX_TRIED:
            return None
        tried.add((left, facts))
        for number in sorted(left):
            contract = contract_of(stages[number])
            if contract is None or contract.requires <= facts:
                rest = complete(left - {number}, _after(contract, facts, known))
                if rest is not None:
                    return [number, *rest]
        return None

    order = complete(frozenset(range(len(stages))), _Facts())
    return None if order is None else [stages[number] for number in order]


def _after(contract: Contract | None, facts: _Facts, known: _Facts) -> _Facts:
    """Return the facts that are true after a stage with this contract."""
    return facts | known if contract is None else facts - contract.consumes | contract.provides


def _is_end(stages: Sequence[Stage], facts: _Facts) -> bool:
    """Return whether a pipeline may end with these facts."""
    return "files" not in facts or None in map(contract_of, stages)


def _known_facts(stages: Sequence[Stage]) -> _Facts:
    """Return every fact there is, those of the stages' own included."""
    contracts = filter(None, map(contract_of, stages))
    return _Facts(FACTS).union(*(each.requires | each.provides for each in contracts))


def _missing(
    facts: Iterable[str],
    number: int,
    stages: Sequence[Stage],
    consumers: Mapping[str, int],
    is_legal: bool,
) -> Iterator[str]:
    """Yield what is wrong with a stage that requires facts that are not true before it."""
    name = f"{stages[number].__name__} ({number + 1})"
    contracts = [contract_of(stage) or _UNKNOWN for stage in stages]
    later: dict[int, str] = {}
    for fact in ordered_facts(facts):
        providers = (
            at
            for at in range(number + 1, len(stages))
            if fact in contracts[at].provides - contracts[at].requires
        )
        if fact in consumers:
            consumer = stages[consumers[fact]].__name__
            did = f"{consumer} ({consumers[fact] + 1}) has already {FACTS.get(fact, 'used it up')}"
            advice = f"; move it before {consumer}"
            if fact in contracts[number].consumes:
                advice = ", and only one stage can do so; remove one of them, or use replace"
            yield f"{name} requires {fact}, but {did}{advice}"
        elif (at := next(providers, None)) is not None:
            later[at] = fact
        else:
            provider = provider_of(fact)
            hint = f"; add {provider} before it" if provider else ""
            yield f"{name} requires {fact}, which no stage before it provides{hint}"
    if later:  # it must come after all of them, so only the last one is named
        at = max(later)
        provider = stages[at].__name__
        advice = (
            f"; move it after {provider}" if is_legal else "; move one, or change what it requires"
        )
        yield f"{name} requires {later[at]}, but {provider} ({at + 1}) provides it later{advice}"
