"""The errors a user can meet: each says where, what is wrong, and what would be right."""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, Self

MAX_SHOWN = 200  # characters of an id or a value


_PYTHON = "{}="
_spelling: ContextVar[str] = ContextVar("spelling", default=_PYTHON)


@contextmanager
def options_as(spelling: str) -> Iterator[None]:
    """Have errors inside the block write options in a way, such as ``--{}``, not as Python does."""
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)


def spelling() -> str:
    """Return how errors write options here, for ``options_as`` in another process."""
    return _spelling.get()


def option(name: str, python: str = "", *, value: str = "") -> str:
    """Return an option as whoever reads an error writes it; Python may have another name for it.

    >>> option("root"), option("targets", "file"), option("max-cost", value="5")
    ('root=', 'file=', 'max_cost=5')
    """
    spelling = _spelling.get()
    name = python or name.replace("-", "_") if spelling == _PYTHON else name
    gap = " " if value and not spelling.endswith("=") else ""
    return f"{spelling.format(name)}{gap}{value}"


class Place(NamedTuple):
    """Where something is in a file.

    Attributes:
        file: as it was named; empty if there is none.
        line: one-based; 0 for the whole file.
        column: one-based; 0 for the whole line.
        label: what it is about, such as ``case 'x': input_messages[0]``.

    >>> str(Place("a.yaml", 3, 5, "case 'x'")), str(Place("a.yaml")), str(Place())
    ("a.yaml:3:5: case 'x'", 'a.yaml', '')
    """

    file: str = ""
    line: int = 0
    column: int = 0
    label: str = ""

    def __str__(self) -> str:
        """Return ``file:line:column: label``, without what is not known."""
        place = self.file.replace("\n", "\\n")  # a name forges no line of an error
        for number in (self.line, self.column):
            if place and number:
                place += f":{number}"
        return f"{place}: {self.label}" if place and self.label else place or self.label


