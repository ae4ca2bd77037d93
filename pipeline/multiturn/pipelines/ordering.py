"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterator, Sequence

from multiturn.errors import ErrorDetail
from multiturn.pipelines.contract import FACTS, Contract, Stage, contract_of, in_order
from multiturn.pipelines.registry import provider_of

_MAX_TRIED = 10_000


def order_errors(stages: Sequence[Stage]) -> Iterator[ErrorDetail]:
    """Yield what is wrong with an order of stages, or else with its end.

    A stage without a contract is unchecked: after it, every fact is taken to be true, and the end
    of the pipeline is not checked.
    """
    facts: set[str] = set()
    consumers: dict[str, int] = {}
    is_right = True
    for number, stage in enumerate(stages):
        contract = contract_of(stage)
        if contract is None:
            facts |= _known_facts(stages)
            continue
        for fact in in_order(contract.requires - facts):
            is_right = False
            yield ErrorDetail(_missing(fact, number, stages, consumers.get(fact)), number)
        for fact in contract.consumes & facts:
            consumers[fact] = number
        facts -= contract.consumes
        facts |= contract.provides
    if is_right and "files" in facts and all(map(contract_of, stages)):
        what = "attached files are left, and no stage turns them into text; add embed_files, or"
        yield ErrorDetail(f"{what} put a stage of your own in its place with replace")


def facts_after(stages: Sequence[Stage]) -> set[str]:
    """Return the facts that are true once an order of stages has run."""
    facts: set[str] = set()
    for stage in stages:
        contract = contract_of(stage)
        if contract is None:
            facts = _known_facts(stages)
        else:
            facts = facts - contract.consumes | contract.provides
    return facts


def legal_order(stages: Sequence[Stage]) -> list[Stage] | None:
    """Return the stages in an order that their contracts allow, close to the given one; or None.

    Each place is taken by the first stage that has what it requires and with which the others
    still find an order. No more than 10,000 beginnings are tried.
    """
    known = _known_facts(stages)
    tried: set[tuple[frozenset[int], frozenset[str]]] = set()

    def complete(left: frozenset[int], facts: frozenset[str]) -> list[int] | None:
        if not left:
            return [] if "files" not in facts or not all(map(contract_of, stages)) else None
        if (left, facts) in tried or len(tried) >= _MAX_TRIED:
            return None
        tried.add((left, facts))
        for number in sorted(left):
            contract = contract_of(stages[number])
            after = facts | known
            if contract is not None:
                if not contract.requires <= facts:
                    continue
                after = facts - contract.consumes | contract.provides
            rest = complete(left - {number}, after)
            if rest is not None:
                return [number, *rest]
        return None

    order = complete(frozenset(range(len(stages))), frozenset())
    return None if order is None else [stages[number] for number in order]


def _known_facts(stages: Sequence[Stage]) -> set[str]:
    """Return every fact there is, those of the stages' own included."""
    contracts = filter(None, map(contract_of, stages))
    return set(FACTS).union(*(contract.requires | contract.provides for contract in contracts))


def _missing(fact: str, number: int, stages: Sequence[Stage], consumer: int | None) -> str:
    requires = f"{stages[number].__name__} ({number + 1}) requires {fact}"
    if consumer is not None:
        name = stages[consumer].__name__
        did = FACTS.get(fact, "used it up")
        contract = contract_of(stages[number])
        if contract is not None and fact in contract.consumes:
            only = "only one stage can do so; remove one of them, or use replace"
            return f"{requires}, but {name} ({consumer + 1}) has already {did}, and {only}"
        return f"{requires}, but {name} ({consumer + 1}) has already {did}; move it before {name}"
    for later in range(number + 1, len(stages)):
        contract = contract_of(stages[later])
        if contract is not None and fact in contract.provides - contract.requires:
            name = stages[later].__name__
            provided = f"{requires}, but {name} ({later + 1}) provides it later"
            if _needs(contract, number, stages):
                return (
                    f"{provided}, and itself only runs after {stages[number].__name__}; change"
                    " what one of the two requires"
                )
            return f"{provided}; move it after {name}"
    provider = provider_of(fact)
    hint = f"; add {provider} before it" if provider else ""
    return f"{requires}, which no stage before it provides{hint}"


def _needs(late: Contract, early: int, stages: Sequence[Stage]) -> bool:
    """Return whether a stage cannot run before another one in any order of the rest."""
    others = [contract_of(stage) for at, stage in enumerate(stages) if at != early]

    def reached(facts: set[str]) -> set[str]:
        for _ in others:
            for contract in others:
                if contract is None:
                    facts |= _known_facts(stages)
                elif contract.requires <= facts:
                    facts |= contract.provides
        return facts

    own = contract_of(stages[early])
    given = set() if own is None else set(own.provides)
    return late.requires <= reached(given) and not late.requires <= reached(set())
