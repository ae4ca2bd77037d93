"""LiteLLM's proxy understands what goes out, and what it answers is understood, in three formats.

Its models are ours: a server on the loopback interface that notes what the proxy makes of a prompt.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server
from multiturn.providers.base import ChatProvider
from vendors import anthropic, ask, azure, chat, failure, gemini, openai, responses

PROMPT = chat(
    ("system", "Be brief."),
    ("user", 'Say {{x}}, "quoted" and \\n.\nThen \u00fc \U0001f600.'),
    ("assistant", "It is said."),
    ("user", "  Again!  "),
)
MESSAGES = [
    {"role": message.role, "content": message.content} for message in PROMPT.chat_prompt or ()
]
Connect = Callable[..., ChatProvider]

each_format = pytest.mark.parametrize(
    "connect",
    [
        pytest.param(openai, id="OpenAI"),
        pytest.param(azure, id="Azure OpenAI"),
        pytest.param(responses, id="OpenAI's Responses API"),
        pytest.param(anthropic, id="Anthropic"),
        pytest.param(gemini, id="Gemini"),
    ],
)


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(model: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the proxy, and yield its address."""
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("there is no LiteLLM; make test-tools installs it")
    folder = tmp_path_factory.mktemp("proxy")
    model_of = {"model": "hosted_vllm/loopback", "api_base": f"{model.url}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": "loopback", "litellm_params": model_of}],
        "general_settings": {"master_key": KEY},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [os.path.abspath(program), "--config", "config.yaml", "--host", "127.0.0.1"]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        wait_for(f"{url}/health/liveliness", process, folder / "log")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)
        else:
            return


@each_format
def test_the_proxy_reads_the_messages_as_we_meant_them_and_we_take_its_answer(
    proxy: str, model: Server, connect: Connect
) -> None:
    answer = ask(connect(proxy, model="loopback", max_output_tokens=50), PROMPT)
    sent = model.requests[-1].json
    assert [plain(message) for message in sent.get("messages") or sent["input"]] == MESSAGES
    assert 50 in map(sent.get, ("max_tokens", "max_completion_tokens", "max_output_tokens"))
    assert (answer.text, answer.usage, answer.retries) == (TEXT, USAGE, 0)
    assert answer.finish_reason in ("stop", "end_turn", "STOP", "completed")


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose content is text, even if the proxy has made parts of it."""
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return {"role": message["role"], "content": content}


@each_format
def test_an_error_of_the_proxy_is_told_with_its_message(proxy: str, connect: Connect) -> None:
    error = failure(connect(proxy, model="no-such-model", max_retries=0))
    assert error.kind == "http"
    assert "no-such-model" in str(error)


@each_format
def test_a_wrong_key_is_told_as_such(proxy: str, connect: Connect) -> None:
    error = failure(connect(proxy, model="loopback", api_key="sk-wrong", max_retries=0))
    assert error.kind == "access_denied"
