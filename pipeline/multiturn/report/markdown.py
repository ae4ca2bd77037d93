"""The report as Markdown, for a comment on a pull request: what changed, and why."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from multiturn.errors import cut
from multiturn.report.answers import AnswerReport
from multiturn.report.causes import SEVERAL
from multiturn.report.comparison import MOST_PRIVILEGES, Comparison, Report, Status, titled
from multiturn.snapshots.changes import Change, name_cases
from multiturn.snapshots.text_diff import unified_diff
from multiturn.text import first_of, number_of, unseen, utf8

MAX_SIZE = 65_000  # characters; a comment on GitHub holds 65,536, and begins with a marker
_RESERVE = 500  # for the lines that say what was left out
_MOST_ERRORS = 20
_MOST_ROWS, _OPEN_ROWS = 100, 20
_LONGEST_DIFF = 20_000
_TOO_LONG = "\nIts lines would exceed GitHub's limit; the HTML report has them.\n"
_LONGEST_PROMPT = 5_000
_LONGEST_LINE = 500
_SPECIAL = re.compile(r"[^A-Za-z0-9 ,./()'–→-]|(?<=(?i:www))\.")  # noqa: RUF001 - as they are


def to_markdown(report: Report) -> bytes:
    """Render a report as GitHub's Markdown, of at most ``MAX_SIZE`` characters.

    Each difference is open, and the cases are folded below. What has no room is left out whole,
    cases first, then the differences with least danger. A change of privilege loses its lines
    before it is left out.
    """
    compared = f", compared with {_code(report.against)}" if report.against else ""
    counts = ", ".join(
        f"{number} {status}"
        for status, number in Counter(each.status for each in report.comparisons).items()
        if report.against or status == "failed"
    )
    title = "; ".join(filter(None, (_title(report), report.growth)))
    text = f"## {title}\n\nPipeline {_code(report.shown)}{compared}"
    text += f": {counts}.\n" if counts else ".\n"
    text += f"\nThis is {report.sample}.\n" if report.sample else ""
    comment = _Comment(text)
    for number, error in enumerate(report.errors):
        comment.add("error", f"{_code(error)}\n" if number < _MOST_ERRORS else "")
    for warning in _warnings(report):
        comment.add("warning", warning)
    tables = list(_tables(report))
    for table in (table for status, table in tables if status == "failed"):
        comment.add("table", table)
    shown = [(each[0], *_change(*each)) for each in titled(report.changes)]
    reserved = sum(_size(heading) + len(_TOO_LONG) for each, heading, _ in shown if each.privileges)
    for each, heading, lines in shown:
        reserved -= _size(heading) + len(_TOO_LONG) if each.privileges else 0
        shorter = [heading + _TOO_LONG] if each.privileges else []
        comment.add("difference", heading + lines, *shorter, reserved=reserved)
    for table in (table for status, table in tables if status != "failed"):
        comment.add("table", table)
    return comment.text.encode()


def answers_to_markdown(report: AnswerReport) -> bytes:
    """Render a report of answers as GitHub's Markdown: the totals, and what changed."""
    heading, *rows = (" | ".join(map(_code, row)) for row in report.totals())
    rule = " | ".join(["---"] * len(heading.split(" | ")))
    table = "".join(f"| {row} |\n" for row in (heading, rule, *rows))
    comment = _Comment(f"## Answers\n\n{_code(report.summary)}\n\n{table}")
    has_suites = len({case.suite for case in report.cases}) > 1
    for case in report.cases:
        old, new = ("\n".join(f"{t}:\n{text}\n" for t, text in case.texts(at)) for at in (0, 1))
        lines = [*unified_diff(old, new, "", "")][2:]
        if (lines or case.scores) and old and new:
            said = ", ".join(filter(None, (case.status, case.scores)))
            name = f"{case.suite}: {case.id}" if has_suites else case.id
            words = f"### {_code(name)}\n\n{_code(said)}\n"
            diff = _fenced(_shown("\n".join(lines)), "diff", _LONGEST_PROMPT)
            comment.add("case", *([f"{words}\n{diff}\n"] if lines else []), words)
    return comment.text.encode()


