"""inspect_ai sends what ``multiturn run`` sends: the task, the data set and the format."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.dataset import json_dataset
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ContentAudio, ContentDocument, ContentImage, ContentText
from inspect_ai.tool import ToolCall

import commands
from loopback import Server, completion
from multiturn import MultiturnError, load_pipeline
from multiturn.inspect import dataset, suite
from multiturn.logs import Notice, warnings_to
from pages import program, shell_command
from running import records

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text(encoding="utf-8")
SUITE = Path(__file__).with_name("evals.eval.yaml")
IDS = [f"evals/a.eval.yaml#{case}" for case in ("template", "turns", "file://later")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evals").mkdir()
    shutil.copy(SUITE, tmp_path / "evals/a.eval.yaml")
    return tmp_path


def sent_by_run(folder: Path, *options: str) -> list[Any]:
    """Return the bodies that ``multiturn run`` would send."""
    (folder / "targets.yaml").write_text(
        "targets: [{name: loop, provider: openai, base_url: 'http://127.0.0.1:1/v1',"
        " model: gpt-x, max_tokens_field: max_tokens}]"
    )
    command = ("run", "evals/", "--target", "loop", "--dry-run", *options)
    done = commands.run(*command, folder=folder)
    return [json.loads(record["wire"]) for record in records(done.stdout)]


def inspect_eval(folder: Path, server: Server, *arguments: str) -> EvalLog:
    """Run ``inspect eval`` and return its log."""
    environment = {
        **os.environ,
        "NO_PROXY": "127.0.0.1",
        "LOOP_BASE_URL": f"{server.url}/v1",
        "LOOP_API_KEY": "none",
    }
    program = Path(sys.executable).with_name("inspect")
    model = ("--model", "openai-api/loop/gpt-x", "--display", "plain", "--log-dir", "logs")
    done = subprocess.run(
        [program, "eval", *arguments, *model, "--max-connections", "1"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = (folder / "logs").iterdir()
    return read_eval_log(str(log))


def bodies(server: Server) -> list[Any]:
    return by_text([request.json for request in server.requests])


def parsed(body: Any) -> Any:
    """Return a body with arguments as values: inspect_ai escapes letters that are not ASCII."""
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return body


def by_text(bodies: Iterable[Any]) -> list[Any]:
    return sorted(bodies, key=lambda body: json.dumps(body, sort_keys=True))


@pytest.mark.parametrize("pipeline", ["spec", "shipped"])
def test_the_task_sends_the_bodies_of_run(folder: Path, server: Server, pipeline: str) -> None:
    options = ("-T", "suite=evals/", "-T", f"pipeline={pipeline}")
    log = inspect_eval(folder, server, "multiturn/suite", *options)
    expected = sent_by_run(folder, "--pipeline", pipeline)
    assert len(expected) == 3
    assert bodies(server) == by_text(expected)
    assert log.status == "success"
    assert sorted(str(sample.id) for sample in log.samples or ()) == sorted(IDS)


def test_the_task_and_run_take_the_defaults_of_the_project(folder: Path, server: Server) -> None:
    (folder / "terse.yaml").write_text("extends: design\nremove: [filter_empty]\n")
    (folder / "multiturn.toml").write_text('pipeline = "terse.yaml"\nsuites = ["evals"]\n')
    inspect_eval(folder, server, "multiturn/suite")
    expected = sent_by_run(folder)
    assert len(expected) == 3
    assert bodies(server) == by_text(expected)


def test_an_error_advises_what_its_reader_can_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "[{role: user, content: [{type: file, value: ../../x}]}]"
    (folder / "evals/a.eval.yaml").write_text(f"evalcases: [{{id: a, input_messages: {content}}}]")
    monkeypatch.chdir(folder)
    for call, option in ((suite, "-T root="), (dataset, "root=")):
        with pytest.raises(MultiturnError, match=rf"name a root that holds it \({option}\)$"):
            call("evals")


def test_the_task_of_the_page_sends_them_and_is_scored(folder: Path, server: Server) -> None:
    (folder / "weather.py").write_text(program(PAGE, "# weather.py"))
    server.answer("It is 18 degrees.", times=None)
    log = inspect_eval(folder, server, "weather.py", "--sample-id", "evals/*#turns")
    (sent,) = bodies(server)
    assert sent in sent_by_run(folder)
    assert log.samples is not None
    (sample,) = log.samples
    assert sample.scores is not None
    assert sample.scores["includes"].value == "C"


def test_a_sample_has_what_its_case_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    template, turns, later = dataset("evals")
    assert [template.id, turns.id, later.id] == IDS
    assert (template.target, turns.target) == ("Leaves the braces alone", "18 degrees")
    assert later.target == ["yes", "Yes."]
    assert [message.role for message in turns.input] == [
        *("system", "user", "user", "assistant", "user", "user")
    ]
    assert turns.input[0].text == "You are a careful assistant."
    assert turns.input[4].text == '[Tool]: {"celsius": 18}'
    assert turns.metadata == {
        "topic": "weather",
        "suite": "evals/a.eval.yaml",
        "case": "turns",
        "conversation_id": "007",
        "expected_messages": [{"role": "assistant", "content": "18 degrees"}],
        "execution": {"temperature": 0, "max_output_tokens": 9},
        "settings": {"temperature": 0, "max_tokens": 9},
        "repairs": ["O1: sent a tool message as a user message that begins with [Tool]:"],
    }


TOOLS = """\
tools:
- name: weather
  description: The weather of a city.
  parameters:
    type: object
    properties:
      city: {type: string, description: Where.}
      days: {type: array, items: {type: integer}}
    required: [city]
    additionalProperties: false
