"""Calls of tools, their results and thinking, as suites write them."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from msgspec import structs

from histories import NAMES, history
from layout import laid_out
from multiturn import (
    Call,
    Case,
    ChatMessage,
    Conversion,
    MultiturnError,
    Thinking,
    Tool,
    load_suite,
)
from multiturn.engine.formats import to_evals, to_inspect, to_openai, to_promptfoo
from multiturn.model.case import TestMessage

SPEC = laid_out()


def cases_of(text: str, folder: Path, name: str = "x.eval.yaml") -> list[Case]:
    (folder / name).write_text(dedent(text), encoding="utf-8")
    return list(load_suite(folder / name))


def test_calls_results_and_thinking_are_read_with_their_lines(tmp_path: Path) -> None:
    (case,) = cases_of(
        """\
        tools:
        - {name: time}
        - name: weather
          description: The weather.
          parameters: {type: object, properties: {city: {type: [string, "null"]}}, required: [city]}
          strict: true
        execution: {tool_choice: {name: weather}}
        evalcases:
        - id: a
          input_messages:
          - role: assistant
            content:
            - {type: thinking, thinking: Hm., signature: s, vendor: gemini}
            - {type: redacted_thinking, data: d}
            - L.
            tool_calls:
            - {id: c1, name: weather, arguments: {city: Paris, n: [1, {"a b": ~}]}}
            - id: c2
              name: time
              thought_signature: t
          - {role: tool, tool_call_id: c2, content: {hour: 5}}
          - {role: tool, tool_call_id: c1, content: "", is_error: true}
        """,
        tmp_path,
    )
    schema = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
    assert case.tools == (
        Tool("time", line=2),
        Tool("weather", "The weather.", {**schema, "required": ["city"]}, True, line=3),
    )
    assert case.settings.tool_choice == {"name": "weather"}
    assert case.input_messages == (
        TestMessage(
            "assistant",
            ["L."],
            line=11,
            content_lines=(15,),
            calls=(
                Call("c1", "weather", {"city": "Paris", "n": [1, {"a b": None}]}, line=17),
                Call("c2", "time", signature="t", line=18),
            ),
            thinking=(Thinking("Hm.", "s", vendor="gemini", line=13), Thinking(data="d", line=14)),
            first_content=2,
            content_columns=(7,),
        ),
        TestMessage(
            "tool", {"hour": 5}, line=21, content_lines=(21,), answers="c2", content_columns=(45,)
        ),
        TestMessage(*("tool", "", 22, (22,)), answers="c1", is_error=True, content_columns=(45,)),
    )


@pytest.mark.parametrize("content", ["", "content: ~, ", "content: '', ", "content: [], "])
def test_a_call_needs_no_content(content: str, tmp_path: Path) -> None:
    message = f"{{role: assistant, {content}tool_calls: [{{id: c, name: f, arguments: ~}}]}}"
    (case,) = cases_of(f"id: a\ninput_messages: [{message}]", tmp_path)
    (message_sent,) = (SPEC.request(case).chat_prompt or ())[-1:]
    assert (message_sent.content, message_sent.tool_calls) == ("", (Call("c", "f"),))


def test_the_tools_and_the_choice_of_a_case_take_the_place_of_the_suites(tmp_path: Path) -> None:
    cases = cases_of(
        """\
        evalcases:
        - {id: a, input_messages: [{role: user, content: hi}]}
        - {id: b, tools: [{name: g}], input_messages: [{role: user, content: hi}]}
        - {id: c, tools: [], input_messages: [{role: user, content: hi}]}
        - {id: d, tools: ~, execution: {tool_choice: none}, input: hi}
        tools: [{name: f}]
        execution: {tool_choice: required}
        """,
        tmp_path,
    )
    names = [[tool.name for tool in case.tools] for case in cases]
    assert names == [["f"], ["g"], [], ["f"]]
    assert [case.settings.tool_choice for case in cases] == [
        "required",
        "required",
        "required",
        "none",
    ]


def test_the_choice_of_a_suite_is_checked_in_each_case(tmp_path: Path) -> None:
    suite = tmp_path / "x.eval.yaml"
    suite.write_text(
        """\
