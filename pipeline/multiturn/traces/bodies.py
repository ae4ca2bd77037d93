"""Request bodies in files: a JSON object a line, or a file each, as they are or in a wrapper."""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from multiturn.documents.input import open_rewindable
from multiturn.documents.json_lines import MAX_CASE_LINE, read_json_lines, read_value
from multiturn.errors import MultiturnError, Place
from multiturn.providers.trace import parsed
from multiturn.traces.telemetry import INPUT, MESSAGES, requests_in

_INSIDE = ("body", "params", "request")  # of a line for a batch of OpenAI, Anthropic and Gemini
_IDS = ("id", "custom_id", "key")
_MESSAGES = (*MESSAGES, INPUT)


class Body(NamedTuple):
    """A request body, or the attributes of a span, in a file."""

    where: Place
    id: str  # what the file calls it, or where it is
    value: Any  # a JSON object, or ``NO_MESSAGES``
    provider: str = ""  # whose API it was sent to, if the file says it


NO_MESSAGES = object()  # in place of a body: a span has none


def read_bodies(path: str, *, as_written: bool = False) -> Iterator[Body | MultiturnError]:
    """Yield each body in a file, or what is wrong with it; ``-`` is standard input.

    ``as_written`` takes each JSON value of the file for a body, without a look into it.
    """
    stem = "stdin" if path == "-" else re.sub(r"\.\w+$", "", os.path.basename(path))
    name = "<stdin>" if path == "-" else path
    try:
        with open_rewindable(path, name) as file:
            for where, value in _values(file, name):
                case_id = f"{stem}-{where.line}" if where.line else stem
                if isinstance(value, MultiturnError):
                    yield value
                elif as_written:
                    yield Body(where, case_id, value)
                else:
                    yield from _bodies(value, where, case_id)
    except MultiturnError as error:
        yield error


def _values(file: BinaryIO, name: str) -> Iterator[tuple[Place, Any]]:
    """Yield each value of a file, with its line if the first one that is not blank is an object."""
    file.seek(0)
    lines = iter(lambda: file.readline(MAX_CASE_LINE), b"")
    stripped = (line.removeprefix(BOM_UTF8).strip() for line in lines)
    ends = next(((line[:1], line[-1:]) for line in stripped if line), None)
    del lines, stripped  # they hold the first line, which may be large
    file.seek(0)
    if ends != (b"{", b"}"):
        yield Place(name), _whole(file.read(MAX_CASE_LINE + 1), name)
        return
    for found in read_json_lines(file, name):
        if isinstance(found, MultiturnError):
            yield found.where, found
        else:
            yield Place(name, found.line), found.value


def _whole(data: bytes, name: str) -> Any:
    """Return the value of a file, or what is wrong with it."""
    try:
        if len(data) > MAX_CASE_LINE:
            raise ValueError(f"over {MAX_CASE_LINE:,} bytes that are not JSON Lines")
        return read_value(data.decode("utf-8-sig"))
    except ValueError as error:
        return MultiturnError(f"not JSON in UTF-8: {error}", where=name)


def _bodies(value: Any, where: Place, name: str) -> Iterator["Body | MultiturnError"]:
    if isinstance(value, list):
        if any(isinstance(each, dict) and "parts" in each for each in value):
            yield Body(where, name, {INPUT: value})
            return
        if not value:
            yield MultiturnError("the list is empty; it has no request body", where=where)
        for at, each in enumerate(value):
            yield from _bodies(each, where._replace(label=f"[{at}]"), f"{name}-{at + 1}")
        return
    is_body = isinstance(value, dict) and any(key in value for key in (*_MESSAGES, "wire"))
    spans = [] if is_body else [*requests_in(value)]
    asked = [each for each in spans if each is not None]
    for at, each in enumerate(asked, 1):
        yield Body(where, f"{name}-{at}" if len(asked) > 1 else name, each)
    try:
        if not asked:
            yield _unwrapped(value, where, name)
            return
    except ValueError as error:
        yield MultiturnError(f"wire is not JSON: {error}", where=where)
    except MultiturnError as error:
        if not spans:
            yield error
    yield from (Body(where, name, NO_MESSAGES) for each in spans if each is None)


def _unwrapped(value: Any, where: Place, name: str) -> Body:
    if not isinstance(value, dict):
        raise MultiturnError("this must be a JSON object, a request body", where=where)
    provider = ""
    match value:
        case {"vendor": str(named)} | {"made": {"provider": str(named)}}:
            provider = named  # of a captured request, or of a result
        case {"custom_id": _, "params": {"max_tokens": _}}:
            provider = "anthropic"  # a line of a batch
    if key := next((key for key in _IDS if isinstance(value.get(key), str)), None):
        name = value[key] if value[key].strip() else name
        value = {each: value[each] for each in value if each != key}
    if isinstance(value.get("wire"), str):
        return Body(where, name, read_value(value["wire"]), provider)
    if "raw_request" in value or "wire" in value:
        what = "this result has no wire; add --record-wire to the run, or --answers here"
        raise MultiturnError(what, where=where)
    if not any(key in value for key in _MESSAGES):
        for key in _INSIDE:
            if isinstance(inside := parsed(value.get(key)), dict):
                return Body(where, name, inside, provider)
        found = ", ".join(repr(key[:40]) for key in [*value][:5]) or "no keys"
        what = f"not a request body: it has no messages, input, contents or {INPUT}, but {found}"
        what += "; write the body itself, or put it under 'body'"
        raise MultiturnError(what, where=where)
    return Body(where, name, value)
