"""Calls of tools, their results and thinking, as suites write them."""

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec import structs

from layout import laid_out
from multiturn import Call, Case, Conversion, Thinking, Tool, load_suite
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
    assert case.tool_choice == {"name": "weather"}
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
    assert [case.tool_choice for case in cases] == ["required", "required", "required", "none"]


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