execution: {tool_choice: required}
evalcases:
- id: umbrella
  input_messages:
  - {role: user, content: Umbrella in Zürich or Oslo?}
  - role: assistant
    content: Let me look.
    tool_calls:
    - {id: c1, name: weather, arguments: {city: Zürich, days: [1, 2]}}
    - {id: c2, name: weather, arguments: {city: Oslo}}
  - {role: tool, tool_call_id: c1, content: 18 °C}
  - {role: tool, tool_call_id: c2, content: No data., is_error: true}
- id: chosen
  execution: {tool_choice: {name: weather}}
  input_messages: [{role: user, content: Umbrella in Paris?}]
"""


def test_tools_calls_and_results_are_those_of_run(folder: Path, server: Server) -> None:
    (folder / "evals/a.eval.yaml").write_text(TOOLS, encoding="utf-8")
    calls = [
        {"id": "x", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    server.answer(body={**completion("openai", ""), "choices": [choice]}, times=None)
    log = inspect_eval(folder, server, "multiturn/suite", "-T", "suite=evals/")
    assert log.status == "success", log.error
    sent = bodies(server)
    for body in sent:  # inspect_ai asks for it, wherever a schema permits
        assert body["tools"][0]["function"].pop("strict") is True
    assert by_text(map(parsed, sent)) == by_text(map(parsed, sent_by_run(folder)))
    for sample in log.samples or ():  # what the model calls is not run
        (call,) = sample.output.message.tool_calls or []
        assert (call.function, call.arguments) == ("weather", {})
        assert sample.messages[-1].role == "assistant"


WITH_SETTINGS = """\
execution:
  temperature: 0.5
  top_p: 0.25
  max_output_tokens: 99
  stop: [END]
  seed: 7
  frequency_penalty: 1
  presence_penalty: -1
  response_format:
    name: city
    schema: {type: object, properties: {city: {type: string}}, required: [city]}
    strict: true
evalcases:
- id: plain
  input_messages: [{role: user, content: Hi}]
- id: with-tools
  execution: {parallel_tool_calls: false, tool_choice: auto}
  tools:
  - name: weather
    parameters: {type: object, properties: {}, required: [], additionalProperties: true}
  input_messages: [{role: user, content: Hi}]
