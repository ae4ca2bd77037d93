"""The report as Markdown, for the summary of a step on GitHub: what changed, and why."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from multiturn.review.changes import name_cases
from multiturn.review.diff import distinct, unified_diff
from multiturn.review.report.causes import SEVERAL
from multiturn.review.report.comparison import (
    MOST_PRIVILEGES,
    STATUSES,
    Comparison,
    Report,
    Status,
)
from multiturn.review.report.suites import section_text, sections_of
from multiturn.text import first_of, number_of, unseen, utf8

MAX_SIZE = 1_000_000  # bytes; R1: GitHub takes 1,024 KiB a step
_RESERVE = 500  # for the line that says what was left out
_LONGEST_DIFF = 60_000
_LONGEST_PROMPT = 5_000
_LONGEST_LINE = 500
_OPEN_ROWS = 20
_SPECIAL = re.compile(r"[^A-Za-z0-9 ,./()'–→-]|(?<=(?i:www))\.")  # noqa: RUF001 - as they are


def to_markdown(report: Report) -> bytes:
    """Render a report as GitHub's Markdown, of at most ``MAX_SIZE`` bytes."""
    compared = f", compared with {_code(report.against)}" if report.against else ""
    counts = ", ".join(
        f"{number} {status}"
        for status, number in _counts(report).items()
        if report.against or status == "failed"
    )
    text = f"## {_title(report)}\n\nPipeline {_code(report.shown)}{compared}"
    text += f": {counts}.\n" if counts else ".\n"
    text += f"\nThis is {report.sample}.\n" if report.sample else ""
    left_out = 0
    size = len(text.encode())
    for block in _blocks(report):
        length = len(block.encode()) + 1
        if size + length > MAX_SIZE - _RESERVE:
            left_out += 1
            continue
        text += f"\n{block}"
        size += length
    if left_out:
        text += (
            f"\n{left_out} more parts would exceed GitHub's limit; the HTML report has them all.\n"
        )
    return text.encode()


def _counts(report: Report) -> dict[Status, int]:
    """Return how many cases there are of each status that any has."""
    counts = Counter(comparison.status for comparison in report.comparisons)
    return {status: counts[status] for status in STATUSES if counts[status]}


def _title(report: Report) -> str:
    found = report.comparisons
    if not report.against:
        return number_of(len(found), "case")
    counts = [(status, number) for status, number in _counts(report).items() if status != "same"]
    (status, number), *others = counts or [("changed", 0)]
    title = f"{number_of(number, 'case')} {status}"
    title += "".join(f", {number} {status}" for status, number in others)
    if suites := report.removed_suites():
        title += f"; all cases of {first_of([*map(_code, suites)])} removed"
    causes = dict.fromkeys(cause for comparison in found for cause in comparison.causes)
    if len(causes) == 1:
        title += f"; 1 cause: {_code(next(iter(causes)))}"
    elif causes:
        or_more = " or more" * any(cause.startswith(SEVERAL) for cause in causes)
        title += f"; {len(causes)} causes{or_more}"
    return title


def _blocks(report: Report) -> Iterator[str]:
    yield from (f"{_code(error)}\n" for error in report.errors)
    yield from _warnings(report)
    differences = _differences(report)
    for heading, group in groupby(report.comparisons, _heading):
        cases = list(group)
        status = cases[0].status
        if report.against and status == "same":
            continue
        if report.against or status == "failed":
            yield f"### {heading}: {number_of(len(cases), 'case')}\n"
        yield _table(cases)
        for case in cases:
            yield from differences.get(_key(case), ())


def _heading(comparison: Comparison) -> str:
    status, causes = comparison.status, comparison.causes
    cause = "more than one cause" if len(causes) > 1 else "".join(map(_code, causes))
    return cause if status == "changed" else ", ".join(filter(None, (status, cause)))


