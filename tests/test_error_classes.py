"""The classes of errors: what each means, and what becomes of one in another process."""

import pickle
import re
from pathlib import Path

import pytest

from multiturn import errors
from multiturn.errors import ErrorDetail, MultiturnError, PipelineError, Place, ProviderError


def below(kind: type[MultiturnError]) -> list[type[MultiturnError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in below(child))]


OURS = [each for each in below(MultiturnError) if each.__module__ == errors.__name__]

KINDS = {
    "RefusedError": "refused",
    "TargetError": "target",
    "HttpStatusError": "http",
    "AccessDeniedError": "access_denied",
    "RateLimitedError": "rate_limit",
    "ContentFilterError": "content_filter",
    "ReplyTimeoutError": "timeout",
    "ConnectionFailedError": "connection",
    "UnreachableError": "unreachable",
    "MalformedReplyError": "malformed",
    "BatchEndedError": "batch",
    "ProcessFailedError": "process",
    "OwnProviderError": "provider",
}


@pytest.mark.parametrize("kind", OURS)
def test_an_error_reaches_another_process_as_it_is(kind: type[MultiturnError]) -> None:
    made = PipelineError([ErrorDetail("a")], "b") if kind is PipelineError else kind("what")
    made.at(Place("a.yaml", 3, 5), "x")
    if isinstance(made, ProviderError):
        made.status, made.retries, made.wire = 529, 2, b"{}"
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), vars(again), str(again)) == (kind, vars(made), str(made))


def test_each_kind_of_results_has_a_class_of_its_own() -> None:
    found = {each.__name__: each("what").kind for each in below(ProviderError)[1:]}  # type: ignore[attr-defined]
    assert found == KINDS


def test_what_every_case_would_meet_ends_a_run() -> None:
    assert {*errors.ENDS_RUN} == {"access_denied", "target", "unreachable"}


def test_each_class_says_what_it_means() -> None:
    assert all(each.__doc__ and each.__doc__ != MultiturnError.__doc__ for each in OURS[1:])


def test_the_page_has_the_tree_of_classes() -> None:
    """With dots for the levels, and the kind that results call it."""
    page = (Path(__file__).parent.parent / "docs/api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| ((?:· )*)`(\w+Error)` \| `?(\w*)`? \|", page, re.MULTILINE)
    depths = {each.__name__: len(each.__mro__) - len(MultiturnError.__mro__) for each in OURS}
    kinds = {each.__name__: getattr(each, "kind", "") for each in OURS}
    parents = {each.__name__: each.__mro__[1].__name__ for each in OURS}
    assert {name: kind for _, name, kind in shown} == kinds
    assert {name: len(dots) // 2 for dots, name, _ in shown} == depths
    path = [""] * 4
    for dots, name, _ in shown:
        path[len(dots) // 2] = name
        assert not dots or path[len(dots) // 2 - 1] == parents[name]
