"""promptfoo gets every message to the letter, by the prompt file and the command of the page."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commands
import npm
from loopback import KEY, TEXT, Request, Server, completion
from pages import blocks, said, sessions, shell_command, write_files
from running import records

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
SUITE = Path(__file__).with_name("evals.eval.yaml")


Promptfoo = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def promptfoo(tmp_path: Path, pytestconfig: pytest.Config) -> Promptfoo:
    """Run promptfoo in the folder of a test, with a server for each vendor's."""
    program = npm.installed("promptfoo@0.121.20", "promptfoo", pytestconfig)

    def run(*arguments: str, url: str = "") -> "subprocess.CompletedProcess[str]":
        environment = {
            **os.environ,
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{url}/v1",
            "AZURE_API_KEY": KEY,
            "AZURE_API_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": url,
            "GOOGLE_API_KEY": KEY,
            "GOOGLE_API_BASE_URL": url,
            "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home"),
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
        }
        command = [str(program), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def sent(promptfoo: Promptfoo, folder: Path, case: str, *providers: str) -> list[Any]:
    """Convert the case ``SUITE:ID``, and return the body that promptfoo sends to each provider."""
    suite, _, case_id = case.partition(":")
    command = ("convert", suite, "--case", case_id, "--format", "promptfoo")
    done = commands.run(*command, "--output", "tests.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    (folder / "messages.txt").write_text("{{ messages | dump | safe }}\n")
    arguments = ["--tests", "tests.jsonl", "--prompts", "file://messages.txt", "--no-cache"]
    one_by_one = ["--max-concurrency", "1", "--providers", *providers]
    with Server() as server:
        server.answer(body=answer, times=None)
        done = promptfoo("eval", *arguments, *one_by_one, url=server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    return [request.json for request in server.requests]


def test_promptfoo_renders_a_configuration_as_the_page_about_it_says(
    tmp_path: Path, promptfoo: Promptfoo
) -> None:
    page = (ROOT / "docs/from-promptfoo.md").read_text(encoding="utf-8")
    write_files(page, tmp_path)
    (prompt,) = blocks(page, "json")
    (tmp_path / "support.json").write_text(prompt)
    rendering, _ = "".join(blocks(page, "sh")).splitlines()
    _, _, *arguments = rendering.split()
    promptfoo(*arguments)
    for command, output in sessions(page):
        if "support.eval.jsonl" in command:
            assert said(command, tmp_path) == output


@pytest.mark.parametrize(("grader", "asks"), [("--grader echo", False), ("", True)])
def test_rendering_asks_no_model_to_grade(
    tmp_path: Path, promptfoo: Promptfoo, grader: str, asks: bool
) -> None:
    page = (ROOT / "docs/from-promptfoo.md").read_text(encoding="utf-8")
    rendering, _ = "".join(blocks(page, "sh")).splitlines()
    assert " --grader echo " in rendering
    test = {"vars": {"q": "Hi"}, "assert": [{"type": "llm-rubric", "value": "Is kind"}]}
    suite = {"prompts": ["Say {{q}}"], "providers": ["openai:gpt-4.1"], "tests": [test]}
    (tmp_path / "promptfooconfig.yaml").write_text(json.dumps(suite))
    with Server() as server:
        server.answer(body=answer, times=None)
        promptfoo(*rendering.replace("--grader echo", grader).split()[2:], url=server.url)
    (result,) = json.loads((tmp_path / "rendered.json").read_text())["results"]["results"]
    assert result["prompt"]["raw"] == "Say Hi"
    assert bool(server.requests) == asks


def test_promptfoo_sends_the_messages_to_the_letter(tmp_path: Path, promptfoo: Promptfoo) -> None:
    shutil.copy(SUITE, tmp_path)
    convert, prompt = (
        command
        for command, _ in sessions(PAGE)
        if re.search(r"(tests.jsonl|messages.txt)$", command)
    )
    _, *arguments = convert.replace("weather.eval.yaml", SUITE.name).split()
    commands.run(*arguments, folder=tmp_path)
    subprocess.run(prompt, shell=True, cwd=tmp_path, check=True)
    _, _, *arguments, provider = shell_command(PAGE, "npx promptfoo")
    assert provider.startswith("openai:")
    done = promptfoo(*arguments, "echo", "--no-cache", "--output", "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out.json").read_text())["results"]["results"]
    tests = records(tmp_path / "tests.jsonl")
    assert len(results) == len(tests) == 3
    by_name = {result["testCase"]["description"]: result for result in results}
    for test in tests:
        result = by_name[test["description"]]
        assert json.loads(result["response"]["output"]) == test["vars"]["messages"]
        assert test["metadata"].items() <= result["testCase"]["metadata"].items()


SETTINGS = {  # of each body, for a temperature of 0 and a limit of 9
    "openai:gpt-4o-mini": {"temperature": 0, "max_tokens": 9},
    "openai:o3": {"max_completion_tokens": 9},
    "openai:responses:gpt-4o": {"temperature": 0, "max_output_tokens": 9},
    "azure:chat:gpt-4o": {"temperature": 0, "max_tokens": 9},
    "azure:chat:o3": {"max_completion_tokens": 9},
    "anthropic:messages:claude-sonnet-4-5": {"temperature": 0, "max_tokens": 9},
    "google:gemini-2.5-flash": {"temperature": 0, "maxOutputTokens": 9},
}
OPENAI_AND_ANTHROPIC = ("openai:gpt-4o-mini", "anthropic:messages:claude-haiku-4-5")
NAMES = {name for settings in SETTINGS.values() for name in settings}
OUTPUT = [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}]


def answer(request: Request) -> Any:
    """Return an answer in the vendor's format, or that of OpenAI's Responses API."""
    return completion(request.vendor, TEXT) or {"status": "completed", "output": OUTPUT}


def settings_in(body: dict[str, Any]) -> dict[str, Any]:
    given = {**body, **body.get("generationConfig", {})}
    return {name: given[name] for name in NAMES & given.keys()}


CALLED = """\
tools: [{name: weather, parameters: {type: object, properties: {city: {type: string}}}}]
execution: {tool_choice: {name: weather}}
evalcases:
- id: umbrella
  input_messages:
  - {role: user, content: Umbrella?}
  - {role: assistant, tool_calls: [{id: c1, name: weather, arguments: {city: "{{ é }}"}}]}
  - {role: tool, tool_call_id: c1, content: Rain}
  - {role: user, content: And in Oslo?}
"""


def test_promptfoo_sends_calls_and_tools_to_openai_but_loses_them_for_anthropic(
    tmp_path: Path, promptfoo: Promptfoo
) -> None:
    (tmp_path / "x.eval.yaml").write_text(CALLED, encoding="utf-8")
    to_openai, to_anthropic = sent(
        promptfoo, tmp_path, "x.eval.yaml:umbrella", *OPENAI_AND_ANTHROPIC
    )
    (test,) = records(tmp_path / "tests.jsonl")
    assert to_openai["messages"] == test["vars"]["messages"]
    assert to_openai["messages"][1]["tool_calls"][0]["id"] == "c1"
    assert to_openai["tools"] == test["options"]["tools"]
    assert to_openai["tool_choice"] == test["options"]["tool_choice"]
    (block,) = to_anthropic["messages"][1]["content"]
    assert block == {"type": "text", "text": None}  # as docs/tools.md says of it


def test_promptfoo_asks_every_vendor_with_the_temperature_and_the_limit_of_execution(
    tmp_path: Path, promptfoo: Promptfoo
) -> None:
    shutil.copy(SUITE, tmp_path)
    bodies = sent(promptfoo, tmp_path, f"{SUITE.name}:turns", *SETTINGS)
    assert [*map(settings_in, bodies)] == [*SETTINGS.values()]


WITH_SETTINGS = """\
execution:
  temperature: 0.5
  top_p: 0.25
  max_output_tokens: 99
  stop: [END]
  seed: 7
  frequency_penalty: 1
  presence_penalty: -1
  service_tier: flex
  response_format: {name: city, schema: {type: object, properties: {city: {type: string}}}}
  body: {logprobs: true}
tools: [{name: f, parameters: {type: object, properties: {}}}]
metadata: {assert: [{type: contains, value: Hello}]}
evalcases:
- id: every
  input_messages: [{role: system, content: Be brief.}, {role: user, content: Hi}]
"""


def test_promptfoo_sends_openai_the_settings_that_run_sends(
    tmp_path: Path, promptfoo: Promptfoo
) -> None:
    (tmp_path / "x.eval.yaml").write_text(WITH_SETTINGS, encoding="utf-8")
    (body,) = sent(promptfoo, tmp_path, "x.eval.yaml:every", "openai:gpt-4o-mini")
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: t, provider: openai, model: gpt-4o-mini, api_key: none,"
        " max_tokens_field: max_tokens}]"
    )
    done = commands.run("run", "x.eval.yaml", "--target", "t", "--dry-run", folder=tmp_path)
    (line,) = records(done.stdout)
    assert body == json.loads(line["wire"])
    (test,) = records(tmp_path / "tests.jsonl")
    assert test["assert"] == [{"type": "contains", "value": "Hello"}]


