"""The results file: one line of JSON per case, which a later run can resume."""

import hashlib
import os
import shutil
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, BinaryIO, Literal, Self, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from multiturn.documents.input import lines_of, open_regular
from multiturn.documents.output import lock, open_locked, open_output
from multiturn.errors import AccessError, MultiturnError, Place, option
from multiturn.model.request import ChatMessage, InputFile, turn_of
from multiturn.model.settings import RequestSettings
from multiturn.model.turns import Call, Part, Tool, Turn, Turns
from multiturn.text import brief


class RawRequest(Struct, frozen=True):
    """What the provider was asked; the fields are those of ``ProviderRequest``.

    The system message is there only if there is no chat prompt, and tools and those files that are
    images, documents or audio if there are any; of settings, those that the case or a stage says.
    """

    question: str
    guidelines: tuple[str, ...]
    chat_prompt: tuple[ChatMessage, ...] | None
    system: str | UnsetType | None = UNSET
    tools: tuple[Tool, ...] | UnsetType = UNSET
    input_files: tuple[InputFile, ...] | UnsetType = UNSET
    settings: RequestSettings | UnsetType = UNSET

    @property
    def turns(self) -> Turns:
        """The messages; without a chat prompt, the system message and the question."""
        if self.chat_prompt:
            return tuple(map(turn_of, self.chat_prompt))
        system = (Turn("system", (Part("text", self.system),)),) if self.system else ()
        return *system, Turn("user", (Part("text", self.question),))


class Made(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What made a result.

    Attributes:
        provider: the target's kind of provider.
        model: the target's; None where it names none.
        pipeline: its name, or the path of its file.
        pipeline_digest: hash of its stages and their options.
        settings_digest: hash of the settings that were sent, those of the target with them; None
            without a request.
        revision: the commit of the Git repository that the run was started in; None without one.
        time: when the request was sent, in UTC; without one, when the case was read.
        version: multiturn's.
        prompt_caching: ``1h`` if the target's cache keeps prompts for an hour; else left out.
    """

    provider: str = ""
    model: str | None = None
    pipeline: str = ""
    pipeline_digest: str = ""
    settings_digest: str | None = None
    revision: str | None = None
    time: datetime | None = None
    version: str = ""
    prompt_caching: str | UnsetType = UNSET


class Failure(Struct, frozen=True):
    """Why there is no answer.

    Attributes:
        type: ``conversion``, or the ``kind`` of a ProviderError.
        message: the place, what is wrong, and what would be right.
    """

    type: str
    message: str


class Result(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The result of one case, written as one line of JSON.

    Attributes:
        suite: path of the suite from the project's root; without a project, as it was named.
        id: id of the case.
        target: name of the target.
        response: what the model said; None after an error.
        finish_reason: why the model stopped, in the provider's own word.
        usage: the tokens, as in ``ProviderResponse``.
        latency_ms: from sending to the answer, retries included.
        retries: number of retries.
        repairs: the changes that the provider's wire rules required.
        error: why there is no answer; None if there is one.
        raw_request: what was asked; None if the case could not be converted.
        digest: hash of the exact request; the same hash means the same request.
        wire: the exact body.
        answer: ``text``; ``calls`` if the model said nothing and called tools; ``empty`` if it did
            neither; ``refusal`` if it, or a filter of the provider, refused to answer; None after
            an error.
        tool_calls: the tools that the model called; left out where it called none.
        thinking: what the model thought, as the vendor sent it; only where it is asked for.
        outcome: the case's, where it has one: what the answer should achieve.
        expected_messages: the case's, where it has some: what a grader compares the answer with.
        conversation_id: the case's, where it has one.
        sample: which part of the cases the run was about, as in ``10 of 2,000, seed 1``; left out
            where it was about all of them.
        made: what made it: model, pipeline, settings, revision, time and version.
        repeat: its number, from 1 on, where the run asks more than once; else left out.
    """

    suite: str
    id: str
    target: str
    response: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] = {}
    latency_ms: float | None = None
    retries: int = 0
    repairs: tuple[str, ...] = ()
    error: Failure | None = None
    raw_request: RawRequest | None = None
    digest: str = ""
    wire: str | UnsetType = UNSET
    answer: Literal["text", "calls", "empty", "refusal"] | None = None
    tool_calls: tuple[Call, ...] | UnsetType = UNSET
    thinking: Any = UNSET
    outcome: Any = UNSET
    expected_messages: Any = UNSET
    conversation_id: Any = UNSET
    sample: str | UnsetType = UNSET
    made: Made = Made()
    repeat: int | UnsetType = UNSET

    __repr__ = brief


