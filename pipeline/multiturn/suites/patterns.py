"""Guideline patterns: globs that decide which files enter the system message.

fnmatch2 matches names; on paths it accepts a mere prefix and gives up after the first ``**`` that
does not fit. A false match would promote a user's file into the system message, so each pattern is
matched here name by name, anchored at both ends, and fnmatch2 sees single names only.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise

from fnmatch2 import fnmatchcase2

from multiturn.errors import MultiturnError, quoted

MAX_ALTERNATIVES = 1000
MAX_LENGTH = 1000
MAX_PATTERNS = 10_000

_SET = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")
_RANGE = re.compile("(.)-(.)")

Names = tuple[str, ...]


@cache
def guideline_matcher(patterns: tuple[str, ...]) -> Callable[..., bool]:
    """Return a predicate that tells of a file's paths whether it is a guideline (rule 5).

    The file is one if any of its paths matches a pattern, and none matches a pattern behind ``!``.
    ``**`` stands for any number of folders, ``*``, ``?`` and ``[...]`` stay within one name, and
    ``{a,b}`` are alternatives. Names that begin with a dot match like any other. Case counts.

    Raises:
        MultiturnError: a pattern is empty, or the braces stand for too many alternatives.

    >>> is_guideline = guideline_matcher(("**/*.instructions.md", "!vendor/**"))
    >>> is_guideline("./python.instructions.md", "docs/python.instructions.md")
    True
    >>> is_guideline("vendor/x.instructions.md")
    False
    """
    wanted: list[Names] = []
    unwanted: list[Names] = []
    for pattern in patterns:
        body = pattern.removeprefix("!")
        if not body.strip():
            raise MultiturnError(f"the guideline pattern {quoted(pattern)} is empty")
        if len(body) > MAX_LENGTH:
            raise MultiturnError(f"a guideline pattern of over {MAX_LENGTH:,} characters")
        if body.endswith("/"):
            raise MultiturnError(f"the guideline pattern {quoted(pattern)} is a folder; add **")
        for _, characters in _SET.findall(body):
            for first, last in _RANGE.findall(characters):
                if last < first:  # fnmatch would read what is left of the set another way
                    what = (
                        f"{first}-{last} runs backwards in the guideline pattern {quoted(pattern)}"
                    )
                    raise MultiturnError(what)
        globs = wanted if body == pattern else unwanted
        body = _SET.sub(lambda match: f"[{'!' if match[1] else ''}{match[2]}]", body)
        for alternative in _alternatives(body.replace("\\", "/")):
            names = _names(alternative)
            # Only files are matched, so what is below a folder is at least one name.
            globs.append((*names, "*") if names[-1:] == ("**",) else names)
        if len(wanted) + len(unwanted) > MAX_PATTERNS:
            what = f"the guideline patterns stand for over {MAX_PATTERNS:,}; use * for their braces"
            raise MultiturnError(what)

    @cache
    def is_guideline(*paths: str) -> bool:
        # fnmatch2 splits a name at a backslash, which on POSIX is a character like any other.
        split = [_names(path.replace("\\", "/" if os.sep == "\\" else "\0")) for path in paths]
        return _any_matches(split, wanted) and not _any_matches(split, unwanted)

    return is_guideline


def matching_pattern(patterns: tuple[str, ...], *paths: str) -> str | None:
    """Return the first pattern, as written, that makes a file a guideline; None if it is none.

    >>> matching_pattern(("docs/**", "**/*.md", "!vendor/**"), "./python.md", "docs/python.md")
    'docs/**'
    """
    if not guideline_matcher(patterns)(*paths):
        return None
    wanted = (pattern for pattern in patterns if not pattern.startswith("!"))
    return next(pattern for pattern in wanted if guideline_matcher((pattern,))(*paths))


def _names(path: str) -> Names:
    """Split a path, or a pattern, into names; a leading ``./`` or ``/`` says nothing."""
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] not in ("..", "**"):
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _any_matches(paths: Iterable[Names], patterns: Iterable[Names]) -> bool:
    return any(_matches(path, pattern) for path in paths for pattern in patterns)


def _matches(path: Names, pattern: Names) -> bool:
    """Match all of the path against all of the pattern, in time of their product."""
    up = path.count("..")  # only ever in front; no wildcard stands for them
    reached = {0}  # how many names of the path the pattern so far can account for
    for name in pattern:
        if name == "**":
            first = min((count for count in reached if count >= up), default=len(path) + 1)
            reached.update(range(first, len(path) + 1))
        else:
            reached = {
                count + 1
                for count in reached
                if count < len(path)
                and (fnmatchcase2(path[count], name) if count >= up else name == "..")
            }
    return len(path) in reached


def _alternatives(pattern: str) -> list[str]:
    """Expand braces: ``a.{b,c}`` becomes ``a.b`` and ``a.c``."""
    expanded: list[str] = []
    for alternative in _expand(pattern):
        expanded.append(alternative)
        if len(expanded) > MAX_ALTERNATIVES:
            raise MultiturnError(
                f"the guideline pattern {quoted(pattern)} stands for over"
                f" {MAX_ALTERNATIVES:,} patterns; use * for some of its braces"
            )
    return expanded


def _expand(pattern: str) -> Iterator[str]:
    group = _first_group(pattern)
    if group is None:
        yield pattern
        return
    head, choices, tail = group
    for choice in choices:
        yield from _expand(head + choice + tail)


def _first_group(pattern: str) -> tuple[str, list[str], str] | None:
    """Return what stands before, in and after the first ``{...}`` that holds a comma."""
    opened: list[list[int]] = []  # of each brace that is open: where it is, and its commas
    first: list[int] = []
    for at, char in enumerate(pattern):
        if char == "{":
            opened.append([at])
        elif char == "," and opened:
            opened[-1].append(at)
        elif char == "}" and opened:
            cuts = [*opened.pop(), at]
            if len(cuts) > 2 and (not first or cuts[0] < first[0]):
                first = cuts
    if not first:
        return None
    choices = [pattern[a + 1 : b] for a, b in pairwise(first)]
    return pattern[: first[0]], choices, pattern[first[-1] + 1 :]
