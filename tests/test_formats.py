"""``convert --format`` for other tools, and what ``convert`` says of a case beside its prompt."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import commands
from multiturn.cli.convert import convert
from multiturn.engine.formats import FORMATS
from running import records

MESSAGES = "input_messages: [{role: system, content: Be kind.}, {role: user, content: 'Hi {{x}}'}]"
PROMPT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi {{x}}"}]


def converted(
    folder: Path, format_: str, case: str, *options: str, head: str = ""
) -> tuple[dict[str, Any], str]:
    """Return what a case ``greet`` with these keys becomes, and what is logged."""
    (folder / "shop.eval.yaml").write_text(f"{head}\nevalcases: [{{id: greet, {case}}}]")
    command = ("convert", "shop.eval.yaml", "--format", format_, *options)
    done = commands.run(*command, folder=folder)
    assert done.returncode == 0, done.stderr
    (record,) = records(done.stdout)
    return record, done.stderr


def test_the_command_offers_every_format() -> None:
    (option,) = (option for option in convert.params if option.name == "format_")
    assert isinstance(option.type, click.Choice)
    assert [*option.type.choices] == ["json", "yaml", "text", *FORMATS]


CASE = (
    "metadata: {topic: tea, case: mine}, conversation_id: 007, outcome: Greets,"
    f" execution: {{temperature: 0, target: fast}}, {MESSAGES}"
)
SAID = {
    "outcome": "Greets",
    "expected_messages": [{"role": "assistant", "content": "Hello"}],
    "conversation_id": "007",
    "execution": {"temperature": 0, "target": "fast", "max_output_tokens": 9},
}
METADATA = {"topic": "tea", "suite": "shop.eval.yaml", "case": "greet", **SAID}
ANSWER = {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize(
    ("format_", "record"),
    [
        ("openai", {"messages": [*PROMPT, ANSWER]}),
        ("evals", {"input": PROMPT, "ideal": "Hello"}),
        (
            "inspect",
            {
                "id": "shop.eval.yaml#greet",
                "input": PROMPT,
                "target": "Hello",
                "metadata": METADATA,
            },
        ),
        (
            "promptfoo",
            {
                "description": "shop.eval.yaml#greet",
                "vars": {"messages": PROMPT},
                "metadata": {**METADATA, "target": "Hello"},
            },
        ),
    ],
)
def test_what_other_tools_get(tmp_path: Path, format_: str, record: dict[str, Any]) -> None:
    case = f"expected_messages: [{{role: assistant, content: Hello}}], {CASE}"
    head = "execution: {temperature: 1, max_output_tokens: 9}"
    assert converted(tmp_path, format_, case, head=head)[0] == record
    record, _ = converted(tmp_path, "json", case, head=head)
    assert list(record)[-5:] == ["metadata", *SAID]
    assert {key: record[key] for key in SAID} == SAID


def test_what_a_case_does_not_say_is_left_out(tmp_path: Path) -> None:
    assert list(converted(tmp_path, "json", MESSAGES)[0])[-1] == "metadata"
    said = f"outcome: Greets, {MESSAGES}"
    assert converted(tmp_path, "openai", said)[0] == {"messages": PROMPT}
    assert converted(tmp_path, "evals", said)[0] == {"input": PROMPT, "ideal": "Greets"}


@pytest.mark.parametrize(
    ("expected", "target"),
    [
        pytest.param("Paris", "Paris", id="a text"),
        pytest.param([], "as the outcome says", id="an empty list is no answer"),
        pytest.param(["Paris"], "Paris", id="one text"),
        pytest.param(["Paris", "Paris, France"], ["Paris", "Paris, France"], id="each of these"),
        pytest.param({"content": "Paris"}, "Paris", id="one message"),
        pytest.param({"role": "assistant", "content": ""}, "", id="an empty message"),
        pytest.param(
            [
                {"role": "assistant", "content": "One moment."},
                {"role": "tool", "content": "18"},
                {"role": "assistant", "content": "18 degrees"},
                {"role": "user", "content": "Thanks"},
            ],
            "18 degrees",
            id="the last answer of several messages",
        ),
        pytest.param(
            [{"role": "user", "content": "Thanks"}],
            "as the outcome says",
            id="messages without an answer",
        ),
        pytest.param(
            {"content": [{"type": "text", "value": "a"}, {"type": "text", "text": "b"}, "c"]},
            "a\nb\nc",
            id="text segments",
        ),
        pytest.param({"content": {"n": "é"}}, '{\n  "n": "é"\n}', id="structured content"),
        pytest.param(
            [{"role": "assistant", "content": None, "tool_calls": []}],
            '{\n  "tool_calls": []\n}',
            id="a message without content",
        ),
        pytest.param(42, "42", id="a number"),
    ],
)
def test_the_target_is_what_is_expected(tmp_path: Path, expected: Any, target: Any) -> None:
    case = f"outcome: as the outcome says, expected_messages: {json.dumps(expected)}, {MESSAGES}"
    record, _ = converted(tmp_path, "inspect", case)
    assert record["target"] == target


@pytest.mark.parametrize(("format_", "key"), [("evals", "ideal"), ("inspect", "target")])
@pytest.mark.parametrize(
    ("said", "target"),
    [("", ""), ("outcome: ' ',", " "), ("expected_messages: ['', Hi],", ["", "Hi"])],
)
def test_an_expected_answer_that_every_answer_contains_is_a_warning(
    tmp_path: Path, format_: str, key: str, said: str, target: Any
) -> None:
    record, log = converted(tmp_path, format_, said + MESSAGES)
    assert record[key] == target
    assert log == (
        "shop.eval.yaml:2: warning: case 'greet': the expected answer is empty, and every answer"
        " contains it; add expected_messages or outcome\n"
    )


TOOL = """input_messages:
  [{role: user, content: Hi}, {role: tool, content: '18'}, {role: tool, content: '19'}]"""
REPAIR = "O1: sent a tool message as a user message that begins with [Tool]:"


@pytest.mark.parametrize(
    ("format_", "messages"),
    [
        ("openai", lambda record: record["messages"]),
        ("evals", lambda record: record["input"]),
        ("inspect", lambda record: record["input"]),
        ("promptfoo", lambda record: record["vars"]["messages"]),
    ],
)
def test_a_tool_message_goes_out_as_the_users_and_the_log_says_so(
    tmp_path: Path, format_: str, messages: Any
) -> None:
    case = f"outcome: Warm, {TOOL}"
    record, log = converted(tmp_path, format_, case, "--log-format", "json")
    assert messages(record) == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "[Tool]: 18"},
        {"role": "user", "content": "[Tool]: 19"},
    ]
    assert record.get("metadata", {"repairs": [REPAIR]})["repairs"] == [REPAIR]
    assert converted(tmp_path, "json", case)[0]["chat_prompt"][1]["role"] == "tool"
    (event,) = records(log)
    assert (event["event"], event["why"]) == ("prompt.repaired", REPAIR)
    assert event["where"].endswith("case 'greet'")


def test_json_imports_nothing_for_other_tools(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MESSAGES)
    program = (
        "import sys\nfrom multiturn.cli.group import main\n"
        "try: main(['convert', 'a.yaml'])\n"
        "finally: print({'multiturn.engine.formats', 'multiturn.providers.base'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("pipeline", "prompt"),
    [
        pytest.param("spec", [{"role": "user", "content": "Hi"}], id="nothing is added"),
        pytest.param(
            "shipped",
            [
                {"role": "system", "content": "You are a careful assistant."},
                {"role": "user", "content": "Hi"},
            ],
            id="without a chat prompt, as providers read the question",
        ),
    ],
)
def test_a_prompt_without_a_system_message(
    tmp_path: Path, pipeline: str, prompt: list[dict[str, str]]
) -> None:
    lone = "input_messages: [{role: user, content: Hi}]"
    record, _ = converted(tmp_path, "openai", lone, "--pipeline", pipeline)
    assert record["messages"] == prompt


@pytest.mark.parametrize("workers", ["1", "2"])
def test_with_strict_a_repair_is_an_error_of_its_case_alone(tmp_path: Path, workers: str) -> None:
    asks = "input_messages: [{role: user, content: Hi}, {role: tool, content: done}]"
    cases = "".join(f"\n  - {{id: {name}, {asks}}}" for name in ("a", "b"))
    (tmp_path / "shop.eval.yaml").write_text(f"evalcases:{cases}")
    command = ("convert", "shop.eval.yaml", "--format", "openai", "--strict", "--workers", workers)
    done = commands.run(*command, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"shop.eval.yaml:2: case 'a': {REPAIR}\nshop.eval.yaml:3: case 'b': {REPAIR}\n"
    )
