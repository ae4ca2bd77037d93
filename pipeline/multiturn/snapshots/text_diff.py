"""Line-by-line differences between texts, in bounded time, and which of them are the same."""

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

from msgspec import Struct

_MOST = 10_000_000  # pairs of lines to compare; beyond, all lines count as different
_CONTEXT = 3  # lines of context around a change
_OF_DIGEST = "+- SHA-256 ", "-- SHA-256 "  # how its line begins; those of texts are indented
_QUESTION, _FILES = "question:", "input_files:"
_ATTACHED = re.compile(r"^- path: (.+), resolved_path: (.+), guideline: ", re.MULTILINE)
_NO_WORD = re.compile(r"/|\w\.\w")
_MARKED = re.compile(r"([+-]?  )\[\w+\]: ")  # the first line of a turn in the question


class _Stretch(Struct, gc=False):
    """Adjacent lines that have changed, with their context, as lines of a diff."""

    old: int  # how many lines of the old text are above it
    new: int
    gone: Sequence[str]
    come: Sequence[str]
    lines: list[str]
    changed: list[str]  # those of them that have changed
    heading: str  # the last line above it, or its own first, that begins with a letter
    is_first: bool  # of its hunk: there are lines between the one before and this one


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of a unified diff, headings included; none if the texts are the same."""
    hunks: list[_Stretch] = []
    for stretch in _stretches(_lines(old), _lines(new)):
        if stretch.is_first:
            hunks.append(stretch)
        else:
            hunks[-1].lines.extend(stretch.lines)
    if hunks:
        yield from (f"--- {old_name}", f"+++ {new_name}")
    for hunk in hunks:
        before = sum(line[0] != "+" for line in hunk.lines)
        after = sum(line[0] != "-" for line in hunk.lines)
        yield f"@@ -{_range(hunk.old, before)} +{_range(hunk.new, after)} @@"
        yield from hunk.lines


def _range(above: int, number: int) -> str:
    """Return a range of lines as a hunk heading writes it; an empty one has the line before."""
    return f"{above + 1}" if number == 1 else f"{above + (number > 0)},{number}"


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[_Stretch]:
    """Yield each change, with the lines around it that no other one shows."""
    changes = [*_changes(old, new), (len(old), len(old), len(new), len(new))]
    headings = _headings(new)
    shown = -1
    for (a, b, c, d), (below, *_) in pairwise(changes):
        first, end = max(shown, a - _CONTEXT, 0), min(b + _CONTEXT, below)
        gone, come = old[a:b], new[c:d]
        changed = [f"-{line}" for line in gone] + [f"+{line}" for line in come]
        above, under = [f" {line}" for line in old[first:a]], [f" {line}" for line in old[b:end]]
        lines, number = above + changed + under, bisect_left(headings, c + (d > c))
        heading = new[headings[number - 1]] if number else ""
        yield _Stretch(first, c - (a - first), gone, come, lines, changed, heading, first > shown)
        shown = end


def _headings(lines: Sequence[str]) -> list[int]:
    """Return which lines begin with a letter."""
    # No letter comes before "A": most lines that are indented are not looked at.
    return [at for at, line in enumerate(lines) if line >= "A" and line[0].isalpha()]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where lines of the old text start and end, and those that take their place."""
    head, tail = shared_ends(old, new)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(before) * len(after) > _MOST:
        yield head, len(old) - tail, head, len(new) - tail
        return
    a, c = head, head
    for b, d, size in difflib.SequenceMatcher(None, before, after).get_matching_blocks():
        if a < head + b or c < head + d:
            yield a, head + b, c, head + d
        a, c = head + b + size, head + d + size


def _lines(text: str) -> list[str]:
    """Return the lines of a text for a diff, which says where the last one has no end."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many items two sequences share at the start, and how many more at the end.

    >>> shared_ends("abcd", "axd")
    (1, 1)
    """
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    most -= head
    return head, next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)


def changed_lines(old: str, new: str) -> str:
    """Return which lines of the new text have changed, as one range, in words."""
    before, after = old.split("\n"), new.split("\n")
    head, tail = shared_ends(before, after)
    first, last = head + 1, max(len(after) - tail, head + 1)
    return f"line {first}" if first == last else f"lines {first}–{last}"  # noqa: RUF001 - a range


