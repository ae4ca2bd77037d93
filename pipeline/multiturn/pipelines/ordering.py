"""Checking an order of stages against their contracts, in one walk along it."""

from collections.abc import Iterator, Sequence

from multiturn.errors import ErrorDetail
from multiturn.pipelines.contract import FACTS, Contract, Stage, contract_of, ordered_facts
from multiturn.pipelines.registry import makes, provider_of

_MAX_TRIED = 10_000
_Facts = frozenset[str]


def order_errors(stages: Sequence[Stage], *, is_legal: bool = True) -> Iterator[ErrorDetail]:
    """Yield what is wrong with an order of stages, or else with its end.

    A stage without a contract is unchecked: after it, every fact is taken to be true, and the end
    of the pipeline is not checked. ``is_legal`` says whether another order of them is legal.
    """
    along, contracts, is_right = facts_along(stages), _contracts(stages), True
    names = [f"{stage.__name__} ({number})" for number, stage in enumerate(stages, 1)]
    for number, contract in enumerate(contracts):
        later: dict[int, str] = {}
        for fact in ordered_facts(contract.requires - along[number]):
            is_right, what = False, f"{names[number]} requires {fact}"
            users = [at for at in range(number) if fact in contracts[at].consumes]
            others = range(number + 1, len(stages))
            providers = [at for at in others if makes(stages[at], fact)]
            if users:
                did = FACTS.get(fact, "used it up")
                advice = f"; move it before {stages[users[-1]].__name__}"
                if fact in contract.consumes:
                    advice = ", and only one stage can do so; remove one of them, or use replace"
                what += f", but {names[users[-1]]} has already {did}{advice}"
            elif providers:
                later[providers[0]] = fact
                continue
            else:
                provider = provider_of(fact)
                what += ", which no stage before it provides"
                what += f"; add {provider} before it" if provider else ""
            yield ErrorDetail(what, number)
        if later:  # it must come after all of them, so only the last one is named
            at = max(later)
            move = (
                f"it after {stages[at].__name__}" if is_legal else "one, or change what it requires"
            )
            what = f"{names[number]} requires {later[at]}, but {names[at]} provides it later"
            yield ErrorDetail(f"{what}; move {move}", number)
    if is_right and not _is_end(stages, along[-1]):
        what = "attached files are left, and no stage turns them into text; add embed_files, or a"
        yield ErrorDetail(f'{what} stage of your own that declares consumes={{"files"}}')


def facts_along(stages: Sequence[Stage]) -> list[frozenset[str]]:
    """Return the facts that are true before each stage of an order, and after the last."""
    along = [_Facts()]
    for contract in _contracts(stages):
        along.append(along[-1] - contract.consumes | contract.provides)
    return along


def legal_order(stages: Sequence[Stage]) -> list[Stage] | None:
    """Return the stages in an order that their contracts allow, close to the given one; or None.

    Each place is taken by the first stage with which the others still find an order.
    """
    contracts = _contracts(stages)
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
                contract = contracts[number]
                if contract.requires <= facts:
                    after = facts - contract.consumes | contract.provides
                    begun.append(((*order, number), after))
    return None


def _is_end(stages: Sequence[Stage], facts: _Facts) -> bool:
    """Return whether a pipeline may end with these facts."""
    return "files" not in facts or None in map(contract_of, stages)


def _contracts(stages: Sequence[Stage]) -> list[Contract]:
    """Return the contracts of stages; one that declares none is taken to make every fact true."""
    declared = [contract_of(stage) for stage in stages]
    known = _Facts(FACTS).union(*(each.requires | each.provides for each in declared if each))
    return [each or Contract(_Facts(), known, _Facts()) for each in declared]
