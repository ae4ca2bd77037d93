"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterator, Sequence

from multiturn.errors import ErrorDetail
from multiturn.pipelines.contract import FACTS, Contract, Stage, contract_of, in_order
from multiturn.pipelines.registry import provider_of

_MAX_TRIED = 10_000
_Facts = frozenset[str]


def order_errors(stages: Sequence[Stage]) -> Iterator[ErrorDetail]:
    """Yield what is wrong with an order of stages, or else with its end.

    A stage without a contract is unchecked: after it, every fact is taken to be true, and the end
    of the pipeline is not checked.
    """
    known, facts = _known_facts(stages), _Facts()
    consumers: dict[str, int] = {}
    is_right = True
    for number, stage in enumerate(stages):
        contract = contract_of(stage)
        if contract is not None:
            for fact in in_order(contract.requires - facts):
                is_right = False
                yield ErrorDetail(_missing(fact, number, stages, consumers.get(fact)), number)
            consumers |= dict.fromkeys(contract.consumes & facts, number)
        facts = _after(contract, facts, known)
    if is_right and not _is_end(stages, facts):
        what = "attached files are left, and no stage turns them into text; add embed_files, or"
        yield ErrorDetail(f"{what} put a stage of your own in its place with replace")


def facts_after(stages: Sequence[Stage]) -> frozenset[str]:
    """Return the facts that are true once an order of stages has run."""
    known, facts = _known_facts(stages), _Facts()
    for stage in stages:
        facts = _after(contract_of(stage), facts, known)
    return facts


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


def _missing(fact: str, number: int, stages: Sequence[Stage], consumer: int | None) -> str:
    requires = f"{stages[number].__name__} ({number + 1}) requires {fact}"
    contracts = [contract_of(stage) or Contract(_Facts(), _Facts(), _Facts()) for stage in stages]
    own = contracts[number]
    if consumer is not None:
        name = stages[consumer].__name__
        did = f"{name} ({consumer + 1}) has already {FACTS.get(fact, 'used it up')}"
        if fact in own.consumes:
            only = "only one stage can do so; remove one of them, or use replace"
            return f"{requires}, but {did}, and {only}"
        return f"{requires}, but {did}; move it before {name}"
    for later in range(number + 1, len(stages)):
        if fact in contracts[later].provides - contracts[later].requires:
            name = stages[later].__name__
            provided = f"{requires}, but {name} ({later + 1}) provides it later"
            others = _Facts().union(*(c.provides for at, c in enumerate(contracts) if at != number))
            if contracts[later].requires & own.provides - others:
                return (
                    f"{provided}, and itself only runs after {stages[number].__name__}; change"
                    " what one of the two requires"
                )
            return f"{provided}; move it after {name}"
    provider = provider_of(fact)
    hint = f"; add {provider} before it" if provider else ""
    return f"{requires}, which no stage before it provides{hint}"
