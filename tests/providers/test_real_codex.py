"""The real Codex, asking a model that is a server in this test."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npm
import standins
from loopback import KEY, Request, Server
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from multiturn.providers.codex import CodexProvider, CodexSettings

PACKAGE = "@openai/codex@0.169.0"
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


def answer(server: Server, *answers: Events | Callable[[str], Events]) -> None:
    """Answer one request after the other with events, or with what makes them of the prompt."""
    for events in answers:

        def body(request: Request, events: Any = events) -> str:
            made = events(given(request, "user")[-1]) if callable(events) else events
            return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in made)

        server.answer(body=body, headers={"content-type": "text/event-stream"})


def given(request: Request, role: str) -> list[str]:
    """Return the texts of a role in a request."""
    messages = [one for one in request.json["input"] if one.get("role") == role]
    return [piece["text"] for message in messages for piece in message["content"]]


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
        "base_url": f'"{url}/v1"',
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


def test_codex_sends_the_transcript_whole_and_its_answer_comes_back(
    codex: str, tmp_path: Path, server: Server
) -> None:
    answer(server, says("Forty-two.\nReally."))
    lines = "".join(f"{number:06}\n" for number in range(300 * 1024 // 7))
    question = f"@[User]:\nWhat is six times nine?\n\n@[Assistant]:\nGrüße 👍\n{lines}"
    answered = standins.ask(target(codex, tmp_path, server.url), question)
    assert answered.text == "Forty-two.\nReally."
    assert answered.usage == {"input_tokens": 11, "output_tokens": 7}
    (request,) = server.requests
    assert given(request, "user")[-1].strip() == question.replace("@[", " @[").strip()
    assert request.json["model"] == "gpt-test"
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_codex_opens_an_attached_file_where_the_prompt_says(
    codex: str, tmp_path: Path, server: Server
) -> None:
    def open_listed(prompt: str) -> Events:
        return runs(f"cat {prompt.rpartition('- ')[2].strip()}")

    answer(server, open_listed, says("Done."))
    provider = target(codex, tmp_path, server.url, 'sandbox_mode="danger-full-access"')
    file = InputFile("../rules.md", "../rules.md", True, "Be brief, 4711.")
    answered = standins.ask(provider, "See <Attached: rules.md>", input_files=(file,))
    assert answered.text == "Done."
    items = server.requests[-1].json["input"]
    (output,) = (one for one in items if one["type"].endswith("call_output"))
    assert "Be brief, 4711." in json.dumps(output["output"])


def test_a_refused_key_is_an_error_that_does_not_show_it(
    codex: str, tmp_path: Path, server: Server
) -> None:
    server.fail(401, f"Incorrect API key provided: {KEY}", code="invalid_api_key", times=None)
    with pytest.raises(ProviderError) as caught:
        standins.ask(target(codex, tmp_path, server.url))
    assert caught.value.kind == "process"
    assert "401" in caught.value.what
    assert "Incorrect API key provided: ***" in caught.value.what
    assert KEY not in repr(caught.value)


def test_a_command_that_codex_runs_does_not_outlive_a_time_out(
    codex: str, tmp_path: Path, server: Server
) -> None:
    with standins.witness(tmp_path) as witness:
        command = f"sh -c 'exec 9> {witness.path}; echo $$ >&9; exec sleep 600'; echo done"
        answer(server, runs(command))
        provider = target(codex, tmp_path, server.url, 'sandbox_mode="danger-full-access"')
        work = provider.invoke(ProviderRequest(question="Hi"))
        with pytest.raises(ProviderError) as caught:
            standins.until(witness.heard, work)
    assert caught.value.kind == "timeout"
    files = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert [path for path in files if path.name != ".gitignore"] == []