class Stored(Struct, frozen=True):
    """The part of a line that a later run needs."""

    suite: str
    id: str
    target: str
    digest: str
    error: Failure | None
    repeat: int = 1


_Line = TypeVar("_Line", bound=Stored)
_BEGINNING = b'{"suite":'


def key_of(result: Result | Stored) -> bytes:
    """Return a key of a result: a hash of its suite, its case, its target and its number.

    A suite in no project has one key, too, whether its path is relative or not. Links are followed
    only in a path that is not: another may be one from a project's root, which is elsewhere.
    """
    folder, name = os.path.split(result.suite)
    folder = _real(folder) if os.path.isabs(folder) else os.path.abspath(folder)
    identity = (os.path.join(folder, name), result.id, result.target, result.repeat or 1)
    return hashlib.blake2b(msgspec.json.encode(identity), digest_size=16).digest()


@lru_cache(1_000)
def _real(folder: str) -> str:
    try:
        return os.path.realpath(folder)
    except (OSError, ValueError):  # a NUL, or a folder that nobody may look into
        return folder


def request_id(result: Result) -> str:
    """Return the id of a result's request in a batch; equal requests have one.

    It is the digest; of a repetition, the beginning of it, and the number: Anthropic takes at most
    64 characters.
    """
    number = result.repeat or 1
    return result.digest if number == 1 else f"{result.digest[:57]}-{number}"


def is_stored(result: Result, digests: Mapping[bytes, str]) -> bool:
    """Return whether the digest of a result is the one that its key has in a mapping."""
    return bool(digests) and result.error is None and digests.get(key_of(result)) == result.digest


def state_path(output: str) -> str:
    """Return the path of the file that has the state of batches for a results file."""
    return f"{output}.batch"


