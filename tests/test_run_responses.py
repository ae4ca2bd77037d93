"""Runs through OpenAI's Responses API, from a suite to its results, by the command line."""

from pathlib import Path
from typing import Any

import pytest

import commands
from loopback import KEY, Server, completion
from running import records, run
from strict import StrictServer

TARGETS = """\
- {name: r, provider: openai, api: responses, base_url: "URL/v1", api_key: KEY, model: o3}
- {name: chat, provider: openai, base_url: "URL/v1", api_key: KEY, model: o3}
- {name: codex-chat, provider: openai, api_key: KEY, model: gpt-5-codex}
- {name: codex, provider: openai, api: responses, api_key: KEY, model: gpt-5-codex}
- {name: codex-azure, provider: azure, endpoint: URL, api_key: KEY, model: gpt-5-codex}
"""
SUITE = """\
tools: [{name: weather, parameters: {type: object}}]
evalcases:
- id: c
  input_messages:
  - {role: system, content: Be brief.}
  - {role: user, content: How is it in Rome?}
  - role: assistant
    content: [{type: thinking, thinking: They ask., signature: rs_0, data: gAAA, vendor: openai}]
    tool_calls: [{id: c0, name: weather, arguments: {city: Rome}}]
  - {role: tool, tool_call_id: c0, content: Sunny.}
"""
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gBBB"}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    return tmp_path


def ask(target: str, *more: str, folder: Path, server: Server) -> Any:
    targets = TARGETS.replace("URL", server.url).replace("KEY", KEY)
    (folder / "targets.yaml").write_text(targets)
    return run("a.eval.yaml", "--target", target, *more, folder=folder)


def test_what_a_dry_run_shows_is_sent_and_recorded_and_taken(folder: Path) -> None:
    with StrictServer() as server:
        (dry,) = records(ask("r", "--dry-run", folder=folder, server=server).stdout)
        done = ask("r", "--record-wire", folder=folder, server=server)
        (result,) = records(done.stdout)
        (request,) = server.requests
    assert (done.returncode, result["error"], result["answer"]) == (0, None, "text")
    assert request.body.decode() == dry["wire"] == result["wire"]
    assert request.json["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How is it in Rome?"},
        {
            "type": "reasoning",
            "id": "rs_0",
            "summary": [{"type": "summary_text", "text": "They ask."}],
            "encrypted_content": "gAAA",
        },
        {**CALL, "call_id": "c0", "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "c0", "output": "Sunny."},
    ]


def test_a_result_has_what_was_called_and_thought_and_why_it_ended(
    folder: Path, server: Server
) -> None:
    incomplete = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    answer = {**completion("responses", ""), **incomplete, "output": [THOUGHT, CALL]}
    server.answer(body=answer, times=None)
    (result,) = records(ask("r", "--record-thinking", folder=folder, server=server).stdout)
    assert (result["answer"], result["response"], result["finish_reason"]) == (
        *("calls", ""),
        "max_output_tokens",
    )
    assert result["tool_calls"] == [{"id": "c1", "name": "weather"}]
    assert result["thinking"] == [THOUGHT]
    assert result["usage"] == {"input_tokens": 11, "output_tokens": 7}
    (result,) = records(ask("r", folder=folder, server=server).stdout)
    assert "thinking" not in result


def test_another_api_is_another_request(folder: Path, server: Server) -> None:
    for target, sent in (("r", 1), ("r", 1), ("chat", 2)):
        more = ("--output", "out.jsonl", "--resume")
        assert ask(target, *more, folder=folder, server=server).returncode == 0
        assert len(server.requests) == sent
    assert [request.vendor for request in server.requests] == ["responses", "azure"]
    assert len({line["digest"] for line in records(folder / "out.jsonl")}) == 2


def test_check_says_which_model_has_no_chat_completions(folder: Path, server: Server) -> None:
    ask("r", "--dry-run", folder=folder, server=server)

    def check(target: str) -> Any:
        return commands.run("check", "a.eval.yaml", "--target", target, folder=folder)

    done = check("codex-chat")
    assert (done.returncode, "O10: some models have only the Responses API" in done.stderr) == (
        *(1, True),
    )
    assert "set api: responses in the target" in done.stderr
    assert check("codex").returncode == 0
    assert check("codex-azure").returncode == 0  # the name is that of a deployment
