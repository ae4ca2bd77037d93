"""Converted cases in the formats that other tools read: a line of JSON each."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from multiturn.engine.converting import convert_cases
from multiturn.engine.project import chosen_pipeline, chosen_suites, from_project
from multiturn.engine.selection import select
from multiturn.errors import MultiturnError, ProviderError
from multiturn.files.media import EXTENSIONS, FILE_TYPES, Media, address_or_uri, file_name, is_data
from multiturn.files.paths import StrPath
from multiturn.logs import Notice, warn, warnings_to
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.request import ProviderRequest, message_of
from multiturn.model.turns import Call, Part, Turn, Turns, is_blank
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.providers.layout import Layout
from multiturn.providers.openai.chat import KEYS, chat_message, chat_tool
from multiturn.providers.openai.repairs import lay_out_for_chat
from multiturn.providers.settings import Key, Keys, schema_keys, write_settings
from multiturn.suites.media import segment_of
from multiturn.text import utf8
from multiturn.traces.given import case_of


def expected_turns(expected: Any) -> list[Turn]:
    """Return the messages that a suite expects, or its first text; calls have any tool's form.

    >>> [call] = [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]
    >>> [turn] = expected_turns({"role": "assistant", "content": None, "tool_calls": [call]})
    >>> turn.content, turn.calls
    ('', (Call(id='c1', name='now'),))
    >>> [turn.content for turn in expected_turns(["Paris", "Paris, France"])]
    ['Paris']
    """
    return [*map(_turn, _expected(expected))]


def _expected(expected: Any) -> list[dict[str, Any]]:
    items = expected if isinstance(expected, list) else [] if expected is None else [expected]
    is_messages = all(isinstance(item, dict) for item in items)
    return items if is_messages else [{"content": text_of(items[0])}]


def _turn(item: dict[str, Any]) -> Turn:
    """Return a message with its calls; if one of them is none that is known, all are JSON."""
    role, content = item.get("role", "assistant"), item.get("content")
    segments = content if isinstance(content, list) else []
    uses = [each for each in segments if isinstance(each, dict) and each.get("type") == "tool_use"]
    calls = _calls({"content": uses, "tool_calls": item.get("tool_calls")})
    text = _text(item)
    if calls and uses:
        text = text_of([each for each in segments if each not in uses])
    elif calls and content is None:
        text = ""
    answers = item.get("tool_call_id") if role == "tool" else None
    answers = answers if isinstance(answers, str) else None
    return Turn(role, (Part("text", text),), calls=calls, answers=answers)


def _calls(given: dict[str, Any]) -> tuple[Call, ...]:
    """Return the calls of a message, in any form that suites have; none if one of them is none."""
    message = {"role": "assistant"} | {key: value for key, value in given.items() if value}
    with warnings_to(lambda _: None), suppress(MultiturnError):
        return case_of({"messages": [message]}).input_messages[0].calls
    return ()


def _text(item: dict[str, Any]) -> str:
    """Return the text of a message; one without content, such as a tool call, becomes JSON."""
    content = item.get("content")
    if content is None:
        content = {key: item[key] for key in item if key not in ("role", "content")}
    return text_of(content)


def text_of(content: Any) -> str:
    r"""Return content of a message as text: segments a line each, and what is no text as JSON.

    >>> text_of(["Here:", {"type": "image", "value": "a.png"}, {"sum": 5}])
    'Here:\n[image: a.png]\n{\n  "sum": 5\n}'
    """
    match content:
        case None:
            return ""
        case str(text) | {"type": "text", "value": str(text)}:
            return text
        case list():
            return "\n".join(map(text_of, content))
        case {"type": str(kind), "value": str(value)} if kind in FILE_TYPES:
            name = content.get("name") or (kind if is_data(value) else value)
            return f"[{kind}: {name}]"
        case dict() if (segment := segment_of(content)) is not None:
            return text_of(segment)
    return json.dumps(content, indent=2, ensure_ascii=False)


# Each provider of promptfoo reads the limit by its vendor's own name, and ignores the other names.
_PROMPTFOO_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_OF_PROMPTFOO: Keys = {  # what version 0.121 sends to OpenAI
    **{name: key for name, key in KEYS.items() if name != "parallel_tool_calls"},
    "max_output_tokens": Key(_PROMPTFOO_LIMITS[0]),
    "body": Key("passthrough"),
}


def _response_schema(form: Any) -> dict[str, Any] | None:
    if isinstance(form, str):
        return None
    keys = schema_keys(form)
    return {"name": form.name, "json_schema": keys.pop("schema"), **keys}


# The names of GenerateConfig, and of the argument of ``generate``.
_OF_INSPECT: Keys = {
    **{
        name: Key({"max_output_tokens": "max_tokens", "stop": "stop_seqs"}.get(name, name))
        for name in (
            *("temperature", "top_p", "top_k", "max_output_tokens", "stop", "seed"),
            *("frequency_penalty", "presence_penalty", "reasoning_effort", "reasoning_tokens"),
            *("parallel_tool_calls", "verbosity", "tool_choice"),
        )
    },
    "response_format": Key("response_schema", _response_schema),
}

_TEMPLATE = re.compile(r"\{[{%#]")  # what begins a template of Nunjucks


class GraderCase(NamedTuple):
    """A case as graders want it, by the names of inspect_ai."""

    id: str  # unique among all suites: ``SUITE#ID``
    input: Turns  # the messages to answer
    target: str | list[str]  # the answer to compare with; several texts where each of them will do
    metadata: dict[str, Any]  # the case's, with what else the case says of itself


def _settings_for(conversion: Conversion, keys: Keys, tool: str) -> dict[str, Any]:
    """Return the settings of a case by another tool's names; warn of those that it has not.

    Those of tools are left out where a case has none, as they are in a run.
    """
    settings = conversion.current_settings
    if not conversion.tools:
        settings = settings.without_tools()
    lost = [
        name
        for name, value in settings.said().items()
        if name not in keys or keys[name].write(value) is None
    ]
    if lost:
        why = f"{tool} cannot have these settings, and they are left out: {', '.join(lost)}"
        _warn("settings.left_out", conversion.case, why)
    return write_settings(settings, keys)


def to_openai(conversion: Conversion) -> dict[str, Any]:
    """Return ``messages``: the prompt, and after it the messages that are expected.

    A line whose last message is not the assistant's teaches nothing: that is a warning.
    """
    case = conversion.case
    _settings_for(conversion, {}, "a line for fine-tuning")
    prompt = conversion.sent if conversion.chat is None else conversion.prompt
    expected = expected_turns(case.expected_messages)
    messages = _repaired((*prompt, *expected), conversion, is_asked=False)[0]
    if messages[-1].role != "assistant":
        why = "the line does not end with an answer of the assistant's; add expected_messages"
        _warn("answer.missing", case, why)
    return {"messages": [*map(chat_message, messages)], **_tools_of(conversion)}


def to_evals(conversion: Conversion) -> dict[str, Any]:
    """Return ``input`` and ``ideal``, as OpenAI's evals have them."""
    for_grader, case = _with_answer(conversion), conversion.case
    if conversion.tools:
        _warn("tools.left_out", case, "OpenAI's evals have no place for tools; they are left out")
    _settings_for(conversion, {}, "a line of OpenAI's evals")
    return {"input": [*map(chat_message, for_grader.input)], "ideal": for_grader.target}


