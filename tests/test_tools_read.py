"""Calls of tools, their results and thinking, as suites write them."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

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
            - Let me look.
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
            ["Let me look."],
            line=11,
            content_lines=(15,),
            calls=(
                Call("c1", "weather", {"city": "Paris", "n": [1, {"a b": None}]}, line=17),
                Call("c2", "time", signature="t", line=18),
            ),
            thinking=(Thinking("Hm.", "s", vendor="gemini", line=13), Thinking(data="d", line=14)),
            first_content=2,
        ),
        TestMessage("tool", {"hour": 5}, line=21, content_lines=(21,), answers="c2"),
        TestMessage("tool", "", line=22, content_lines=(22,), answers="c1", is_error=True),
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
