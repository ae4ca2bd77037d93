"""The public names: those of multiturn, and of its modules for pytest, Dask and inspect_ai."""

import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

import pytest

from multiturn import Case, Conversion, ProviderRequest, TestMessage
from multiturn.model.settings import RequestSettings

PUBLIC = {
    "multiturn": {
        *(
            "Case",
            "ChatMessage",
            "Conversion",
            "Files",
            "InputFile",
            "Media",
            "Notice",
            "Part",
            "Turn",
        ),
        *("Call", "Thinking", "Tool"),
        *("ErrorDetail", "MultiturnError", "Pipeline", "PipelineError", "Place", "Step"),
        *("AccessError", "AttachmentError", "InputError", "OptionError", "OutsideRootError"),
        *("SegmentTypeError", "StageError", "RepeatsError", "RefusedError", "TargetError"),
        *("HttpStatusError", "AccessDeniedError", "RateLimitedError", "ContentFilterError"),
        *("ReplyTimeoutError", "ConnectionFailedError", "UnreachableError", "MalformedReplyError"),
        *("BatchEndedError", "ProcessFailedError", "OwnProviderError"),
        *("Explanation", "Fate", "Message", "Span", "TestMessage"),
        *("AxProvider", "Provider", "ProviderError", "ProviderRequest", "ProviderResponse"),
        *("Origins", "PreparedRequest"),
        *("Failure", "JsonSchema", "Made", "RawRequest", "RequestSettings"),
        *("TargetProvider", "Wire"),
        *("RunCase", "case_of", "dry_run", "prepare", "run", "run_batches", "send", "stage"),
        *("Estimate", "LimitReachedError", "Tokens", "estimate"),
        *("Result", "explain", "load_pipeline", "load_suite", "load_target", "marker_text"),
    },
    "multiturn.testing": {
        *("PromptSnapshot", "capture", "cases", "conversion", "convert", "file", "reference"),
        "run_stage",
    },
    "multiturn.distributed": {"convert_bag"},
    "multiturn.inspect": {"answer", "dataset", "suite"},
}
OF_EXTRAS = {"multiturn.distributed": "distributed", "multiturn.inspect": "inspect_ai"}


@pytest.mark.parametrize("module", PUBLIC)
def test_these_names_are_public(module: str) -> None:
    if module in OF_EXTRAS:  # make test has one, make test-tools the other
        pytest.importorskip(OF_EXTRAS[module])
    imported = import_module(module)
    assert set(imported.__all__) == PUBLIC[module]
    assert all(hasattr(imported, name) for name in PUBLIC[module])


def types_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation names."""
    for inner in get_args(annotation):
        yield from types_in(inner)
    if isinstance(annotation, type):
        yield annotation


def types_of(name: str) -> Iterator[type]:
    """Yield the types of what a public function returns, or of a public class's fields."""
    thing = getattr(import_module("multiturn"), name)
    hints = get_type_hints(thing)
    named = hints.values() if isinstance(thing, type) else [hints["return"]]
    for hint in named:
        yield from types_in(hint)


@pytest.mark.parametrize("name", sorted(PUBLIC["multiturn"]))
def test_what_a_public_name_gives_is_public_too(name: str) -> None:
    ours = (each for each in types_of(name) if each.__module__.startswith("multiturn"))
    private = {"View"}  # chosen by stages, and called by nobody else
    assert {each.__name__ for each in ours} - private <= PUBLIC["multiturn"]


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="module 'multiturn' has no attribute 'Convert'"):
        import_module("multiturn").Convert  # noqa: B018


def test_help_shows_the_public_names() -> None:
    multiturn = import_module("multiturn")
    text = pydoc.plain(pydoc.render_doc(multiturn))
    assert re.search(r"load_suite\(\s*\*suites", text)  # 3.13 breaks long signatures
    assert "class Pipeline(" in text


def test_the_version_is_that_of_the_package() -> None:
    assert import_module("multiturn").__version__ == version("multiturn")


def test_importing_multiturn_imports_nothing_heavy_and_knows_its_names() -> None:
    heavy = {"msgspec", "yaml", "click", "rich", "structlog", "asyncio", "openai", "dask"}
    program = f"import sys, multiturn; print({heavy!r} & set(sys.modules), *dir(multiturn))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    imported, *names = done.stdout.split()
    assert (imported, done.stderr) == ("set()", "")
    assert PUBLIC["multiturn"] <= set(names)


def test_a_conversion_is_shown_in_a_few_lines() -> None:
    long = "".join(f"{number:03} " for number in range(100))
    case = Case(
        id="x", input_messages=(TestMessage("user", long), *(TestMessage("user", "Hi"),) * 7)
    )
    assert repr(case).splitlines() == [
        "Case(",
        "    id='x',",
        f"    input_messages=(TestMessage(role='user', content='{long}"[:88] + "…,",
        ")",
    ]
    assert repr(Conversion(case)).count("\n") == 2
    request = ProviderRequest(question="Hi", settings=RequestSettings(temperature=0.0))
    said = "question='Hi',\n    settings=RequestSettings(temperature=0.0),"
    assert repr(request) == f"ProviderRequest(\n    {said}\n)"
