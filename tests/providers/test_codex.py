"""Codex: what ``codex exec`` is given, and what is made of its events."""

import json
from pathlib import Path

import pytest

import standins
from multiturn.model import ProviderRequest
from multiturn.providers.base import ProviderError
from standins import agent, ask, saw

USAGE = {"input_tokens": 11, "cached_input_tokens": 3, "output_tokens": 7}
STARTED = {"type": "thread.started", "thread_id": "t"}
COMPLETED = {"type": "turn.completed", "usage": USAGE}


def said(text: object) -> dict[str, object]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


def failed(message: str) -> dict[str, object]:
    return {"type": "turn.failed", "error": {"message": message}}


def program(*lines: object, end: str = "sys.exit(0)") -> str:
    """Return a program that prints events, and other lines."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    output = b"".join(text + b"\n" for text in texts)
    return f"sys.stdout.buffer.write({output!r}); sys.stdout.flush()\n{end}\n"


def error(folder: Path, *lines: object, end: str = "sys.exit(0)") -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(agent("codex", folder, program(*lines, end=end)))
    return caught.value


def test_the_last_message_of_the_agent_is_the_answer(tmp_path: Path) -> None:
    lines = (STARTED, said("I will look."), said("Forty-two.\n"), COMPLETED)
    answer = ask(agent("codex", tmp_path, program(*lines)))
    assert answer.text == "Forty-two.\n"
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}
    assert answer.finish_reason == "stop"
    assert answer.retries == 0
    assert answer.wire == b"Hi"


def test_the_prompt_is_the_question_alone_on_standard_input(tmp_path: Path) -> None:
    record = saw(agent("codex", tmp_path), "What now?")
    assert record["prompt"] == "What now?"
    assert [argument for argument in record["args"] if "What" in argument] == []


def test_codex_runs_without_a_terminal_and_prints_events(tmp_path: Path) -> None:
    arguments = saw(agent("codex", tmp_path))["args"]
    assert arguments[0] == "exec"
    assert "--json" in arguments
    assert "--skip-git-repo-check" in arguments
    assert [word for word in arguments if not word.startswith("-")] == ["exec"]


def test_the_model_comes_from_the_target(tmp_path: Path) -> None:
    arguments = saw(agent("codex", tmp_path, model="gpt-x"))["args"]
    assert arguments[arguments.index("--model") + 1] == "gpt-x"
    assert "--model" not in saw(agent("codex", tmp_path))["args"]


def test_another_model_is_another_request(tmp_path: Path) -> None:
    request = ProviderRequest(question="Hi")
    settings: list[dict[str, str]] = [{"model": "a"}, {"model": "b"}, {}]
    wires = [agent("codex", tmp_path, **given).wire(request) for given in settings]
    assert len({wire.digest() for wire in wires}) == 3
    assert [wire.model for wire in wires] == ["a", "b", ""]
    assert {wire.provider for wire in wires} == {"codex"}


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
def test_other_lines_are_passed_over(tmp_path: Path, at: int) -> None:
    lines: list[object] = [STARTED, said("Ho"), COMPLETED]
    lines[at:at] = NOISE
    answer = ask(agent("codex", tmp_path, program(*lines)))
    assert answer.text == "Ho"
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}


@pytest.mark.parametrize("text", ["", " \n", "a\u2028b\x85c", "Grüße 👍", "=== a ===\n" * 50_000])
def test_an_answer_may_be_any_text(tmp_path: Path, text: str) -> None:
    assert ask(agent("codex", tmp_path, program(said(text), COMPLETED))).text == text


def test_an_event_has_16_mib_at_most(tmp_path: Path) -> None:
    failure = error(tmp_path, said("Ho"), end="print('x' * (17 << 20))")
    assert failure.kind == "malformed"
    assert failure.what == "an event of codex is larger than 16 MiB"


def test_the_last_event_needs_no_line_end(tmp_path: Path) -> None:
    text = json.dumps(said("Ho"))
    assert ask(agent("codex", tmp_path, f"sys.stdout.write({text!r})")).text == "Ho"


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"input_tokens": "many"}])
def test_odd_counts_do_not_lose_the_answer(tmp_path: Path, usage: object) -> None:
    lines = (said("Ho"), {"type": "turn.completed", "usage": usage})
    answer = ask(agent("codex", tmp_path, program(*lines)))
    assert answer.text == "Ho"
    assert answer.usage == {}


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
def test_an_output_without_a_message_is_malformed(tmp_path: Path, lines: tuple[object]) -> None:
    failure = error(tmp_path, *lines)
    assert failure.kind == "malformed"
    assert "codex" in failure.what


@pytest.mark.parametrize("before", [(), (said("I will look."),)])
def test_a_failed_turn_is_an_error_in_codex_own_words(
    tmp_path: Path, before: tuple[object]
) -> None:
    failure = error(tmp_path, STARTED, *before, failed("usage limit reached"))
    assert failure.kind == "process"
    assert "usage limit reached" in failure.what


def test_codex_says_on_standard_output_why_it_failed(tmp_path: Path) -> None:
    # As it really is: a failed turn is exit code 1, and standard error has a warning at most.
    end = "sys.exit('WARNING: proceeding, even though we could not create PATH aliases')"
    message = "unexpected status 401 Unauthorized: Incorrect API key provided"
    failure = error(tmp_path, STARTED, failed(message), end=end)
    assert failure.kind == "process"
    assert message in failure.what


def test_codex_says_on_standard_output_what_it_waited_for(tmp_path: Path) -> None:
    # As it really is without a network: it tries again until its time is up.
    with standins.witness(tmp_path) as witness:
        end = f"sys.stderr.write('WARNING: proceeding'); sys.stderr.flush(); stay({witness.path!r})"
        waiting = {"type": "error", "message": "Reconnecting... waiting for network"}
        provider = agent("codex", tmp_path, program(STARTED, waiting, end=end))
        with pytest.raises(ProviderError, match="waiting for network") as caught:
            standins.until(witness.heard, provider.invoke(ProviderRequest(question="Hi")))
    assert caught.value.kind == "timeout"


def test_a_message_before_a_crash_is_no_answer(tmp_path: Path) -> None:
    failure = error(tmp_path, said("I will look."), end="os.kill(os.getpid(), 9)")
    assert failure.kind == "process"


def test_a_failed_turn_shows_no_secrets(tmp_path: Path) -> None:
    event = "say(type='turn.failed', error={'message': 'bad key ' + os.environ['KEY']})"
    provider = agent("codex", tmp_path, event, env={"KEY": "sk-7f3a9c01d4b8"})
    with pytest.raises(ProviderError) as caught:
        ask(provider)
    assert "bad key ***" in caught.value.what
    assert "7f3a9c01d4b8" not in repr(caught.value)


def test_the_executable_may_be_found_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = agent("codex", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert saw(agent("codex", tmp_path, executable="agent"))["args"][0] == "exec"
    assert provider.name == "target"
