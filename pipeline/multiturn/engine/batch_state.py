"""The state of the batches under way: a file beside the results, which survives the process."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from multiturn.errors import MultiturnError, Place
from multiturn.providers.batches.base import Part
from multiturn.providers.results import Result, Stored, key_of, state_path

_BEGINNING = b'{"is":"target"'
_ASKED = b'{"is":"asked","part":"'
_NO_STATE = "this is not the state of a batch; move it away"
_BUFFER_SIZE = 2**16  # bytes


class Target(Struct, frozen=True, tag_field="is", tag="target"):
    """The target of the batches, without its key.

    Attributes:
        name: of the target.
        provider: its kind.
        model: of the requests.
        address: of the vendor.
        version: of the state file's format.
    """

    name: str
    provider: str
    model: str
    address: tuple[str, ...]
    version: int = 1


class _Canceled(Struct, frozen=True, tag_field="is", tag="canceled"):
    """No more parts may be sent."""


class _Asked(Struct, frozen=True, tag_field="is", tag="asked"):
    """A case that waits for an answer; cases with the same request have the same part."""

    part: str
    where: str
    result: Raw


_decode = msgspec.json.Decoder(Target | Part | _Canceled | _Asked).decode


class Waiting:
    """The requests under way, and the cases that wait for an answer.

    Attributes:
        tokens: of the part that has each request, by the request's digest.
        latest: the digest of the last request of each case, by the case's key.
        outdated: key and digest, joined, of cases whose request has changed since: this answer must
            not replace the one to the new request.
    """

    def __init__(self) -> None:
        self.tokens: dict[bytes, str] = {}
        self.latest: dict[bytes, bytes] = {}
        self.outdated: set[bytes] = set()

    def outdate(self, key: bytes, digest: bytes) -> None:
        """Note the request that a case has now: the answer to another one is outdated."""
        before = self.latest.get(key, digest)
        if before != digest:
            self.outdated.add(key + before)
            self.outdated.discard(key + digest)


class BatchState:
    """The state file of a run in batches: lines of JSON, of which the last one about a part counts.

    A line that was cut short is ignored: nothing has relied on it yet.

    Args:
        output: path of the results file.

    Raises:
        MultiturnError: the file is not a state file.
        OSError: it cannot be read.

    Attributes:
        path: of the file.
        target: of the batches; None if there is no such file yet.
        parts: by their tokens.
        canceled: whether no more parts may be sent.
    """

    def __init__(self, output: str) -> None:
        self.path = state_path(output)
        self.target: Target | None = None
        self.parts: dict[str, Part] = {}
        self.canceled = False
        self._waiting = bytearray()
        self._file: int | None = None
        for number, line in enumerate(self._lines(), 1):
            if line.startswith(_ASKED):
                continue
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                record = _decode(line)
                if isinstance(record, Target):
                    self.target = record
                elif isinstance(record, Part):
                    self.parts[record.token] = record
                else:
                    self.canceled = True
            if self.target is None or self.target.version != 1:
                raise MultiturnError(_NO_STATE, where=Place(self.path, number))
        if self.target is None and not _BEGINNING.startswith(self._beginning()):
            raise MultiturnError(_NO_STATE, where=self.path)

    def _beginning(self) -> bytes:
        with suppress(FileNotFoundError), open(self.path, "rb") as file:
            return file.read(len(_BEGINNING) + 1).lstrip(b"\n")[: len(_BEGINNING)]
        return b""

    def _lines(self) -> Iterator[bytes]:
        with suppress(FileNotFoundError), open(self.path, "rb") as file:
            yield from (line for line in file if line.endswith(b"\n") and line != b"\n")

    @property
    def under_way(self) -> list[Part]:
        """The parts that were sent, or may have been, and whose results are not stored."""
        return [part for part in self.parts.values() if not part.ended]

    def add(self, record: Any) -> None:
        """Buffer a record; ``keep`` makes it durable."""
        self._waiting += msgspec.json.encode(record) + b"\n"
        if len(self._waiting) >= _BUFFER_SIZE:
            self._write()

    def keep(self, *records: Any) -> None:
        """Write records and all buffered ones to the disk.

        Raises:
            OSError: they cannot be written.
        """
        for record in records:
            if isinstance(record, Part):
                self.parts[record.token] = record
            self.add(record)
        self._write()
        if self._file is not None:
            os.fsync(self._file)

    def start(self, target: Target) -> None:
        """Record the target."""
        self.target = target
        self.keep(target)

    def cancel(self) -> None:
        """Record that no more parts may be sent."""
        self.canceled = True
        self.keep(_Canceled())

    def ask(self, part: str, where: str, result: Result) -> None:
        """Record a case that waits for an answer.

        Args:
            part: token of the part with the case's request.
            where: the place of the case, for errors.
            result: its result, without the answer.
        """
        self.add(_Asked(part, where, Raw(msgspec.json.encode(result))))

    def _write(self) -> None:
        if not self._waiting:
            return
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._file = os.open(self.path, flags, 0o666)
            self._waiting[:0] = b"\n"  # ends a line that was cut short
        while self._waiting:
            del self._waiting[: os.write(self._file, self._waiting)]

    def asked(self, part: Part) -> Iterator[tuple[str, Result]]:
        """Yield the place and the unanswered result of each case of a part."""
        self._write()
        begins = _ASKED + part.token.encode()
        decode = msgspec.json.Decoder(Result).decode
        for line in self._lines():
            if line.startswith(begins):
                record = _decode(line)
                assert isinstance(record, _Asked)  # noqa: S101 - it begins as one
                yield record.where, decode(record.result)

    def digests(self, part: Part) -> set[str]:
        """Return the digests of a part's requests."""
        return {result.digest for _, result in self.asked(part)}

    def waiting(self) -> "Waiting":
        """Return the requests under way, and the cases that wait for them."""
        waiting = Waiting()
        tokens = {part.token: part.token for part in self.under_way}  # one string for all cases
        decode = msgspec.json.Decoder(Stored).decode
        for line in self._lines() if tokens else ():
            if line.startswith(_ASKED):
                record = _decode(line)
                if isinstance(record, _Asked) and record.part in tokens:
                    stored = decode(record.result)
                    key, digest = key_of(stored), bytes.fromhex(stored.digest)
                    waiting.tokens[digest] = tokens[record.part]
                    waiting.outdate(key, digest)
                    waiting.latest[key] = digest
        return waiting

    def forget(self) -> None:
        """Remove the file if nothing is under way; only the run that writes it may call this."""
        if not self.under_way:
            self.close()
            Path(self.path).unlink(missing_ok=True)
            self.target, self.parts, self.canceled = None, {}, False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
