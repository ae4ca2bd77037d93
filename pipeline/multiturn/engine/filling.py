"""Filling the parts of a batch with requests, as large as the vendor takes them."""

import secrets
import time
from tempfile import TemporaryFile
from typing import BinaryIO

from multiturn.providers.batches.base import Batches, Part


class Filling:
    """The part that is being filled, in a file that disappears with the process.

    Args:
        api: has the limits of a part.
        folder: for the file.

    Attributes:
        part: the part so far.
        file: its requests.
    """

    def __init__(self, api: Batches, folder: str) -> None:
        self.api = api
        self.folder = folder
        self.part = Part(secrets.token_hex(16))
        self.file: BinaryIO = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by close

    def is_full(self, line: bytes) -> bool:
        """Return whether a request must go into the next part."""
        size = self.part.size + len(line) + sum(map(len, self.api.frame))
        too_large = size > self.api.most_bytes or self.part.requests == self.api.most_requests
        return too_large and self.part.requests > 0

    def add(self, line: bytes) -> None:
        """Write a request into the file."""
        before, between, _ = self.api.frame
        self.part.size += self.file.write((between if self.part.requests else before) + line)
        self.part.requests += 1

    def finish(self) -> Part:
        """Return the part as it is sent."""
        self.part.size += self.file.write(self.api.frame[2])
        self.part.time = time.time()
        self.file.seek(0)
        return self.part

    def begin(self) -> None:
        """Begin a new part."""
        self.part = Part(secrets.token_hex(16))
        self.file.seek(0)
        self.file.truncate()

    def close(self) -> None:
        """Remove the file."""
        self.file.close()
