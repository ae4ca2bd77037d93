"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterator, Sequence

from multiturn.catalog import provider_of
from multiturn.contract import FACTS, Stage, contract_of
from multiturn.errors import Mistake


def order_mistakes(stages: Sequence[Stage]) -> Iterator[Mistake]:
    """Yield what is wrong with an order of stages.

    A stage without a contract is unchecked: after it, every fact is taken to be true.
    """
    facts: set[str] = set()
    consumers: dict[str, int] = {}
    for number, stage in enumerate(stages):
        contract = contract_of(stage)
        if contract is None:
            facts.update(FACTS)
            continue
        for fact in FACTS:
            if fact in contract.requires - facts:
                yield Mistake(_missing(fact, number, stages, consumers.get(fact)), number)
        for fact in contract.consumes & facts:
            consumers[fact] = number
        facts -= contract.consumes
        facts |= contract.provides


def facts_after(stages: Sequence[Stage]) -> set[str]:
    """Return the facts that are true once an order of stages has run."""
    facts: set[str] = set()
    for stage in stages:
        contract = contract_of(stage)
        facts = set(FACTS) if contract is None else facts - contract.consumes | contract.provides
    return facts


def legal_order(stages: Sequence[Stage]) -> list[Stage] | None:
    """Return the stages in an order that keeps their contracts, near to theirs; or None.

    Each place is taken by the first stage that has what it requires, and takes nothing away that
    another one still needs.
    """
    left, order = list(stages), []
    facts: set[str] = set()
    while left:
        for stage in left:
            contract = contract_of(stage)
            if contract is None:
                facts.update(FACTS)
                break
            others = [contract_of(other) for other in left if other is not stage]
            needed = {fact for other in others if other for fact in other.requires}
            if contract.requires <= facts and not contract.consumes & needed:
                facts = (facts - contract.consumes) | contract.provides
                break
        else:
            return None
        left.remove(stage)
        order.append(stage)
    return order


def _missing(fact: str, number: int, stages: Sequence[Stage], consumer: int | None) -> str:
    needs = f"{stages[number].__name__} ({number + 1}) needs {fact}"
    if consumer is not None:
        name, did = stages[consumer].__name__, FACTS[fact].consumed
        return f"{needs}, but {name} ({consumer + 1}) has already {did}; move it before {name}"
    for later in range(number + 1, len(stages)):
        contract = contract_of(stages[later])
        if contract is not None and fact in contract.provides:
            name = stages[later].__name__
            return f"{needs}, but {name} ({later + 1}) provides it later; move it after {name}"
    provider = provider_of(fact)
    hint = f"; add {provider} before it" if provider else ""
    return f"{needs}, which no stage before it provides{hint}"