"""


def test_settings_are_those_of_run(folder: Path, server: Server) -> None:
    (folder / "evals/a.eval.yaml").write_text(WITH_SETTINGS, encoding="utf-8")
    log = inspect_eval(folder, server, "multiturn/suite", "-T", "suite=evals/")
    assert log.status == "success", log.error
    sent = bodies(server)
    for body in sent:
        assert body["response_format"]["json_schema"].pop("description") is None
        for tool in body.get("tools", ()):
            tool["function"].pop("strict")
            tool["function"].pop("description")  # an empty one
    expected = sent_by_run(folder)
    assert [body["response_format"]["type"] for body in expected] == ["json_schema"] * 2
    assert by_text(sent) == by_text(expected)


HELD = "{type: object, properties: {city: {type: string}}, required: [city]}"
CHANGED = {
    "a reference": "{type: object, properties: {o: {$ref: '#/$defs/q'}}, $defs: {q: {}}}",
    "another keyword": "{type: object, properties: {n: {type: integer, multipleOf: 5}}}",
    "null as the default": "{type: object, properties: {n: {type: integer, default: null}}}",
}


@pytest.mark.parametrize("schema", CHANGED.values(), ids=CHANGED)
def test_a_case_with_a_tool_that_would_be_changed_is_left_out(
    folder: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "input_messages: [{role: user, content: Hi}]"
    (folder / "evals/a.eval.yaml").write_text(
        f"evalcases:\n- {{id: a, tools: [{{name: f, parameters: {schema}}}], {case}}}\n"
        f"- {{id: b, tools: [{{name: f, parameters: {HELD}}}], {case}}}"
    )
    monkeypatch.chdir(folder)
    said: list[Notice] = []
    with warnings_to(said.append):
        assert [sample.id for sample in dataset("evals")] == ["evals/a.eval.yaml#b"]
    (why,) = [f"{each.where}: {each.why}" for each in said if each.case_id == "a"]
    what = "case 'a': the case is left out: inspect_ai would change the tool 'f'"
    assert why == f"evals/a.eval.yaml:2: {what}"
    (folder / "evals/a.eval.yaml").write_text(
        f"evalcases: [{{id: a, tools: [{{name: f, parameters: {schema}}}], {case}}}]"
    )
    with pytest.raises(MultiturnError, match="no case of these suites can be sent"):
        dataset("evals")


def test_a_refused_case_does_not_end_the_run_of_the_others(folder: Path, server: Server) -> None:
    with (folder / "evals/a.eval.yaml").open("a") as file:
        file.write(
            "  - id: waits\n    input_messages: [{role: user, content: Hi},"
            " {role: assistant, tool_calls: [{id: c1, name: f}]}]\n"
        )
    log = inspect_eval(folder, server, "multiturn/suite", "-T", "suite=evals/")
    assert log.status == "success", log.error
    assert len(server.requests) == 3


def test_a_schema_of_the_answer_and_a_choice_that_would_be_changed_leave_their_cases_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = "{schema: {type: object, properties: {n: {const: 1}}}}"
    with (folder / "evals/a.eval.yaml").open("a") as file:
        for name, key in {
            "form": f"response_format: {form}",
            "choice": "tool_choice: none",
        }.items():
            file.write(
                f"  - id: {name}\n    execution: {{{key}}}\n    tools: [{{name: f}}]\n"
                "    input_messages: [{role: user, content: Hi}]\n"
            )
    monkeypatch.chdir(folder)
    assert [sample.id for sample in dataset("evals")] == IDS


def test_a_data_set_has_real_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "evals/a.eval.yaml").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(folder)
    sample, _ = dataset("evals")
    done = commands.run("convert", "evals", "--format", "inspect", folder=folder)
    (folder / "samples.jsonl").write_text(done.stdout, encoding="utf-8")
    assert done.returncode == 0
    for messages in (sample.input[1:], json_dataset("samples.jsonl")[0].input):
        _, assistant, result, failed = messages
        assert assistant.tool_calls == [
            ToolCall("c1", "weather", {"city": "Zürich", "days": [1, 2]}),
            ToolCall("c2", "weather", {"city": "Oslo"}),
        ]
        assert (result.tool_call_id, result.function, result.text) == ("c1", "weather", "18 °C")
        assert (failed.tool_call_id, failed.text) == ("c2", "error: No data.")


def test_an_error_in_a_case_is_raised(folder: Path) -> None:
    (folder / "evals/b.eval.yaml").write_text("evalcases: [{id: empty, input_messages: []}]")
    with pytest.raises(MultiturnError, match="case 'empty'"):
        dataset(folder / "evals")
    with pytest.raises(TypeError, match="needs a suite"):
        dataset()


def test_options_say_what_is_read_and_how(folder: Path) -> None:
    (folder / "evals/tone.md").write_text("Be kind.")
    suite = folder / "evals/b.yaml"
    suite.write_text(
        "evalcases: [{id: a, input_messages: [{role: user, content:"
        " [{type: file, value: tone.md}, Hi]}]}]"
    )
    pipeline = load_pipeline("design").configure("embed_files", header="# {path}")
    (embedded,) = dataset(suite, pipeline=pipeline)
    assert [message.text for message in embedded.input] == [
        *("You are a careful assistant.", "# tone.md\nBe kind.\nHi")
    ]
    (guided,) = dataset(suite, guideline_patterns=["*.md"], root=folder / "evals")
    assert [message.text for message in guided.input] == [
        *("[[ ## Guidelines ## ]]\n\nBe kind.", "<Attached: tone.md>\nHi")
    ]
    (folder / "elsewhere").mkdir()
    with pytest.raises(MultiturnError, match="root"):
        dataset(suite, root=folder / "elsewhere")


def test_the_format_holds_the_samples_and_the_command_of_the_page_works(
    folder: Path, server: Server
) -> None:
    """The prompts have a system message each, so that the format leaves none out."""
    suite = folder / "evals/a.eval.yaml"
    suite.write_text(suite.read_text().replace("user, content: Hello", "system, content: Hello"))
    (folder / "samples.py").write_text(program(PAGE, "# samples.py"))
    commands.run(*shell_command(PAGE, "multiturn convert evals/")[1:], folder=folder)
    _, _, *arguments, _, _ = shell_command(PAGE, "inspect eval samples.py")
    log = inspect_eval(folder, server, *arguments)
    without = [{key: body[key] for key in ("model", "messages")} for body in sent_by_run(folder)]
    assert bodies(server) == by_text(without)
    assert log.results is not None
    assert log.results.scores


MEDIA = """\
evalcases:
- id: look
  input_messages:
  - role: user
    content:
    - Look
    - {type: image, value: a.png, detail: low}
    - {type: file, value: bill.pdf}
    - and listen
    - {type: audio, value: q.wav}
    - {type: image, value: "https://example.com/b.png", detail: high}
