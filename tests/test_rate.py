"""``run --rate N/min``: no more requests in any minute, retries included, and hardly fewer."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import multiturn
from loopback import Answer, Server, chat_answer
from multiturn import dry_run, load_target
from multiturn.engine import run as running_cases
from multiturn.providers import base
from multiturn.providers.client import Client
from running import by_id, run, write_suite, write_target


class Clock:
    """The time of a test: it stands still while a request is under way or the program works.

    While requests wait for their turns, and nothing else is done, it goes on to the next turn.
    """

    now = 0.0
    waiting = 0  # requests that wait for their turns
    under_way = 0

    def __call__(self) -> float:
        return self.now


class Loop(asyncio.SelectorEventLoop):
    """An event loop with the time of a test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.time = clock  # type: ignore[method-assign]
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def wait(timeout: float | None) -> Any:
            waits = 0 if clock.waiting else timeout
            events = select(None if clock.under_way and timeout else waits)
            if not events:
                clock.now += timeout or 0
            return events

        selector.select = wait


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, turn, attempt = Clock(), base.Rate.turn, Client._attempt

    async def counted_turn(rate: base.Rate) -> None:
        clock.waiting += 1
        await turn(rate)
        clock.waiting -= 1

    async def counted_attempt(*given: Any) -> Any:
        clock.under_way += 1
        try:
            return await attempt(*given)
        finally:
            clock.under_way -= 1

    monkeypatch.setattr(base.Rate, "turn", counted_turn)
    monkeypatch.setattr(Client, "_attempt", counted_attempt)
    monkeypatch.setattr(base, "monotonic", clock)
    monkeypatch.setattr(running_cases, "perf_counter", clock)
    monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: Loop(clock))
    return clock


def most_in_a_minute(times: list[float]) -> int:
    return max(sum(start <= each < start + 60 for each in times) for start in times)


def test_retries_count_and_a_busy_minute_is_used(
    tmp_path: Path, server: Server, clock: Clock
) -> None:
    arrived: list[float] = []
    number = count()

    def reply(_: str) -> Answer:
        arrived.append(clock.now)
        clock.now += 0.01  # so long the answer takes
        return chat_answer() if next(number) % 3 else (429, {"error": {"message": "slow down"}})

    server.reply = reply
    write_target(tmp_path, server, max_retries=20)
    write_suite(tmp_path, map(str, range(80)))
    options = ("--target=az", "--rate=50/min", "--concurrency=64", "--output=out.jsonl")
    done = run("a.eval.yaml", *options, folder=tmp_path)
    assert (done.returncode, len(by_id(tmp_path / "out.jsonl"))) == (0, 80)
    assert len(arrived) == 120  # every third is refused, and asked again
    assert most_in_a_minute(arrived) <= 50
    assert arrived[-1] - arrived[0] == pytest.approx(119 * 61 / 50, abs=0.1)
    lines = by_id(tmp_path / "out.jsonl").values()
    # The wait for the first turn is no latency.
    assert {line["latency_ms"] for line in lines if not line["retries"]} == {10}


def test_each_target_has_its_own_rate(tmp_path: Path, server: Server, clock: Clock) -> None:
    write_target(tmp_path, server)
    text = (tmp_path / "targets.yaml").read_text()
    copy = text[text.index("[") + 1 : text.rindex("]")].replace('"az"', '"b"')
    (tmp_path / "targets.yaml").write_text(text.replace("]", f", {copy}]"))
    write_suite(tmp_path, map(str, range(10)))
    done = run(
        *("a.eval.yaml", "--target=az", "--target=b", "--rate=20/min", "--output=out.jsonl"),
        folder=tmp_path,
    )
    assert (done.returncode, len(server.requests)) == (0, 20)
    # 10 of 20 take half of a minute; 20 would take a whole one.
    assert clock.now < 31


def test_another_run_of_the_target_leaves_the_rate_alone(clock: Clock) -> None:
    target, gone = load_target(), list[float]()

    async def main() -> None:
        async for _ in multiturn.run([{"input": "Hi"}] * 25, "spec", target, rate=10):
            if not gone:
                async for _ in multiturn.run([{"input": "Hi"}], "spec", target):
                    assert len(list(dry_run([{"input": "Hi"}], "spec", target))) == 1
            gone.append(clock.now)

    asyncio.run(main())
    assert (len(gone), most_in_a_minute(gone)) == (25, 10)


def test_what_comes_late_does_not_add_to_what_comes_then(clock: Clock) -> None:
    async def main() -> list[float]:
        given, gone = base.Rate(10), []

        async def ask() -> None:
            await given.turn()
            gone.append(clock.now)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(25):
                tasks.create_task(ask())
            await asyncio.sleep(0)
            clock.now += 30  # as a slow stage blocks the event loop
        return gone

    gone = asyncio.run(main())
    assert (len(gone), most_in_a_minute(gone)) == (25, 10)


@pytest.mark.parametrize(
    "text", ["100", "0/min", "5/s", "x/min", "1.5/min", "-1/min", f"{2**63}/min"]
)
def test_what_is_no_rate_is_refused(tmp_path: Path, text: str) -> None:
    done = run("a.eval.yaml", f"--rate={text}", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "write the number of requests in a minute, such as 100/min, and at most 999999999/min\n"
    )
