"""The state of the batches under way, in a file beside the results, for the next process."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from multiturn.documents.input import lines_of, open_regular
from multiturn.documents.output import lock, open_locked, open_output
from multiturn.errors import MultiturnError, Place, option
from multiturn.providers.base import TargetProvider
from multiturn.providers.batch_api import BatchPart
from multiturn.providers.batches_of import batches_of
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
    """The state file of a run in batches: lines of JSON, the first of which is the target.

    Of several lines about a part, the last one is valid.

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
        self._read_to = (0, 0)  # bytes and lines of the file whose records are noted
        self._catch_up()
        if self.target is None and os.path.exists(self.path):
            what = "this is not the state of a batch; move it away"
            raise MultiturnError(what, where=self.path)
        if not self.under_way:  # the last run was killed before it removed the file
            self._clear()

    @contextmanager
    def alone(self, say: Callable[[str], object]) -> Iterator[None]:
        """Wait until no other process is in such a block, and note what others have written.

        It is for whoever creates batches, cancels them or removes the file.
        """
        file = self._locked(say)
        if file is None:  # there is no such file yet, or no more
            self._clear()
            yield
            return
        with file:
            if self.target is not None:  # else the file is that of a run that ended
                self._catch_up()
            yield

    def _locked(self, say: Callable[[str], object]) -> BinaryIO | None:
        def wait(file: BinaryIO) -> None:
            try:
                lock(file, wait=False)
            except BlockingIOError:
                say("another process is sending or canceling batches of these results; waiting")
                lock(file)

        with suppress(FileNotFoundError):
            return open_locked(self.path, "rb", wait)
        return None

    def _clear(self) -> None:
        self.close()
        self.target, self.parts, self.canceled = None, {}, False
        self._read_to = (0, 0)

    def _catch_up(self) -> None:
        for read_to, record in self._lines(*self._read_to):
            self._read_to = read_to
            if record is not None:
                self._note(record)

    def _records(self) -> Iterator[_Record]:
        return (record for _, record in self._lines() if record is not None)

    def _lines(
        self, start: int = 0, number: int = 0
    ) -> Iterator[tuple[tuple[int, int], _Record | None]]:
        """Yield the bytes and lines up to the end of each line, from so many, and its record.

        A line that was cut short has none: nothing has relied on it.
        """
        if self._file is not None:
            self._file.flush()
        with suppress(FileNotFoundError), open_regular(self.path, self.path) as file:
            file.seek(start)
            for line in lines_of(file, self.path):
                start, number, record = start + len(line), number + 1, None
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    record = _decode(line)
                if isinstance(record, Waiting) and not _DIGEST(record.result.digest):
                    what = "the digest of this request is damaged; restore the file"
                    raise MultiturnError(what, where=Place(self.path, number))
                yield (start, number), record

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
        self._clear()
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
                tokens[digest] = self.parts[record.part].token  # one object for all its requests
                latest[key_of(record.result)] = digest
        return tokens, latest

    def forget(self) -> None:
        """Remove the file if nothing is under way.

        Only the run that writes it may call this, while it is ``alone``.
        """
        if not self.under_way:
            self.close()
            Path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; records that are still in the buffer are written."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_batches(provider: TargetProvider, path: str, *, batch: bool, resume: bool) -> None:
    """Make sure that no request is sent twice, before anything is read.

    Raises:
        MultiturnError: the provider has no batches, or one is under way that this run would not
            continue.
    """
    if batch:
        batches_of(provider)
    if BatchState(path).under_way and not (batch and resume):
        is_python = option("resume") == "resume="
        how = "call run_batches with resume=True" if is_python else "add --resume --batch"
        what = f"a batch for {path!r} is under way; {how} to get its results, or cancel it with:"
        raise MultiturnError(f"{what} multiturn batch cancel {path}")