def compare_texts(old: str, new: str, *, but_for_paths: bool = False) -> tuple[Hashable, list[str]]:
    r"""Return what identifies a difference, and the lines of a diff that show it.

    Texts that differ in the same way have the same identity: the same lines changed below the same
    headings (lines that begin with a letter), whatever the context. Digests, which follow from a
    text, do not count beside others. Nor does the question where all its changed lines are changed
    in a message, too. With ``but_for_paths``, texts may name other attached files, and more or
    fewer of them.

    >>> is_brief = compare_texts("user:\n  a\n  Be brief.\n", "user:\n  a\n  Be quick.\n")
    >>> is_brief[1]
    ['@@', ' user:', '   a', '-  Be brief.', '+  Be quick.']
    >>> is_brief[0] == compare_texts("user:\n  Be brief.\n", "user:\n  Be quick.\n")[0]
    True
    """
    sides = _lines(old), _lines(new)
    (before, was), (after, now) = map(_question_apart, sides)
    stretches = list(_stretches(before, after))
    gone = [line for stretch in stretches for line in stretch.gone]
    come = [line for stretch in stretches for line in stretch.come]
    others, said = _split(was, set(gone))
    others_now, said_now = _split(now, set(come))
    # Mostly, a question says what messages say, and no line has to be counted.
    if others != others_now or (
        (said, said_now) != (gone, come)
        and not (
            _take((Counter(was) - Counter(now)).elements(), Counter(gone))
            and _take((Counter(now) - Counter(was)).elements(), Counter(come))
        )
    ):
        stretches = list(_stretches(*sides))
    keys = [(stretch.heading, _compared(stretch.changed)) for stretch in stretches]
    texts = zip((old, new), sides, strict=True)
    attaching = [text for text, lines in texts if but_for_paths and _FILES in lines]
    paths = (name for text in attaching for pair in _ATTACHED.findall(text) for name in pair)
    # A file may be called "not": only what can be no word is a name.
    if named := dict.fromkeys(name for name in paths if _NO_WORD.search(name)):
        longest = "|".join(re.escape(name) for name in sorted(named, key=len, reverse=True))
        names = re.compile(rf"(?<![\w/.-])(?:{longest})(?!\w)")
        keys = [(heading, _without_names(lines, names, named)) for heading, lines in keys]
    # Each line of a message hides one of the question.
    left = Counter(chain.from_iterable(lines for heading, lines in keys if heading != _QUESTION))
    found: dict[Hashable, int] = {}  # and how many times; once where files are named
    shown: list[str] = []
    last = -1
    for at, ((heading, lines), stretch) in enumerate(zip(keys, stretches, strict=True)):
        is_repeated = heading == _QUESTION and _take(lines, left)
        if left and (is_repeated or not lines):
            continue
        is_numbered = named and any("\0" in line for line in lines)
        times = 0 if is_numbered else found.get(keys[at], 0)
        found[keys[at]] = times + 1
        shown += ["@@"] * (stretch.is_first or last != at - 1) + stretch.lines
        last = at
    return tuple(found.items()), shown


def _compared(changed: Iterable[str]) -> tuple[str, ...]:
    """Return changed lines without the digests of attached files."""
    return tuple([line for line in changed if not line.startswith(_OF_DIGEST)])


def _without_names(
    lines: Sequence[str], names: re.Pattern[str], named: Iterable[str]
) -> tuple[str, ...]:
    """Return lines with numbers for the names in them; those that begin with a dash attach it.

    The numbers are in the order in which the files are attached, whatever the lines say of them.
    """
    said = {line for line in lines if line[1:3] != "- "}
    found = {name for line in said for name in names.findall(line)}
    numbers = {name: f"\0{at}" for at, name in enumerate(filter(found.__contains__, named))}
    return tuple(
        names.sub(lambda name: numbers[name[0]], line) if line in said else line for line in lines
    )


def _question_apart(lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the lines of a text without the question, and those of the question."""
    if _QUESTION not in lines:
        return lines, ()
    start = lines.index(_QUESTION)
    below = _headings(lines[start + 1 :])
    end = start + 1 + below[0] if below else len(lines)
    return [*lines[:start], *lines[end:]], lines[start:end]


def _split(question: Iterable[str], changed: Container[str]) -> tuple[list[str], list[str]]:
    """Return the lines of a question that have not changed in messages, and those that have."""
    pairs = [(line, line if line[2:3] != "[" else _said(line, changed)) for line in question]
    others = [line for line, said in pairs if said not in changed]
    return others, [said for _, said in pairs if said in changed]


def _take(lines: Iterable[str], left: Counter[str]) -> bool:
    """Take lines of a question from those of messages, if all of them are left there."""
    said = Counter([_said(line, left) for line in lines])
    is_left = all(left[line] >= times for line, times in said.items())
    if is_left:
        left.subtract(said)
    return is_left


def _said(line: str, changed: Container[str]) -> str:
    """Return a line of a question, without its marker unless it has changed so in messages."""
    return line if line in changed else _without_marker(line)


def _without_marker(line: str) -> str:
    found = _MARKED.match(line)
    return found[1] + line[found.end() :] if found else line


def without_repeated_question(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a new text, without the question if all its lines are in messages."""
    rest, question = _question_apart(lines)
    return rest if set(rest).issuperset(map(_without_marker, question[1:])) else lines