- id: result
  input_messages:
  - {role: user, content: Shoot}
  - {role: assistant, content: Wait., tool_calls: [{id: c1, name: shoot}]}
  - {role: tool, tool_call_id: c1, content: [Here, {type: image, value: a.png, detail: auto}]}
"""
FILES = {
    "a.png": b"\x89PNG\r\n\x1a\n and pixels",
    "bill.pdf": b"%PDF-1.7 and pages",
    "q.wav": b"RIFF\x24\0\0\0WAVE and sound",
}


def with_media(folder: Path) -> None:
    (folder / "evals/a.eval.yaml").write_text(MEDIA, encoding="utf-8")
    for name, data in FILES.items():
        (folder / "evals" / name).write_bytes(data)


def uri(media_type: str, name: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(FILES[name]).decode()}"


def test_images_documents_and_audio_are_those_of_run(folder: Path, server: Server) -> None:
    """An address is not among them: inspect_ai fetches it, and sends its bytes."""
    with_media(folder)
    (folder / "evals/a.eval.yaml").write_text(re.sub(".*https.*\n", "", MEDIA), encoding="utf-8")
    log = inspect_eval(folder, server, "multiturn/suite", "-T", "suite=evals/")
    assert log.status == "success", log.error
    theirs = bodies(server)
    server.requests.clear()
    (folder / "targets.yaml").write_text(
        f"targets: [{{name: loop, provider: openai, base_url: '{server.url}/v1', api_key: none,"
        " model: gpt-x}]"
    )
    done = commands.run("run", "evals/", "--target", "loop", folder=folder)
    assert done.returncode == 0, done.stderr
    assert len(theirs) == 2
    assert theirs == bodies(server)


def test_a_data_set_has_real_media(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_media(folder)
    monkeypatch.chdir(folder)
    done = commands.run("convert", "evals", "--format", "inspect", folder=folder)
    (folder / "samples.jsonl").write_text(done.stdout, encoding="utf-8")
    for sample in (dataset("evals")[0], json_dataset("samples.jsonl")[0]):
        assert sample.input[-1].content == [
            ContentText(text="Look"),
            ContentImage(image=uri("image/png", "a.png"), detail="low"),
            ContentDocument(document=uri("application/pdf", "bill.pdf"), filename="bill.pdf"),
            ContentText(text="and listen"),
            ContentAudio(audio=uri("audio/wav", "q.wav"), format="wav"),
            ContentImage(image="https://example.com/b.png", detail="high"),
        ]
    look, result = (sample.input[-1].content[1] for sample in dataset("evals"))
    assert look.image is result.image  # cases share the bytes of a file
