"""How long do reports of 2,000 cases take, to make and to open, against what cannot be saved?"""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

from playwright.sync_api import Browser

from browser import open_browser
from measuring import MULTITURN, medians, process, show, write_suite

_IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
_ONLY_PARSES = """<meta charset=utf-8><script type=application/json id=data>DATA</script>
<script>JSON.parse(document.getElementById("data").textContent)</script><b></b>"""
_LONGEST_FRAME = """async () => {
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


def opening(browser: Browser, file: Path, ready: str) -> tuple[float, float]:
    """Return the seconds until a page shows an element, and of its longest frame in scrolling."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    start = perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(ready, state="attached")
    taken = perf_counter() - start
    longest = page.evaluate(_LONGEST_FRAME) if ready == "#panel" else 0
    page.close()
    return taken, longest / 1000


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        os.chdir(name)  # where git looks for the repository
        suite, page, bare = Path("large.eval.yaml"), Path("report.html"), Path("bare.html")
        write_suite(suite, 2_000)
        for arguments in (["init", "-q"], ["add", "."], [*_IDENTITY, "commit", "-qm", "before"]):
            subprocess.run(("git", *arguments), check=True)
        suite.write_text(suite.read_text().replace("please", "kindly"))
        report = (MULTITURN, "report", suite.name, "--output", page.name)
        subjects = {
            "multiturn convert": process(MULTITURN, "convert", suite.name),
            "multiturn report": process(*report),
            "multiturn report --against, all changed": process(*report, "--against", "HEAD"),
        }
        show(f"2,000 cases, {suite.stat().st_size / 1e6:.1f} MB", medians(3, subjects))

        data = page.read_text().partition('id="data">')[2].partition("</script>")[0]
        bare.write_text(_ONLY_PARSES.replace("DATA", data))
        files = {bare.absolute(): "b", page.absolute(): "#panel"}
        rounds = [[opening(browser, *each) for each in files.items()] for _ in range(5)]
        figures = {
            "a page that only parses the same data": statistics.median(a[0] for a, _ in rounds),
            "the report, until a case shows (2 s at most)": statistics.median(
                b[0] for _, b in rounds
            ),
        }
        show(f"opening that report, {page.stat().st_size / 1e6:.1f} MB, in Chromium", figures)
        frame = statistics.median(b[1] for _, b in rounds)
        show("scrolling its list", {"a frame at 60 Hz": 1 / 60, "the longest frame": frame})


if __name__ == "__main__":
    main()
