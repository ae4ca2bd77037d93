"""``run --rate N/min``: no more requests in any minute, retries included, and hardly fewer."""

import asyncio
import time
from itertools import count
from pathlib import Path

import pytest

from loopback import Answer, Server, chat_answer
from multiturn.providers import base
from running import by_id, run, write_suite, write_target

WINDOW = 1.5  # seconds, in place of a minute
SLACK = 0.3  # in place of a second: a test runs beside others


@pytest.fixture(autouse=True)
def _short_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_PERIOD", WINDOW + SLACK)


def most_in_a_window(times: list[float]) -> int:
    return max(sum(start <= each < start + WINDOW for each in times) for start in times)


def test_retries_count_and_a_busy_minute_is_used(tmp_path: Path, server: Server) -> None:
    arrived: list[float] = []
    number = count()

    def reply(_: str) -> Answer:
        arrived.append(time.monotonic())
        return chat_answer() if next(number) % 3 else (429, {"error": {"message": "slow down"}})

    server.reply = reply
    write_target(tmp_path, server, max_retries=20)
    write_suite(tmp_path, map(str, range(80)))
    options = ("--target=az", "--rate=50/min", "--concurrency=64", "--output=out.jsonl")
    done = run("a.eval.yaml", *options, folder=tmp_path)
    assert (done.returncode, len(by_id(tmp_path / "out.jsonl"))) == (0, 80)
    assert len(arrived) == 120  # every third is refused, and asked again
    assert most_in_a_window(arrived) <= 50
    busy = [each for each in arrived if each < arrived[0] + 2 * WINDOW]
    assert len(busy) >= 2 * 50 * 0.8  # 5/6 of the time, because of the slack
    lines = by_id(tmp_path / "out.jsonl").values()
    waited = [line["latency_ms"] for line in lines if not line["retries"]]
    assert sorted(waited)[len(waited) // 2] < 500  # the wait for the first turn is no latency


def test_each_target_has_its_own_rate(tmp_path: Path, server: Server) -> None:
    write_target(tmp_path, server)
    text = (tmp_path / "targets.yaml").read_text()
    copy = text[text.index("[") + 1 : text.rindex("]")].replace('"az"', '"b"')
    (tmp_path / "targets.yaml").write_text(text.replace("]", f", {copy}]"))
    write_suite(tmp_path, map(str, range(10)))
    start = time.monotonic()
    done = run(
        *("a.eval.yaml", "--target=az", "--target=b", "--rate=20/min", "--output=out.jsonl"),
        folder=tmp_path,
    )
    # 10 of 20 take half of a period; 20 would take a whole one.
    assert (done.returncode, len(server.requests)) == (0, 20)
    assert time.monotonic() - start < (WINDOW + SLACK) * 0.9


def test_what_comes_late_does_not_add_to_what_comes_then() -> None:
    async def main() -> list[float]:
        given, gone = base.Rate(10), []

        async def ask() -> None:
            await given.turn()
            gone.append(time.monotonic())

        async with asyncio.TaskGroup() as tasks:
            for _ in range(25):
                tasks.create_task(ask())
            await asyncio.sleep(0)
            time.sleep(WINDOW / 2)  # as a slow stage blocks the event loop
        return gone

    gone = asyncio.run(main())
    assert (len(gone), most_in_a_window(gone)) == (25, 10)


@pytest.mark.parametrize("text", ["100", "0/min", "5/s", "x/min", "1.5/min", "-1/min"])
def test_what_is_no_rate_is_refused(tmp_path: Path, text: str) -> None:
    done = run("a.eval.yaml", f"--rate={text}", folder=tmp_path)
    assert done.returncode == 2
    assert "write the number of requests in a minute, such as 100/min" in done.stderr
