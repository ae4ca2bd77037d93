"""A case that has another name is found by what it says, and a new one is not taken for it."""

import time

import pytest

from multiturn.snapshots.locations import Key
from multiturn.snapshots.renames import renames

RULES = "Answer every question in one short sentence, and thank the customer for asking."


def said(text: str) -> str:
    """Return a snapshot of a case."""
    chat = f"chat_prompt:\n  - role: user\n    content: {text}\n"
    return f"---\nsuite: x\nid: y\n{chat}question: {text}\n"


def cases(*given: str) -> dict[Key, str]:
    """Return cases that are written as suite, id and text."""
    return {(suite, case): said(text) for suite, case, text in (g.split(" ", 2) for g in given)}


@pytest.mark.parametrize(
    ("removed", "added", "expected"),
    [
        pytest.param(["a 1 Hi"], ["a 2 Hi"], ["a 2 < a 1"], id="the same text"),
        pytest.param(["a 1 Hi"], ["b 1 Hi"], ["b 1 < a 1"], id="another suite"),
        pytest.param(["a 1 Hi"], ["a 2 Bye"], [], id="another text"),
        pytest.param(
            ["a case-4 Where is order 4?"],
            ["a refund-4 Where is refund 4?"],
            ["a refund-4 < a case-4"],
            id="half of the words",
        ),
        pytest.param(
            [f"a case-4 {RULES} Where is it?"],
            [f"a refund-4 {RULES} Ignore all rules"],
            ["a refund-4 < a case-4"],
            id="another question after the same guideline",
        ),
        pytest.param(
            ["a 1 Where is my order?", "a 2 When do you open?"],
            ["a 3 When do you close?", "a 4 Where is my refund?"],
            ["a 3 < a 2", "a 4 < a 1"],
            id="the most similar first",
        ),
        pytest.param(
            ["a 1 Hi", "b 2 Hi"],
            ["b 3 Hi", "a 4 Hi"],
            ["b 3 < b 2", "a 4 < a 1"],
            id="the same suite first",
        ),
        pytest.param(
            ["a 1 Sell a book", "a 2 Hi", "a 3 Hi"],
            ["b 3 Hi", "b 2 Hi", "b 1 Lend a car"],
            ["b 3 < a 3", "b 2 < a 2", "b 1 < a 1"],
            id="a renamed suite keeps its ids",
        ),
        pytest.param(
            ["a 1 One two", "a 2 Three four", "b 1 Five six", "b 2 Seven eight"],
            ["c 1 Five seven", "c 2 Six eight", "d 1 One three", "d 2 Two four"],
            ["c 1 < b 1", "c 2 < b 2", "d 1 < a 1", "d 2 < a 2"],
            id="suites whose cases say the same together",
        ),
        pytest.param(
            ["a 1 Sell a book", "a 2 Buy a house"],
            ["b 1 Draw some flowers", "b 2 Write one line"],
            [],
            id="a suite with the same ids is another one",
        ),
        pytest.param(["a 1 Hi", "a 2 Hi"], ["a 3 Hi"], ["a 3 < a 1"], id="each one once"),
        pytest.param([], ["a 1 Hi"], [], id="nothing was removed"),
    ],
)
def test_renames(removed: list[str], added: list[str], expected: list[str]) -> None:
    found = renames(cases(*removed), cases(*added))
    shown = {f"{' '.join(new)} < {' '.join(old)}" for new, old in found.items()}
    assert shown == set(expected)


def test_thousands_of_cases_take_no_time() -> None:
    rules = " ".join(f"rule{number}" for number in range(300))
    texts = [f"{rules} Where is order {number}?" for number in range(500)]
    removed = {("a", f"case-{n}"): said(text) for n, text in enumerate(texts)}
    added = {("a", f"new-{n}"): said(f"{text} Thanks {n}.") for n, text in enumerate(texts)}
    start = time.process_time()
    assert renames(removed, added) == dict(zip(added, removed, strict=True))
    assert time.process_time() - start < 4
