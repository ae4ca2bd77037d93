"""Codex: what ``codex exec`` is given, and what is made of its events."""

import json
from pathlib import Path
from typing import Any

import pytest

from multiturn.errors import ProviderError
from multiturn.model.request import ProviderRequest
from multiturn.providers.agents.command import ADVICE
from multiturn.providers.base import ProviderResponse
from standins import agent, ask

USAGE = {"input_tokens": 11, "cached_input_tokens": 3, "output_tokens": 7}
STARTED = {"type": "thread.started", "thread_id": "t"}
COMPLETED = {"type": "turn.completed", "usage": USAGE}


def said(text: object) -> dict[str, object]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


def failed(message: str) -> dict[str, object]:
    return {"type": "turn.failed", "error": {"message": message}}


class Codex:
    """A function in place of Codex, which prints events, and other lines, and may fail."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.calls: list[Any] = []
        self.lines: list[bytes] = []
        self.error: Any = None
        monkeypatch.setattr("multiturn.providers.agents.agent.run_command", self.run)

    async def run(self, command: tuple[str, ...], *, take_line: Any, **given: Any) -> None:
        self.calls.append((command[1:], given["stdin"]))
        for line in self.lines:
            take_line(line)
        if self.error is not None:
            raise self.error

    def ask(self, *lines: object, **settings: Any) -> ProviderResponse:
        self.lines = [
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
        ]
        return ask(agent("codex", self.folder, **settings), "What now?")


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Codex:
    return Codex(tmp_path, monkeypatch)


def test_the_last_message_of_the_agent_is_the_answer(codex: Codex) -> None:
    answer = codex.ask(STARTED, said("I will look."), said("Forty-two.\n"), COMPLETED)
    assert answer.text == "Forty-two.\n"
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 3}
    assert answer.finish_reason == "stop"
    assert (answer.raw, answer.retries, answer.wire) == (COMPLETED, 0, b"What now?")


def test_codex_runs_without_a_terminal_and_gets_its_prompt_on_standard_input(codex: Codex) -> None:
    codex.ask(said("Ho"))
    codex.ask(said("Ho"), model="gpt-x", args=("--fast",))
    command = ("exec", "--json", "--skip-git-repo-check")
    assert codex.calls == [
        ((*command, "-"), b"What now?"),
        ((*command, "--model", "gpt-x", "--fast", "-"), b"What now?"),
    ]


def test_the_model_is_in_the_wire(tmp_path: Path) -> None:
    for model in ("", "gpt-x"):
        wire = agent("codex", tmp_path, model=model).wire(ProviderRequest(question="Hi"))
        assert (wire.provider, wire.model) == ("codex", model)


NOISE = [
    b"Reading prompt from stdin...",  # a word
    b"",  # an empty line
    b"\xff\xfe",  # bytes that are no text
    b'{"type":"item.completed","item":{"type":"agent_m',  # half an event
    b'{"type":"item.completed","x":"\xff"}',  # an event that is no text
    b"7",  # a number
    b"null",  # null
    b"[]",  # a list
    b"{}",  # an empty object
    b"[" * 100_000,  # deeply nested
    b"x" * 1_000_000,  # a long line
    b'{"type":7}',  # a type that is a number
    b'{"type":"brand.new","item":{"text":"no"}}',  # an unknown event
    b'{"type":"item.completed"}',  # an item without an item
    b'{"type":"item.completed","item":{"type":"agent_message"}}',  # no text in a message
    b'{"type":"item.completed","item":{"type":"reasoning","text":"Hm"}}',  # a thought
    b'{"type":"item.completed","item":{"type":"error","message":"old"}}',  # a warning
    b'{"type":"item.started","item":{"type":"agent_message","text":"no"}}',  # a beginning
    b'{"type":"error","message":"Reconnecting... 1/5"}',  # a second attempt
]


@pytest.mark.parametrize("at", [0, 2])
def test_other_lines_are_passed_over(codex: Codex, at: int) -> None:
    lines: list[object] = [STARTED, said("Ho"), COMPLETED]
    lines[at:at] = NOISE
    answer = codex.ask(*lines)
    assert (answer.text, answer.usage) == (
        "Ho",
        {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 3},
    )


@pytest.mark.parametrize("text", ["", " \n", "a\u2028b\x85c", "Grüße 👍", "=== a ===\n" * 50_000])
def test_an_answer_may_be_any_text(codex: Codex, text: str) -> None:
    assert codex.ask(said(text)).text == text


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"input_tokens": "many"}])
def test_odd_counts_do_not_lose_the_answer(codex: Codex, usage: object) -> None:
    answer = codex.ask(said("Ho"), {"type": "turn.completed", "usage": usage})
    assert (answer.text, answer.usage) == ("Ho", {})


NO_ANSWER = "malformed: codex gave no answer: no agent_message event"
THOUGHT = said("I will look.")
# As Codex really is: a failed turn is exit code 1, and without a network it waits until its time
# is up. Standard error has a warning at most.
RETRY = {"type": "error", "message": "no network"}


@pytest.mark.parametrize(
    ("lines", "end", "error"),
    [
        pytest.param((), None, NO_ANSWER, id="no output"),
        pytest.param((STARTED, COMPLETED), None, NO_ANSWER, id="no message"),
        pytest.param((said(None), COMPLETED), None, NO_ANSWER, id="a message that is null"),
        pytest.param((said(["Ho"]), COMPLETED), None, NO_ANSWER, id="a message that is a list"),
        pytest.param((b"Forty-two",), None, NO_ANSWER, id="an answer that is no event"),
        pytest.param((failed("No"),), None, "process: codex: No", id="a failed turn"),
        pytest.param((THOUGHT, failed("No")), None, "process: codex: No", id="after a message"),
        pytest.param((failed("no secret-4711"),), None, "process: codex: no ***", id="a key"),
        pytest.param((THOUGHT,), "process", "process: it ended", id="a crash after a message"),
        pytest.param((RETRY,), "process", "process: codex: no network", id="words before a crash"),
        pytest.param((RETRY,), "timeout", "timeout: codex: no network", id="words, then no more"),
    ],
)
def test_a_failure_is_an_error_in_codex_own_words(
    codex: Codex, lines: tuple[object], end: str | None, error: str
) -> None:
    codex.error = end and ProviderError("it ended", kind=end)
    with pytest.raises(ProviderError) as caught:
        codex.ask(*lines, env={"KEY": "secret-4711"})
    what = caught.value.what.removesuffix(f"; {ADVICE}")
    assert f"{caught.value.kind}: {what}" == error
    assert (what != caught.value.what) == (caught.value.kind == "process")
    assert caught.value.wire == b"What now?"
    assert "4711" not in repr(caught.value)
