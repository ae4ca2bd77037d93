"""A case of what a program has: a mapping in any form that suites and vendors have."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, convert, msgpack, to_builtins

from multiturn.documents.json_lines import node_of_given
from multiturn.errors import MultiturnError
from multiturn.files.finding import Files
from multiturn.logs import warn
from multiturn.model.case import MAX_CASE_SIZE, Case, TestMessage
from multiturn.model.turns import Role, Tool, kind_of
from multiturn.suites.calls import read_tools
from multiturn.suites.case_reader import CaseReader
from multiturn.suites.dialects import Dialect
from multiturn.suites.keys import KeyCheck
from multiturn.text import tuple_of_texts

Given = Case | Mapping[str, Any]
_OF_BODIES = ("contents", "instructions", "model", "system")
_LARGEST_TOOLS = 2**16  # bytes of those that are kept


def case_of(
    given: Mapping[str, Any],
    *,
    case_id: str = "1",
    files: Files | None = None,
    guideline_patterns: Iterable[str] = (),
) -> Case:
    """Return the case of a mapping: of a line of a suite, or of a request body of a vendor.

    A line has its messages as ``messages``, ``input`` or ``input_messages``: ours, or those of
    OpenAI, Anthropic and others. A body has ``model``, ``system``, ``instructions`` or
    ``contents``; its settings become the case's, and its model is left out. Warnings are logged, as
    those of ``load_suite`` are.

    Args:
        given: the mapping, with the values that JSON has; lists may be tuples.
        case_id: the case's id, if the mapping has none.
        files: finds the files that the case attaches. Without it none can be attached, as somebody
            else may have written the path.
        guideline_patterns: globs; an attached file that matches one is a guideline.

    Raises:
        TypeError: ``given`` is no mapping, or has values that JSON does not have.
        MultiturnError: it is no case; ``where.label`` names the key, as in
            ``case '1': messages[2].content[0]``.

    >>> case_of({"messages": [{"role": "user", "content": "Hello"}]}).input_messages[0].content
    'Hello'
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"case_of takes a mapping, not {kind_of(given)}")
    shared: dict[str, Any] = {"id": case_id, "input_messages": (), "files": files}
    shared["guideline_patterns"] = tuple_of_texts("guideline_patterns", guideline_patterns)
    try:
        if not given.keys().isdisjoint(_OF_BODIES) and "input_messages" not in given:
            given = _line_of(to_builtins(given))
        if tools := _known_tools(given.get("tools")):
            shared["tools"] = tools
            given = {key: value for key, value in given.items() if key != "tools"}
        plain = None if files else _plain(given, shared)
        return _read(given, Case(**shared)) if plain is None else Case(**plain)
    except MultiturnError as error:
        error.case_id = error.case_id or case_id
        raise


def _read(given: Mapping[str, Any], shared: Case) -> Case:
    """Return the case of a line, by the reader of suites, and log what that warns of."""
    reader, node = CaseReader(shared.files, Dialect("")), node_of_given(given)
    case_id = reader.case_id(node, "") or shared.id
    reader.check_line(node)
    try:
        case = reader.case(node, case_id, shared)
    except MultiturnError as error:
        error.case_id = case_id
        raise
    reader.warn_of_answer(node, case)
    for notice in (*reader.keys.warnings(), *reader.keys.rest()):
        warn(notice)
    return case


class _Message(Struct, forbid_unknown_fields=True):
    role: Role
    content: str


class _Line(Struct, forbid_unknown_fields=True):
    messages: list[_Message]
    id: str | None = None


def _plain(given: Mapping[str, Any], shared: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a line of texts, as most are; None if it says more.

    They are those that ``_read`` gives, in a tenth of the time.
    """
    try:
        line = convert(given, _Line)
        text = "\n".join([message.content for message in line.messages])
        text.encode()
    except ValueError:
        return None
    case_id = shared["id"] if line.id is None else line.id
    if not line.messages or line.messages[-1].role == "assistant" or not case_id.strip():
        return None
    if "{{" in text or len(text) > MAX_CASE_SIZE:
        return None
    messages = tuple(
        [
            TestMessage(each.role, each.content, 0, (0,), f"messages[{at}]", content_columns=(0,))
            for at, each in enumerate(line.messages)
        ]
    )
    return {**shared, "id": case_id, "input_messages": messages}


def _known_tools(given: Any) -> tuple[Tool, ...] | None:
    """Return tools that were read before, as programs give the same ones in each call."""
    try:
        encoded = msgpack.encode(given or ())
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return _tools(encoded) if 1 < len(encoded) < _LARGEST_TOOLS else None


@lru_cache(64)
def _tools(encoded: bytes) -> tuple[Tool, ...] | None:
    """Return tools; None if there is anything wrong with them, or to warn of."""
    check = KeyCheck("")
    try:
        tools = read_tools(node_of_given({"tools": msgpack.decode(encoded)}), check)
    except (MultiturnError, TypeError):
        return None
    return None if [*check.warnings(), *check.rest()] else tools


def _line_of(body: dict[str, Any]) -> Mapping[str, Any]:
    """Return the request body of a vendor as a line of a suite."""
    from multiturn.providers import trace as traces  # which imports the vendors

    line = {"id": body.pop("id")} if "id" in body else {}
    kind, form = traces.form_of(body)
    if "messages" in body:  # suites have them in both vendors' forms, and errors name their places
        line |= {key: body.pop(key) for key in ("messages", "tools") if key in body}
    trace = traces.Trace(provider=kind, request=form.read(body, traces.media_in), form=form)
    found = traces.suite_case(trace, traces.suite_media)
    system = found.pop("input_messages", [])
    if "messages" not in line:
        return {**line, **found, "input_messages": system}
    return {**line, **found, "metadata": {"systemPrompt": system[0]["content"]} if system else {}}
