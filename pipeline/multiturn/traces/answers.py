"""Cases that go on after the answers of a run."""

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.errors import MultiturnError, Place
from multiturn.files.media import Media
from multiturn.logs import Notice
from multiturn.model.request import ChatMessage, InputFile, turn_of
from multiturn.model.turns import Call, Part, Tool, Turn
from multiturn.providers.reading import Values, mappings
from multiturn.traces.again import case_in
from multiturn.traces.bodies import values_in
from multiturn.traces.suite import Ids, Imported, placed, refuse_keys
from multiturn.traces.trace import forms, suite_media, suite_message, suite_tool

_TO_FILL_IN = "(to fill in)"


class _Asked(Struct):
    question: str
    chat_prompt: tuple[ChatMessage, ...] | None = None
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    input_files: tuple[InputFile, ...] = ()


class _Answered(Struct):
    """The part of a result that a case is made of."""

    id: str
    raw_request: _Asked
    response: str
    tool_calls: list[dict[str, Any]] = []
    thinking: Any = None
    conversation_id: Any = None


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


def _case_of(value: Any, where: Place, ids: Ids) -> Imported | Notice:
    try:
        result = msgspec.convert(value, _Answered)
    except msgspec.ValidationError:
        match value:
            case {"suite": str(), "id": str(name)}:
                return _without_answer(name, where)
        raise MultiturnError("this is not a result of multiturn run") from None
    calls = tuple(map(_call, result.tool_calls))
    said = result.response
    if not said.strip() and not calls:
        return _without_answer(result.id, where)
    asked = result.raw_request
    unread = {file.path for file in asked.input_files if not file.resolved_path}
    turns = [*map(turn_of, asked.chat_prompt or ())]
    if not turns:
        turns = [Turn("system", (Part("text", asked.system),))] if asked.system else []
        turns.append(Turn("user", (Part("text", asked.question),)))
    parts = (Part("text", said),) if said.strip() else ()
    blocks = [(form, block) for block in mappings(result.thinking) for _, form in forms()]
    thinking = tuple(thought for form, block in blocks for thought in form.thoughts(block))
    turns.append(Turn("assistant", parts, None, thinking, calls))
    number = sum(turn.role == "user" for turn in turns) + 1
    case: Values = {"id": ids.new(f"{re.sub('-turn-[0-9]+$', '', result.id)}-turn-{number}")}
    if result.conversation_id:
        case["conversation_id"] = result.conversation_id
    if asked.tools:
        case["tools"] = [*map(suite_tool, asked.tools)]
    fill_in = (Part("text", _TO_FILL_IN),)
    waiting = [Turn("tool", fill_in, answers=call.id) for call in calls] or [Turn("user", fill_in)]
    messages = [suite_message(turn, lambda media: _piece(media, unread)) for turn in turns]
    to_fill_in = [suite_message(turn, lambda _: {}) for turn in waiting]
    case["input_messages"] = [*messages, *to_fill_in]
    refuse_keys(case)
    case_in(case, where.file)
    for each in to_fill_in:
        each["content"] = None
    return Imported(case, {})


def _without_answer(name: str, where: Place) -> Notice:
    return Notice("import.no_answer", where, f"case {name!r} has no answer; it is left out")


def _piece(media: Media, unread: Container[str]) -> Values:
    """Return media of a request as a segment: results have only their path or address.

    Args:
        media: of a message.
        unread: names of media that are no paths of files.
    """
    value = media.url or media.path
    if value is None or (media.url is None and value in unread):
        what = "results do not have the bytes of media that were no file"
        raise MultiturnError(f"{what}; attach them as a file, and run the suite again")
    return suite_media(media, value)


def _call(given: dict[str, Any]) -> Call:
    try:
        return msgspec.convert(given, Call)
    except msgspec.ValidationError:
        what = "are not a JSON object, as the model wrote them; no conversation can go on from them"
        raise MultiturnError(f"tool_calls: the arguments {what}") from None
