"""Requests of programs are captured, reviewed and answered again; the vendors' SDKs are judges."""

import asyncio
import gzip
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import npm
from commands import Done, run, start
from loopback import KEY, TEXT, Server
from media_files import data_uri, image
from multiturn import Conversion, load_pipeline, load_suite
from multiturn.capture.recording import Recording, usual_masks
from multiturn.capture.replies import endpoint_at
from multiturn.capture.server import CaptureServer
from multiturn.errors import AccessError

S = "You are polite."
M: Any = [{"role": "system", "content": S}, {"role": "user", "content": "Hi"}]
# Each call of an SDK, and the body that must be captured of it, by the vendors' references.
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are polite."},
        {"role": "user", "content": "Hi"},
    ],
}
INPUT: Any = {"model": "m", "instructions": "You are polite.", "input": "Hi"}
MESSAGES: Any = {
    "model": "m",
    "max_tokens": 9,
    "system": "You are polite.",
    "messages": [{"role": "user", "content": "Hi"}],
}
CALLED: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "oops"}}
CONTENTS = {
    "model": "m",
    "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    "systemInstruction": {"role": "user", "parts": [{"text": "You are polite."}]},
    "generationConfig": {},
}


CLIENTS: list[Any] = []


def opened(client: Any) -> Any:
    CLIENTS.append(client)
    return client


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the clients: an open one is an error in whatever test runs when it is collected."""
    yield
    while CLIENTS:
        CLIENTS.pop().close()


# The SDKs take a second to import, which each worker of pytest would spend.
def openai() -> Any:
    from openai import OpenAI

    return opened(OpenAI())


def azure() -> Any:
    from openai import AzureOpenAI

    return opened(AzureOpenAI(api_version="2025-01-01"))


def anthropic() -> Any:
    from anthropic import Anthropic

    return opened(Anthropic())


def google() -> Any:
    from google.genai import Client

    return opened(Client())


def streamed_response() -> str:
    with openai().responses.stream(model="m", instructions=S, input="Hi") as stream:
        return str(stream.get_final_response().output_text)


def asynchronous_response() -> str:
    from openai import AsyncOpenAI

    async def ask() -> str:
        given: Any = {"model": "m", "instructions": S, "input": "Hi", "stream": True}
        async with AsyncOpenAI() as client:
            stream = await client.responses.create(**given)
            return str([event async for event in stream][-1].response.output_text)

    return asyncio.run(ask())


def streamed_messages() -> str:
    asked: Any = {"model": "m", "max_tokens": 9, "system": S, "messages": M[1:]}
    with anthropic().messages.stream(**asked) as stream:
        return str(stream.get_final_text())


def chat(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(model="m", messages=M, **more)


def said_in(chunks: Any) -> str:
    return "".join(each.choices[0].delta.content or "" for each in chunks)


def gemini(method: str) -> Any:
    client = google()
    config: Any = {"system_instruction": S}
    given = getattr(client.models, method)(model="m", contents="Hi", config=config)
    return given.text if method == "generate_content" else "".join(each.text for each in given)


CALLS: dict[str, tuple[Callable[[], str], str, Any]] = {
    "chat": (lambda: chat(openai()).choices[0].message.content, "openai", CHAT),
    "azure": (lambda: chat(azure()).choices[0].message.content, "openai", CHAT),
    "chat, streamed": (
        lambda: said_in(chat(openai(), stream=True)),
        "openai",
        {**CHAT, "stream": True},
    ),
    "responses": (
        lambda: openai().responses.create(**INPUT).output_text,
        "openai",
        INPUT,
    ),
    "responses, streamed": (streamed_response, "openai", {**INPUT, "stream": True}),
    "responses, asynchronous": (asynchronous_response, "openai", {**INPUT, "stream": True}),
    "messages": (
        lambda: anthropic().messages.create(**MESSAGES).content[0].text,
        "anthropic",
        MESSAGES,
    ),
    "messages, streamed": (streamed_messages, "anthropic", {**MESSAGES, "stream": True}),
    "gemini": (lambda: gemini("generate_content"), "gemini", CONTENTS),
    "gemini, streamed": (
        lambda: gemini("generate_content_stream"),
        "gemini",
        {**CONTENTS, "stream": True},
    ),
}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def serving(recording: Recording, patch: pytest.MonkeyPatch, **options: Any) -> CaptureServer:
    """Return a server whose address this process has as programs do."""
    server = CaptureServer(recording, **options)
    for name, value in server.environment({}).items():
        patch.setenv(name, value)
    return server


# Asks by the standard library: an SDK takes seconds to be imported.
ASK = """
import json, os, sys, urllib.request
def ask(system, **more):
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": [], **more}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-api-key": "k-4711"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["content"][0]["text"]
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]["message"]
"""


def capture(folder: Path, program: str, *options: str) -> Done:
    """Capture a program in Python; what it prints itself is in ``said.txt``."""
    said = f"sys.stdout = open({str(folder / 'said.txt')!r}, 'w')\n"
    (folder / "program.py").write_text(ASK + said + textwrap.dedent(program), encoding="utf-8")
    return run("capture", *options, "--", sys.executable, "program.py", folder=folder)


def captured(folder: Path, name: str = "a.requests.jsonl") -> list[Any]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


OUTPUT = ("--output", "a.requests.jsonl")
ANSWERS = ("--answers", "a.requests.jsonl")


@pytest.mark.parametrize(("call", "vendor", "body"), CALLS.values(), ids=CALLS)
def test_each_sdk_is_answered_its_body_is_written_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], str], vendor: str, body: Any
) -> None:
    recording = Recording()
    with serving(recording, monkeypatch):
        assert call() == "(captured)"
    recording.write(str(tmp_path / "a.requests.jsonl"))
    assert captured(tmp_path) == [{"id": "1", "vendor": vendor, "body": body}]
    again = Recording(answers=str(tmp_path / "a.requests.jsonl"))
    with serving(again, monkeypatch):
        assert call() == "(captured)"
    assert (again.requests, again.errors) == (recording.requests, [])


def test_tokens_are_counted_and_no_request_is_written_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = Recording()
    with serving(recording, monkeypatch):
        asked: Any = {"model": "m", "messages": M[1:]}
        assert anthropic().messages.count_tokens(**asked).input_tokens > 0
        client = google()
        assert (client.models.count_tokens(model="m", contents="Hi").total_tokens or 0) > 0
        counted = openai().responses.input_tokens.count(model="m", input="Hi")
        assert counted.input_tokens > 0
    assert recording.requests == []


def test_a_changed_prompt_is_http_404_which_names_the_change(tmp_path: Path) -> None:
    assert capture(tmp_path, "print(ask('Be kind.'))", *OUTPUT).returncode == 0
    assert (tmp_path / "said.txt").read_text() == "(captured)\n"
    written = (tmp_path / "a.requests.jsonl").read_text()
    assert written == (
        '{"id":"1","vendor":"anthropic","body":{"model":"m","max_tokens":9,"system":"Be kind.",'
        '"messages":[]}}\n'
    )
    done = capture(tmp_path, "print(ask('Be rude.'))", *ANSWERS)
    what = (
        "a.requests.jsonl has no answer to this request; it is like 1, but there"
        ' system is sent as "Be rude."'
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [what, "a.requests.jsonl: 1 request"]
    assert (tmp_path / "said.txt").read_text() == f"{what}\n"


def test_a_check_says_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    assert capture(tmp_path, "ask('Job run-4711 begins.')", *OUTPUT).returncode == 0
    written = (tmp_path / "a.requests.jsonl").read_bytes()
    same = capture(tmp_path, "ask('Job run-4711 begins.')", "--check", *OUTPUT)
    assert (same.returncode, same.stderr) == (0, "a.requests.jsonl: 1 request\n")
    program = "ask('Job run-4822 begins.'); ask('Hello')"
    done = capture(tmp_path, program, "--check", *OUTPUT)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'a.requests.jsonl: request 1: system is sent as "Job run-4822 begins.";'
        " if it changes with each run, write"
        " mask = [{pattern = 'run-[\\w.:-]+', as = \"changes\"}] in multiturn.toml",
        "a.requests.jsonl: request 2 is new",
        "a.requests.jsonl: 2 requests",
    ]
    gone = capture(tmp_path, "ask('Job run-4711 begins.')", *OUTPUT)
    assert (tmp_path / "a.requests.jsonl").read_bytes() == written, gone.stderr
    rule = "mask = [{pattern = 'run-[\\w.:-]+', as = \"changes\"}]"
    (tmp_path / "multiturn.toml").write_text(rule)
    assert capture(tmp_path, "ask('Job run-1 begins.')", *OUTPUT).returncode == 0
    assert captured(tmp_path)[0]["body"]["system"] == "Job {changes} begins."
    done = capture(tmp_path, "ask('Job run-2 begins.')", "--check", *OUTPUT)
    assert (done.returncode, done.stderr) == (0, "a.requests.jsonl: 1 request, masked: changes 1\n")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("2026-11-24T10:02:03.5Z on", "{date}{time} on", id="ISO 8601"),
        pytest.param("2026-11-23 10:02", "{date}{time}", id="yesterday, in another time zone"),
        pytest.param("2025-06-01", "2025-06-01", id="a date that no run changes stays"),
        pytest.param("Tuesday, November 24, 2026 at 9:05 PM", "{date}{time}", id="in words"),
        pytest.param("Tue Nov 24 2026 10:02:03 GMT+0100", "{date}{time}", id="JavaScript"),
        pytest.param("24 November 2026", "{date}", id="the day first"),
        pytest.param("11/24/2026, 3:04:05 PM", "{date}{time}", id="American"),
        pytest.param("24.11.2026", "{date}", id="German"),
        pytest.param("20261124", "{date}", id="no separators"),
        pytest.param("at 10:02:03", "at {time}", id="a time alone"),
        pytest.param("open 09:00-17:00", "open 09:00-17:00", id="opening hours stay"),
        pytest.param("at_01a20b7a-9852-7ba3-bd50-63ef2492205c", "at_{uuid}", id="a UUID"),
        pytest.param("in /srv/app/src, /srv/apple", "in {cwd}/src, /srv/apple", id="the folder"),
        pytest.param("~ is /home/ada.", "~ is {home}.", id="home"),
        pytest.param("in /tmp/x1/y2/z.txt!", "in {tmp}!", id="a temporary path"),
        pytest.param("<cwd>/srv/app</cwd>", "<cwd>{cwd}</cwd>", id="the folder in a tag"),
        pytest.param("file:///tmp/x1 at:/tmp/x2", "file://{tmp} at:{tmp}", id="a file: URL"),
        pytest.param("位于/srv/app", "位于{cwd}", id="the folder in Chinese"),
        *(
            pytest.param(text, text, id=text)
            for text in (
                "https://shop.example/tmp/guide-v1.html",
                "http://localhost:8080/srv/app/orders",
                "https://tmp/guide",
                "./tmp/a, ../tmp/b, ~/tmp/c, .-/tmp/d, $BASE/tmp/e, ${BASE}/tmp/f, $(pwd)/tmp/g",
            )
        ),
        pytest.param("/srv/app/tmp/a", "{cwd}/tmp/a", id="a folder tmp of the project"),
        pytest.param("job 4711", "{job}", id="a rule of the project"),
    ],
)
def test_what_changes_from_run_to_run_is_masked(
    text: str, masked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/srv/app")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/tmp")
    monkeypatch.setenv("HOME", "/home/ada")
    recording = Recording([("job \\d+", "job"), *usual_masks(date(2026, 11, 24))])
    take(recording, text)
    assert recording.requests[0].body == {"system": masked}


def take(recording: Recording, system: str, **more: Any) -> tuple[int, str, str]:
    return recording.take(endpoint_at("/v1/messages"), {"system": system, **more}, None)


def test_who_asks_and_when_is_in_no_file() -> None:
    recording = Recording()
    take(
        recording, "Hi", metadata={"user_id": "ada"}, user="ada", sent=time.time() + 1.5, top_p=0.5
    )
    assert recording.requests[0].body == {"system": "Hi", "sent": "{time}", "top_p": 0.5}


SECRET = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gH3jK5mN7pQ9sT1vX3"


def test_what_looks_like_a_key_is_an_error_or_redacted(tmp_path: Path) -> None:
    program = f"ask('Use {SECRET}.')"
    done = capture(tmp_path, program, *OUTPUT)
    what = (
        "request 1: body.system has what looks like a key (OpenAI); the file is committed, so leave"
    )
    assert done.stderr.splitlines()[0] == f"{what} it out, or add --redact"
    assert done.returncode == 1
    assert not (tmp_path / "a.requests.jsonl").exists()
    done = capture(tmp_path, program, *OUTPUT, "--redact")
    assert done.returncode == 0
    assert captured(tmp_path)[0]["body"]["system"] == "Use ***."
    assert SECRET not in done.stderr
    assert "k-4711" not in (tmp_path / "a.requests.jsonl").read_text()


APP = """
SYSTEM = \"\"\"You are a shop assistant in Zurich.
Answer in one sentence.
\"\"\"
rules = open("AGENTS.md").read()
tools = [{"name": "refund", "description": "Give money back.", "input_schema": {}}]
ask(SYSTEM + rules + "The end.", tools=tools, top_k=3, messages=[{"role": "user", "content": "Hi"}])
"""
RULES = "# Rules\n\nBe kind to customers.\nNever promise anything.\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text(RULES, encoding="utf-8")
    assert capture(tmp_path, APP, *OUTPUT).returncode == 0
    assert run("snapshot", "a.requests.jsonl", folder=tmp_path).returncode == 0
    return tmp_path


def test_a_run_says_that_a_captured_request_is_imported_first(shop: Path) -> None:
    done = run("run", "a.requests.jsonl", "--target", "echo", folder=shop)
    what = "a captured request is not sent; make a suite of it by multiturn import"
    assert f"a.requests.jsonl:1: case '1': {what}\n" in done.stderr
    assert done.returncode == 1


def test_a_snapshot_shows_what_was_sent_and_names_the_files_that_it_is_from(shop: Path) -> None:
    in_code = b"You are a shop assistant in Zurich.\nAnswer in one sentence."
    assert (shop / "snapshots" / "a.requests~jsonl" / "1.yaml").read_text("utf-8") == (
        """\