def _warnings(report: Report) -> Iterator[str]:
    lines = [f"The pipeline has changed: {_code(change)}" for change in report.pipeline]
    lines += [
        f"Change of privilege: {_code(privilege)}, in {number_of(len(places), 'case')}"
        for privilege, places in report.privileges().items()
    ]
    if len(lines) > MOST_PRIVILEGES:
        lines[MOST_PRIVILEGES:] = [f"{len(lines) - MOST_PRIVILEGES} more"]
    if lines:
        yield "> [!WARNING]\n" + "".join(f"> - {line}\n" for line in lines)


def _table(comparisons: list[Comparison]) -> str:
    said = [_what(comparison) for comparison in comparisons]
    rows = ["| case | suite | what |", "| --- | --- | --- |"]
    if not any(said):
        rows = ["| case | suite |", "| --- | --- |"]
    for comparison, what in zip(comparisons, said, strict=True):
        case = comparison.case
        place = f"{case.suite}:{case.line}" if case.line and comparison.now else case.suite
        row = f"| {_code(case.id)} | {_code(place)} |"
        rows.append(f"{row} {', '.join(map(_code, what))} |" if any(said) else row)
    title = number_of(len(comparisons), "case")
    return _folded(title, "\n".join(rows), is_open=len(rows) <= _OPEN_ROWS)


def _what(comparison: Comparison) -> list[str]:
    """Return what a row says of a case, beyond its heading: its error, old name and causes."""
    case, was, causes = comparison.case, comparison.was, comparison.causes
    if case.error:
        return [case.error]
    what = list(causes) if len(causes) > 1 else []
    if was is None:
        return what
    suite = f" of {was.suite}" if was.suite != case.suite else ""
    return [f"was {was.id}{suite}", *what]


def _key(comparison: Comparison) -> tuple[str, str]:
    return comparison.case.suite, comparison.case.id


def _differences(report: Report) -> dict[tuple[str, str], list[str]]:
    """Return each difference once, with the cases that have it, by the first of them."""
    changed = ((_key(c), *_changed(report, c)) for c in report.comparisons if c.causes)
    blocks: dict[tuple[str, str], list[str]] = {}
    for lines, cases in distinct(changed):
        diff = _shown("\n".join(lines))
        title = f"The difference in {_code(name_cases(cases))}"
        block = _folded(title, _fenced(diff, "diff", _LONGEST_DIFF))
        blocks.setdefault(cases[0], []).append(block)
    for comparison in report.comparisons:
        if comparison.status == "added":
            prompt = _shown(next(filter(None, _changed(report, comparison)), ""))
            title = f"The prompt of {_code(name_cases([_key(comparison)]))}"
            blocks[_key(comparison)] = [_folded(title, _fenced(prompt, "text", _LONGEST_PROMPT))]
    return blocks


def _fenced(text: str, language: str, longest: int) -> str:
    """Return a block of code, at most so many characters of it."""
    if len(text) > longest:
        text = f"{text[:longest]}\n… {len(text) - longest:,} characters more"
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def difference(report: Report, comparison: Comparison) -> list[str]:
    """Return what is different in a case, without the places where."""
    lines = list(unified_diff(*_changed(report, comparison), "", ""))[2:]
    return ["@@" if line.startswith("@@") else line for line in lines]


def _changed(report: Report, comparison: Comparison) -> tuple[str, str]:
    """Return what differs: the prompt, else the transcript, else the attached files."""
    old, new = (sections_of(case) if case else ([], [], []) for case in report.texts(comparison))
    pairs = zip(old, new, strict=True)
    return next(((section_text(a), section_text(b)) for a, b in pairs if a != b), ("", ""))


def _folded(title: str, body: str, *, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}><summary>{title}</summary>\n\n{body}\n\n</details>\n"


def _shown(text: str) -> str:
    return unseen().sub(lambda match: f"\\u{{{ord(match[0]):x}}}", utf8(text))


def _code(text: str) -> str:
    """Return a text in one line, escaped so that GitHub sees no markup, link or mention in it."""
    line = " ".join(_shown(text).split("\n"))
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]}…"
    return f"<code>{_SPECIAL.sub(lambda match: f'&#{ord(match[0])};', line)}</code>"