class _Comment:
    """Blocks of text, of at most ``MAX_SIZE`` characters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._size = _size(text)
        self._left_out = Counter[str]()

    def add(self, thing: str, *forms: str, reserved: int = 0) -> None:
        """Add the longest form of a thing for which there is room, or else count it.

        The longest comes first; an empty one is only counted. Characters that are ``reserved``
        are left for others.
        """
        room = MAX_SIZE - _RESERVE - self._size - reserved
        block = next((form for form in forms if form and _size(form) < room), None)
        if block is None:
            self._left_out[thing] += 1
            return
        self._text += f"\n{block}"
        self._size += _size(block) + 1

    @property
    def text(self) -> str:
        """All blocks, and how many of each thing were left out."""
        left_out = ", ".join(number_of(n, f"more {each}") for each, n in self._left_out.items())
        more = f"\n{left_out} would exceed GitHub's limit; the HTML report has all.\n"
        return self._text + (more if left_out else "")


def _size(text: str) -> int:
    """Return the length of a text as JavaScript, and so GitHub, counts it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _title(report: Report) -> str:
    found = report.comparisons
    if not report.against:
        return number_of(len(found), "case")
    counts = Counter(comparison.status for comparison in found if comparison.status != "same")
    (status, number), *others = counts.items() or [("changed", 0)]
    title = f"{number_of(number, 'case')} {status}"
    title += "".join(f", {number} {status}" for status, number in others)
    causes = dict.fromkeys(cause for comparison in found for cause in comparison.causes)
    if len(causes) == 1:
        title += f"; 1 cause: {_code(next(iter(causes)))}"
    elif causes:
        or_more = " or more" * any(cause.startswith(SEVERAL) for cause in causes)
        title += f"; {len(causes)} causes{or_more}"
    return title


def _tables(report: Report) -> Iterator[tuple[Status, str]]:
    """Yield the status and a table of the cases of each cause; those that failed are open."""
    for heading, group in groupby(report.comparisons, _heading):
        cases = list(group)
        status = cases[0].status
        is_open = not report.against or status == "failed"
        if is_open or status != "same":
            title = f"{heading}: " if report.against or status == "failed" else ""
            yield status, _table(cases, title, is_open=is_open)


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


def _table(cases: list[Comparison], heading: str, *, is_open: bool) -> str:
    comparisons = cases[:_MOST_ROWS]
    said = [_what(comparison) for comparison in comparisons]
    rows = [("case", "suite", "what"), ("---", "---", "---")]
    for comparison, what in zip(comparisons, said, strict=True):
        case = comparison.case
        place = f"{case.suite}:{case.line}" if case.line and comparison.now else case.suite
        rows.append((_code(case.id), _code(place), ", ".join(map(_code, what))))
    columns = 3 if any(said) else 2
    table = "\n".join(f"| {' | '.join(row[:columns])} |" for row in rows)
    title = heading + number_of(len(cases), "case")
    if len(cases) > _MOST_ROWS:
        table += f"\n\nand {len(cases) - _MOST_ROWS:,} more; the HTML report has all"
    opened = " open" * (is_open and len(cases) <= _OPEN_ROWS)
    return f"<details{opened}><summary>{title}</summary>\n\n{table}\n\n</details>\n"


def _what(comparison: Comparison) -> list[str]:
    """Return what a row says of a case, beyond its heading: its error, old name and causes."""
    case, was, causes = comparison.case, comparison.was, comparison.causes
    if case.error:
        return [case.error]
    what = list(causes) if len(causes) > 1 else []
    if was is not None:
        suite = f" of {was.suite}" if was.suite != case.suite else ""
        what.insert(0, f"was {was.id}{suite}")
    return what


def _change(change: Change, title: str, share: str) -> tuple[str, str]:
    """Return the heading of a change, with what is to be said of it, and its lines."""
    names = name_cases(change.cases)
    number = number_of(len(change.cases), "case")
    said = [_code(names) if names.startswith(number) else f"{number}: {_code(names)}"]
    said += filter(None, [change.growth_in_words])
    if causes := [_code(cause) for cause in change.causes if cause != title]:
        said.append(first_of(causes))
    heading = f"### {_code(title)}{share}\n\n{'; '.join(said)}\n"
    for privilege in change.privileges:
        if privilege != title:
            heading += f"\nChange of privilege: {_code(privilege)}\n"
    if not change.lines:
        return heading, ""
    lines = [line if change.is_compared else line[1:] for line in change.lines]
    kind, most = ("diff", _LONGEST_DIFF) if change.is_compared else ("text", _LONGEST_PROMPT)
    return heading, f"\n{_fenced(_shown(chr(10).join(lines)), kind, most)}\n"


def _fenced(text: str, language: str, longest: int) -> str:
    """Return a block of code, at most so many characters of it."""
    if len(text) > longest:
        text = f"{text[:longest]}\n… {len(text) - longest:,} characters more"
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _shown(text: str) -> str:
    return unseen(text).sub(lambda match: f"\\u{{{ord(match[0]):x}}}", utf8(text))


def _code(text: str) -> str:
    """Return a text in one line, escaped so that GitHub sees no markup, link or mention in it."""
    line = cut(" ".join(_shown(text).split("\n")), _LONGEST_LINE)
    return f"<code>{_SPECIAL.sub(lambda match: f'&#{ord(match[0])};', line)}</code>"
