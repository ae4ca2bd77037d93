"""Which attached files are guidelines: the patterns of a suite, and how globs match paths.

fnmatch2 matches names; on paths it accepts a mere prefix and gives up after the first ``**`` that
does not fit. A false match would promote a user's file into the system message, so each pattern is
matched here name by name, anchored at both ends, and fnmatch2 sees single names only.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import InputError, MultiturnError, quoted
from multiturn.files.finding import Files
from multiturn.files.media import FILE_TYPES, is_address
from multiturn.logs import Notice
from multiturn.model.case import Case, segments_in
from multiturn.suites.schema import ConfigKeys, SuiteKeys

MAX_LENGTH = 1000  # of one pattern
MAX_PATTERNS_SIZE = 100_000  # of a suite's patterns: characters, braces expanded, and ten for each

_SET = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")
_RANGE = re.compile("(.)-(.)")
_WILD = re.compile(r"[*?\[]")
# Globs of other tools. Taken to the letter, they would match nothing, or another file.
_REFUSED = (
    (r"[@!?*+]\([^)]*\)|\([^()]*\|[^()]*\)", "has an extended glob; write alternatives as {a,b}"),
    (r"\{[^{},]*\.\.[^{},]*\}", "has a range in braces; write alternatives as {1,2,3}"),
    (r"\[[!^]?\[:", "has a class of characters; write ranges, such as [a-zA-Z]"),
    (r"[^/{,]\*\*|\*\*[^/},]", "has ** inside a name; write **/*.md for all folders, or one *"),
    (r"\\", "has a backslash; write / after a folder, and [*] for the character *"),
)

_Names = tuple[str, ...]


@cache
def guideline_matcher(
    patterns: tuple[str, ...], *, called: str = "the guideline pattern"
) -> Callable[..., bool]:
    """Return a predicate of a file's paths: whether the file is a guideline (rule 5).

    It is one if any of its paths matches a pattern, and none matches a pattern after ``!``. ``**``
    matches any number of folders, ``*``, ``?`` and ``[...]`` match within one name, and ``{a,b}``
    are alternatives. Names that begin with a dot match like any other. Case counts. Other globs
    are refused; ``called`` is what errors call a pattern.

    >>> is_guideline = guideline_matcher(("**/*.instructions.md", "!vendor/**"))
    >>> is_guideline("./python.instructions.md", "docs/python.instructions.md")
    True
    >>> is_guideline("vendor/x.instructions.md")
    False
    """
    wanted: dict[_Names, None] = {}
    unwanted: dict[_Names, None] = {}
    size = 0
    for pattern in patterns:
        body = pattern.removeprefix("!")
        shown = f"{called} {quoted(pattern)}"
        _check(shown, pattern, body)
        body = _SET.sub(lambda match: f"[{'!' if match[1] else ''}{match[2]}]", body)
        globs = unwanted if pattern.startswith("!") else wanted
        for alternative in _expand(body):
            size += 10 + len(alternative)
            if size > MAX_PATTERNS_SIZE:
                raise InputError(
                    f"{shown} makes too many patterns, braces expanded;"
                    " write * in place of some braces"
                )
            names = _names(alternative)
            if alternative.split("/")[-1] in ("", ".", ".."):
                raise InputError(f"{shown} names a folder; write ** after it for all files in it")
            # Only files are matched, so what is below a folder is at least one name.
            globs[(*names, "*") if names[-1:] == ("**",) else names] = None

    @cache
    def matches(names: _Names) -> tuple[bool, bool]:
        is_match = _matcher(names)
        return any(map(is_match, wanted)), any(map(is_match, unwanted))

    @cache
    def is_guideline(*paths: str) -> bool:
        # fnmatch2 splits a name at a backslash, which on POSIX is a character like any other.
        split = [_names(path.replace("\\", "/" if os.sep == "\\" else "\0")) for path in paths]
        found = [matches(names) for names in split]
        return any(is_wanted for is_wanted, _ in found) and not any(no for _, no in found)

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


def _names(path: str) -> _Names:
    """Split a path, or a pattern, into names; a leading ``./`` or ``/`` says nothing."""
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] not in ("..", "**"):
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _check(shown: str, pattern: str, body: str) -> None:
    """Refuse a pattern that cannot be meant as it would be matched."""
    if not body.strip() or len(body) > MAX_LENGTH:
        raise InputError(f"{shown} is empty, or has over {MAX_LENGTH:,} characters")
    text = pattern if pattern.startswith("!(") else body
    for glob, what in _REFUSED:
        if re.search(glob, text):
            raise InputError(f"{shown} {what}")
    for _, characters in _SET.findall(body):
        for first, last in _RANGE.findall(characters):
            if last < first:  # fnmatch would read the rest of the set in another way
                raise InputError(f"{shown} has the range {first}-{last}, which runs backwards")


def _matcher(names: _Names) -> Callable[[_Names], bool]:
    """Return a predicate: whether a pattern matches a path, in time linear in its names."""
    up = names.count("..")  # at the front; no wildcard matches them
    at = dict.fromkeys(names, 0)  # where each name is, as bits
    for number, name in enumerate(names):
        at[name] |= 1 << number

    @cache
    def matching(glob: str) -> int:
        """Return where the names are that a glob of one name matches."""
        return sum([bits for name, bits in at.items() if _fits(name, glob)])

    def matches(pattern: _Names) -> bool:
        reached = 1  # bit n is set if the pattern so far can match the first n names
        for glob in pattern:
            if glob == "**":
                lowest = reached >> up << up
                lowest &= -lowest
                reached |= (2 << len(names)) - lowest if lowest else 0
            else:
                reached = (reached & matching(glob)) << 1
            if not reached:
                return False
        return bool(reached >> len(names))

    return matches


def _fits(name: str, glob: str) -> bool:
    """Return whether a glob of one name matches a name; no wildcard matches the folder above."""
    if name == ".." or not _WILD.search(glob):
        return name == glob
    from fnmatch2 import fnmatchcase2  # most suites have no wildcards

    return bool(fnmatchcase2(name, glob))


def _expand(pattern: str) -> Iterator[str]:
    """Expand braces, the inner ones first: ``a.{b,c}`` becomes ``a.b`` and ``a.c``."""
    group = re.search(r"\{([^{}]*)\}", pattern)
    if group is None:
        yield pattern.translate({0: "{", 1: "}"})
        return
    # Braces without a comma between them are characters like any other.
    choices = group[1].split(",") if "," in group[1] else [f"\0{group[1]}\1"]
    for choice in choices:
        yield from _expand(pattern[: group.start()] + choice + pattern[group.end() :])


CONFIG = ".agentv/config.yaml"
MAX_CONFIG = 1_048_576  # bytes


def patterns_of(node: Node, suite: SuiteKeys, files: Files, name: str) -> tuple[str, ...]:
    """Return the suite's guideline patterns, else those of the nearest configuration."""
    if suite.guideline_patterns is not None:
        return _checked(suite.guideline_patterns, node, name)
    for folder in files.folders:
        path = os.path.join(folder, CONFIG)
        if os.path.exists(path):
            name = os.path.relpath(path, files.root).replace(os.sep, "/")
            text = files.read(files.find(f"/{name}"), MAX_CONFIG)
            for config in read_documents(text, name):
                patterns = read_as(config, ConfigKeys, where=name).guideline_patterns
                return _checked(patterns or [], config, name)
            break
    return ()


