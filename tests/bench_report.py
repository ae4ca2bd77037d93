"""Measure reports of 2,000 cases: making them against converting, opening them against JSON.parse.

Both figures of a pair are taken in turns, and are the medians of several rounds.
"""

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

from playwright.sync_api import Browser

import bench
from bench_scale import MULTITURN, line, seconds
from browser import open_browser

ROUNDS = 5
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
SCROLL = """async () => {
    const list = document.getElementById("cases");
    let last = await new Promise(requestAnimationFrame);
    let longest = 0;
    for (let frame = 0; frame < 120; frame++) {
        list.scrollTop += 400;
        const now = await new Promise(requestAnimationFrame);
        longest = Math.max(longest, now - last);
        last = now;
    }
    return longest;
}"""


FLOOR = """<meta charset=utf-8><script type=application/json id=data>DATA</script>
<script>JSON.parse(document.getElementById("data").textContent)</script><b></b>"""


def opening(browser: Browser, file: Path, ready: str) -> tuple[float, float]:
    """Return the seconds until a page shows an element, and its longest frame while scrolling."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    start = perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(ready, state="attached")
    taken = perf_counter() - start
    longest = page.evaluate(SCROLL) if ready == "#panel" else 0
    page.close()
    return taken, longest


def medians(rows: Iterable[tuple[float, ...]]) -> list[float]:
    """Return the median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        suite = folder / "large.eval.yaml"
        bench.CASES = 2_000
        bench.generate(suite)
        for arguments in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "before"]):
            subprocess.run(("git", *arguments), cwd=folder, check=True)
        suite.write_text(suite.read_text().replace("please", "kindly"))
        os.chdir(folder)  # where git looks for the repository
        page = folder / "report.html"
        print(f"\nreports of {bench.CASES:,} cases, a suite of {suite.stat().st_size / 1e6:.1f} MB")
        report = (MULTITURN, "report", suite.name, "--output", page.name)
        commands = [(MULTITURN, "convert", suite.name), report, (*report, "--against", "HEAD")]
        floor, alone, compared = medians(
            tuple(seconds(*command) for command in commands) for _ in range(ROUNDS)
        )
        line("multiturn convert", f"{floor * 1000:,.0f} ms", 1)
        line("multiturn report", f"{alone * 1000:,.0f} ms", alone / floor)
        line(
            "multiturn report --against, all changed",
            f"{compared * 1000:,.0f} ms",
            compared / floor,
        )

        data = page.read_text().partition('id="data">')[2].partition("</script>")[0]
        parsing = folder / "floor.html"
        parsing.write_text(FLOOR.replace("DATA", data))
        print(f"\nopening that report, {page.stat().st_size / 1e6:.1f} MB, in Chromium")
        floor, opened, frame = medians(
            (opening(browser, parsing, "b")[0], *opening(browser, page, "#panel"))
            for _ in range(ROUNDS)
        )
        line("a page that only parses the same data", f"{floor * 1000:,.0f} ms", 1)
        line(
            "the report, until a case shows", f"{opened * 1000:,.0f} ms", opened / floor, "2,000 ms"
        )
        line("longest frame while its list scrolls", f"{frame:,.0f} ms", frame / (1000 / 60))


if __name__ == "__main__":
    main()
