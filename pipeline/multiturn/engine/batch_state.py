"""The state of the batches under way: a file beside the results, which survives the process."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from multiturn.documents.output import open_output
from multiturn.documents.regular import lines_of, open_regular
from multiturn.errors import MultiturnError, Place
from multiturn.providers.batches.base import BatchPart
from multiturn.providers.results import Result, key_of, state_path


class Target(Struct, frozen=True, tag_field="is", tag="target"):
    """The target of the batches, without its key."""

    name: str
    provider: str
    model: str
    address: tuple[str, ...]


class Canceled(Struct, frozen=True, tag_field="is", tag="canceled"):
    """No more parts may be sent."""


class Waiting(Struct, frozen=True, tag_field="is", tag="asked"):
    """A case that waits for an answer; cases with the same request have the same part."""

    part: str  # its token
    where: str  # the place of the case, for errors
    result: Result  # without the answer


_Record = Target | BatchPart | Canceled | Waiting
_DIGEST = re.compile("(?:[0-9a-f]{2})+").fullmatch
_decode = msgspec.json.Decoder(_Record).decode


class BatchState:
    """The state file of a run in batches: lines of JSON, of which the last one about a part counts.

    The target is its first line.

    Raises:
        MultiturnError: the file is not a state file.
        OSError: it cannot be read.
    """

    def __init__(self, output: str) -> None:
        self.path = state_path(output)
        self.target: Target | None = None  # None if there is no such file yet
        self.parts: dict[str, BatchPart] = {}  # by their tokens
        self.canceled = False
        self._file: BinaryIO | None = None
        for record in self._records():
            self._note(record)
        if self.target is None and os.path.exists(self.path):
            what = "this is not the state of a batch; move it away"
            raise MultiturnError(what, where=self.path)
        if not self.under_way:  # a run that ended was killed before it removed the file
            self.target, self.parts, self.canceled = None, {}, False

    def _records(self) -> Iterator[_Record]:
        """Yield the records of the file, without lines cut short: nothing has relied on them."""
        if self._file is not None:
            self._file.flush()
        with suppress(FileNotFoundError), open_regular(self.path, self.path) as file:
            for number, line in enumerate(lines_of(file, self.path), 1):
                try:
                    record = _decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
                if isinstance(record, Waiting) and not _DIGEST(record.result.digest):
                    what = "the digest of this request is damaged; restore the file"
                    raise MultiturnError(what, where=Place(self.path, number))
                yield record

    def _note(self, record: _Record) -> None:
        if isinstance(record, Target):
            self.target = record
        elif isinstance(record, BatchPart):
            self.parts[record.token] = record
        elif isinstance(record, Canceled):
            self.canceled = True

    @property
    def under_way(self) -> list[BatchPart]:
        """The parts that were sent, or may have been, and whose results are not stored."""
        return [part for part in self.parts.values() if not part.ended]

    def start(self, target: Target) -> None:
        """Write a new file, as a whole or not at all."""
        self.target = target
        with open_output(self.path) as file:
            file.write(msgspec.json.encode(target) + b"\n")

    def ask(self, record: Waiting) -> None:
        """Record a case that waits for an answer, in a buffer that ``keep`` writes."""
        self._opened().write(msgspec.json.encode(record) + b"\n")

    def keep(self, record: BatchPart | Canceled) -> None:
        """Write a record to the disk, after those in the buffer."""
        self._note(record)
        file = self._opened()
        file.write(msgspec.json.encode(record) + b"\n")
        file.flush()
        os.fsync(file.fileno())

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = open(self.path, "ab", buffering=2**16)  # noqa: SIM115 - closed by close
            self._file.write(b"\n")  # ends a line that was cut short
        return self._file

    def asked(self, part: BatchPart) -> Iterator[Waiting]:
        """Yield each case that waits for a part."""
        for record in self._records():
            if isinstance(record, Waiting) and record.part == part.token:
                yield record

    def waiting(self) -> tuple[dict[bytes, str], dict[bytes, bytes]]:
        """Return what waits for an answer.

        Returns:
            The token of the part that has each request, by the request's digest; and the digest of
            the last request of each case, by the case's key.
        """
        tokens, latest = {}, {}
        under_way = {part.token for part in self.under_way}
        for record in self._records() if under_way else ():
            if isinstance(record, Waiting) and record.part in under_way:
                digest = bytes.fromhex(record.result.digest)
                tokens[digest] = self.parts[record.part].token  # one string for all its requests
                latest[key_of(record.result)] = digest
        return tokens, latest

    def forget(self) -> None:
        """Remove the file if nothing is under way; only the run that writes it may call this."""
        if not self.under_way:
            self.close()
            Path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, and write what was recorded since it was last kept."""
        if self._file is not None:
            self._file.close()
            self._file = None