def _checked(patterns: list[str], node: Node, name: str) -> tuple[str, ...]:
    try:
        guideline_matcher(tuple(patterns))
    except MultiturnError as error:
        where = node.children["guideline_patterns"].place(name)
        raise InputError(error.what, where=where) from None
    return tuple(patterns)


UNUSED_PATTERN = "suite.unused_pattern"
MAX_JUDGED = 100  # each is matched against each file by itself


class UnusedPatterns:
    """The patterns that no file of the cases seen so far matches; of over 100, none is judged."""

    def __init__(self, patterns: Node | None, name: str) -> None:
        self._name = name
        self._paths: dict[str, list[str]] = {}  # of each file, by how the suite writes it
        listed = patterns.children if patterns is not None and patterns.children else ()
        self._nodes = {node.value: node for node in listed if not node.value.startswith("!")}
        if len(self._nodes) > MAX_JUDGED:
            self._nodes.clear()

    def see(self, found: Case | MultiturnError) -> None:
        """Remember the files of a case; after an error, nothing is known of the patterns."""
        if isinstance(found, MultiturnError):
            self._nodes.clear()
            return
        for message in found.input_messages if self._nodes else ():
            for segment in segments_in(message):
                match segment:
                    case {"type": str(kind), "value": str(path)} if kind in FILE_TYPES:
                        if found.files is None or is_address(path, kind) or path in self._paths:
                            continue
                        self._paths[path] = [path]
                        with suppress(MultiturnError):  # it comes when the case is converted
                            self._paths[path].append(found.files.find(path))

    def warnings(self) -> Iterator[Notice]:
        """Yield a warning for each pattern that matches none of the files."""
        for pattern, node in self._nodes.items():
            if not self._matches(pattern):
                deeper = f"**/{pattern}"
                is_meant = self._matches(deeper)
                advice = f"did you mean {quoted(deeper)}?" if is_meant else "correct or remove it"
                why = f"the guideline pattern {quoted(pattern)} matches no file of the suite"
                yield Notice(UNUSED_PATTERN, node.place(self._name), f"{why}; {advice}")

    def _matches(self, pattern: str) -> bool:
        return any(guideline_matcher((pattern,))(*paths) for paths in self._paths.values())
