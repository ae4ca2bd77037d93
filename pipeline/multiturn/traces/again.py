"""What is sent for an imported case, and what differs from the body that it was made of."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from multiturn.documents.json_lines import TOO_DEEP
from multiturn.documents.node import MAX_DEPTH, is_deeper
from multiturn.errors import MultiturnError, ProviderError, cut
from multiturn.files.finding import Files
from multiturn.logs import warnings_to
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.pipelines.pipeline_file import read_pipeline
from multiturn.providers.settings import TRANSPORT, Values, taken
from multiturn.providers.targets import KINDS
from multiturn.providers.trace import Trace
from multiturn.traces.given import case_of

_ABOVE = 2  # levels of a suite above a case
_MOST_COMPARED = 200  # items of two lists: their comparison takes the square of it


def differences(given: Any, again: Any, path: str = "") -> Iterator[str]:
    """Yield what differs, one sentence each, by its path in the given body.

    >>> [*differences({"n": 1, "user": "me"}, {"n": 2})]
    ['n is sent as 2', 'user is left out']
    """
    if isinstance(given, dict) and isinstance(again, dict):
        for key in {**given, **again}:
            below = f"{path}.{cut(key)}".removeprefix(".")
            if key not in again:
                yield f"{below} is left out"
            elif key not in given:
                yield f"{below} is added: {_shown(again[key])}"
            else:
                yield from differences(given[key], again[key], below)
    elif isinstance(given, list) and isinstance(again, list):
        yield from _of_lists(given, again, path)
    elif given != again or isinstance(given, bool) != isinstance(again, bool):
        yield f"{path} is sent as {_shown(again)}"


def _of_lists(given: list[Any], again: list[Any], path: str) -> Iterator[str]:
    """Yield what differs in two lists; between the items that are equal, one beside the other."""
    changed: list[Any] = [("replace", 0, len(given), 0, len(again))]
    if max(len(given), len(again)) <= _MOST_COMPARED:
        before, after = ([json.dumps(each, sort_keys=True) for each in it] for it in (given, again))
        changed = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for what, start, end, low, high in changed:
        pairs = zip_longest(range(start, end), range(low, high))
        for one, other in pairs if what != "equal" else ():
            if other is None:
                yield f"{path}[{one}] is left out"
            elif one is None:
                yield f"{path}[{other}] is added: {_shown(again[other])}"
            else:
                yield from differences(given[one], again[other], f"{path}[{one}]")


def _shown(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False))


def case_in(given: Values, folder: Path | None = None) -> Case:
    """Return a case of a suite to be written, whose files are in the folder, or raise its error."""
    if is_deeper(given, MAX_DEPTH - _ABOVE):
        raise MultiturnError(TOO_DEEP)
    with warnings_to(lambda _: None):
        return case_of(given, files=Files(folder, folder) if folder else None)


def changes(body: Values, trace: Trace, case: Case) -> Iterator[str]:
    """Yield what differs in the body that a target sends for a case, one sentence each."""
    conversion = _pipeline()(Conversion(case))
    if trace.form is None:
        yield from trace.lost
        return
    settings: dict[str, Any] = {"name": "trace", "provider": trace.provider, "api_key": "-"}
    settings["model"] = trace.request.model or "unknown"
    if trace.provider == "azure":
        settings["endpoint"] = "https://trace.openai.azure.com"
    kind = KINDS[trace.provider]
    provider: Any = kind.provider(kind.settings(**settings, **trace.target))
    layout, prepared = provider.lay_out(request_of(conversion), conversion.prompt)
    sent = msgspec.json.decode(provider.encode(provider.write(prepared)))
    given, again = trace.form.same(body), trace.form.same(sent)
    try:
        layout.done()
    except ProviderError as error:
        yield error.what
    for each in (given, again):  # a target has the model, and Gemini its address
        each.pop("model", None)
    for path in TRANSPORT[1:]:
        value, ours = taken(given, path), taken(again, path)
        if value is not None and value != ours:
            yield f"{path} says how a request is sent; it is left out"
    yield from differences(given, again)


@cache
def _pipeline() -> Pipeline:
    """Return the pipeline that keeps system messages where they are."""
    return read_pipeline("spec").configure("consolidate_system", later_system="keep")