LOOK = """\
evalcases:
- id: look
  input_messages:
  - role: user
    content:
    - Look
    - {type: image, value: "a {{ b }}.png", detail: low}
    - {type: file, value: "{% b %}.pdf"}
    - {type: audio, value: q.wav}
    - {type: image, value: "https://example.com/b.png"}
"""


def test_promptfoo_sends_images_documents_and_audio_in_the_form_of_openai_to_all(
    tmp_path: Path, promptfoo: Promptfoo
) -> None:
    (tmp_path / "x.eval.yaml").write_text(LOOK, encoding="utf-8")
    (tmp_path / "a {{ b }}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400)
    (tmp_path / "{% b %}.pdf").write_bytes(b"%PDF-1.7 and pages")
    (tmp_path / "q.wav").write_bytes(b"RIFF\x24\0\0\0WAVE and sound")
    bodies = sent(promptfoo, tmp_path, "x.eval.yaml:look", *OPENAI_AND_ANTHROPIC)
    to_openai, to_anthropic = (body["messages"] for body in bodies)
    (test,) = records(tmp_path / "tests.jsonl")
    assert to_openai == test["vars"]["messages"]
    assert len(to_openai[0]["content"]) == 5
    assert to_anthropic == to_openai  # as docs/formats.md says of it
