"""Keys appear nowhere: not in errors, logs or results, and not in what tells requests apart."""

import asyncio
import json
import re
import traceback
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import commands
from loopback import KEY, Server, chat_answer
from multiturn import (
    MultiturnError,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    load_target,
)
from running import records, run, write_suite, write_target

REQUEST = ProviderRequest(question="Hello")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_TOKEN", KEY)
    write_suite(tmp_path, ["Hello"])
    return tmp_path


def write_azure(folder: Path, settings: str) -> None:
    target = f"- {{name: az, provider: azure, endpoint: http://e, {settings}}}\n"
    (folder / "targets.yaml").write_text(target)


def write_agent(folder: Path, script: str) -> None:
    """Write a target ``az``, whose agent is a script of the shell that gets a key."""
    agent = folder / "agent"
    agent.write_text(f"#!/bin/sh\n{script}\n")
    agent.chmod(0o755)
    args = ["--token", "${{ AGENT_TOKEN }}"]
    target = {"name": "az", "provider": "codex", "executable": str(agent), "args": args}
    (folder / "targets.yaml").write_text(json.dumps([target]))


@pytest.mark.parametrize("key", [KEY, "1234567890", "0x1234567890"])
def test_a_provider_and_its_settings_do_not_show_the_key(folder: Path, key: str) -> None:
    write_azure(folder, f"api_key: {key}, model: m")
    provider = load_target("az")
    assert provider.settings.api_key == key
    assert key not in f"{provider} {provider!r} {provider.settings} {provider.settings!r}"


NUMBER = "1234567890"


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(f"api_key: {KEY}, model: [m]", id="a list beside it"),
        pytest.param(f"api_key: {KEY}, model: m, max_retries: x", id="a word beside it"),
        pytest.param(f"api_key: {KEY}", id="a setting is missing"),
        pytest.param(f"api_key: {KEY}, model: m, model: m", id="a duplicate key"),
        pytest.param(f"api_key: [{KEY}], model: m", id="it is a list"),
        pytest.param(f"api_key: {{key: {KEY}}}, model: m", id="it is a mapping"),
        pytest.param(f"api_key: {NUMBER}, model: [m]", id="a number"),
        pytest.param(f"api_key: [{NUMBER}], model: m", id="a number in a list"),
        pytest.param(f"api_key: {KEY}: x, model: m", id="not YAML on its line"),
        pytest.param(f"api_key: *{KEY}, model: m", id="an alias of nothing"),
        pytest.param(f"api_key: !{KEY} x, model: m", id="a tag of nothing"),
        pytest.param(f'api_key: "{KEY}, model: m', id="a quote that is left open"),
        pytest.param(
            "api_key: '${{ AGENT_TOKEN }}', model: m, max_retries: '${{ AGENT_TOKEN }}'",
            id="a variable where a number is wanted",
        ),
        pytest.param(
            "api_key: '${{ AGENT_TOKEN }}', model: m, system_role: '${{ AGENT_TOKEN }}'",
            id="a variable where one of some words is wanted",
        ),
        pytest.param(
            "api_key: '${{ AGENT_TOKEN }}-${{ NO_SUCH_VARIABLE }}', model: m",
            id="a variable that is missing",
        ),
    ],
)
def test_an_error_in_a_targets_file_does_not_show_the_key(folder: Path, settings: str) -> None:
    write_azure(folder, settings)
    with pytest.raises(MultiturnError) as caught:
        load_target("az")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert NUMBER not in shown


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        pytest.param(f"api_key: {KEY}, model: {KEY}", "model", id="pasted twice"),
        pytest.param("api_key: abcdef, model: '${{ AGENT_TOKEN }}'", "model", id="a variable"),
        pytest.param(f"api_key: {KEY}, model: m, version: {KEY}", "version", id="the version"),
    ],
)
@pytest.mark.parametrize(
    "arguments", [("run", "--dry-run"), ("check",), ("snapshot",), ("convert",)], ids="-".join
)
def test_a_key_in_place_of_another_setting_is_an_error(
    folder: Path, settings: str, name: str, arguments: tuple[str, ...]
) -> None:
    write_azure(folder, settings)
    done = commands.run(*arguments, "a.eval.yaml", "--target", "az", folder=folder)
    assert done.returncode == 2
    what = f"target 'az': {name} is the same as a key, which is never shown; correct it"
    assert re.fullmatch(rf"Error: targets.yaml:\d+:\d+: {what}\n", done.stderr)
    assert KEY not in done.stdout
    assert not (folder / "snapshots").exists()