evalcases:
- {id: a, input_messages: [{role: user, content: hi there}]}
- {id: b, input_messages: [{role: user, content: hi there}], outcome: Greets.}
tools: [{name: f}]
execution: {tool_choice: {name: g}}
"""
    )
    errors: list[MultiturnError] = []
    assert not [*load_suite(suite, on_error=errors.append)]
    assert [error.what for error in errors] == [
        "tool_choice: there is no tool 'g'; choose from: f"
    ] * 2


def test_a_bare_case_and_a_line_have_tools(tmp_path: Path) -> None:
    (bare,) = cases_of("tools: [{name: f}]\nid: a\ninput: hi", tmp_path)
    (line,) = cases_of(json.dumps({"input": "hi", "tools": [{"name": "f"}]}), tmp_path, "x.jsonl")
    assert bare.tools == line.tools == (Tool("f", line=1),)


def test_content_after_thinking_is_called_by_its_place_in_the_suite(tmp_path: Path) -> None:
    (case,) = cases_of(
        """\
        id: a
        input_messages:
        - {role: user, content: hi}
        - {role: assistant, content: [{type: thinking, thinking: Hm.}, One., Two.]}
        """,
        tmp_path,
    )
    assert [part.content for part in SPEC(Conversion(case)).turns[1].parts] == [1, 2]


def test_a_content_may_be_one_block_of_thinking(tmp_path: Path) -> None:
    (case,) = cases_of(
        """\
        id: a
        input_messages:
        - {role: assistant, content: {type: thinking, thinking: Hm.}}
        - {role: user, content: hi}
        """,
        tmp_path,
    )
    first = case.input_messages[0]
    assert (first.content, first.thinking) == ([], (Thinking("Hm.", line=3),))
    assert SPEC.request(case).question.endswith("[User]: hi")


# --- as other tools write them

FUNCTION = {"name": "weather", "description": "D", "parameters": {"type": "object"}}
OURS = """\
tools: [{name: weather, description: D, parameters: {type: object}}]
id: a
input_messages:
- {role: user, content: Umbrella?}
- role: assistant
  content: [{type: thinking, thinking: Hm., signature: s}, {type: redacted_thinking, data: d}, L.]
  tool_calls:
  - {id: c1, name: weather, arguments: {city: Zürich, n: [1, ~]}}
  - {id: c2, name: weather}