class ResultsFile:
    """A file of result lines that a run appends to, or resumes."""

    def __init__(self, path: str, *, resume: bool = False) -> None:
        self.path = path
        # The path, if somebody removes or replaces the file: ``path`` is then that of a new one.
        self.removed: str | None = None
        self.stored: dict[bytes, str] = {}  # the digest of each case that succeeded, by its key
        self.untouched: set[bytes] = set()  # keys of results whose cases the run has not come to
        self._resumed = resume
        if os.path.exists(path) and not os.path.isfile(path):
            raise MultiturnError(f"{path!r} is not a regular file; results are appended to one")
        self._file = open_locked(path, "a+b", partial(_lock, path=path))  # closed by __exit__
        try:
            if not resume and os.path.getsize(path):
                what = f"{path!r} exists; add {option('resume')} to continue it"
                raise MultiturnError(f"{what}, or name another file")
            whole, line = 0, b""
            for line, stored in read_results(path, Stored):
                self.untouched.add(_store(self.stored, stored))
                whole += len(line)
            self._file.truncate(whole)
            if line and not line.endswith(b"\n"):  # as an editor, or a kill, may leave the last one
                self._file.write(b"\n")
                self._file.flush()
        except BaseException:
            self._file.close()
            raise

    def append(self, result: Result) -> None:
        """Write a result as one line, and flush it: it survives the death of the process."""
        self.copy(msgspec.json.encode(result))
        self.touch(result)

    def copy(self, line: bytes) -> None:
        """Write a line that has no end."""
        self.keep()
        self._file.write(line + b"\n")
        self._file.flush()

    def touch(self, result: Result) -> None:
        """Note that the run has come to the case of a result."""
        if self.untouched:
            self.untouched.discard(key_of(result))

    def strays(self) -> list[str]:
        """Return the ids of the untouched results that have a suite and a target of this run."""
        strays: dict[bytes, Stored] = {}
        touched = set()
        for _, stored in read_results(self.path, Stored) if self.untouched else ():
            key = key_of(stored)
            # A case that is now asked less often is no stray.
            if key in self.untouched and key_of(replace(stored, repeat=1)) in self.untouched:
                strays[key] = stored
            else:
                touched.add((stored.suite, stored.target))
        return [each.id for each in strays.values() if (each.suite, each.target) in touched]

    def sync(self) -> None:
        """Write all lines to the disk, so that they survive a crash of the machine."""
        os.fsync(self._file.fileno())

    def keep(self) -> None:
        """Continue in a new file, beside the old one, if that was removed or replaced."""
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno())):
                return
        self.removed = self.removed or self.path
        folder, name = os.path.split(os.path.abspath(self.path))
        stem, extension = os.path.splitext(name)
        is_there = os.access(folder, os.W_OK)
        place = tempfile.mkstemp(extension, f"{stem}.kept-", folder if is_there else None)
        new = open(place[0], "a+b")  # noqa: SIM115 - closed by __exit__
        _lock(new, place[1])
        self._file.seek(0)
        shutil.copyfileobj(self._file, new)
        new.flush()
        self._file.close()
        self._file, self.path = new, os.path.relpath(place[1]) if is_there else place[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._tidy()
        finally:
            self._file.close()

    def _tidy(self) -> None:
        """Keep only the last line of each case; the file is replaced as a whole or not at all."""
        self.keep()
        if self.removed is not None:
            what = f"{self.removed!r} was removed or replaced during the run"
            raise MultiturnError(f"{what}; its results are in {self.path!r}, move that back")
        if not self._resumed:
            return  # no case has two lines
        lines = enumerate(read_results(self.path, Stored))
        last = {key_of(stored): number for number, (_, stored) in lines}
        kept = set(last.values())
        if len(kept) == max(kept, default=-1) + 1:
            return
        with open_output(self.path) as new:
            for number, (line, _) in enumerate(read_results(self.path, Stored)):
                if number in kept:
                    new.write(line)


# What a line has of the case as it is now, not of the request.
_OF_CASE = ("outcome", "expected_messages", "conversation_id", "sample", "repeat")
_decode_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_stored = msgspec.json.Decoder(Stored).decode


class StoredResults:
    """A results file that is only read, as by ``read_results``; none has no results."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read()

    def _read(self) -> None:
        self.stored: dict[bytes, str] = {}  # the digest of each case that succeeded, by its key
        self._places: dict[bytes, int] = {}  # of the last line of each case
        place = 0
        try:
            for line, stored in read_results(self.path, Stored) if self.path else ():
                self._places[_store(self.stored, stored)] = place
                place += len(line)
        except OSError as error:
            raise AccessError(f"cannot read it: {error.strerror}", where=self.path) from None

    def line(self, result: Result) -> bytes:
        """Return the line of a result that is stored, with what its case says now of answers.

        What other programs have added to the line, such as a score, is kept. If one has rewritten
        the file meanwhile, it is read again; that the result is gone is a MultiturnError.
        """
        found: dict[bytes, str] = {}
        for _ in range(2):
            unreadable = suppress(KeyError, OSError, ValueError, RecursionError)
            with unreadable, open(self.path, "rb") as file:
                file.seek(self._places[key_of(result)])
                line = file.readline().removeprefix(BOM_UTF8)
                _store(found, _decode_stored(line))
            if is_stored(result, found):
                old, now = _decode_keys(line), _decode_keys(msgspec.json.encode(result))
                kept = {key: value for key, value in old.items() if key not in _OF_CASE}
                return msgspec.json.encode(kept | {key: now[key] for key in _OF_CASE if key in now})
            self._read()
        what = f"another program has changed this file during the run, and {result.id!r} is gone"
        raise MultiturnError(f"{what}; add {option('resume')} to ask it again", where=self.path)


def _store(digests: dict[bytes, str], stored: Stored) -> bytes:
    """Keep the digest of a result if that succeeded; return its key."""
    key = key_of(stored)
    if stored.error is None:
        digests[key] = stored.digest
    else:
        digests.pop(key, None)
    return key


def _lock(file: BinaryIO, path: str) -> None:
    """Lock a file until it is closed; refuse one that another run has locked."""
    try:
        lock(file, wait=False)
    except BlockingIOError:
        what = f"another run is writing {path!r}; wait for it, or name another file"
        raise MultiturnError(what) from None


def read_results(path: str, type_: type[_Line]) -> Iterator[tuple[bytes, _Line]]:
    """Yield each complete line of a results file, and what a struct takes of its result.

    Raises:
        MultiturnError: a line is not a result, or the file cannot be read.
    """
    decode = msgspec.json.Decoder(type_).decode
    with open_regular(path, path) as file:
        for number, line in enumerate(lines_of(file, path), 1):
            try:
                stored = decode(line.removeprefix(BOM_UTF8))
            except (ValueError, RecursionError) as error:
                begins = line.startswith(_BEGINNING) or _BEGINNING.startswith(line)
                if begins and not line.endswith(b"\n"):
                    return  # it was cut short
                is_edited = begins and isinstance(error, msgspec.ValidationError)
                why = f" ({error})" if is_edited else ""
                what = f"this is not a result{why}; remove the line, or name another file"
                raise MultiturnError(what, where=Place(path, number)) from None
            yield line, stored
