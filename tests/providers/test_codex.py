"""Codex: what ``codex exec`` is given, and what is made of its events."""

import json
from pathlib import Path
from typing import Any

import pytest

from multiturn.model import ProviderRequest
from multiturn.providers.base import ProviderError, ProviderResponse
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
        self.lines: tuple[object, ...] = ()
        self.end = b""
        self.error: ProviderError | None = None
        monkeypatch.setattr("multiturn.providers.agent.run_command", self.run)

    async def run(self, command: tuple[str, ...], *, output: Any, **given: Any) -> None:
        self.calls.append((command[1:], given["stdin"]))
        for line in self.lines:
            output.write(line if isinstance(line, bytes) else json.dumps(line).encode())
            output.write(b"\n")
        output.write(self.end)
        if self.error is not None:
            raise self.error

    def ask(self, *lines: object, **settings: Any) -> ProviderResponse:
        self.lines = lines
        return ask(agent("codex", self.folder, **settings), "What now?")

    def fail(self, *lines: object) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            self.ask(*lines, env={"KEY": "sk-7f3a9c01d4b8"})
        return caught.value


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Codex:
    return Codex(tmp_path, monkeypatch)


def test_the_last_message_of_the_agent_is_the_answer(codex: Codex) -> None:
    answer = codex.ask(STARTED, said("I will look."), said("Forty-two.\n"), COMPLETED)
    assert answer.text == "Forty-two.\n"
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}
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
    assert answer.text == "Ho"
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}


@pytest.mark.parametrize("text", ["", " \n", "a\u2028b\x85c", "Grüße 👍", "=== a ===\n" * 50_000])
def test_an_answer_may_be_any_text(codex: Codex, text: str) -> None:
    assert codex.ask(said(text), COMPLETED).text == text


def test_an_event_has_16_mib_at_most(codex: Codex) -> None:
    failure = codex.fail(said("Ho"), b"x" * (17 << 20))
    assert failure.kind == "malformed"
    assert failure.what == "an event of codex is larger than 16 MiB"


def test_the_last_event_needs_no_line_end(codex: Codex) -> None:
    codex.end = json.dumps(said("Ho")).encode()
    assert codex.ask().text == "Ho"


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"input_tokens": "many"}])
def test_odd_counts_do_not_lose_the_answer(codex: Codex, usage: object) -> None:
    answer = codex.ask(said("Ho"), {"type": "turn.completed", "usage": usage})
    assert (answer.text, answer.usage) == ("Ho", {})


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((), id="no output"),
        pytest.param((STARTED, COMPLETED), id="no message"),
        pytest.param((STARTED, said(None), COMPLETED), id="a message that is null"),
        pytest.param((STARTED, said(["Ho"]), COMPLETED), id="a message that is a list"),
        pytest.param((b"Forty-two",), id="an answer that is no event"),
    ],
)
def test_an_output_without_a_message_is_malformed(codex: Codex, lines: tuple[object]) -> None:
    failure = codex.fail(*lines)
    assert failure.kind == "malformed"
    assert failure.what == "codex gave no answer: no agent_message event"


@pytest.mark.parametrize("before", [(), (said("I will look."),)])
def test_a_failed_turn_is_an_error_in_codex_own_words_without_secrets(
    codex: Codex, before: tuple[object]
) -> None:
    failure = codex.fail(STARTED, *before, failed("no such key: sk-7f3a9c01d4b8"))
    assert (failure.kind, failure.what) == ("process", "codex: no such key: ***")
    assert "7f3a9c01d4b8" not in repr(failure)


@pytest.mark.parametrize("kind", ["process", "timeout"])
def test_what_codex_said_says_more_than_how_it_ended(codex: Codex, kind: str) -> None:
    # As it really is: a failed turn is exit code 1, and without a network it waits until its time
    # is up. Standard error has a warning at most.
    codex.error = ProviderError("WARNING: proceeding", kind=kind)
    failure = codex.fail(STARTED, {"type": "error", "message": "Reconnecting... no network"})
    assert (failure.kind, failure.what) == (kind, "codex: Reconnecting... no network")


def test_a_message_before_a_crash_is_no_answer(codex: Codex) -> None:
    codex.error = ProviderError("codex ended with exit code 137", kind="process")
    failure = codex.fail(said("I will look."))
    assert (failure.kind, failure.what) == ("process", "codex ended with exit code 137")
    assert failure.wire == b"What now?"
