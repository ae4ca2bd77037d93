"""``convert --format`` for other tools, and what ``convert`` says of a case beside its prompt."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

import commands
from media_files import data_uri, image, pdf, wav, write_bytes
from multiturn import load_pipeline, load_suite
from multiturn.cli.convert import TOOL_FORMATS, convert_suites
from running import records

PROMPT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi {{x}}"}]
MESSAGES = f"input_messages: {json.dumps(PROMPT)}"


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


SAID = {
    "outcome": "Greets",
    "expected_messages": [{"role": "assistant", "content": "Hello"}],
    "conversation_id": "007",
    "execution": {"temperature": 0, "target": "fast", "max_output_tokens": 9},
}
METADATA = {"topic": "tea", "suite": "shop.eval.yaml", "case": "greet", **SAID}
NAME = "shop.eval.yaml#greet"
WRITTEN: dict[str, dict[str, Any]] = {
    "openai": {"messages": [*PROMPT, {"role": "assistant", "content": "Hello"}]},
    "evals": {"input": PROMPT, "ideal": "Hello"},
    "inspect": {
        "id": NAME,
        "input": PROMPT,
        "target": "Hello",
        "metadata": {**METADATA, "settings": {"temperature": 0, "max_tokens": 9}},
    },
    "promptfoo": {
        "description": NAME,
        "vars": {"messages": PROMPT},
        "options": {
            "temperature": 0,
            "max_tokens": 9,
            "max_completion_tokens": 9,
            "max_output_tokens": 9,
            "maxOutputTokens": 9,
        },
        "metadata": {**METADATA, "target": "Hello"},
    },
}


def test_the_command_offers_the_formats_that_are_tested() -> None:
    (option,) = (option for option in convert_suites.params if option.name == "format_")
    assert isinstance(option.type, click.Choice)
    assert [*option.type.choices] == ["json", "yaml", "text", *WRITTEN]
    page = (Path(__file__).parent.parent / "docs/formats.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*WRITTEN]


@pytest.mark.parametrize("format_", ["json", *WRITTEN])
def test_what_is_written(tmp_path: Path, format_: str) -> None:
    case = (
        "metadata: {topic: tea, case: mine}, conversation_id: 007, outcome: Greets,"
        " expected_messages: [{role: assistant, content: Hello}],"
        f" execution: {{temperature: 0, target: fast}}, {MESSAGES}"
    )
    head = "execution: {temperature: 1, max_output_tokens: 9}"
    record, _ = converted(tmp_path, format_, case, head=head)
    if format_ == "json":
        assert list(record)[-6:] == ["metadata", "settings", *SAID]
        assert record["settings"] == {"temperature": 0, "max_output_tokens": 9}
        assert {key: record[key] for key in SAID} == SAID
    else:
        assert record == WRITTEN[format_]


def test_what_a_case_does_not_say_is_left_out(tmp_path: Path) -> None:
    assert list(converted(tmp_path, "json", MESSAGES)[0])[-1] == "metadata"
    assert converted(tmp_path, "openai", MESSAGES)[0] == {"messages": PROMPT}


EXPECTED: dict[str, tuple[Any, Any]] = {
    "a text": ("Paris", "Paris"),
    "an empty list is no answer": ([], "as the outcome says"),
    "one text": (["Paris"], "Paris"),
    "each of these": (["Paris", "Paris, France"], ["Paris", "Paris, France"]),
    "one message": ({"content": "Paris"}, "Paris"),
    "an empty message": ({"role": "assistant", "content": ""}, ""),
    "the last answer of several messages": (
        [
            {"role": "assistant", "content": "One moment."},
            {"role": "tool", "content": "18"},
            {"role": "assistant", "content": "18 degrees"},
            {"role": "user", "content": "Thanks"},
        ],
        "18 degrees",
    ),
    "messages without an answer": ([{"role": "user", "content": "Bye"}], "as the outcome says"),
    "text segments": (
        {"content": [{"type": "text", "value": "a"}, {"type": "text", "text": "b"}, "c"]},
        "a\nb\nc",
    ),
    "structured content": ({"content": {"n": "é"}}, '{\n  "n": "é"\n}'),
    "a message without content": (
        [{"role": "assistant", "content": None, "tool_calls": []}],
        '{\n  "tool_calls": []\n}',
    ),
    "a number": (42, "42"),
}


@pytest.mark.parametrize(("expected", "target"), EXPECTED.values(), ids=EXPECTED)
def test_the_target_is_what_is_expected(tmp_path: Path, expected: Any, target: Any) -> None:
    case = f"outcome: as the outcome says, expected_messages: {json.dumps(expected)}, {MESSAGES}"
    assert converted(tmp_path, "inspect", case)[0]["target"] == target


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


CALLED = (
    "input_messages: [{role: user, content: Hi}, {role: assistant, tool_calls: [{id: c1, name: f,"
    " arguments: {x: é}}]}, {role: tool, tool_call_id: c1, content: ho}]"
)
F = {"type": "function", "function": {"name": "f", "description": "D"}}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"x": "é"}'},
}
CHAT = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "ho"},
]
OF_INSPECT = [
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "function": "f", "arguments": {"x": "é"}, "type": "function"}],
    },
    {"role": "tool", "content": "ho", "tool_call_id": "c1", "function": "f"},
]


def test_calls_results_and_tools_are_in_the_form_of_each_format(tmp_path: Path) -> None:
    head = "tools: [{name: f, description: D}]\nexecution: {tool_choice: {name: f}}"
    case = f"outcome: Greets, {CALLED}"
    written = {name: converted(tmp_path, name, case, head=head) for name in WRITTEN}
    assert written["openai"][0] == {"messages": CHAT, "tools": [F]}
    assert written["evals"][0] == {"input": CHAT, "ideal": "Greets"}
    assert "OpenAI's evals have no place for tools; they are left out" in written["evals"][1]
    inspect = written["inspect"][0]
    assert (inspect["input"], inspect["metadata"]["tools"]) == (OF_INSPECT, [F])
    promptfoo = written["promptfoo"][0]
    assert promptfoo["vars"] == {"messages": CHAT}
    choice = {"type": "function", "function": {"name": "f"}}
    assert promptfoo["options"] == {"tools": [F], "tool_choice": choice}


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
EVERY_SETTING = {
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "max_output_tokens": 9,
    "stop": ["END"],
    "seed": 7,
    "frequency_penalty": 1,
    "presence_penalty": -1,
    "reasoning_effort": "low",
    "reasoning_tokens": 99,
    "response_format": {"schema": SCHEMA, "name": "city", "strict": True},
    "tool_choice": {"name": "f"},
    "parallel_tool_calls": False,
    "verbosity": "low",
    "service_tier": "flex",
    "body": {"logprobs": True},
}
OPTIONS = {  # of promptfoo: the names of OpenAI's API
    "temperature": 0.5,
    "top_p": 0.5,
    "max_tokens": 9,
    "max_completion_tokens": 9,
    "max_output_tokens": 9,
    "maxOutputTokens": 9,
    "stop": ["END"],
    "seed": 7,
    "frequency_penalty": 1,
    "presence_penalty": -1,
    "reasoning_effort": "low",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "city", "schema": SCHEMA, "strict": True},
    },
    "tools": [F],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "verbosity": "low",
    "service_tier": "flex",
    "passthrough": {"logprobs": True},
}
CONFIG = {  # of inspect_ai, and the choice of a tool
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "max_tokens": 9,
    "stop_seqs": ["END"],
    "seed": 7,
    "frequency_penalty": 1,
    "presence_penalty": -1,
    "reasoning_effort": "low",
    "reasoning_tokens": 99,
    "response_schema": {"name": "city", "json_schema": SCHEMA, "strict": True},
    "tool_choice": {"name": "f"},
    "parallel_tool_calls": False,
    "verbosity": "low",
}
LOST = "cannot have these settings, and they are left out:"


def test_each_format_has_the_settings_that_it_knows_and_warns_of_the_others(tmp_path: Path) -> None:
    head = f"tools: [{{name: f, description: D}}]\nexecution: {json.dumps(EVERY_SETTING)}"
    case = f"expected_messages: Ho, {CALLED}"
    of_promptfoo, log = converted(tmp_path, "promptfoo", case, head=head)
    assert of_promptfoo["options"] == OPTIONS
    assert f"promptfoo {LOST} top_k, reasoning_tokens, parallel_tool_calls\n" in log
    of_inspect, log = converted(tmp_path, "inspect", case, head=head)
    assert of_inspect["metadata"]["settings"] == CONFIG
    assert f"inspect_ai {LOST} service_tier, body\n" in log
    every = ", ".join(EVERY_SETTING)
    for name, line in {
        "openai": "a line for fine-tuning",
        "evals": "a line of OpenAI's evals",
    }.items():
        record, log = converted(tmp_path, name, case, head=head)
        assert record.keys() <= {"messages", "tools", "input", "ideal"}
        assert f"{line} {LOST} {every}\n" in log


def test_settings_of_tools_are_none_where_a_case_has_no_tools(tmp_path: Path) -> None:
    head = "execution: {tool_choice: required, parallel_tool_calls: true}"
    for name in WRITTEN:
        record, log = converted(tmp_path, name, f"expected_messages: Ho, {MESSAGES}", head=head)
        assert "options" not in record
        assert LOST not in log


def test_the_answer_in_json_is_no_setting_of_inspect(tmp_path: Path) -> None:
    head = "execution: {response_format: {type: json_object}}"
    record, log = converted(tmp_path, "inspect", f"outcome: Ho, {MESSAGES}", head=head)
    assert "settings" not in record["metadata"]
    assert f"inspect_ai {LOST} response_format\n" in log


def test_assertions_in_the_metadata_are_those_of_a_test_of_promptfoo(tmp_path: Path) -> None:
    asserted = [{"type": "contains", "value": "Ho"}]
    case = f"metadata: {{topic: tea, assert: {json.dumps(asserted)}}}, {MESSAGES}"
    record, _ = converted(tmp_path, "promptfoo", case)
    assert record["assert"] == asserted
    assert "assert" not in record["metadata"]
    inspect, _ = converted(tmp_path, "inspect", f"outcome: x, {case}")
    assert inspect["metadata"]["assert"] == asserted


@pytest.mark.parametrize("format_", TOOL_FORMATS)
def test_results_are_directly_after_their_calls(tmp_path: Path, format_: str) -> None:
    calls = "tool_calls: [{id: c1, name: f}, {id: c2, name: f}]"
    late = (
        f"input_messages: [{{role: user, content: Hi}}, {{role: assistant, {calls}}},"
        " {role: tool, tool_call_id: c1, content: a}, {role: user, content: Well?},"
        " {role: tool, tool_call_id: c2, content: b}, {role: assistant, content: Ho},"
        " {role: user, content: And?}]"
    )
    record, log = converted(tmp_path, format_, f"expected_messages: Hm, {late}")
    messages = record.get("messages") or record.get("input") or record["vars"]["messages"]
    said = ["Hi", "", "a", "b", "Well?", "Ho", "And?"]
    assert [each["content"] or "" for each in messages[:7]] == said
    assert "T3: moved the results of calls directly after them" in log


def test_the_repairs_of_calls_are_those_of_openai(tmp_path: Path) -> None:
    messages = (
        "input_messages: [{role: user, content: Hi}, {role: assistant, content: [{type: thinking,"
        " thinking: Hm.}, Ho], tool_calls: [{id: c1, name: f}]}, {role: tool, tool_call_id: c1,"
        " content: No., is_error: true}]"
    )
    record, log = converted(tmp_path, "promptfoo", f"outcome: Greets, {messages}")
    assert record["vars"]["messages"][2]["content"] == "error: No."
    rules = [repair.partition(":")[0] for repair in record["metadata"]["repairs"]]
    assert rules == ["T8", "O15"]
    assert log.count("warning: case 'greet'") == 2


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c2", "name": "f", "arguments": {"x": 1}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "c2", "function": "f", "arguments": {"x": 1}},
        {"type": "tool_use", "id": "c2", "name": "f", "input": {"x": 1}},
    ],
)
@pytest.mark.parametrize("text", [None, "Ho"])
def test_an_expected_call_is_the_answer_of_a_line_for_openai(
    tmp_path: Path, call: dict[str, Any], text: str | None
) -> None:
    answer: dict[str, Any] = {"role": "assistant", "content": text, "tool_calls": [call]}
    if call.get("type") == "tool_use":
        answer = {"role": "assistant", "content": [text, call] if text else [call]}
    case = f"expected_messages: {json.dumps([answer])}, {CALLED}"
    record, log = converted(tmp_path, "openai", case)
    function = {"name": "f", "arguments": '{"x": 1}'}
    said = record["messages"][-1]
    assert said["content"] == text
    assert said["tool_calls"] == [{"id": "c2", "type": "function", "function": function}]
    assert log == ""


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ([{"role": "assistant", "content": "Ho"}, None], '{\n  "role": "assistant",'),
        ([{"role": "assistant", "content": "Ho", "tool_calls": [5]}], "Ho"),
        ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], '{\n  "tool_calls": ['),
    ],
)
def test_an_expected_call_that_is_none_is_text(tmp_path: Path, expected: Any, said: str) -> None:
    case = f"expected_messages: {json.dumps(expected)}, {MESSAGES}"
    record, _ = converted(tmp_path, "openai", case)
    assert record["messages"][len(PROMPT)]["content"].startswith(said)
    assert "tool_calls" not in record["messages"][len(PROMPT)]


def test_braces_in_a_tool_are_no_template_of_promptfoo(tmp_path: Path) -> None:
    tools = "tools: [{name: f, description: 'Say {{ x }}'}]"
    (tmp_path / "shop.eval.yaml").write_text(f"{tools}\nevalcases: [{{id: a, {CALLED}}}]")
    command = ("convert", "shop.eval.yaml", "--format", "promptfoo")
    done = commands.run(*command, folder=tmp_path)
    what = "promptfoo would render the {{ in tools or settings as a template; write it in words"
    said = f"shop.eval.yaml:2: case 'a': {what}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert commands.run(*command[:-1], "openai", folder=tmp_path).returncode == 0


def test_a_call_without_its_result_is_no_prompt_for_other_tools(tmp_path: Path) -> None:
    waiting = "input_messages: [{role: assistant, tool_calls: [{id: c1, name: f}]}]"
    (tmp_path / "shop.eval.yaml").write_text(f"evalcases: [{{id: a, outcome: x, {waiting}}}]")
    command = ("convert", "shop.eval.yaml", "--format", "inspect")
    done = commands.run(*command, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("shop.eval.yaml:1: case 'a': ")
    assert "(T3)" in done.stderr or "T3" in done.stderr
    openai = commands.run(*command[:-1], "openai", folder=tmp_path)
    assert openai.returncode == 0  # a model can learn to call


TOOL = "input_messages: [{role: user, content: Hi}, {role: tool, content: '18'}]"
REPAIR = "O1: sent a tool message as a user message that begins with [Tool]:"


ANSWER = "the line does not end with an answer of the assistant's; add expected_messages"


@pytest.mark.parametrize(
    ("expected", "is_warned"),
    [
        ("", True),
        ("expected_messages: [{role: user, content: Bye}],", True),
        ("expected_messages: [{role: assistant, content: Hello}],", False),
    ],
)
def test_a_line_for_openai_that_ends_without_an_answer_is_a_warning(
    tmp_path: Path, expected: str, is_warned: bool
) -> None:
    _, log = converted(tmp_path, "openai", f"{expected} {MESSAGES}")
    warning = f"shop.eval.yaml:2: warning: case 'greet': {ANSWER}\n"
    assert log == (warning if is_warned else "")


def test_a_test_of_promptfoo_without_execution_has_no_options(tmp_path: Path) -> None:
    record, _ = converted(tmp_path, "promptfoo", f"outcome: Greets, {MESSAGES}")
    assert "options" not in record


@pytest.mark.parametrize("format_", TOOL_FORMATS)
def test_a_tool_message_goes_out_as_the_users_and_the_log_says_so(
    tmp_path: Path, format_: str
) -> None:
    case = f"outcome: Warm, {TOOL}"
    record, log = converted(tmp_path, format_, case, "--log-format", "json")
    messages = record.get("messages") or record.get("input") or record["vars"]["messages"]
    assert messages == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "[Tool]: 18"},
    ]
    if "metadata" in record:
        assert record["metadata"]["repairs"] == [REPAIR]
    event, *others = records(log)
    assert (event["event"], event["why"]) == ("prompt.repaired", REPAIR)
    assert [other["event"] for other in others] == ["answer.missing"] * (format_ == "openai")
    assert event["where"].endswith("case 'greet'")


def test_with_strict_a_repair_is_an_error_of_its_case_alone(tmp_path: Path) -> None:
    given = f"expected_messages: [Warm], {TOOL}"
    cases = ", ".join(f"{{id: {name}, {given}}}" for name in "ab")
    (tmp_path / "shop.eval.yaml").write_text(f"evalcases: [{cases}]")
    for workers in ("1", "2"):
        command = ("convert", "shop.eval.yaml", "--format", "openai", "--strict")
        done = commands.run(*command, "--workers", workers, folder=tmp_path)
        errors = "".join(f"shop.eval.yaml:1: case '{name}': {REPAIR}\n" for name in "ab")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", errors)


@pytest.mark.parametrize(
    ("pipeline", "added"),
    [
        pytest.param("spec", [], id="nothing is added"),
        pytest.param(
            "shipped",
            [{"role": "system", "content": "You are a careful assistant."}],
            id="without a chat prompt, as providers read the question",
        ),
    ],
)
def test_a_prompt_without_a_system_message(
    tmp_path: Path, pipeline: str, added: list[dict[str, str]]
) -> None:
    lone = "input_messages: [{role: user, content: Hi}]"
    record, _ = converted(tmp_path, "openai", lone, "--pipeline", pipeline)
    assert record["messages"] == [*added, {"role": "user", "content": "Hi"}]


LOOK = (
    "input_messages: [{role: user, content: [Look, {type: image, value: shots/a.png, detail: low},"
    " {type: file, value: bill.pdf}, and listen, {type: audio, value: q.wav},"
    ' {type: image, value: "https://example.com/b.png"}]}]'
)
URIS = {kind: data_uri(data) for kind, data in (("image", image()), ("pdf", pdf()), ("wav", wav()))}
PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "Look"},
    {"type": "image_url", "image_url": {"url": URIS["image"], "detail": "low"}},
    {"type": "file", "file": {"filename": "bill.pdf", "file_data": URIS["pdf"]}},
    {"type": "text", "text": "and listen"},
    {"type": "input_audio", "input_audio": {"data": URIS["wav"].split(",")[1], "format": "wav"}},
    {"type": "image_url", "image_url": {"url": "https://example.com/b.png"}},
]
PARTS_OF_INSPECT: list[dict[str, Any]] = [
    {"type": "text", "text": "Look"},
    {"type": "image", "image": URIS["image"], "detail": "low"},
    {
        "type": "document",
        "document": URIS["pdf"],
        "filename": "bill.pdf",
        "mime_type": "application/pdf",
    },
    {"type": "text", "text": "and listen"},
    {"type": "audio", "audio": URIS["wav"], "format": "wav"},
    {"type": "image", "image": "https://example.com/b.png"},
]


@pytest.mark.parametrize(
    ("format_", "path", "parts"),
    [
        ("openai", ("messages",), PARTS),
        ("evals", ("input",), PARTS),
        ("inspect", ("input",), PARTS_OF_INSPECT),
        ("promptfoo", ("vars", "messages"), PARTS),
    ],
)
def test_media_are_written_with_their_bytes_and_read_again(
    tmp_path: Path, format_: str, path: tuple[str, ...], parts: list[dict[str, Any]]
) -> None:
    write_bytes(tmp_path, {"shots/a.png": image(), "bill.pdf": pdf(), "q.wav": wav()})
    record, _ = converted(tmp_path, format_, f"expected_messages: Well, {LOOK}")
    messages: Any = record
    for key in path:
        messages = messages[key]
    assert messages[0] == {"role": "user", "content": parts}
    (tmp_path / "again.jsonl").write_text(json.dumps({"id": "a", "input": messages[:1]}))
    (case,) = load_suite(tmp_path / "again.jsonl")
    (message,) = load_pipeline("spec").request(case).chat_prompt or ()
    assert [
        piece if isinstance(piece, str) else piece.url or piece.data for piece in message.content
    ] == ["Look", image(), pdf(), "and listen", wav(), "https://example.com/b.png"]


def test_media_of_an_expected_answer_are_named_in_the_forms_of_other_tools(tmp_path: Path) -> None:
    answer = [
        {"type": "output_text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aQ=="}},
        {"type": "input_file", "filename": "b.pdf", "file_data": "DATA:;base64,aQ=="},
        {"type": "chart", "value": 1},
    ]
    expected = json.dumps([{"role": "assistant", "content": answer}])
    record, _ = converted(tmp_path, "evals", f"expected_messages: {expected}, {MESSAGES}")
    assert record["ideal"] == (
        "See\n[image: https://example.com/a.png]\n[image: image]\n[file: b.pdf]\n"
        '{\n  "type": "chart",\n  "value": 1\n}'
    )


@pytest.mark.parametrize("format_", ["inspect", "evals"])
def test_media_of_an_expected_answer_are_named(tmp_path: Path, format_: str) -> None:
    uri = f"{{type: image, value: '{URIS['image']}'}}"
    answer = (
        f"[See, {{type: image, value: a.png}}, {uri}, {{type: audio, value: 'data:', name: b}}]"
    )
    case = f"expected_messages: [{{role: assistant, content: {answer}}}], {MESSAGES}"
    record, _ = converted(tmp_path, format_, case)
    assert record["target" if format_ == "inspect" else "ideal"] == (
        "See\n[image: a.png]\n[image: image]\n[audio: b]"
    )
