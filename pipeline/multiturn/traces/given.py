"""A case of what a program has: a mapping in any form that suites and vendors have."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import msgpack

from multiturn.documents.json_lines import node_of_given
from multiturn.errors import InputError, MultiturnError
from multiturn.files.finding import Files
from multiturn.logs import warn
from multiturn.model.case import Case
from multiturn.model.turns import Tool, kind_of
from multiturn.suites.case_reader import CaseReader
from multiturn.suites.dialects import Dialect
from multiturn.suites.plain import plain_mapping

Given = Case | Mapping[str, Any]
_OF_BODIES = {"contents", "instructions", "model", "system"}
_NOWHERE = Files(Path(os.devnull), Path(os.devnull))


def case_of(
    given: Given,
    *,
    case_id: str = "1",
    files: Files | None = None,
    guideline_patterns: Iterable[str] = (),
) -> Case:
    """Return the case of a mapping: of a line of a suite, or of a request body of a vendor.

    A line has ``messages``, ``input`` or ``input_messages``: ours, or those of OpenAI, Anthropic
    and others. A body has ``model``, ``system``, ``instructions`` or ``contents``, and settings,
    which become the case's; its model is left out. Warnings are logged, as by ``load_suite``.

    Args:
        given: the mapping, with values that JSON has; a case is returned as it is.
        case_id: the case's id, if the mapping has none.
        files: finds what the case attaches; by default nothing can be, as others may have written
            the path.
        guideline_patterns: globs; an attached file that matches one is a guideline.

    Raises:
        TypeError: it is no mapping.
        MultiturnError: it is no case, or has values that JSON lacks; ``where.label`` names the
            key, as in ``case '1': messages[2].content[0]``.

    >>> case_of({"messages": [{"role": "user", "content": "Hello"}]}).input_messages[0].content
    'Hello'
    """
    if isinstance(given, Case):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"a case is a Case or a mapping, not {kind_of(given)}")
    shared: dict[str, Any] = {"id": case_id, "input_messages": (), "files": files}
    shared["guideline_patterns"] = guideline_patterns
    name = str(given.get("id") or "").strip() or case_id
    try:
        if not _OF_BODIES.isdisjoint(given) and "input_messages" not in given:
            given = _line_of(msgpack.decode(msgpack.encode(given)))  # with lists for tuples
        line = dict(given)
        try:
            shared["tools"] = _tools(msgpack.encode(line["tools"]))
            del line["tools"]
        except (KeyError, OverflowError, TypeError, MultiturnError):
            pass  # what is wrong is said of the whole case
        plain = None if files else plain_mapping(line)
        if plain is not None:
            said = {"input_messages": plain.messages, "outcome": plain.outcome}
            return Case(**shared | said | {"id": plain.id or case_id})
        return _read(line, Case(**shared))
    except MultiturnError as error:
        error.case_id = name
        raise
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InputError(str(error), case_id=name) from None


def _read(given: Mapping[str, Any], shared: Case) -> Case:
    """Return the case of a line, by the reader of suites, and log its warnings."""
    reader, node = CaseReader(shared.files or _NOWHERE, Dialect("")), node_of_given(given)
    case = reader.case(node, reader.case_id(node, "") or shared.id, shared)
    reader.warn_of_answer(node, case)
    for notice in (*reader.keys.warnings(), *reader.keys.rest()):
        warn(notice)
    return case


@lru_cache(16)
def _tools(encoded: bytes) -> tuple[Tool, ...]:
    """Return tools, which take longest to read, and are often the same in all calls."""
    message = {"role": "user", "content": "-"}
    line = {"messages": [message], "tools": msgpack.decode(encoded)}
    return _read(line, Case(id="1", input_messages=())).tools


def _line_of(body: dict[str, Any]) -> Mapping[str, Any]:
    """Return the request body of a vendor as a line of a suite."""
    from multiturn.providers import trace as traces  # which imports the vendors

    line = {"id": body.pop("id")} if "id" in body else {}
    kind, form = traces.likeliest_form(body)
    if "messages" in body:  # suites read them in all forms, and errors name the key
        line |= {key: body.pop(key) for key in ("messages", "tools") if key in body}
    trace = traces.Trace(provider=kind, request=form.read(body, traces.media_part), form=form)
    found = traces.suite_case(trace, traces.suite_media)
    if "messages" in line and (system := found.pop("input_messages")):
        found["metadata"] = {"systemPrompt": system[0]["content"]}
    return {**line, **found}
