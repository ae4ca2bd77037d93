"""How much memory a command takes, measured in a process that has run it before."""

import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["warm"])
measurable = Path("/proc/self/clear_refs").exists()


def peak_of_convert(suite: Path) -> float:
    """Return by how many MB converting a suite raises the peak memory of a process.

    It has to end with 0 or 1.
    """
    with ProcessPoolExecutor(1, mp_context=CONTEXT, max_tasks_per_child=1) as pool:
        return pool.submit(_measure, suite).result()


def _measure(suite: Path) -> float:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    first = suite.with_name("first.yaml")
    first.write_text("input_messages: [{role: user, content: Hello}]")
    _convert(first)
    Path("/proc/self/clear_refs").write_text("5")  # begin anew with the peak
    before = _peak()
    _convert(suite)
    return (_peak() - before) / 1000


def _convert(suite: Path) -> None:
    from multiturn.cli.group import main

    try:
        main(["convert", str(suite)])
    except SystemExit as ended:
        if ended.code not in (None, 0, 1):
            raise AssertionError(f"it ended with {ended.code}") from None


def _peak() -> int:
    return int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0])