- {role: tool, tool_call_id: c1, content: 18 °C}
- {role: tool, tool_call_id: c2, content: [No city.], is_error: true}
- {role: user, content: [And tomorrow?]}
"""
ARGUMENTS = {"city": "Zürich", "n": [1, None]}


def openai() -> dict[str, object]:
    calls = [
        {
            "id": "c1",
            "type": "function",
            "index": 0,
            "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)},
        },
        {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ]
    thinking = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    failed = {"role": "tool", "tool_call_id": "c2", "is_error": True}
    return {
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "user", "content": "Umbrella?"},
            {"role": "assistant", "content": [*thinking, "L."], "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "18 °C"},
            {**failed, "content": [{"type": "text", "text": "No city."}]},
            {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
        ],
    }


def anthropic() -> dict[str, object]:
    uses = [
        {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS},
        {"type": "tool_use", "id": "c2", "name": "weather", "input": {}, "cache_control": {}},
    ]
    failed = {"type": "tool_result", "tool_use_id": "c2", "is_error": True}
    return {
        "tools": [
            {
                "name": "weather",
                "description": "D",
                "input_schema": {"type": "object"},
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "messages": [
            {"role": "user", "content": "Umbrella?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "text", "text": "L."},
                    *uses,
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "18 °C"},
                    {**failed, "content": [{"type": "text", "text": "No city."}]},
                    {"type": "text", "text": "And tomorrow?"},
                ],
            },
        ],
    }


def inspect_ai() -> dict[str, object]:
    calls = [
        {"id": "c1", "function": "weather", "arguments": ARGUMENTS, "type": "function"},
        {"id": "c2", "function": "weather", "arguments": {}, "parse_error": None},
    ]
    failed = {"role": "tool", "tool_call_id": "c2", "function": "weather", "content": ""}
    return {
        "tools": [FUNCTION],
        "input": [
            {"role": "user", "content": "Umbrella?", "source": "input", "id": "x"},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "reasoning": "Hm.", "signature": "s", "redacted": False},
                    {"type": "reasoning", "reasoning": "d", "redacted": True},
                    {"type": "text", "text": "L."},
                ],
                "tool_calls": calls,
                "model": "claude",
            },
            {"role": "tool", "tool_call_id": "c1", "function": "weather", "content": "18 °C"},
            {**failed, "error": {"type": "parsing", "message": "No city."}},
            {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
        ],
    }


@pytest.mark.parametrize("written", [openai, anthropic, inspect_ai])
@pytest.mark.parametrize("form", ["suite", "line", "input"])
def test_the_form_of_another_tool_is_read_as_ours(
    written: Callable[[], dict[str, object]],
    form: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (ours,) = cases_of(OURS, tmp_path)
    given = {"id": "a", **written()}
    if form == "input":
        messages = given.pop("messages", None) or given.pop("input")
        given["input"] = {"messages": messages, "tools": given.pop("tools")}
    text = json.dumps({"tests": [given]} if form == "suite" else given)
    with caplog.at_level("WARNING"):
        (case,) = cases_of(text, tmp_path, "x.jsonl" if form == "line" else "x.eval.yaml")
    assert caplog.messages == []
    wanted, sent = SPEC.request(ours), SPEC.request(case)
    assert sent.chat_prompt == wanted.chat_prompt
    assert [structs.replace(tool, line=0) for tool in sent.tools] == [
        structs.replace(tool, line=0) for tool in wanted.tools
    ]


def test_results_of_anthropic_have_their_place_in_the_suite(tmp_path: Path) -> None:
    (case,) = cases_of(
        """\
        id: a
        messages:
        - {role: user, content: Hi}
        - {role: assistant, content: [{type: tool_use, id: c, name: f, input: {}}]}
        - role: user
          content:
          - type: tool_result
            tool_use_id: c
            content: [ok]
          - And?
        """,
        tmp_path,
    )
    assert [message.key for message in case.input_messages] == [
        *("messages[0]", "messages[1]", "messages[2].content[0]", "messages[2]")
    ]
    assert [message.line for message in case.input_messages] == [3, 4, 7, 5]
    assert [part.content for turn in SPEC(Conversion(case)).turns for part in turn.parts] == [
        *(0, 0, 1)
    ]


@pytest.mark.parametrize(("levels", "is_taken"), [(99, True), (100, False), (5000, False)])
def test_arguments_in_json_are_as_deep_as_a_suite_may_be(
    levels: int, is_taken: bool, tmp_path: Path
) -> None:
    arguments = '{"a":' + "[" * levels + "]" * levels + "}"
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    line = {"input": [{"role": "assistant", "tool_calls": [call]}]}
    if is_taken:
        assert cases_of(json.dumps(line), tmp_path, "x.jsonl")
        return
    with pytest.raises(MultiturnError, match="arguments are not a JSON object: nested"):
        cases_of(json.dumps(line), tmp_path, "x.jsonl")


# --- random conversations, written in each form

Message = dict[str, Any]


def own_form(messages: list[ChatMessage]) -> list[Message]:
    return [own_message(message) for message in messages]


def own_message(message: ChatMessage) -> Message:
    blocks = [
        {
            "type": "thinking" if block.text or not block.data else "redacted_thinking",
            **({"thinking": block.text} if block.text or not block.data else {}),
            **({"data": block.data} if block.data else {}),
            "signature": block.signature,
            "vendor": block.vendor,
        }
        for block in message.thinking
    ]
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": [*blocks, message.content] if blocks else message.content,
        **({"tool_calls": calls} if calls else {}),
        **({"tool_call_id": message.tool_call_id} if message.tool_call_id else {}),
        **({"is_error": True} if message.is_error else {}),
    }


def openai_form(messages: list[ChatMessage]) -> list[Message]:
    written = own_form(messages)
    for message in written:
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(call.pop("arguments"))
            call |= {
                "type": "function",
                "function": {"name": call.pop("name"), "arguments": arguments},
            }
        if message.get("tool_calls") and message["content"] == "":
            message["content"] = None
    return written


def inspect_form(messages: list[ChatMessage]) -> list[Message]:
    written = own_form(messages)
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    for message in written:
        for call in message.get("tool_calls", ()):
            call["function"] = call.pop("name")
        if "tool_call_id" in message:
            message["function"] = names[message["tool_call_id"]]
        if message.pop("is_error", False):
            message |= {"content": "", "error": {"type": "unknown", "message": message["content"]}}
        for block in message["content"] if isinstance(message["content"], list) else ():
            if isinstance(block, dict):
                data, text = block.pop("data", None), block.pop("thinking", None)
                reasoning = {"reasoning": data, "summary": text} if data else {"reasoning": text}
                block |= {"type": "reasoning", **reasoning, "redacted": bool(data)}
    return written


def anthropic_form(messages: list[ChatMessage]) -> list[Message]:
    written: list[Message] = []
    for message in own_form(messages):
        call_id = message.get("tool_call_id")
        if call_id is None:
            uses = [
                {
                    "type": "tool_use",
                    "id": call["id"],
                    "name": call["name"],
                    "input": call["arguments"],
                }
                for call in message.pop("tool_calls", ())
            ]
            content = message["content"]
            segments = content if isinstance(content, list) else [content]
            blocks = [
                {"type": "text", "text": each} if isinstance(each, str) else each
                for each in segments
            ]
            blocks += uses
            if message["role"] == "user" and written and written[-1].get("is_open"):
                written[-1].pop("is_open")
                written[-1]["content"] += blocks
            else:
                written.append({"role": message["role"], "content": blocks})
            continue
        result = {"type": "tool_result", "tool_use_id": call_id, "content": message["content"]}
        result |= {"is_error": True} if message.get("is_error") else {}
        if not (written and written[-1].get("is_open")):
            written.append({"role": "user", "content": [], "is_open": True})
        written[-1]["content"].append(result)
    return [{"role": each["role"], "content": each["content"]} for each in written]


def said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(each["value"] if isinstance(each, dict) else each for each in content)


def plain(case: Case) -> list[Any]:
    """Return what a case says, without places."""
    return [
        (
            message.role,
            said(message.content),
            [structs.replace(call, line=0) for call in message.calls],
            message.answers,
            message.is_error,
            [structs.replace(block, line=0) for block in message.thinking],
        )
        for message in case.input_messages
    ]


@pytest.mark.parametrize("write", [own_form, openai_form, inspect_form, anthropic_form])
def test_random_conversations_are_the_same_in_each_form(
    write: Callable[[list[ChatMessage]], list[Message]], tmp_path: Path
) -> None:
    wanted, lines = [], []
    for number in range(400):
        messages = [*(history(number).chat_prompt or ())]
        if any(not call.id.strip() for message in messages for call in message.tool_calls):
            continue  # a blank id is an error
        lines.append(json.dumps({"id": str(number), "input": write(messages)}))
        wanted.append(
            [
                (
                    message.role,
                    message.content,
                    [structs.replace(call, signature="") for call in message.tool_calls],
                    message.tool_call_id,
                    message.is_error,
                    [*message.thinking],
                )
                for message in messages
            ]
        )
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert len(wanted) > 300
    assert [*map(plain, load_suite(tmp_path / "x.jsonl"))] == wanted


# --- anything anywhere

ODD: tuple[Any, ...] = (
    *(None, 5, 1.5, True, "", " ", "x", "{}", "[1]", '{"a":', [], {}, [[]], [None], ["x"]),
    *({"a": [1]}, {"type": "tool_use"}, {"type": "thinking"}, {"type": ["x"]}, {"": ""}, 10**30),
)
KEYS = ("name", "function", "error", "arguments", "type", "input", "tool_call_id", "tool_calls")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list and mapping below a value, with each of its keys."""
    if isinstance(value, dict | list):
        for key, child in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
            yield value, key
            yield from places(child)


