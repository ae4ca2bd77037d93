"""The report as Markdown, for the summary of a step on GitHub: what changed, and why."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from multiturn.prompts.record import utf8
from multiturn.review.diff import unified_diff
from multiturn.review.report.comparison import STATUSES, Comparison
from multiturn.review.report.side import Reviewed
from multiturn.text import unseen

MAX_SIZE = 1_000_000  # bytes; R1: GitHub takes 1,024 KiB a step
_RESERVE = 500  # for the line that says what was left out
_LONGEST_DIFF = 60_000
_LONGEST_LINE = 500
_OPEN_ROWS = 20
_SPECIAL = re.compile(r"[^A-Za-z0-9 ,./()'–→-]|(?<=(?i:www))\.")  # noqa: RUF001 - as they are


def to_markdown(
    comparisons: Iterable[Comparison], *, pipeline: str, against: str | None, errors: list[str]
) -> bytes:
    """Render a report as GitHub's Markdown, of at most ``MAX_SIZE`` bytes.

    Args:
        comparisons: the cases, in the order of ``compare``.
        pipeline: its name.
        against: the revision that they are compared with; None for none.
        errors: that belong to no case.
    """
    found = list(comparisons)
    compared = f", compared with {_code(against)}" if against else ""
    counts = ", ".join(
        f"{number} {status}"
        for status in STATUSES
        if (number := sum(c.status == status for c in found)) and (against or status == "failed")
    )
    text = f"## {_title(found, against)}\n\nPipeline {_code(pipeline)}{compared}"
    text += f": {counts}.\n" if counts else ".\n"
    left_out = 0
    size = len(text.encode())
    for block in _blocks(found, errors, against):
        length = len(block.encode()) + 1
        if size + length > MAX_SIZE - _RESERVE:
            left_out += 1
            continue
        text += f"\n{block}"
        size += length
    if left_out:
        text += f"\n{left_out} more parts would go over GitHub's limit; the HTML report has all.\n"
    return text.encode()


def _title(found: list[Comparison], against: str | None) -> str:
    if not against:
        return _cases(len(found))
    changed = [comparison for comparison in found if comparison.status == "changed"]
    title = f"{_cases(len(changed))} changed"
    causes = {cause for comparison in changed for cause in comparison.causes}
    if len(causes) == 1:
        return f"{title}, 1 cause: {_code(causes.pop())}"
    return f"{title}, {len(causes)} causes" if causes else title


def _cases(number: int) -> str:
    return f"{number} case{'' if number == 1 else 's'}"


def _blocks(found: list[Comparison], errors: list[str], against: str | None) -> Iterator[str]:
    yield from (f"{_code(error)}\n" for error in errors)
    if against:
        yield from _promotions(found)
    for (status, cause), group in groupby(found, lambda c: (c.status, _single(c))):
        cases = list(group)
        if against and status == "same":
            continue
        if against or status == "failed":
            yield f"### {_heading(status, cause)}: {_cases(len(cases))}\n"
        yield _table(cases)
        if status == "changed":
            yield from _differences(cases)


def _single(comparison: Comparison) -> str:
    """Return the cause of a changed case, if it is one."""
    return comparison.causes[0] if len(comparison.causes) == 1 else ""


def _heading(status: str, cause: str) -> str:
    if status != "changed":
        return status
    return _code(cause) if cause else "more than one cause"


def _promotions(found: list[Comparison]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for comparison in found:
        for path in comparison.promoted:
            counts[path] = counts.get(path, 0) + 1
    if counts:
        yield "> [!WARNING]\n" + "".join(
            f"> New in a system message: {_code(path)}, in {_cases(counts[path])}\n"
            for path in sorted(counts)
        )


def _table(comparisons: list[Comparison]) -> str:
    rows = ["| case | suite | what |", "| --- | --- | --- |"]
    for comparison in comparisons:
        case = comparison.case
        what = list(comparison.causes)
        if comparison.status != "changed":
            what = [case.error] if case.error else [message.role for message in case.chat or ()]
        whats = ", ".join(map(_code, what))
        rows.append(f"| {_code(case.id)} | {_code(_place(case))} | {whats} |")
    return _folded(_cases(len(comparisons)), "\n".join(rows), is_open=len(rows) <= _OPEN_ROWS)


def _place(case: Reviewed) -> str:
    return f"{case.suite}:{case.line}" if case.line else case.suite


def _differences(comparisons: list[Comparison]) -> Iterator[str]:
    """Yield each difference once, with the cases that have it."""
    same: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        same.setdefault(_diff(comparison), []).append(comparison)
    for diff, cases in same.items():
        ids = ", ".join(_code(comparison.case.id) for comparison in cases[:3])
        more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
        if len(diff) > _LONGEST_DIFF:
            diff = f"{diff[:_LONGEST_DIFF]}\n… {len(diff) - _LONGEST_DIFF:,} characters more"
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", diff)), 3)
        yield _folded(f"The difference in {ids}{more}", f"{fence}diff\n{diff}\n{fence}")


def _diff(comparison: Comparison) -> str:
    """Return what is different in a case, without the places where."""
    now, then = comparison.now, comparison.then
    old, new = (side.snapshot.split("\n") if side else [] for side in (then, now))
    lines = list(unified_diff(old, new, "", ""))[2:]
    shown = ("@@" if line.startswith("@@") else line for line in lines)
    return _shown("\n".join(shown))


def _folded(title: str, body: str, *, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}><summary>{title}</summary>\n\n{body}\n\n</details>\n"


def _shown(text: str) -> str:
    return unseen().sub(lambda match: f"\\u{{{ord(match[0]):x}}}", utf8(text))


def _code(text: str) -> str:
    """Return a text that GitHub shows as it is, in one line: no markup, link or mention."""
    line = " ".join(_shown(text).split("\n"))
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]}…"
    return f"<code>{_SPECIAL.sub(lambda match: f'&#{ord(match[0])};', line)}</code>"
