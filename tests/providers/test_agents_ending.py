"""How the runs of agents end: errors in words, without secrets, and nothing that stays."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import standins
from multiturn.errors import MultiturnError
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from standins import agent, ask, left

pytestmark = pytest.mark.parametrize("kind", list(standins.KINDS))
REQUEST = ProviderRequest(question="Hi", input_files=(InputFile("a", "a", False, "A"),))
SECRET = "sk-7f3a9c01d4b84e2f-5566778899"


def error(provider: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(standins.invoked(provider, REQUEST))
    return caught.value


def test_nothing_stays_of_a_run_that_succeeds(kind: str, tmp_path: Path) -> None:
    assert asyncio.run(standins.invoked(agent(kind, tmp_path), REQUEST)).finish_reason == "stop"
    assert left(tmp_path) == []


def test_a_failure_is_an_error_with_the_end_of_the_output(kind: str, tmp_path: Path) -> None:
    failure = error(agent(kind, tmp_path, "sys.exit('not logged in')"))
    assert failure.kind == "process"
    assert "exit code 1" in failure.what
    assert "not logged in" in failure.what
    assert left(tmp_path) == []


@pytest.mark.parametrize("executable", ["no-such-agent", "/no/such/agent"])
def test_an_agent_that_is_not_installed_is_an_error(
    kind: str, tmp_path: Path, executable: str
) -> None:
    provider = agent(kind, tmp_path, executable=executable)
    failure = error(provider)
    assert failure.kind == "process"
    assert executable in failure.what
    assert left(tmp_path) == []
    with pytest.raises(MultiturnError, match=executable):
        provider.check()


def test_an_agent_that_is_installed_passes_the_check(kind: str, tmp_path: Path) -> None:
    agent(kind, tmp_path).check()


def test_the_executables_are_called_codex_and_code(kind: str) -> None:
    settings = standins.KINDS[kind].settings(name="a", provider=kind)
    assert settings.executable == {"codex": "codex", "vscode": "code"}[kind]


def test_a_time_out_is_an_error_with_the_end_of_the_output(kind: str, tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"print('thinking', flush=True)\nleave_behind({witness.path!r})\n"
        provider = agent(kind, tmp_path, f"{program}stay({witness.path!r})", timeout_seconds=77)
        with pytest.raises(ProviderError) as caught:
            standins.until(lambda: witness.heard(2), standins.invoked(provider, REQUEST))
    assert caught.value.kind == "timeout"
    assert "77" in caught.value.what
    assert "thinking" in caught.value.what
    assert left(tmp_path) == []


def test_a_canceled_run_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"leave_behind({witness.path!r}); stay({witness.path!r})"
        provider = agent(kind, tmp_path, program)
        with pytest.raises(asyncio.CancelledError):
            standins.until(lambda: witness.heard(2), standins.invoked(provider, REQUEST), cancels=1)
    assert left(tmp_path) == []


def test_a_background_child_does_not_hold_up_or_outlive_an_answer(
    kind: str, tmp_path: Path
) -> None:
    with standins.witness(tmp_path) as witness:
        before = f"leave_behind({witness.path!r})\n"
        program = standins.KINDS[kind].program.removeprefix(standins.COMMON)
        done = f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.005)\n"
        provider = agent(kind, tmp_path, before + done + program)

        def heard() -> bool:
            if witness.heard():
                (tmp_path / "heard").touch()
            return False

        answer = standins.until(heard, standins.invoked(provider, REQUEST))
    assert "A" in json.loads(answer.text)["files"].values()
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("sys.exit('bad key: ' + os.environ['KEY'])", id="in an error"),
        pytest.param("print(os.environ['KEY']); sys.exit(1)", id="on standard output"),
        pytest.param("sys.exit(os.environ['KEY'] * 300)", id="so often that one is cut off"),
        pytest.param("sys.exit(f'{os.environ}')", id="with the whole environment"),
    ],
)
def test_an_error_shows_no_secrets(kind: str, tmp_path: Path, program: str) -> None:
    failure = error(agent(kind, tmp_path, program, env={"KEY": SECRET}))
    for text in (failure.what, str(failure), repr(failure)):
        assert SECRET not in text
        assert SECRET[-10:] not in text
    assert "exit code 1" in failure.what
    assert "***" in failure.what


def test_a_time_out_shows_no_secrets(kind: str, tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"print(os.environ['KEY'], flush=True); stay({witness.path!r})"
        provider = agent(kind, tmp_path, program, env={"KEY": SECRET})
        with pytest.raises(ProviderError) as caught:
            standins.until(witness.heard, standins.invoked(provider, REQUEST))
    assert SECRET not in str(caught.value)
    assert "***" in str(caught.value)


def test_no_secret_is_in_what_is_printed_or_compared(kind: str, tmp_path: Path) -> None:
    provider = agent(kind, tmp_path, env={"KEY": SECRET})
    texts = [repr(provider), str(provider), repr(provider.settings), str(provider.settings)]
    texts.append(repr(provider.wire(REQUEST)))
    assert [text for text in texts if SECRET in text] == []
    other = agent(kind, tmp_path, env={"KEY": "another one"})
    assert other.wire(REQUEST).digest() == provider.wire(REQUEST).digest()


def test_many_at_once_get_their_own_answers(kind: str, tmp_path: Path) -> None:
    async def ask_all() -> list[Any]:
        providers = [agent(kind, tmp_path, executable=path) for _ in range(8)]
        requests = [
            ProviderRequest(
                question=f"Question {number}",
                input_files=(InputFile("a.md", "a.md", False, f"File {number}"),),
            )
            for number in range(8)
        ]
        return await asyncio.gather(*map(standins.invoked, providers, requests))

    path = standins.executable(tmp_path, standins.KINDS[kind].program)
    answers = [json.loads(answer.text) for answer in asyncio.run(ask_all())]
    assert [answer["prompt"].splitlines()[0] for answer in answers] == [
        f"Question {number}" for number in range(8)
    ]
    assert [list(answer["files"].values()) for answer in answers] == [
        [f"File {number}"] for number in range(8)
    ]
    assert left(tmp_path) == []


def test_one_provider_answers_many_at_once(kind: str, tmp_path: Path) -> None:
    async def ask_all() -> list[Any]:
        async with agent(kind, tmp_path) as provider:
            requests = (ProviderRequest(question=f"Question {n}") for n in range(5))
            return await asyncio.gather(*map(provider.invoke, requests))

    answers = [json.loads(answer.text)["prompt"] for answer in asyncio.run(ask_all())]
    assert [prompt.splitlines()[0] for prompt in answers] == [f"Question {n}" for n in range(5)]


def test_one_failure_of_many_does_not_disturb_the_others(kind: str, tmp_path: Path) -> None:
    good, other = agent(kind, tmp_path), agent(kind, tmp_path)
    bad = agent(kind, tmp_path, executable="/no/such/agent")

    async def ask_all() -> list[Any]:
        # Each is closed after its request, which ends all that it has started.
        work = (standins.invoked(provider, REQUEST) for provider in (good, bad, other))
        return await asyncio.gather(*work, return_exceptions=True)

    first, second, third = asyncio.run(ask_all())
    assert isinstance(second, ProviderError)
    assert [answer.finish_reason for answer in (first, third)] == ["stop", "stop"]
    assert ask(good).finish_reason == "stop"
