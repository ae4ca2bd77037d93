"""The errors a user can meet: each says where, what is wrong, and what would be right."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self


class MultiturnError(Exception):
    """A mistake in a suite, an attached file, a pipeline or an option.

    Attributes:
        where: ``path:line`` of the mistake, then the case and the key; empty without a file.
        what: what is wrong, and what would be right.
        case_id: the case that it belongs to, or None if it is the whole file's.
    """

    def __init__(self, what: str, *, where: str = "", case_id: str | None = None) -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.where = where
        self.what = what
        self.case_id = case_id

    def at(self, where: str, case_id: str) -> Self:
        """Place the error in a case, and return it."""
        self.where, self.case_id = where, case_id
        self.args = (f"{where}: {self.what}" if where else self.what,)
        return self


class SegmentTypeError(MultiturnError):
    """A segment is neither text nor a file."""


class AttachmentError(MultiturnError):
    """An attached file cannot be read, or may not be."""


class OutsideRootError(MultiturnError):
    """A path leads outside the root; no option allows that."""


class Mistake(NamedTuple):
    """One thing that is wrong with a pipeline.

    Attributes:
        what: what is wrong, and what would be right.
        step: index of the step it is about, or None.
        option: name of that step's option, or None.
    """

    what: str
    step: int | None = None
    option: str | None = None


class PipelineError(MultiturnError):
    """A pipeline does not fit together.

    Attributes:
        mistakes: all that was found.
        advice: an order in which the stages would fit; empty if that is not what is wrong.
    """

    def __init__(self, mistakes: Iterable[Mistake], advice: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.advice = advice
        lines = [mistake.what for mistake in self.mistakes]
        super().__init__("\n".join([*lines, advice] if advice else lines))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what it is made of, and not by its message."""
        return type(self), (self.mistakes, self.advice)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a closing phrase that names the nearest known word, or all of them.

    >>> did_you_mean("heder", ["header", "marker"])
    'did you mean "header"?'
    >>> did_you_mean("x", ["header", "marker"])
    'known are: header, marker'
    """
    known = list(known)
    near = nearest(word, known)
    if near is not None:
        return f'did you mean "{near}"?'
    return f"known are: {', '.join(known)}" if known else "there are none"


def add_or_mend(missing: str, unknown: Iterable[str]) -> str:
    """Return the end of a phrase that says that a key is missing.

    Args:
        missing: the key.
        unknown: the keys that mean nothing where it should be.

    >>> add_or_mend("role", ["lore"]), add_or_mend("role", ["rol"])
    ('; add it', ', but "rol"; did you mean "role"?')
    """
    near = nearest(missing, unknown)
    return "; add it" if near is None else f', but "{near}"; {did_you_mean(near, [missing])}'


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is nearest to another, if one is near."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def from_here(path: str) -> str:
    """Return a path as it is seen from the current folder, if it is below that.

    >>> from_here("/")
    '/'
    >>> from_here(os.path.abspath("mine.py"))
    'mine.py'
    """
    absolute, here = Path(os.path.abspath(path)), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else path
