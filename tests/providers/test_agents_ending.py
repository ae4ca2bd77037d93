"""How the runs of agents end: errors in words, without secrets, and nothing that stays.

The agents are processes.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import standins
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from standins import agent, ask, left

pytestmark = pytest.mark.parametrize("kind", list(standins.KINDS))
REQUEST = ProviderRequest(question="Hi", input_files=(InputFile("a", "a", False, "A"),))
SECRET = "sk-7f3a9c01d4b84e2f-5566778899"


def error(provider: Any, until: Any = None) -> ProviderError:
    """Return the error of a run; its time is up as soon as a condition holds."""
    work = standins.invoked(provider, REQUEST)
    with pytest.raises(ProviderError) as caught:
        standins.until(until or (lambda: False), work)
    return caught.value


def test_the_executable_may_be_on_the_path(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standins.executable(tmp_path, standins.KINDS[kind].program)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = ask(agent(kind, tmp_path, executable="agent"), "Hi")
    assert answer.text.startswith("Hi")
    assert (answer.finish_reason, answer.retries) == ("stop", 0)
    assert left(tmp_path) == []


@pytest.mark.parametrize("executable", ["no-such-agent", "/no/such/agent"])
def test_an_agent_that_cannot_start_is_an_error(kind: str, tmp_path: Path, executable: str) -> None:
    failure = error(agent(kind, tmp_path, executable=executable))
    assert failure.kind == "process"
    assert f"cannot start {executable}: No such file or directory" in failure.what
    assert left(tmp_path) == []


def test_a_time_out_is_an_error_with_the_end_of_the_output_and_without_secrets(
    kind: str, tmp_path: Path
) -> None:
    with standins.witness(tmp_path) as witness:
        program = (
            f"print('thinking', os.environ['KEY'], flush=True)\nleave_behind({witness.path!r})\n"
            f"stay({witness.path!r})"
        )
        provider = agent(kind, tmp_path, program, timeout_seconds=77, env={"KEY": SECRET})
        failure = error(provider, lambda: witness.heard(2))
    assert failure.kind == "timeout"
    assert "took more than 77 s (timeout_seconds); the end of its output: " in failure.what
    assert "thinking ***" in failure.what
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
        file = tmp_path / "heard"
        before = f"leave_behind({witness.path!r})\nwait_for({str(file)!r})\n"
        provider = agent(kind, tmp_path, before + standins.KINDS[kind].program)
        answer = standins.until(witness.tell(file), standins.invoked(provider, REQUEST))
    assert answer.text.startswith("Hi")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("sys.exit('bad key: ' + os.environ['KEY'])", id="in an error"),
        pytest.param("print(os.environ['KEY'] * 300); sys.exit(1)", id="so often that one is cut"),
    ],
)
def test_a_failure_shows_no_secrets(kind: str, tmp_path: Path, program: str) -> None:
    failure = error(agent(kind, tmp_path, program, env={"KEY": SECRET}))
    assert failure.kind == "process"
    assert "ended with exit code 1; the end of its output: " in failure.what
    assert "***" in failure.what
    for text in (failure.what, str(failure), repr(failure)):
        assert SECRET[-10:] not in text
    assert left(tmp_path) == []


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
