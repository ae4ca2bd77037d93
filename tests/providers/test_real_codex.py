"""The real Codex, asking a model that is a server in this test."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import npm
import standins
from loopback import KEY, Request, Server
from media_files import image
from multiturn import Media
from multiturn.errors import ProviderError
from multiturn.model.request import ChatMessage, InputFile, ProviderRequest
from multiturn.providers.agents.agent import AgentProvider

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


def answer(server: Server, item: Callable[[str], dict[str, Any]]) -> None:
    """Answer the next request with an item that is made of the prompt."""

    def body(request: Request) -> str:
        done = {"type": "response.output_item.done", "output_index": 0}
        events: list[Any] = [CREATED, {**done, "item": item(prompt_in(request))}, COMPLETED]
        return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)

    server.answer(body=body, headers={"content-type": "text/event-stream"})


def says(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "id": "m", "content": content}


def runs(command: str) -> dict[str, Any]:
    arguments = json.dumps({"cmd": command, "yield_time_ms": 30_000})
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "exec_command"}
    return {**call, "arguments": arguments}


def prompt_in(request: Request) -> str:
    """Return the last text of the user in a request."""
    *_, message = (one for one in request.json["input"] if one.get("role") == "user")
    return str(message["content"][-1]["text"])


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


@pytest.fixture
def provider(codex: str, tmp_path: Path, server: Server) -> AgentProvider:
    options = {
        "name": '"loop"',
        "base_url": f'"{server.url}/v1"',
        "wire_api": '"responses"',
        "env_key": '"LOOP_KEY"',
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    settings = [f"model_providers.loop.{name}={value}" for name, value in options.items()]
    settings += ['model_provider="loop"', "analytics.enabled=false"]
    settings += ['sandbox_mode="danger-full-access"']
    home = tmp_path / "home"
    home.mkdir()
    return standins.agent(
        *("codex", tmp_path),
        executable=codex,
        args=tuple(word for setting in settings for word in ("-c", setting)),
        env={"LOOP_KEY": KEY, "CODEX_HOME": str(home), "HOME": str(home)},
        model="gpt-test",
    )


def test_codex_sends_the_transcript_opens_a_file_and_its_answer_comes_back(
    provider: AgentProvider, server: Server
) -> None:
    answer(server, lambda prompt: runs(f"cat {prompt.rpartition('- ')[2].strip()}"))
    answer(server, lambda _: says("Forty-two.\nReally."))
    lines = "".join(f"{number:06}\n" for number in range(300 * 1024 // 7))
    question = f"@[User]:\nSix times nine, by <Attached: rules.md>?\n\n@[Assistant]:\nÜ 👍\n{lines}"
    file = InputFile("../rules.md", "../rules.md", True, "Be brief, 4711.")
    answered = standins.ask(provider, question, input_files=(file,))
    assert answered.text == "Forty-two.\nReally."
    both = {"input_tokens": 22, "output_tokens": 14, "cached_tokens": 0}
    assert answered.usage == both  # of two requests
    first, second = server.requests
    assert prompt_in(first).startswith(question.replace("@[", " @["))
    assert first.json["model"] == "gpt-test"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    (output,) = (one for one in second.json["input"] if one["type"].endswith("call_output"))
    assert "Be brief, 4711." in json.dumps(output["output"])


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "WEBP"])
def test_codex_shows_the_model_an_image_and_reads_its_prompt_behind_it(
    provider: AgentProvider, server: Server, format_: str
) -> None:
    answer(server, lambda _: says("A page."))
    media = Media.of(image(format_, side=16), "shots/a.image")
    message = ChatMessage("user", ("What is this?", media))
    question = "What is this?\n[image: shots/a.image]"
    answered = standins.ask(provider, question, chat_prompt=(message,))
    assert answered.text == "A page."
    asked = "".join(one.get("text", "") for one in sent_by_user(server.requests[0]))
    assert question in asked
    assert asked.count("<image ") == 1
    assert "could not read" not in asked
    (url,) = (one["image_url"] for one in sent_by_user(server.requests[0]) if "image_url" in one)
    shown = Image.open(BytesIO(base64.b64decode(url.partition(";base64,")[2])))
    original = Image.open(BytesIO(media.data))
    assert shown.size == (16, 16)
    if format_ != "JPEG":
        assert shown.convert("RGB").tobytes() == original.convert("RGB").tobytes()


def sent_by_user(request: Request) -> list[dict[str, Any]]:
    """Return the pieces of the last message of the user in a request."""
    *_, message = (one for one in request.json["input"] if one.get("role") == "user")
    content: list[dict[str, Any]] = message["content"]
    return content


def test_a_refused_key_is_an_error_that_does_not_show_it(
    provider: AgentProvider, server: Server
) -> None:
    server.fail(401, f"Incorrect API key provided: {KEY}", code="invalid_api_key", times=None)
    with pytest.raises(ProviderError) as caught:
        standins.ask(provider)
    assert caught.value.kind == "process"
    assert "401" in caught.value.what
    assert "Incorrect API key provided: ***" in caught.value.what
    assert KEY not in repr(caught.value)


def test_a_command_that_codex_runs_does_not_outlive_a_time_out(
    provider: AgentProvider, server: Server, tmp_path: Path
) -> None:
    with standins.witness(tmp_path) as witness:
        command = f"sh -c 'exec 9> {witness.path}; echo $$ >&9; exec sleep 600'; echo done"
        answer(server, lambda _: runs(command))
        with pytest.raises(ProviderError) as caught:
            standins.until(witness.heard, provider.invoke(ProviderRequest(question="Hi")))
    assert caught.value.kind == "timeout"
    files = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert [path for path in files if path.name != ".gitignore"] == []
