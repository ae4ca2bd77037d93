"""Cases that go on after the answers of a run."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from multiturn.errors import MultiturnError, Place
from multiturn.logs import Notice
from multiturn.traces.again import case_in
from multiturn.traces.anthropic import thoughts as thoughts_of_anthropic
from multiturn.traces.bodies import values_in
from multiturn.traces.gemini import thoughts as thoughts_of_gemini
from multiturn.traces.responses import reasoning
from multiturn.traces.suite import Ids, Imported, placed, refuse_keys
from multiturn.traces.trace import Values, call, mappings, message, thought

_TO_FILL_IN = "(to fill in)"


def answered(paths: Iterable[str]) -> Iterator[Imported | MultiturnError | Notice]:
    """Yield a case for each answer in results files, with a message to fill in, or what is wrong.

    It has the prompt and the answer; then the user speaks, or, after calls, each tool answers.
    """
    ids = Ids()
    for path in paths:
        for where, value in values_in(path):
            try:
                if isinstance(value, MultiturnError):
                    raise value
                yield _case_of(value, where, ids)
            except MultiturnError as error:
                yield placed(error, where)


def _case_of(result: Any, where: Place, ids: Ids) -> Imported | Notice:
    match result:
        case {"raw_request": dict(asked), "id": str(name), "response": str(said)}:
            pass
        case {"suite": str(), "id": str(name)}:
            return Notice("import.no_answer", where, f"case {name!r} has no answer; it is left out")
        case _:
            raise MultiturnError("this is not a result of multiturn run")
    calls = [_call(each) for each in mappings(result.get("tool_calls"))]
    if not said.strip() and not calls:
        return Notice("import.no_answer", where, f"case {name!r} has no answer; it is left out")
    files = [*mappings(asked.get("input_files"))]
    unread = {str(each.get("path")) for each in files if not each.get("resolved_path")}
    messages = [_message(each, unread) for each in mappings(asked.get("chat_prompt"))]
    if not messages:
        system, question = asked.get("system"), asked.get("question")
        messages = [message("system", [system])] if system else []
        messages.append(message("user", [question]))
    pieces = [*_thoughts(result.get("thinking")), *([said] if said.strip() else [])]
    messages.append(message("assistant", pieces, tool_calls=calls))
    number = sum(each["role"] == "user" for each in messages) + 1
    case_id = ids.new(f"{re.sub('-turn-[0-9]+$', '', name)}-turn-{number}")
    case: Values = {"id": case_id}
    for key, given in {"conversation_id": result, "tools": asked}.items():
        if given.get(key):
            case[key] = given[key]
    asked_of = [message("tool", [_TO_FILL_IN], tool_call_id=each["id"]) for each in calls]
    to_fill_in = asked_of or [message("user", [_TO_FILL_IN])]
    case["input_messages"] = [*messages, *to_fill_in]
    refuse_keys(case)
    case_in(case, where.file)
    for each in to_fill_in:
        each["content"] = None
    return Imported(case, {})


def _message(given: Values, unread: Container[str]) -> Values:
    """Return a message of a request as a suite has it.

    Args:
        given: the message.
        unread: names of media that are no paths of files.
    """
    thinking = [_thought(each) for each in mappings(given.get("thinking"))]
    calls = [_call(each) for each in mappings(given.get("tool_calls"))]
    content = given.get("content")
    said = content if isinstance(content, list) else [content] if content else []
    return message(
        str(given.get("role")),
        [*thinking, *(_piece(each, unread) for each in said)],
        tool_calls=calls,
        tool_call_id=given.get("tool_call_id"),
        is_error=given.get("is_error"),
    )


def _piece(given: Any, unread: Container[str]) -> Any:
    """Return a piece of the content of a request: of media, results have only path or address."""
    match given:
        case {"kind": str(kind), "url": str(value), **keys}:
            return _media(kind, value, keys)
        case {"kind": str(kind), "path": str(value), **keys} if value not in unread:
            return _media(kind, value, keys)
        case {"kind": str()}:
            what = "results do not have the bytes of media that were no file"
            raise MultiturnError(f"{what}; attach them as a file, and run the suite again")
    return given


def _media(kind: str, value: str, keys: Mapping[Any, Any]) -> Values:
    detail = {"detail": keys["detail"]} if keys.get("detail") else {}
    return {"type": kind, "value": value, **detail}


def _call(given: Values) -> Values:
    arguments = given.get("arguments") or {}
    if not isinstance(arguments, dict):
        what = "are not a JSON object, as the model wrote them; no conversation can go on from them"
        raise MultiturnError(f"tool_calls: the arguments {what}")
    return call(given.get("id"), given.get("name"), arguments, given.get("signature"))


def _thought(given: Values) -> Values:
    """Return a block of thinking of ours as a suite has it."""
    text, signature, data = (given.get(key) for key in ("text", "signature", "data"))
    return thought(given.get("vendor", "anthropic"), text, signature, data)


def _thoughts(given: Any) -> Iterator[Values]:
    """Yield what a vendor's answer has as thinking, as a suite has it."""
    yield from thoughts_of_anthropic(given)
    yield from thoughts_of_gemini(given)
    for block in mappings(given):
        if block.get("type") == "reasoning":
            yield from reasoning(block)