class MultiturnError(Exception):
    """An error in a suite, an attached file, a pipeline or an option.

    Attributes:
        what: what is wrong, and what would be right.
        where: the place; text given for it is the name of a file.
        case_id: id of its case; empty if that case has none, None if it belongs to no case.
    """

    def __init__(self, what: str, *, where: Place | str = "", case_id: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = Place(where) if isinstance(where, str) else where
        self.case_id = case_id

    def __str__(self) -> str:
        """Return the error in one line: its place, what is wrong, and what would be right."""
        return ": ".join(filter(None, (str(self.where), self.what)))

    def at(self, where: Place, case_id: str) -> Self:
        """Place the error in a case, and return it."""
        self.where, self.case_id = where, case_id
        return self


class InputError(MultiturnError):
    """A suite, or another file that a user writes, is not as it must be."""


class SegmentTypeError(InputError):
    """A segment is neither text nor a file, an image, a document or audio."""


class AttachmentError(InputError):
    """An attached file cannot be read, or may not be."""


class OutsideRootError(InputError):
    """A path leads outside the root; no option allows that."""


class RepeatsError(InputError):
    """A document repeats too many values."""


class OptionError(MultiturnError):
    """An option has a value that it cannot have, by itself or beside the others."""


class AccessError(MultiturnError):
    """The system does not let a file be read or written."""


class LimitReachedError(MultiturnError):
    """A run has used what it may; the results so far are kept, and ``resume`` continues it."""


class StageError(MultiturnError):
    """A stage, or its view, failed, or made something else than it must or declares."""


class ErrorDetail(NamedTuple):
    """One thing that is wrong with a pipeline.

    Attributes:
        what: what is wrong, and what would be right.
        step: index of the step it is about, or None.
        option: name of that step's option, or None.
        where: the place in the pipeline's file.
    """

    what: str
    step: int | None = None
    option: str | None = None
    where: Place = Place()

    def __str__(self) -> str:
        """Return the error in one line."""
        return str(MultiturnError(self.what, where=self.where))


class PipelineError(MultiturnError):
    """A pipeline does not fit together.

    Attributes:
        errors: everything that is wrong.
        advice: an order in which the stages would fit; empty if that is not what is wrong.
    """

    def __init__(self, errors: Iterable[ErrorDetail], advice: str = "") -> None:
        self.errors = tuple(errors)
        self.advice = advice
        lines = [str(error) for error in self.errors]
        super().__init__("\n".join([*lines, advice] if advice else lines))
        self.args = self.errors, advice  # which pickle passes to ``__init__``


class ProviderError(MultiturnError):
    """A provider gave no answer. Each kind has a class of its own.

    Attributes:
        kind: what results call it.
        status: of HTTP; 0 if there is none.
        retries: number of retries.
        wire: the exact body, if it was sent.
    """

    kind = "refused"

    def __init_subclass__(cls, *, kind: str = "") -> None:
        """Take the kind that a class names in its first line."""
        super().__init_subclass__()
        cls.kind = kind or cls.kind

    def __init__(
        self,
        what: str,
        *,
        where: Place | str = "",
        case_id: str | None = None,
        kind: str | None = None,
        status: int = 0,
        retries: int = 0,
        wire: bytes = b"",
    ) -> None:
        super().__init__(what, where=where, case_id=case_id)
        self.kind = kind or type(self).kind
        self.status = status
        self.retries = retries
        self.wire = wire


class RefusedError(ProviderError):
    """A request breaks a rule of its vendor, and was not sent."""


class TargetError(ProviderError, kind="target"):
    """The vendor refuses a setting of the target."""


class HttpStatusError(ProviderError, kind="http"):
    """The vendor answered with an HTTP status that is an error."""


class AccessDeniedError(HttpStatusError, kind="access_denied"):
    """The key is missing or wrong, or does not allow the request."""


class RateLimitedError(HttpStatusError, kind="rate_limit"):
    """The vendor takes no more requests for now."""


class ContentFilterError(ProviderError, kind="content_filter"):
    """The vendor's filter has refused the prompt or the answer."""


class ReplyTimeoutError(ProviderError, kind="timeout"):
    """There was no answer in time."""


class ConnectionFailedError(ProviderError, kind="connection"):
    """The connection ended before the answer did."""


class UnreachableError(ConnectionFailedError, kind="unreachable"):
    """There is no connection to the server."""


class MalformedReplyError(ProviderError, kind="malformed"):
    """An answer has not the vendor's form, or is too large."""


class BatchEndedError(ProviderError, kind="batch"):
    """A batch ended without this answer."""


class ProcessFailedError(ProviderError, kind="process"):
    """The process of an agent or a command failed."""


class OwnProviderError(ProviderError, kind="provider"):
    """A provider of the user's own failed, or returned no answer."""


def provider_error(kind: str, what: str, **more: Any) -> ProviderError:
    """Return the error of a kind, as an object of its class; another kind stays what it is."""
    classes: list[type[ProviderError]] = [ProviderError]
    for each in classes:  # the list grows by those below each class
        classes += (one for one in each.__subclasses__() if one.__module__ == __name__)
    found = {each.kind: each for each in reversed(classes)}
    return found.get(kind, ProviderError)(what, kind=kind, **more)


# What results call the errors that every case would meet.
ENDS_RUN = (AccessDeniedError.kind, TargetError.kind, UnreachableError.kind)


def cut(text: str, most: int = MAX_SHOWN) -> str:
    """Return at most so many characters of a user's text; by default as errors show it."""
    return text if len(text) <= most else f"{text[:most]}…"


def quoted(text: str) -> str:
    """Return a user's text as errors show it, in quotes.

    >>> quoted("a"), len(quoted("x" * 500))
    ("'a'", 203)
    """
    return repr(cut(text))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a closing phrase that names the nearest known word, or all of them.

    >>> did_you_mean("heder", ["header", "marker"])
    'did you mean "header"?'
    >>> did_you_mean("x", ["header", "marker"])
    'choose from: header, marker'
    """
    known = list(known)
    near = nearest(word, known)
    if near is not None:
        return f'did you mean "{cut(near)}"?'
    return f"choose from: {', '.join(known)}" if known else "there are none"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is nearest to another, if one is near; case does not count."""
    from difflib import get_close_matches

    # difflib counts "Header" and "header" as different letters, so both are compared in lower case.
    by_plain = {name.casefold(): name for name in known}
    return next(map(by_plain.get, get_close_matches(word.casefold(), by_plain, n=1)), None)


def nearly(key: str, names: Iterable[str], there: Iterable[str] = ()) -> str | None:
    """Return the name that a key is meant to be, misspelled or in another case; None if none is.

    If the name itself is there, too, a key that is only similar to it may be meant as it is.

    >>> nearly("note", ["role"]), nearly("guidelines_dir", ["guidelines"])
    (None, None)
    >>> nearly("apiKey", ["api_key"]), nearly("tpye", ["type"]), nearly("tpye", ["type"], ["type"])
    ('api_key', 'type', None)
    """
    plain, taken = _plain(key), {_plain(name) for name in there}
    for name in names:
        other = _plain(name)
        if plain == other or (other not in taken and _is_similar(plain, other)):
            return name
    return None


@lru_cache(1000)  # each case of a suite may have the same keys
def _is_similar(key: str, name: str) -> bool:
    from difflib import get_close_matches

    # "guidelines_dir" shares most letters with "guidelines", but three letters more are no slip.
    is_as_long = abs(len(key) - len(name)) <= 2
    return is_as_long and bool(get_close_matches(key, [name], cutoff=0.75))


def _plain(key: str) -> str:
    """Return a key without case and separators."""
    return re.sub("[-_ ]", "", key).casefold()


def exception_in_words(error: BaseException) -> str:
    """Return the type and text of an exception of a user's own code, whose text may fail, too.

    >>> exception_in_words(KeyError("a"))
    "KeyError: 'a'"
    """
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be shown"
    return f"{type(error).__name__}: {text}"


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception, as Python shows it."""
    from traceback import format_exception

    return "".join(format_exception(error))


def line_of(function: Any, error: BaseException) -> str:
    """Return `` at FILE:LINE``: where in a function's file an exception comes from, if it does."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return line_in(error, lambda file: code is not None and file == code.co_filename)


def line_in(error: BaseException, is_meant: Callable[[str], bool]) -> str:
    """Return `` at FILE:LINE``: where an exception last was in a file that is meant, if it was."""
    from traceback import walk_tb

    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if is_meant(file := frame.f_code.co_filename):
            place = f" at {from_here(file)}:{line}"
    return place


def from_here(path: str) -> str:
    """Return a path as it is seen from the current folder, if it is below that.

    >>> from_here("/")
    '/'
    >>> from_here(os.path.abspath("mine.py"))
    'mine.py'
    """
    absolute, here = os.path.abspath(path), os.getcwd()
    is_below = f"{absolute}{os.sep}".startswith(f"{here.rstrip(os.sep)}{os.sep}")
    return os.path.relpath(absolute) if is_below else path


def end_fork(who: str) -> NoReturn:
    """End a process that somebody's code has forked, which would do all that follows once more."""
    what = f"{who} forked a process and returned in it, too; end it there, with os._exit"
    try:
        os.write(2, f"Error: {what}\n".encode())
    finally:
        os._exit(1)
