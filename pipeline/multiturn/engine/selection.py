"""What a command was asked for: which cases of which suites."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from multiturn.documents.input import check_path
from multiturn.errors import MultiturnError, did_you_mean, option
from multiturn.files.paths import StrPath
from multiturn.suites.discovery import find_suites
from multiturn.suites.guideline_patterns import guideline_matcher
from multiturn.suites.suite_reader import SuiteReader
from multiturn.text import tuple_of_texts, utf8


class Sample(Struct, frozen=True):
    """A part of the cases: those whose rank is at most ``last``.

    A rank is a hash of the seed, the suite and the id, so it does not depend on other cases.
    """

    seed: int
    last: int = -1  # the highest rank in the sample
    size: int = 0  # number of cases in it
    total: int = 0  # number of cases that it was drawn from

    def __str__(self) -> str:
        """Return what results and reports say of it."""
        return f"{self.size:,} of {self.total:,}, seed {self.seed}"

    def has(self, suite: str, case_id: str) -> bool:
        """Return whether a case is in the sample; one whose id is not known is not."""
        return bool(case_id) and self.rank(suite, case_id) <= self.last

    def rank(self, suite: str, case_id: str) -> int:
        """Return the rank of a case; ``suite`` is what results call its suite."""
        from hashlib import blake2b

        name = "\0".join((str(self.seed), utf8(suite), case_id)).encode()
        return int.from_bytes(blake2b(name, digest_size=8).digest())


class Selection(Struct, frozen=True):
    """Which cases of which suites."""

    suites: tuple[str, ...] = ()  # the path of each suite, once; ``-`` for standard input
    named: frozenset[str] = frozenset()  # the paths that were named; others were found in a folder
    root: str | None = None  # attached files are read inside it only; None for each suite's own
    # used instead of those of the suites; None for theirs
    guideline_patterns: tuple[str, ...] | None = None
    # the cases selected, as ids or globs; all, if there are none
    case_ids: frozenset[str] = frozenset()
    strict: bool = False  # text that is lost, and no rule explains it, is an error
    sample: Sample | None = None  # of the cases selected; None for all of them
    # what is wrong with each named path where no suite is; only with ``may_be_gone``
    missing: Mapping[str, MultiturnError] = {}

    @property
    def is_partial(self) -> bool:
        """Whether only some cases of the suites are selected."""
        return bool(self.case_ids) or self.sample is not None

    def check_files(self, what: str) -> None:
        """Refuse a suite that is not a file, such as a pipe; ``what`` says who reads it twice."""
        for path in self.suites:
            if not os.path.isfile(path):
                why = f"{path!r} can be read only once; write it to a file"
                raise MultiturnError(f"{what} twice, and {why}")

    def name_of(self, path: str) -> str:
        """Return what results call a suite."""
        return SuiteReader(path, self.root).suite

    def within(self, path: str) -> Callable[[str | None], bool]:
        """Return the function that says of an id, or of none, whether it is selected in a suite."""
        ids, sample = self.case_ids, self.sample
        suite = "" if sample is None else self.name_of(path)

        def has(case_id: str | None) -> bool:
            if case_id is None:
                return True
            is_named = not ids or case_id in ids or any(self._matching([case_id]))
            return is_named and (sample is None or sample.has(suite, case_id))

        return has

    def _matching(self, known: Collection[str]) -> Iterator[str]:
        """Yield each selected id, or glob of ids, that one of the known ids has."""
        for selected in self.case_ids:
            if selected in known or any(fnmatchcase(each, selected) for each in known):
                yield selected

    def check_ids(self, seen: Iterable[str]) -> None:
        """Refuse a selected id, or glob, that none of the ids of all cases has."""
        known = set(seen)
        for case_id in sorted(self.case_ids.difference(self._matching(known))):
            raise MultiturnError(f"no case {case_id!r}; {did_you_mean(case_id, sorted(known))}")


def suite_names(
    selection: Selection, name_of: Callable[[str], str] | None = None
) -> dict[str, str]:
    """Return what a function, or results, call each suite, by its path; no two have one name."""
    paths: dict[str, str] = {}  # by the names
    for path in selection.suites:
        # As records have it: of bytes that are not UTF-8, one is as another.
        name = utf8(name_of(path) if name_of else selection.name_of(path))
        if name in paths:
            raise one_name(name, where=path)
        paths[name] = path
    return {path: name for name, path in paths.items()}


def one_name(name: str, *, where: str = "") -> MultiturnError:
    """Return the error of two suites that have one name in their roots."""
    what = f"two suites are {name!r} in their roots"
    return MultiturnError(f"{what}; name a root that holds both ({option('root')})", where=where)


def select(
    suites: Iterable[str],
    *,
    root: StrPath | None = None,
    guideline_patterns: Iterable[str] | None = None,
    case_ids: Iterable[str] = (),
    strict: bool = False,
    may_be_gone: bool = False,
) -> Selection:
    """Find the suites that are named; the other arguments are those of Selection.

    With ``may_be_gone``, the error of a suite that is not there is in ``Selection.missing``.
    """
    named, patterns = tuple(suites), None
    top = None if root is None else os.fspath(root)
    for path in (*named, top or ""):
        check_path(path)
    if top is not None and not os.path.isdir(top):
        raise MultiturnError(f"the root {top!r} is not a folder")
    missing: dict[str, MultiturnError] = {}
    found = tuple(find_suites(named, missing if may_be_gone else None))
    if guideline_patterns is not None:
        patterns = tuple_of_texts("guideline_patterns", guideline_patterns)
        guideline_matcher(patterns)
    ids = frozenset(case_ids)
    return Selection(found, frozenset(named), top, patterns, ids, strict, missing=missing)
