"""Batches that are killed at any moment, while the vendor fails: nothing is lost or sent twice.

``KILLS=80 pytest tests/tools/test_killed_batches.py`` runs so many; ``make test-tools`` runs a few.
A run that fails shows its number, and ``FIRST=7 KILLS=1`` tries that one again.
"""

import os
import random
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import commands
from batch_server import BatchServer, text_for, write_targets
from loopback import KEY
from running import records, start, write_suite

TARGETS = ("openai", "azure", "anthropic", "gemini", "responses")
FIRST, COUNT = int(os.environ.get("FIRST", "0")), int(os.environ.get("KILLS", "12"))
PROMPTS = ("one", 'a\u2028"\\\u00fc', "three", "one", "five")  # one is a duplicate
OPERATIONS = ("upload", "file", "create", "list", "look", "results")
STATUSES = (None, 200, 408, 429, 500, 503, 529)


class Killer:
    """Kills a process at the moment after, or before, the server has acted so many times."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.process: commands.Process | None = None
        self.left = 0  # moments until it is killed; 0 for never
        self.kills = 0
        self._lock = threading.Lock()

    def aim(self, process: commands.Process, most: int) -> None:
        self.left = self.rng.randint(1, most)
        self.process = process

    def watch(self, operation: str, acted: bool) -> bool:
        with self._lock:
            self.left -= 1
            if self.left or self.process is None:
                return False
            time.sleep(self.rng.choice([0, 0, 0.001, 0.01, 0.05]))
            self.process.kill()
            self.kills += 1
        return self.rng.random() < 0.3


def start_run(targets: list[str], folder: Path) -> commands.Process:
    arguments = ("--batch", "--output", "out.jsonl", "--poll", "0.01", "--resume", "--record-wire")
    named = [f"--target={target}" for target in targets]
    # Several targets are also asked twice.
    return start("a.eval.yaml", *named, f"--repeat={len(named)}", *arguments, folder=folder)


@pytest.mark.parametrize("number", range(FIRST, FIRST + COUNT))
def test_a_run_that_is_killed_goes_on(number: int, tmp_path: Path) -> None:
    rng = random.Random(number)
    target = TARGETS[number % len(TARGETS)]
    targets = [target, TARGETS[(number + 2) % len(TARGETS)]][: number % 2 + 1]
    killer = Killer(rng)
    with BatchServer() as server:
        server.lag, server.page = rng.choice([0, 1, 3]), rng.choice([1, 2, 20])
        server.unprocessed = rng.choice([0, 1]) if target == "azure" else 0
        write_targets(tmp_path, server, max_retries=rng.choice([0, 2]))
        write_suite(tmp_path, PROMPTS)
        if rng.random() < 0.5:
            server.stranger({"azure": "openai", "responses": "openai"}.get(target, target), 4)
        for _ in range(rng.randint(0, 4)):
            operation, status = rng.choice(OPERATIONS), rng.choice(STATUSES)
            is_done = status == 200 or rng.random() < 0.5
            if (operation, status) != ("create", 200):  # a cut answer that begins well
                server.trouble(operation, status, acted=is_done)
        # Besides the moments at which the server acts, any time: also while a process starts.
        for _ in range(rng.randint(1, 4)):
            server.watch = lambda operation, acted: None
            process = start_run(targets, tmp_path)
            if rng.random() < 0.7:
                killer.aim(process, 10)
                server.watch = killer.watch
            else:
                time.sleep(rng.uniform(0.05, 1))
                process.kill()
            _, stderr = process.communicate(timeout=60)
            assert "Traceback" not in stderr
        server.watch = lambda operation, acted: None
        for _ in range(12):  # each trouble that is left may end a run
            process = start_run(targets, tmp_path)
            stdout, stderr = process.communicate(timeout=60)
            assert "Traceback" not in stderr
            assert KEY not in stdout + stderr
            if process.returncode == 0:
                break
        assert process.returncode == 0, stderr
        sent = server.sent()
        del sent["theirs"]
    keys = ("id", "target", "repeat", "response")
    answers = [tuple(map(line.get, keys)) for line in records(tmp_path / "out.jsonl")]
    assert Counter(answers) == Counter(
        (f"c{at}", name, repeat, text_for(prompt))
        for at, prompt in enumerate(PROMPTS)
        for name in targets
        for repeat in ([1, 2] if len(targets) == 2 else [None])
    )
    assert sent == dict.fromkeys(PROMPTS, len(targets) ** 2)
    assert not (tmp_path / "out.jsonl.batch").exists()
    for path in tmp_path.iterdir():
        with suppress(UnicodeDecodeError):
            assert path.name == "targets.yaml" or KEY not in path.read_text()
    assert not [path for path in tmp_path.iterdir() if re.match(r"out\.jsonl.+", path.name)]
