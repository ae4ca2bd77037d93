"""The real Codex, asking a model that is a server in this test."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import npm
import standins
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from multiturn.providers.codex import CodexProvider, CodexSettings

PACKAGE = "@openai/codex@0.169.0"
KEY = "sk-7f3a9c01d4b84e2f"
CREATED = {"type": "response.created", "response": {"id": "r"}}
USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}
COMPLETED = {"type": "response.completed", "response": {"id": "r", "usage": USAGE}}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def says(text: str) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text}]
    item = {"type": "message", "role": "assistant", "id": "m", "content": content}
    return [CREATED, done(item), COMPLETED]


def runs(command: str) -> list[dict[str, Any]]:
    arguments = json.dumps({"cmd": command, "yield_time_ms": 30_000})
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "exec_command"}
    return [CREATED, done({**item, "arguments": arguments}), COMPLETED]


Events = list[dict[str, Any]]
# Events, or what makes them of the prompt, or the message of a refusal.
Answer = Events | Callable[[str], Events] | str


class Model:
    """A model over HTTP: notes what it is asked, and gives one answer after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.headers: list[Any] = []
        self.bodies: list[Any] = []
        self.url = ""

    def answer(self, headers: Any, body: bytes) -> tuple[int, str, str]:
        self.headers.append(headers)
        self.bodies.append(json.loads(body))
        events = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(events):
            events = events(self.given("user")[-1])
        if isinstance(events, str):
            error = {"message": events, "type": "invalid_request_error", "code": "invalid_api_key"}
            return 401, "application/json", json.dumps({"error": error})
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        return 200, "text/event-stream", text

    def given(self, role: str) -> list[str]:
        """Return the texts of a role in the last request."""
        messages = [one for one in self.bodies[-1]["input"] if one.get("role") == role]
        return [piece["text"] for message in messages for piece in message["content"]]


@contextmanager
def serving(*answers: Answer) -> Iterator[Model]:
    model = Model(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, kind, text = model.answer(self.headers, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def codex(pytestconfig: pytest.Config) -> str:
    """Return the real command line: the one on the path, or one that is installed once."""
    found = shutil.which("codex")
    if found is not None:
        return found
    installed = npm.installed(PACKAGE, "codex", pytestconfig)
    if subprocess.run([installed, "--version"], capture_output=True).returncode:
        pytest.skip("npm has installed codex, but it does not run on this machine")
    return str(installed)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def target(codex: str, folder: Path, url: str, *more: str) -> CodexProvider:
    home = folder / "home"
    work = folder / "work"
    for path in (home, work):
        path.mkdir(exist_ok=True)
    options = {
        "name": '"loop"',
        "base_url": f'"{url}"',
        "wire_api": '"responses"',
        "env_key": '"LOOP_KEY"',
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    settings = [f"model_providers.loop.{name}={value}" for name, value in options.items()]
    settings += ['model_provider="loop"', "analytics.enabled=false", *more]
    return CodexProvider(
        CodexSettings(
            name="real",
            provider="codex",
            executable=codex,
            args=tuple(word for setting in settings for word in ("-c", setting)),
            cwd=str(work),
            env={"LOOP_KEY": KEY, "CODEX_HOME": str(home), "HOME": str(home)},
            model="gpt-test",
            timeout_seconds=60,
        )
    )


def test_codex_sends_the_transcript_and_its_answer_comes_back(codex: str, tmp_path: Path) -> None:
    with serving(says("Forty-two.\nReally.")) as model:
        provider = target(codex, tmp_path, model.url)
        question = "@[User]:\nWhat is six times nine?\n\n@[Assistant]:\nGrüße 👍"
        answer = standins.ask(provider, question)
    assert answer.text == "Forty-two.\nReally."
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}
    assert len(model.bodies) == 1
    assert model.given("user")[-1] == question.replace("@[", " @[")
    assert model.bodies[0]["model"] == "gpt-test"
    assert model.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_codex_sends_a_long_transcript_whole(codex: str, tmp_path: Path) -> None:
    question = "".join(f"{number:06}\n" for number in range(300 * 1024 // 7))
    with serving(says("Long.")) as model:
        answer = standins.ask(target(codex, tmp_path, model.url), question)
    assert answer.text == "Long."
    assert model.given("user")[-1].strip() == question.strip()


def test_codex_opens_an_attached_file_where_the_prompt_says(codex: str, tmp_path: Path) -> None:
    def open_listed(prompt: str) -> Events:
        return runs(f"cat {prompt.rpartition('- ')[2].strip()}")

    with serving(open_listed, says("Done.")) as model:
        provider = target(codex, tmp_path, model.url, 'sandbox_mode="danger-full-access"')
        file = InputFile("../rules.md", "../rules.md", True, "Be brief, 4711.")
        answer = standins.ask(provider, "See <Attached: rules.md>", input_files=(file,))
    assert answer.text == "Done."
    (output,) = (one for one in model.bodies[-1]["input"] if one["type"].endswith("call_output"))
    assert "Be brief, 4711." in json.dumps(output["output"])


def test_a_refused_key_is_an_error_that_does_not_show_it(codex: str, tmp_path: Path) -> None:
    with (
        serving(f"Incorrect API key provided: {KEY}") as model,
        pytest.raises(ProviderError) as caught,
    ):
        standins.ask(target(codex, tmp_path, model.url))
    assert caught.value.kind == "process"
    assert "401" in caught.value.what
    assert "Incorrect API key provided: ***" in caught.value.what
    assert KEY not in repr(caught.value)


def test_an_option_that_codex_does_not_know_is_an_error_in_its_words(
    codex: str, tmp_path: Path
) -> None:
    provider = target(codex, tmp_path, "http://127.0.0.1:9/v1")
    settings = CodexSettings(
        name="real", provider="codex", executable=codex, args=("--no-such-option",),
        cwd=provider.settings.cwd, env=provider.settings.env,
    )  # fmt: skip
    with pytest.raises(ProviderError, match="--no-such-option") as caught:
        standins.ask(CodexProvider(settings))
    assert caught.value.kind == "process"


def test_a_command_that_codex_runs_does_not_outlive_a_time_out(codex: str, tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        command = f"sh -c 'exec 9> {witness.path}; echo $$ >&9; exec sleep 600'; echo done"
        with serving(runs(command)) as model:
            provider = target(codex, tmp_path, model.url, 'sandbox_mode="danger-full-access"')
            work = provider.invoke(ProviderRequest(question="Hi"))
            with pytest.raises(ProviderError) as caught:
                standins.until(witness.heard, work)
    assert caught.value.kind == "timeout"
    files = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert [path for path in files if path.name != ".gitignore"] == []