def test_the_name_of_a_server_may_be_its_key(folder: Path) -> None:
    target = "[{name: ollama, provider: openai, api_key: ollama, model: ollama/llama3}]"
    (folder / "targets.yaml").write_text(target)
    assert load_target("ollama").settings.model == "ollama/llama3"


def test_an_error_of_an_unknown_key_does_not_show_its_value(folder: Path) -> None:
    write_azure(folder, f"api_kye: {KEY}, api_key: abcdef, model: m")
    with capture_logs() as logs, pytest.raises(MultiturnError) as caught:
        load_target("az")
    assert 'unknown key "api_kye"; did you mean "api_key"?' in caught.value.what
    assert KEY not in repr(caught.value) + str(caught.value) + repr(logs)


def test_a_key_is_in_no_output_of_a_run(folder: Path, server: Server) -> None:
    error = {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}
    server.reply = lambda _: (401, {"error": error})
    write_target(folder, server)
    done = run("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    assert done.returncode == 1
    assert [request.headers["api-key"] for request in server.requests] == [KEY]
    assert "Incorrect API key provided: ***." in done.stderr
    assert KEY not in done.stdout + done.stderr + (folder / "out.jsonl").read_text()


def ask() -> ProviderResponse:
    async def main() -> ProviderResponse:
        async with load_target("az") as provider:
            response: ProviderResponse = await provider.invoke(REQUEST)
            return response

    return asyncio.run(main())


def test_a_key_that_is_a_number_is_hidden_and_does_not_tear_an_answer(
    folder: Path, server: Server
) -> None:
    write_target(folder, server, api_key=40711)
    status, answer = chat_answer("All is well")
    server.reply = lambda _: (status, {**answer, "created": 1740711678})
    assert ask().text == "All is well"
    assert server.requests[0].headers["api-key"] == "40711"
    server.reply = lambda _: (401, {"error": {"message": "no such key: 40711"}})
    with pytest.raises(ProviderError, match=r"no such key: \*\*\*"):
        ask()


FAILED = """echo '{"type":"turn.failed","error":{"message":"'"$*"'"}}'"""
ANSWERED = """echo '{"type":"item.completed","item":{"type":"agent_message","text":"'"$*"'"}}'"""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param('echo "refused: $*" >&2; exit 3', 1, id="complaining"),
        pytest.param(FAILED, 1, id="in its event"),
        pytest.param(ANSWERED, 0, id="in its answer"),
    ],
)
def test_an_agent_that_quotes_the_token_does_not_spread_it(
    folder: Path, script: str, code: int
) -> None:
    write_agent(folder, script)
    command = ("a.eval.yaml", "--target", "az", "--record-wire", "--output", "out.jsonl")
    done = run(*command, folder=folder)
    assert done.returncode == code
    (result,) = records(folder / "out.jsonl")
    assert KEY[-9:] not in done.stdout + done.stderr + json.dumps(result)
    if code == 0:
        assert result["response"].endswith("--token *** -")


def test_another_token_among_the_arguments_is_the_same_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(folder, "")
    before = load_target("az").wire(REQUEST).digest()
    monkeypatch.setenv("AGENT_TOKEN", "another-token")
    assert load_target("az").wire(REQUEST).digest() == before
