"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterable, Iterator, Sequence

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
    contracts = [contract_of(stage) or _UNKNOWN for stage in stages]
    for number, (contract, facts) in enumerate(zip(contracts, along, strict=False)):
        for what in _missing(contract.requires - facts, number, stages, contracts, is_legal):
            is_right = False
            yield ErrorDetail(what, number)
    if is_right and not _is_end(stages, along[-1]):
        what = "attached files are left, and no stage turns them into text; add embed_files, or a"
        yield ErrorDetail(f'{what} stage of your own that declares consumes={{"files"}}')


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
    begun: list[tuple[tuple[int, ...], _Facts]] = [((), _Facts())]
    tried: set[tuple[frozenset[int], _Facts]] = set()
    while begun and len(tried) < _MAX_TRIED:
        order, facts = begun.pop()
        left = [number for number in range(len(stages)) if number not in order]
        if not left and _is_end(stages, facts):
            return [stages[number] for number in order]
        if (frozenset(order), facts) not in tried:
            tried.add((frozenset(order), facts))
            for number in reversed(left):
                contract = contract_of(stages[number])
                if contract is None or contract.requires <= facts:
                    begun.append(((*order, number), _after(contract, facts, known)))
    return None


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
    contracts: Sequence[Contract],
    is_legal: bool,
) -> Iterator[str]:
    """Yield what is wrong with a stage that requires facts that are not true before it."""
    name = f"{stages[number].__name__} ({number + 1})"
    later: dict[int, str] = {}
    for fact in ordered_facts(facts):
        users = [at for at in range(number) if fact in contracts[at].consumes]
        others = range(number + 1, len(stages))
        providers = [at for at in others if fact in contracts[at].provides - contracts[at].requires]
        if users:
            user = stages[users[-1]].__name__
            did = f"{user} ({users[-1] + 1}) has already {FACTS.get(fact, 'used it up')}"
            advice = f"; move it before {user}"
            if fact in contracts[number].consumes:
                advice = ", and only one stage can do so; remove one of them, or use replace"
            yield f"{name} requires {fact}, but {did}{advice}"
        elif providers:
            later[providers[0]] = fact
        else:
            provider = provider_of(fact)
            hint = f"; add {provider} before it" if provider else ""
            yield f"{name} requires {fact}, which no stage before it provides{hint}"
    if later:  # it must come after all of them, so only the last one is named
        at = max(later)
        provider = stages[at].__name__
        what = f"{name} requires {later[at]}, but {provider} ({at + 1}) provides it later; move "
        yield what + (f"it after {provider}" if is_legal else "one, or change what it requires")