def to_inspect(conversion: Conversion) -> dict[str, Any]:
    """Return a sample of inspect_ai; warn if there is no answer to compare with."""
    for_grader = with_settings_of_inspect(_with_answer(conversion), conversion)
    return {**for_grader._asdict(), "input": as_inspect(for_grader.input)}


def with_settings_of_inspect(for_grader: GraderCase, conversion: Conversion) -> GraderCase:
    """Return a case whose metadata has the ``settings`` by the names of inspect_ai."""
    settings = _settings_for(conversion, _OF_INSPECT, "inspect_ai")
    said = {"settings": settings} if settings else {}
    return for_grader._replace(metadata={**for_grader.metadata, **said})


def as_inspect(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """Return messages in the form of inspect_ai, with a ``Base64`` where bytes belong."""
    tools: dict[str, str] = {}  # the tool of each call so far
    found = []
    for message in map(message_of, turns):
        content: Any = message.content
        if not isinstance(content, str):
            content = [inspect_part(piece) for piece in content]
        said: dict[str, Any] = {"role": message.role, "content": content}
        for call in message.tool_calls:
            tools[call.id] = call.name
            one = {"id": call.id, "function": call.name, "arguments": call.arguments}
            said.setdefault("tool_calls", []).append({**one, "type": "function"})
        if message.tool_call_id is not None:
            said |= {"tool_call_id": message.tool_call_id, "function": tools[message.tool_call_id]}
        found.append(said)
    return found


def inspect_part(piece: str | Media) -> dict[str, Any]:
    """Return a text or media as inspect_ai has it; with a ``Base64`` where its bytes belong."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    said = {"type": piece.kind, piece.kind: address_or_uri(piece)}
    if piece.kind == "document":
        return {**said, "filename": file_name(piece), "mime_type": piece.media_type}
    if piece.kind == "audio":
        return {**said, "format": EXTENSIONS[piece.media_type]}
    return said if piece.detail is None else {**said, "detail": piece.detail}


def _warn(event: str, case: Case, why: str) -> None:
    warn(Notice(event, case.where(), why, case_id=case.id))


def _with_answer(conversion: Conversion) -> GraderCase:
    """Return a case as graders want it; warn if there is no answer to compare with."""
    for_grader, case = grader_case(conversion), conversion.case
    texts = [for_grader.target] if isinstance(for_grader.target, str) else for_grader.target
    if any(map(is_blank, texts)):
        what = "the expected answer is empty, and every answer contains it"
        _warn("answer.empty", case, f"{what}; add expected_messages or outcome")
    return for_grader


def to_promptfoo(conversion: Conversion) -> dict[str, Any]:
    """Return a test of promptfoo, for a prompt file with ``{{ messages | dump | safe }}``.

    Its ``options`` are what promptfoo gives to its providers beside their own configuration.
    """
    for_grader, case = grader_case(conversion), conversion.case
    settings = _settings_for(conversion, _OF_PROMPTFOO, "promptfoo")
    limits = dict.fromkeys(_PROMPTFOO_LIMITS, settings.get(_PROMPTFOO_LIMITS[0]))
    given = {"temperature": None, **limits, **_tools_of(conversion), **settings}
    options = {name: value for name, value in given.items() if value is not None}
    if found := _TEMPLATE.search(json.dumps(options)):
        # It renders options, and more than once, so that nothing can be escaped.
        what = f"promptfoo would render the {found[0]} in tools or settings as a template"
        raise MultiturnError(f"{what}; write it in words").at(case.where(), case.id)
    metadata = {**for_grader.metadata, "target": for_grader.target}
    asserted = metadata.pop("assert", None)
    return {
        "description": for_grader.id,
        "vars": {"messages": [*map(chat_message, for_grader.input)]},
        **({"options": options} if options else {}),
        **({} if asserted is None else {"assert": asserted}),
        "metadata": metadata,
    }


def grader_cases(
    suites: Iterable[StrPath],
    pipeline: StrPath | Pipeline | None,
    root: StrPath | None,
    guideline_patterns: Iterable[str],
) -> tuple[tuple[str, ...], list[tuple[Case, GraderCase]]]:
    """Return the suites of ``multiturn.inspect.dataset``, and each case, also as graders want it.

    A case that the repairs refuse is left out, with a warning; any other error is raised.
    """
    with from_project(suites=tuple(suites) or None, pipeline=pipeline, root=root) as project:
        names, chosen = chosen_suites(project, 'dataset("evals/")'), chosen_pipeline(project)
        selection = select(names, root=project.root, guideline_patterns=guideline_patterns or None)
    cases = []
    for each in convert_cases(selection, chosen):
        if each.error is not None:
            raise each.error
        if each.conversion is not None:
            try:
                for_grader = grader_case(each.conversion, as_sent=True)
            except ProviderError as error:
                left_out(each.conversion.case, error.what)
            else:
                for_grader = with_settings_of_inspect(for_grader, each.conversion)
                cases.append((each.conversion.case, for_grader))
    return names, cases


def left_out(case: Case, why: str) -> None:
    """Warn of a case that another tool cannot have."""
    _warn("case.left_out", case, f"the case is left out: {why}")


def grader_case(conversion: Conversion, *, as_sent: bool = False) -> GraderCase:
    """Return a case as graders want it; ``as_sent`` adds the system message that runs add."""
    request = request_of(conversion)
    prompt = conversion.sent if as_sent or conversion.chat is None else conversion.prompt
    messages, repairs = _repaired(prompt, conversion)
    suite = utf8(request.suite)
    names = ("conversation_id", "outcome", "expected_messages", "execution")
    said = {
        "suite": suite,
        "case": request.eval_id,
        **{name: getattr(request, name) for name in names},
        **_tools_of(conversion),
        "repairs": repairs or None,
    }
    said = {key: value for key, value in said.items() if value is not None}
    metadata = {**request.metadata, **said}
    return GraderCase(f"{suite}#{request.eval_id}", messages, _target(request), metadata)


def _repaired(
    messages: Iterable[Turn], conversion: Conversion, *, is_asked: bool = True
) -> tuple[Turns, list[str]]:
    """Return messages that OpenAI takes, and the repairs, which are logged."""
    layout, case = Layout(messages), conversion.case
    layout.want_turns("C1")
    lay_out_for_chat(layout, is_asked=is_asked)
    try:
        repairs = list(dict.fromkeys(layout.done()))
    except MultiturnError as error:
        raise error.at(case.where(), case.id) from None
    for repair in repairs:
        _warn("prompt.repaired", case, repair)
    return tuple(layout.messages), repairs


def _tools_of(conversion: Conversion) -> dict[str, Any]:
    """Return the tools in OpenAI's form; nothing if there are none."""
    tools = [chat_tool(tool) for tool in conversion.tools]
    return {"tools": tools} if tools else {}


def _target(request: ProviderRequest) -> str | list[str]:
    """Return the last answer expected, or each one that will do; without any, the outcome."""
    expected = request.expected_messages
    is_several = isinstance(expected, list) and len(expected) > 1
    if is_several and all(isinstance(text, str) for text in expected):
        return list(expected)
    items = _expected(expected)
    answers = [_text(item) for item in items if item.get("role", "assistant") == "assistant"]
    return answers[-1] if answers else text_of(request.outcome)