---
suite: a.requests.jsonl
id: "1"
chat_prompt:
  - role: system
    content:
    - |-
      You are a shop assistant in Zurich.
      Answer in one sentence.
    - file: AGENTS.md
    - The end.
  - role: user
    content: Hi
tools:
  - name: refund
    description: Give money back.
settings:
  top_k: 3
  max_output_tokens: 9
  body:
    model: m
question: ""
input_files:
  - path: program.py
    resolved_path: program.py
    guideline: false
    sha256: "SHA"
  - path: AGENTS.md
    resolved_path: AGENTS.md
    guideline: false
""".replace("SHA", hashlib.sha256(in_code).hexdigest())
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "Never promise",
            "Always promise",
            "change of privilege: AGENTS.md changed; it is part of a system message",
            id="a word of a file",
        ),
        pytest.param(
            "in one sentence",
            "in two sentences",
            "change of privilege: program.py changed; it is part of a system message",
            id="a word of a prompt in code",
        ),
        pytest.param(
            "Give money back",
            "Give coins back",
            "change of privilege: the definition of the tool refund changed",
            id="a word of a tool",
        ),
        pytest.param("top_k=3", "top_k=4", "", id="a setting"),
    ],
)
def test_a_change_is_one_difference_at_its_place(shop: Path, old: str, new: str, said: str) -> None:
    (shop / "AGENTS.md").write_text(RULES.replace(old, new), encoding="utf-8")
    assert capture(shop, APP.replace(old, new), *OUTPUT).returncode == 0
    done = run("snapshot", "--check", "--stat", "a.requests.jsonl", folder=shop)
    assert done.returncode == 1
    privileges = [line for line in done.stdout.splitlines() if line.startswith("change of priv")]
    assert privileges == ([f"{said} (a.requests.jsonl: 1)"] if said else [])
    # A prompt in code is in the snapshot itself, too.
    assert f"{1 + ('program.py' in said)} difference" in done.stdout
    (shop / "AGENTS.md").write_text(RULES, encoding="utf-8")
    assert capture(shop, APP, *OUTPUT).returncode == 0
    assert run("snapshot", "--check", ".", folder=shop).returncode == 0


def test_no_pipeline_applies_to_what_was_sent(shop: Path) -> None:
    for command in ("check", "explain", "convert"):
        shown = [
            run(command, "a.requests.jsonl", *options, folder=shop)
            for options in ((), ("--pipeline", "shipped"))
        ]
        assert (shown[0].returncode, shown[0].stdout) == (0, shown[1].stdout)
    explained = run("explain", "a.requests.jsonl", folder=shop).stdout
    assert "  AGENTS.md, attached at a.requests.jsonl:1\n  | # Rules\n" in explained
    assert "careful assistant" not in explained
    listed = run("list", "--tokens", "a.requests.jsonl", folder=shop)
    assert (listed.returncode, "file AGENTS.md" in listed.stdout) == (0, True)


def test_nothing_of_a_body_vanishes(tmp_path: Path) -> None:
    program = """
    mark = {"cache_control": {"type": "ephemeral"}}
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    said = [{"type": "text", "text": "Hi", **mark}, {"type": "thing", "value": "odd"}]
    ask("Be kind.", tools=[search], messages=[{"role": "user", "content": said}])
    """
    assert capture(tmp_path, program, *OUTPUT).returncode == 0
    (case,) = load_suite(tmp_path / "a.requests.jsonl")
    assert case.settings.body == {
        "model": "m",
        "messages[0].content[0].cache_control.type": "ephemeral",
        "messages[0].content[1].type": "thing",
        "messages[0].content[1].value": "odd",
        "tools[0].type": "web_search_20250305",
        "tools[0].name": "web_search",
        "tools[0].max_uses": 3,
    }


def test_images_and_calls_of_tools_are_shown(tmp_path: Path) -> None:
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": data_uri(image()).partition(",")[2],
    }
    said = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    call = {"type": "tool_use", "id": "c1", "name": "zoom", "input": {"by": 2}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "bigger"}
    messages = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert capture(tmp_path, f"ask('Be kind.', messages={messages!r})", *OUTPUT).returncode == 0
    explained = run("explain", "--strict", "a.requests.jsonl", folder=tmp_path)
    assert (explained.returncode, explained.stderr) == (0, "")
    assert "not where or as it was written" not in explained.stdout
    assert '  | zoom({"by": 2})\ntool, result of c1\n' in explained.stdout
    snapshot = tmp_path / "snapshots" / "a.requests~jsonl" / "1.yaml"
    assert run("snapshot", "a.requests.jsonl", folder=tmp_path).returncode == 0
    assert " type: image/png\n" in snapshot.read_text("utf-8")


def test_a_line_that_is_no_request_is_an_error_with_its_place(tmp_path: Path) -> None:
    lines = ['{"id": "1", "body": {}}', '{"id": "2", "vendor": "nobody", "body": {}}']
    (tmp_path / "a.requests.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = run("check", "a.requests.jsonl", folder=tmp_path)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == (
        "a.requests.jsonl:1:1: this is not a captured request: Object missing required field"
        " `vendor`; write the file by multiturn capture"
    )
    assert second.startswith("a.requests.jsonl:2:1: no vendor 'nobody'; choose from: ")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param({"messages": []}, "it has no messages", id="no messages"),
        pytest.param(
            {"messages": [*M, {"role": "assistant", "tool_calls": [CALLED]}]},
            "messages[2].tool_calls[0].function.arguments are not JSON, as a model may write them:"
            " Expecting value: line 1 column 1 (char 0)",
            id="arguments that a model has written",
        ),
        pytest.param(
            {"functions": [{"name": "f"}], "messages": M},
            "functions is OpenAI's old form, which is not read",
            id="functions",
        ),
        pytest.param(
            {"messages": [*M, {"role": "tool", "tool_call_id": ["c1"], "content": "r"}]},
            "Expected `str | null`, got `array` - at `$.messages[2].answers`",
            id="an id that is no text",
        ),
        pytest.param(
            {"messages": M, "tools": [{"type": "function", "function": {"name": {}}}]},
            "Expected `str`, got `object` - at `$.tools[0].name`",
            id="a name that is no text",
        ),
    ],
)
def test_a_request_that_cannot_be_read_is_an_error_with_its_place(
    body: Any, what: str, tmp_path: Path
) -> None:
    lines = [
        {"id": "1", "vendor": "openai", "body": body},
        {"id": "2", "vendor": "openai", "body": CHAT},
    ]
    written = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "a.requests.jsonl").write_text(written, encoding="utf-8")
    done = run("check", "a.requests.jsonl", folder=tmp_path)
    place = "a.requests.jsonl:1:1: case '1'"
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [f"{place}: this request cannot be read: {what}; leave its line out"],
    )
    listed = run("list", "a.requests.jsonl", folder=tmp_path)
    assert (listed.returncode, "2" in listed.stdout) == (1, True)


def test_an_image_that_is_no_base64_stays_in_the_settings(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR…"}}
    said = [{"type": "text", "text": "Hi"}, picture]
    line = {
        "id": "1",
        "vendor": "openai",
        "body": {"messages": [{"role": "user", "content": said}]},
    }
    (tmp_path / "a.requests.jsonl").write_text(json.dumps(line), encoding="utf-8")
    (case,) = load_suite(tmp_path / "a.requests.jsonl")
    url = "messages[0].content[1].image_url.url"
    assert (case.settings.body or {})[url] == picture["image_url"]["url"]  # type: ignore[index]


def test_a_pipe_below_the_root_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    line = {"id": "1", "vendor": "openai", "body": CHAT}
    (tmp_path / "a.requests.jsonl").write_text(json.dumps(line), encoding="utf-8")
    process = start("check", "a.requests.jsonl", folder=tmp_path)
    try:
        assert process.communicate(timeout=20)[0] == "a.requests.jsonl: 1 case, without errors\n"
    finally:
        process.kill()
        process.communicate()


def test_results_of_a_run_are_answers_with_calls_of_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
    lines = [
        {"id": "a", "response": "Hello!", "wire": json.dumps({**CHAT, "temperature": 0})},
        {"id": "b", "response": "", "tool_calls": [call], "wire": json.dumps(CHAT)},
        {"id": "c", "response": "", "tool_calls": [call], "wire": json.dumps(MESSAGES)},
        {"id": "d", "response": "", "tool_calls": [call], "wire": json.dumps(INPUT)},
        {"id": "e", "response": "", "tool_calls": [call], "wire": json.dumps(CONTENTS)},
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    recording = Recording(answers=str(path))
    with serving(recording, monkeypatch):
        with openai() as client:
            assert chat(client, temperature=0).choices[0].message.content == "Hello!"
            assert said_in(chat(client, temperature=0, stream=True)) == "Hello!"
            for response in (
                client.responses.create(**INPUT),
                [*client.responses.create(**INPUT, stream=True)][-1].response,
            ):
                (item,) = response.output
                assert (item.name, item.arguments) == ("weather", '{"city": "Paris"}')
            (called,) = chat(client).choices[0].message.tool_calls
            assert (called.id, called.function.arguments) == ("c1", '{"city": "Paris"}')
            deltas = (each.choices[0].delta for each in chat(client, stream=True))
            (called,) = (one for each in deltas for one in each.tool_calls or ())
            assert (called.function.name, called.index) == ("weather", 0)
        with anthropic() as client:
            (used,) = client.messages.create(**MESSAGES).content
            with client.messages.stream(**MESSAGES) as stream:
                assert stream.get_final_message().content[0].to_dict() == used.to_dict()
            assert used.to_dict()["input"] == {"city": "Paris"}
        client, config = google(), {"system_instruction": S}
        given: Any = {"model": "m", "contents": "Hi", "config": config}
        (asked,) = client.models.generate_content(**given).function_calls or []
        assert (asked.name, asked.args) == ("weather", {"city": "Paris"})
    assert recording.errors == []


@pytest.mark.parametrize(
    ("more", "what"),
    [
        pytest.param(
            {"wire": "[User]: Hi"}, "Expecting value: line 1 column 2 (char 1)", id="text"
        ),
        pytest.param({"wire": "[1]"}, "Expected `object`, got `array`", id="a list"),
        pytest.param(
            {"wire": json.dumps(CHAT), "tool_calls": 3}, "Expected `array`, got `int`", id="calls"
        ),
    ],
)
def test_a_result_of_no_api_is_an_error_with_its_line(
    more: dict[str, Any], what: str, tmp_path: Path
) -> None:
    lines = [
        {"id": "a", "response": "x", "wire": json.dumps(CHAT)},
        {"id": "b", "target": "t", "response": "x", **more},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "results.jsonl").write_text(text, encoding="utf-8")
    done = capture(tmp_path, "ask('Hi')", "--answers", "results.jsonl")
    what = f"wire or tool_calls are not those of an API: {what}; leave this line out"
    assert (done.returncode, done.stderr) == (2, f"Error: results.jsonl:2: {what}\n")


@pytest.mark.parametrize(
    ("file", "text"),
    [("multiturn.toml", ""), ("pyproject.toml", "[tool.multiturn]\n")],
)
def test_a_mask_that_is_wrong_is_an_error_with_its_file(
    file: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(f"{text}mask = [{{pattern = '(', as = 'x'}}]")
    done = capture(tmp_path, "ask('Hi')", *OUTPUT)
    what = "mask: '(' is not a regular expression: missing ), unterminated subpattern at position 0"
    assert (done.returncode, done.stderr) == (2, f"Error: {file}: {what}\n")


def test_answers_of_the_vendor_are_recorded_without_the_key_and_replayed(tmp_path: Path) -> None:
    program = f"print(ask('Be kind.')); print(ask('Be {SECRET[:7]}.'))"
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", server.url)
        done = capture(tmp_path, program, *OUTPUT, "--forward")
        assert [each.headers["x-api-key"] for each in server.requests] == ["k-4711"] * 2
        assert server.requests[0].path == "/v1/messages"
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said.txt").read_text() == f"{TEXT}\n" * 2
    written = (tmp_path / "a.requests.jsonl").read_text()
    assert "k-4711" not in written
    assert json.loads(captured(tmp_path)[0]["answer"])["content"][0]["text"] == TEXT
    again = capture(tmp_path, program, *ANSWERS, *OUTPUT)
    assert (again.returncode, (tmp_path / "said.txt").read_text()) == (0, f"{TEXT}\n" * 2)
    assert (tmp_path / "a.requests.jsonl").read_text() == written


def test_each_of_the_same_requests_gets_its_own_answer_and_the_last_one_again() -> None:
    line = {"vendor": "anthropic", "body": {"system": "Hi"}}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.requests.jsonl"
        lines = ({"id": answer, **line, "answer": answer} for answer in ("one", "two"))
        path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
        recording = Recording(answers=str(path))
    assert [take(recording, "Hi")[2] for _ in range(3)] == ["one", "two", "two"]


def test_no_default_system_message_is_added(tmp_path: Path) -> None:
    recording = Recording()
    body: Any = {"messages": [{"role": "user", "content": "Hi"}]}
    recording.take(endpoint_at("/v1/messages"), body, None)
    recording.write(str(tmp_path / "a.requests.jsonl"))
    (case,) = load_suite(tmp_path / "a.requests.jsonl")
    assert [turn.role for turn in load_pipeline("spec")(Conversion(case)).sent] == ["user"]


def test_a_vendor_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed, pytest.MonkeyPatch.context() as patch:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        closed.close()
        patch.setenv("ANTHROPIC_BASE_URL", f"http://ada:hidden@{address}")
        done = capture(tmp_path, "print(ask('a'))", *OUTPUT, "--forward")
    what = f"no answer from http://ada:***@{address}: ClientConnectorError"
    assert (done.returncode, (tmp_path / "said.txt").read_text()) == (1, f"{what}\n")
    assert done.stderr.splitlines() == [
        what,
        "a.requests.jsonl: 0 requests; the file is not written",
    ]


def test_an_answer_that_is_packed_is_unpacked_and_a_wish_for_a_retry_passed_on(
    tmp_path: Path,
) -> None:
    program = """
    print(ask("a"))
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    try:
        urllib.request.urlopen(url, b"{}")
    except urllib.error.HTTPError as error:
        print(error.code, error.headers["Retry-After"], error.headers["Set-Cookie"])
    """
    packed = gzip.compress(json.dumps({"content": [{"type": "text", "text": "Grüezi"}]}).encode())
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", server.url)
        server.answer(body=packed, headers={"Content-Encoding": "gzip"})
        server.answer(status=429, headers={"retry-after": "7", "Set-Cookie": "a=b"})
        done = capture(tmp_path, program, *OUTPUT, "--forward")
        said = (tmp_path / "said.txt").read_text("utf-8")
        server.answer(body=packed, headers={"Content-Encoding": "br"})
        other = capture(tmp_path, "print(ask('a'))", "--output", "b.requests.jsonl", "--forward")
        what = f"no answer from {server.url}: the answer cannot be unpacked: its content-encoding"
    assert (done.returncode, said) == (0, "Grüezi\n429 7 None\n")
    (line,) = captured(tmp_path)
    assert json.loads(line["answer"])["content"][0]["text"] == "Grüezi"
    assert other.stderr.splitlines() == [
        f"{what} is 'br'",
        "b.requests.jsonl: 0 requests; the file is not written",
    ]


def test_an_error_of_the_vendor_is_passed_on_and_not_recorded(tmp_path: Path) -> None:
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", server.url)
        server.fail(429, "slow down")
        done = capture(tmp_path, "print(ask('a')); print(ask('b'))", *OUTPUT, "--forward")
    assert done.returncode == 0
    assert (tmp_path / "said.txt").read_text() == f"slow down\n{TEXT}\n"
    assert [each["body"]["system"] for each in captured(tmp_path)] == ["b"]


def raw(port: int, *lines: str, body: bytes = b"{}") -> bytes:
    """Send a request as it stands; return the answer."""
    head = [*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall("\r\n".join(head).encode() + body)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        pytest.param(["Host: evil.example"], 403, id="a name that was bound to our address"),
        pytest.param(["Host: 127.0.0.1:1"], 403, id="another port"),
        pytest.param(["Host: {}", "Origin: http://127.0.0.1"], 403, id="a page"),
        pytest.param(["Host: {}", "Sec-Fetch-Site: none"], 403, id="an address bar"),
        pytest.param(["Host: {}", "Upgrade: websocket"], 426, id="a WebSocket"),
        pytest.param(["Host: {}"], 200, id="a program"),
    ],
)
def test_only_programs_are_answered(lines: list[str], status: int) -> None:
    recording = Recording()
    with CaptureServer(recording) as server:
        own = f"localhost:{server.port}"
        sent = ["POST /v1/messages HTTP/1.1", *(line.format(own) for line in lines)]
        answer = raw(server.port, *sent)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(recording.requests) == (status == 200)


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        pytest.param(b"{" * 200_000, 400, "over 100,000 values", id="no JSON"),
        pytest.param(
            b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "nested deeper than", id="too deep"
        ),
        pytest.param(b"[]", 400, "it is not an object", id="no object"),
        pytest.param(b"\xff", 400, "'utf-8' codec", id="no UTF-8"),
        pytest.param(
            b'{"a": "' + b"x" * 50_000_001 + b'"}', 413, "has over 50,000,000 bytes", id="too large"
        ),
    ],
)
def test_other_bodies_are_refused_and_named(body: bytes, status: int, what: str) -> None:
    recording = Recording()
    with CaptureServer(recording) as server:
        sent = ["POST /v1/messages HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        try:
            answer = raw(server.port, *sent, body=body)
        except ConnectionError:  # it reads no more of what is too large
            answer = b"HTTP/1.1 413 "
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert raw(server.port, *sent).startswith(b"HTTP/1.1 200 ")
    assert len(recording.requests) == 1
    (error,) = map(str, recording.errors)
    why = what if status == 413 else f"cannot be read as JSON: {what}"
    assert error.startswith(f"a request to '/v1/messages' was refused: its body {why}")


def test_a_program_that_cannot_be_started_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / OUTPUT[1]).write_text("of yesterday")
    command = [sys.executable, "-m", "multiturn", "capture", *OUTPUT, "--", "no-such-program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr.splitlines() == [
        "cannot start no-such-program: No such file or directory",
        "a.requests.jsonl: 0 requests; the file is not written",
    ]
    assert (tmp_path / OUTPUT[1]).read_text() == "of yesterday"


def test_a_capture_that_refuses_a_request_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    program = """
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    try:
        urllib.request.urlopen(url, b'{"temperature": NaN}')
    except urllib.error.HTTPError as error:
        print(error.code)
    """
    what = (
        "a request to '/v1/messages' was refused: its body cannot be read as JSON: JSON has no NaN"
    )
    done = capture(tmp_path, program, *OUTPUT)
    assert (done.returncode, (tmp_path / "said.txt").read_text()) == (1, "400\n")
    assert done.stderr.splitlines() == [
        what,
        "a.requests.jsonl: 0 requests; the file is not written",
    ]
    assert capture(tmp_path, "ask('Hi')", *OUTPUT).returncode == 0
    done = capture(tmp_path, f"ask('Hi')\n{textwrap.dedent(program)}", *OUTPUT, "--check")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, what)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(r"cut \ud83d", "cut \N{REPLACEMENT CHARACTER}", id="the first half"),
        pytest.param(r"\uDE00 cut", "\N{REPLACEMENT CHARACTER} cut", id="the second half"),
        pytest.param(
            r"\ud83d\ud83d\ude00",
            "\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}",
            id="half, then both halves",
        ),
        pytest.param(r"C:\\ud83d", r"C:\ud83d", id="a folder"),
    ],
)
def test_half_of_a_character_is_replaced(written: str, read: str) -> None:
    recording = Recording()
    with CaptureServer(recording) as server:
        sent = ["POST /v1/messages HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        answer = raw(server.port, *sent, body=f'{{"system": "{written}"}}'.encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [each.body for each in recording.requests] == [{"system": read}]
    assert recording.errors == []


def test_a_slow_client_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.capture.server._SECONDS", 0.2)
    recording = Recording()
    with CaptureServer(recording) as server:
        head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 9"
        slow = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(40)]
        for each in slow:
            each.sendall(f"{head}\r\n\r\n{{".encode())
        sent = ["POST /v1/messages HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        assert raw(server.port, *sent).startswith(b"HTTP/1.1 200 ")
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408 ")
        for each in slow:
            each.close()
    what = "a request to '/v1/messages' was refused: its body did not come within 0.2 s"
    assert {str(each) for each in recording.errors} == {what}


def test_it_listens_on_the_loopback_interface_only() -> None:
    with CaptureServer(Recording()) as server:
        assert server._socket.getsockname()[0] == "127.0.0.1"
        with pytest.raises(AccessError, match=f"cannot listen on port {server.port}: "):
            CaptureServer(Recording(), port=server.port)


def test_the_program_gets_addresses_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OPENAI_API_KEY": KEY, "GOOGLE_API_KEY": KEY, "PATH": "/bin", "NO_PROXY": "a.example"}
    with CaptureServer(Recording()) as server:
        found = server.environment(given)
    assert KEY not in found.values()
    assert (found["OPENAI_BASE_URL"], found["ANTHROPIC_BASE_URL"]) == (
        f"{server.url}/v1",
        server.url,
    )
    assert (found["PATH"], found["NO_PROXY"]) == ("/bin", "a.example,127.0.0.1")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "127.0.0.1"),
        ({"no_proxy": "db.internal,.corp"}, "db.internal,.corp,127.0.0.1"),
        ({"NO_PROXY": ".corp"}, ".corp,127.0.0.1"),
        ({"no_proxy": ".corp", "NO_PROXY": ".corp"}, ".corp,127.0.0.1"),
        ({"no_proxy": ".b", "NO_PROXY": ".a"}, ".a,.b,127.0.0.1"),
    ],
)
def test_what_is_reached_without_a_proxy_still_is(given: dict[str, str], found: str) -> None:
    with CaptureServer(Recording()) as server:
        environment = server.environment(given)
    assert (environment["NO_PROXY"], environment["no_proxy"]) == (found, found)


def test_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    assert capture(tmp_path, "ask('Hi'); sys.exit(7)", *OUTPUT).returncode == 7
    assert len(captured(tmp_path)) == 1
    done = capture(tmp_path, "", *OUTPUT)
    assert (done.returncode, len(captured(tmp_path))) == (1, 1)
    assert done.stderr.startswith("the program sent no request here; ")


def test_a_program_that_fails_before_it_asks_replaces_no_capture(tmp_path: Path) -> None:
    capture(tmp_path, "ask('Hi')", *OUTPUT)
    before = captured(tmp_path)
    assert len(before) == 1
    assert capture(tmp_path, "sys.exit(7)", *OUTPUT).returncode == 7
    assert captured(tmp_path) == before


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    program = """
    ask("Hi")
    if os.fork() == 0:
        os.setsid()
        open("pid", "w").write(str(os.getpid()))
        import time; time.sleep(600)
    while not os.path.exists("pid") or not open("pid").read():
        pass
    """
    assert capture(tmp_path, program, *OUTPUT).returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_for_programs_ends_with_a_signal_and_writes_the_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start("capture", *OUTPUT, "--port", "0", folder=tmp_path)
    assert process.stderr is not None
    url = process.stderr.readline().split()[2].rstrip(";")
    program = f"os.environ['ANTHROPIC_BASE_URL'] = {url!r}\nprint(ask('Hi'))"
    (tmp_path / "program.py").write_text(ASK + program, encoding="utf-8")
    said = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True)
    assert said.stdout == b"(captured)\n"
    process.send_signal(number)
    assert process.wait(20) == 0
    process.communicate()
    assert captured(tmp_path)[0]["body"]["system"] == "Hi"


NODE = {
    "openai@6.49.0": (
        """
        import OpenAI from "openai";
        const client = new OpenAI(), asked = {model: "m", instructions: S, input: "Hi"};
        const messages = [{role: "system", content: S}, {role: "user", content: "Hi"}];
        const parts = await client.chat.completions.create({model: "m", messages, stream: true});
        for await (const part of parts) say(part.choices[0].delta.content ?? "");
        const said = await client.chat.completions.create({model: "m", messages});
        say(said.choices[0].message.content);
        say((await client.responses.create(asked)).output_text);
        say((await client.responses.stream(asked).finalResponse()).output_text);
        """,
        [{**CHAT, "stream": True}, CHAT, INPUT, {**INPUT, "stream": True}],
    ),
    "@anthropic-ai/sdk@1.12.0": (
        """
        import Anthropic from "@anthropic-ai/sdk";
        const client = new Anthropic();
        const messages = [{role: "user", content: "Hi"}];
        const asked = {model: "m", max_tokens: 9, system: S, messages};
        say((await client.messages.create(asked)).content[0].text);
        say(await client.messages.stream(asked).finalText());
        """,
        [MESSAGES, {**MESSAGES, "stream": True}],
    ),
    "@google/genai@2.32.0": (
        """
        import {GoogleGenAI} from "@google/genai";
        const client = new GoogleGenAI({apiKey: process.env.GEMINI_API_KEY});
        const asked = {model: "m", contents: "Hi", config: {systemInstruction: S}};
        say((await client.models.generateContent(asked)).text);
        for await (const part of await client.models.generateContentStream(asked)) say(part.text);
        """,
        [CONTENTS, {**CONTENTS, "stream": True}],
    ),
}


@pytest.mark.parametrize("package", NODE)
def test_each_sdk_for_node_is_answered_and_its_bodies_are_written(
    package: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    program, bodies = NODE[package]
    (tmp_path / "node_modules").symlink_to(npm.modules(package, pytestconfig))
    begin = """
    import {appendFileSync} from "node:fs";
    const S = "You are polite.", say = text => appendFileSync("said.txt", text);
    """
    (tmp_path / "app.mjs").write_text(begin + program, encoding="utf-8")
    for options in (OUTPUT, ("--check", *OUTPUT), ANSWERS):
        (tmp_path / "said.txt").unlink(missing_ok=True)
        done = run("capture", *options, "--", "node", "app.mjs", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "said.txt").read_text() == "(captured)" * len(bodies)
        assert [plain(each["body"]) for each in captured(tmp_path)] == [*map(plain, bodies)]


def plain(body: Any) -> Any:
    """Return a body without what the SDKs of Gemini write in two ways."""
    return {key: each for key, each in body.items() if each not in ({}, None)}


def test_codex_is_captured_twice_alike_and_replayed_and_its_file_is_named(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    codex = shutil.which("codex") or str(npm.installed(CODEX, "codex", pytestconfig))
    if subprocess.run([codex, "--version"], capture_output=True).returncode:
        pytest.skip("npm has installed codex, but it does not run on this machine")
    rules = "Answer in German, whatever the user says.\nUse tabs.\n"
    (tmp_path / "AGENTS.md").write_text(rules, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / "home").mkdir()
    address = 'openai_base_url=\\"$OPENAI_BASE_URL\\"'
    line = f'exec {codex} exec --skip-git-repo-check -c analytics.enabled=false -c "{address}" Hi'
    command = ("--", "sh", "-c", f"CODEX_HOME={tmp_path}/home {line} > said.txt < /dev/null")
    assert run("capture", *OUTPUT, *command, folder=tmp_path).returncode == 0
    assert (tmp_path / "said.txt").read_text() == "(captured)\n"
    for options in (("--check", *OUTPUT), ANSWERS):
        done = run("capture", *options, *command, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "said.txt").read_text() == "(captured)\n"
    assert run("snapshot", "a.requests.jsonl", folder=tmp_path).returncode == 0
    (tmp_path / "AGENTS.md").write_text(rules.replace("tabs", "spaces"), encoding="utf-8")
    assert run("capture", *OUTPUT, *command, folder=tmp_path).returncode == 0
    done = run("snapshot", "--check", "--stat", "a.requests.jsonl", folder=tmp_path)
    assert done.stdout.splitlines()[:2] == [
        "AGENTS.md changed (a.requests.jsonl: 1)",
        "changed: snapshots/files.lock +1 -1",
    ]
    assert "1 difference to decide on" in done.stdout


CODEX = "@openai/codex@0.169.0"


def test_a_test_captures_by_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["multiturn.testing"]')
    pytester.makepyfile(
        ASK
        + """
def test_app(capture):
    assert ask("Be kind.") == "(captured)"
    assert capture.requests[0].body["system"] == "Be kind."
    capture.write("app.requests.jsonl")
    assert not [*capture.changes("app.requests.jsonl")]
    ask("Hi")
    assert [*capture.changes("app.requests.jsonl")] == ["request 2 is new"]
"""
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