def test_a_conversation_with_anything_anywhere_is_read_or_an_error_with_its_line(
    tmp_path: Path,
) -> None:
    chance, path = random.Random(7), tmp_path / "x.jsonl"
    forms = (own_form, openai_form, inspect_form, anthropic_form)
    lines = []
    for number in range(400):
        messages = [*(history(number % 50).chat_prompt or ())]
        written = chance.choice(forms)(messages)
        tools = [{"name": name, "parameters": {"type": "object"}} for name in NAMES]
        case = {"input": written, "tools": tools, "expected_messages": written[-1:]}
        holder, key = chance.choice([*places(case)][3:])
        if isinstance(holder, dict) and chance.random() < 0.3:
            key = chance.choice(KEYS)
        holder[key] = deepcopy(chance.choice(ODD))
        lines.append(json.dumps(case))
    path.write_text("\n".join(lines), encoding="utf-8")
    errors: list[MultiturnError] = []
    cases = list(load_suite(path, on_error=errors.append))
    assert len(cases) + len(errors) == len(lines)
    assert min(len(cases), len(errors)) > 50
    assert all(error.where.line for error in errors)
    for read in cases:
        with suppress(MultiturnError):
            conversion = SPEC(Conversion(read))
            for convert in (to_openai, to_evals, to_inspect, to_promptfoo):
                with suppress(MultiturnError):
                    msgspec.json.encode(convert(conversion))


