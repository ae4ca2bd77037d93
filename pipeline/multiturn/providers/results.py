"""Result lines: what a run writes of each case, and what a later run reads of them."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType

from multiturn.errors import MultiturnError, Place
from multiturn.model import ChatMessage, ProviderRequest
from multiturn.output import open_output


class RawRequest(Struct, frozen=True):
    """What a provider was asked."""

    question: str
    guidelines: tuple[str, ...]
    chat_prompt: tuple[ChatMessage, ...] | None


class Failure(Struct, frozen=True):
    """Why there is no answer.

    Attributes:
        type: ``conversion``, or the ``kind`` of a ProviderError.
        message: the place, what is wrong, and what to do.
    """

    type: str
    message: str


class Result(Struct, frozen=True, kw_only=True):
    """What became of a case; written as one line of JSON.

    Attributes:
        suite: path of the suite, as errors name it.
        id: the case's.
        target: name of the target.
        response: what the model said; None if it failed.
        finish_reason: why the model stopped, in the provider's word.
        usage: ``input_tokens`` and ``output_tokens``, where the provider counts them.
        latency_ms: from sending to the answer, retries included.
        retries: how often the request was sent again.
        repairs: what was done to meet the provider's wire rules.
        error: why it failed; None if it did not.
        raw_request: what was asked; None if it could not be converted.
        digest: of the request as it went out; an equal one would get the same answer.
        wire: the body, as it went out or would go out.
        conversation_id: the case's, where it has one.
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
    conversation_id: Any = UNSET


def raw_request(request: ProviderRequest) -> RawRequest:
    """Return what results keep of a request."""
    return RawRequest(request.question, request.guidelines, request.chat_prompt)


class _Stored(Struct, frozen=True):
    """The part of a line that a later run needs."""

    suite: str
    id: str
    target: str
    digest: str
    error: Failure | None


_decode = msgspec.json.Decoder(_Stored).decode
_BEGINNING = b'{"suite":'


def key_of(result: Result | _Stored) -> bytes:
    """Return what tells the case and the target of a result from all others.

    A suite is the same by whatever path it was named; seen from the current folder.
    """
    identity = (os.path.abspath(result.suite), result.id, result.target)
    return hashlib.blake2b(msgspec.json.encode(identity), digest_size=16).digest()


class ResultsFile:
    """A file of result lines that a run appends to.

    Args:
        path: of the file.
        resume: go on with a file that is there; a last line that was cut short is taken off.

    Raises:
        MultiturnError: the file is there and ``resume`` is not wanted, or it is another's.
        OSError: it cannot be read or written.

    Attributes:
        stored: the digest of each case that succeeded, by its key.
    """

    def __init__(self, path: str, *, resume: bool = False) -> None:
        self.path = path
        self.stored: dict[bytes, str] = {}
        self._resumed = resume
        if not resume and os.path.exists(path) and os.path.getsize(path):
            what = f"{path!r} is there already; --resume goes on with it, or name another file"
            raise MultiturnError(what)
        if os.path.exists(path) and not os.path.isfile(path):
            raise MultiturnError(f"{path!r} is no file; results are added to a file")
        self._file: BinaryIO = Path(path).open("ab")  # noqa: SIM115 - closed by __exit__
        try:
            _lock(self._file, path)
            whole = 0
            for line, stored in _read(path):
                if stored is not None:
                    _store(self.stored, stored)
                whole += len(line)
            if whole < self._file.tell():
                self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise

    def append(self, result: Result) -> None:
        """Write a result as one line, at once: what was written survives the process."""
        self._file.write(msgspec.json.encode(result) + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def tidy(self) -> None:
        """Leave only the last line of each case; the file is replaced whole or not at all."""
        if not self._resumed:
            return  # each case came once
        last: dict[bytes, int] = {}
        count = 0
        for _, stored in _read(self.path):
            if stored is not None:
                last[key_of(stored)] = count
            count += 1
        if len(last) == count:
            return
        lines = set(last.values())
        with open_output(self.path) as new:
            for number, (line, _) in enumerate(_read(self.path)):
                if number in lines:
                    new.write(line)


def read_stored(path: str) -> dict[bytes, str]:
    """Return the digest of each case that succeeded, by the last line about it.

    Raises:
        MultiturnError: a line is no result.
        OSError: the file cannot be read.
    """
    digests: dict[bytes, str] = {}
    for _, stored in _read(path):
        if stored is not None:
            _store(digests, stored)
    return digests


def _store(digests: dict[bytes, str], stored: _Stored) -> None:
    if stored.error is None:
        digests[key_of(stored)] = stored.digest
    else:
        digests.pop(key_of(stored), None)


def _lock(file: BinaryIO, path: str) -> None:
    """Keep other runs away from a file until it is closed, where the system has such locks.

    Raises:
        MultiturnError: another run has it.
    """
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        what = f"another run is writing {path!r}; wait for it, or name another file"
        raise MultiturnError(what) from None


def _read(path: str) -> Iterator[tuple[bytes, _Stored | None]]:
    """Yield the whole lines of a results file, blank ones as None; the last may be cut short."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            cut_short = not line.endswith(b"\n")
            if not line.strip():
                yield line, None
                continue
            if cut_short and (line.startswith(_BEGINNING) or _BEGINNING.startswith(line)):
                return
            try:
                yield line, _decode(line.removeprefix(b"\xef\xbb\xbf"))
            except msgspec.MsgspecError:
                what = "this is no result; --output wants a file of its own"
                raise MultiturnError(what, where=Place(path, number)) from None
