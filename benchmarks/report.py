"""How long do reports of 2,000 cases take, to make and to open, against what cannot be saved?"""

import os
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from playwright.sync_api import Browser

from browser import open_browser
from measuring import MULTITURN, show, usage, write_suite
from repositories import commit, git

# To find what is different once takes a fifth of the time where each case changes at many places.
_TIMES = {"20": 4.0, "all": 8.5, "kinds": 7.0}  # of the time that multiturn convert takes
_MOST = {"20": (200, 1), "all": (400, 8), "kinds": (400, 8)}  # MiB of memory, MB of the page
_ONLY_READS = """<meta charset=utf-8><script type=text/plain id=data>DATA</script><script>
const packed = atob(document.getElementById("data").textContent);
const bytes = new Uint8Array(packed.length);
for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
new Response(stream).text().then(() => document.body.append(document.createElement("b")));
</script><body>"""
_KINDS = 12
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


def in_many_ways(text: str) -> str:
    """Return a suite with one more line in each case: one of 12."""
    head, *cases = text.split("  - id: case-")
    lines = (f"{' ' * 14}Kind {number % _KINDS}.\n" for number in range(len(cases)))
    changed = (f"  - id: case-{case}{line}" for case, line in zip(cases, lines, strict=True))
    return head + "".join(changed)


def opening(browser: Browser, file: Path, ready: str) -> tuple[float, float]:
    """Return the seconds until a page shows an element, and of its longest frame in scrolling."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    start = perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(ready, state="attached")
    taken = perf_counter() - start
    longest = page.evaluate(_LONGEST_FRAME) if ready != "b" else 0
    page.close()
    return taken, longest / 1000


def measured(suite: Path, page: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return CPU seconds and MiB of reports of some changed cases and of all, in turns."""
    text = suite.read_text()
    few, rest = text.split("  - id: case-20\n")
    changed = {
        "20": f"{few.replace('please', 'kindly')}  - id: case-20\n{rest}",
        "all": text.replace("please", "kindly"),
        "kinds": in_many_ways(text),
    }
    report = (MULTITURN, "report", suite.name, "--against", "HEAD", "--output", page.name, "-q")
    rounds = []
    for _ in range(3):
        used = {"multiturn convert": usage(MULTITURN, "convert", suite.name)}
        for name, words in changed.items():
            suite.write_text(words)
            used[f"{name} changed: report --against"] = usage(*report)
            page.rename(f"{name}.html")
        rounds.append(used)
    cpu, memory = (
        {name: statistics.median(used[name][at] for used in rounds) for name in rounds[0]}
        for at in (0, 1)
    )
    return cpu, memory


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        os.chdir(name)  # where git looks for the repository
        suite, page, bare = Path("large.eval.yaml"), Path("report.html"), Path("bare.html")
        write_suite(suite, 2_000)
        git(Path(), "init", "-q")
        commit(Path())
        cpu, memory = measured(suite, page)
        show(f"2,000 cases, {suite.stat().st_size / 1e6:.1f} MB, CPU time", cpu, "s", **_TIMES)
        print("\npeak memory and size of the page")
        for kind, (most_memory, most_size) in _MOST.items():
            peak = memory[f"{kind} changed: report --against"]
            size = Path(f"{kind}.html").stat().st_size / 1e6
            print(f"  {kind + ' changed':<32}{peak:>10,.0f} MiB   at most {most_memory}")
            print(f"  {'':<32}{size:>10,.2f} MB    at most {most_size}")

        data = Path("all.html").read_text().partition('id="data">')[2].partition("</script>")[0]
        bare.write_text(_ONLY_READS.replace("DATA", data))
        files = {
            bare.absolute(): "b",
            Path("all.html").absolute(): ".difference:nth-child(20)",
            Path("kinds.html").absolute(): f".difference:nth-child({_KINDS})",
        }
        rounds = [[opening(browser, *each) for each in files.items()] for _ in range(5)]
        figures = {
            "a page that only decompresses the same data": [each[0][0] for each in rounds],
            "2,000 differences, until 20 show (1 s at most)": [each[1][0] for each in rounds],
            "12 differences, until they show (1 s at most)": [each[2][0] for each in rounds],
        }
        medians = {name: statistics.median(times) for name, times in figures.items()}
        show("opening reports in which all cases have changed, in Chromium", medians)
        frame = statistics.median(each[1][1] for each in rounds)
        show("scrolling its list", {"a frame at 60 Hz": 1 / 60, "the longest frame": frame})


if __name__ == "__main__":
    main()