def test_thinking_of_openai_has_its_id_and_its_encrypted_content(tmp_path: Path) -> None:
    """inspect_ai keeps the id of a reasoning item as its signature."""
    read = Thinking("Hm.", "rs_1", "gA", "openai"), Thinking("", "rs_2", "gB", "openai")
    text = """
        tests:
        - id: ours
          input:
          - {role: user, content: Hi}
          - role: assistant
            content:
            - {type: thinking, thinking: Hm., signature: rs_1, data: gA, vendor: openai}
            - {type: redacted_thinking, signature: rs_2, data: gB, vendor: openai}
            - Hi
        - id: theirs
          input:
          - {role: user, content: Hi}
          - role: assistant
            content:
            - {type: reasoning, reasoning: gA, redacted: true, signature: rs_1, vendor: openai,
               summary: Hm.}
            - {type: reasoning, reasoning: gB, redacted: true, signature: rs_2, vendor: openai}
            - Hi
    """
    ours, theirs = (
        [structs.replace(block, line=0) for block in case.input_messages[1].thinking]
        for case in cases_of(text, tmp_path)
    )
    assert ours == theirs == [*read]


def test_a_tool_is_read_as_mcp_lists_it(tmp_path: Path) -> None:
    """https://modelcontextprotocol.io/specification/2025-06-18/server/tools"""
    listed = "name: f, title: F, description: D, annotations: {readOnlyHint: true}"
    (case,) = cases_of(
        f"tools: [{{{listed}, inputSchema: {{type: object}}, outputSchema: {{type: object}}}}]\n"
        "evalcases: [{id: a, input: hi}]\n",
        tmp_path,
    )
    assert case.tools == (Tool("f", "D", {"type": "object"}, line=1),)
    text = "tools: [{name: f, parameters: {}, inputSchema: {}}]\nevalcases: []\n"
    with pytest.raises(MultiturnError, match="parameters and inputSchema are one thing"):
        cases_of(text, tmp_path)
