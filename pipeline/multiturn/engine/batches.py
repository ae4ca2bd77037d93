"""The batches of a results file: finding, creating and canceling them, and reading their status.

Each step is recorded before the next one begins: the cases of a part, the id of its file, the id of
its batch, and that its results are stored. If a batch may have been created without a record of it,
the vendor's list is searched for it before another one is created.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, BinaryIO, Self, TypeVar, TypeVarTuple

from msgspec.structs import replace

from multiturn.engine.batch_state import BatchState, Canceled, Target
from multiturn.errors import MultiturnError, ProviderError
from multiturn.providers.batch_api import BatchPart, BatchStatus, may_pass
from multiturn.providers.batches_of import batches_of
from multiturn.providers.secrets import hide
from multiturn.text import number_of

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_CREATIONS = 3  # attempts to create a batch that is not found afterwards


class Batches:
    """The batches of a results file; a context manager.

    Args:
        provider: of the target.
        output: path of the results file.
        poll: seconds between two checks of the status.
        say: called with messages for the user.

    Raises:
        MultiturnError: the provider has no batches, or another target's are under way.
    """

    def __init__(
        self, provider: Any, output: str, *, poll: float, say: Callable[[str], object]
    ) -> None:
        self.api = batches_of(provider)
        self.provider = provider
        self.poll = poll
        self.say = say
        self.statuses: dict[str, BatchStatus] = {}  # the last known ones, by the tokens of parts
        self.output = output
        self.state = BatchState(output)
        address = hide(provider.address(), provider.secrets)
        self.target = Target(provider.name, provider.kind, provider.settings.model, address)
        if self.state.under_way and self.state.target != self.target:
            name = self.state.target and self.state.target.name
            what = f"a batch of the target {name!r}, or one with other settings, is under way;"
            what += " finish it with that target and those settings"
            raise MultiturnError(what, where=self.state.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.close()

    def call(self, method: Callable[[*_Ts], Coroutine[Any, Any, _T]], *arguments: *_Ts) -> _T:
        """Return what a method of the API returns.

        No event loop stays open between two calls: an iterator over results may be kept until the
        program ends, when none could be closed any more.

        Raises:
            ProviderError: it fails; every method below may raise it.
        """

        async def call() -> _T:
            async with self.provider:
                return await method(*arguments)

        return asyncio.run(call())

    def settle(self) -> None:
        """Find the batches of parts that were being sent; create those of uploaded parts."""
        for part in self.state.under_way:
            if part.batch or self._found(part):
                continue
            if part.file and not self.state.canceled:
                self.create(part, None)
            else:
                self.state.keep(replace(part, ended=True))

    def create(self, part: BatchPart, file: BinaryIO | None, tries: int = _CREATIONS) -> None:
        """Create the batch of a part, unless it is there after an attempt that seemed to fail."""
        try:
            self._created(part, self.call(self.api.create, part, file))
        except ProviderError as error:
            if not may_pass(error):
                if file is not None:  # the first attempt, which was refused: nothing was created
                    self.state.keep(replace(part, ended=True))
                raise
            self.say(f"the vendor did not confirm the batch: {error.what}")
            if self._found(part):
                return
            if tries == 1:
                raise
            self.create(part, file, tries - 1)

    def _created(self, part: BatchPart, batch: str) -> None:
        self.state.keep(replace(part, batch=batch))
        self.say(f"{batch}: {number_of(part.requests, 'request')}, {part.size:,} bytes")

    def _found(self, part: BatchPart) -> bool:
        """Search for the batch of a part, and return whether it was found.

        A second search follows a first that found nothing: a vendor may be slow to list a batch.
        """

        def digests() -> set[str]:
            return {asked.result.digest for asked in self.state.asked(part)}

        others = {other.batch for other in self.state.parts.values()}
        once_more = ", before anything is sent again"
        said: set[str] = set()
        while True:
            found = self.call(self.api.find, part, others, digests)
            if found.batch:
                self._created(part, found.batch)
                return True
            what = once_more
            if found.undecided:
                ids = " and ".join(found.undecided)
                what = f": once {ids} ended, the answers in it show whether it is this one"
            elif once_more in said:
                return False
            if what not in said:
                requests = number_of(part.requests, "request")
                self.say(f"searching again in {self.poll:g} s for a batch of {requests}{what}")
            said.add(what)
            time.sleep(self.poll)

    def status_of(self, part: BatchPart) -> BatchStatus:
        """Return the status of a part's batch."""
        self.statuses[part.token] = self.call(self.api.status_of, part.batch)
        return self.statuses[part.token]

    def cancel(self) -> None:
        """Ask the vendor to end all batches under way, and send no more parts.

        Raises:
            ProviderError: the vendor refuses to end a batch; all others were canceled.
            MultiturnError: none is under way.
        """
        with self.state.alone(self.say):
            if not self.state.under_way:
                raise nothing_under_way(self.output)
            self.state.keep(Canceled())
            errors = {part.token: self._end(part) for part in self.state.under_way if part.batch}
            self.settle()
            lost = [part for part in self.state.under_way if part.token not in errors]
            errors |= {part.token: self._end(part) for part in lost}
        for error in filter(None, errors.values()):
            raise error

    def _end(self, part: BatchPart) -> ProviderError | None:
        try:
            if not self.status_of(part).ended:
                self.call(self.api.cancel, part.batch)
        except ProviderError as error:
            return error if error.status != 409 else None  # 409: it has ended meanwhile
        return None


def nothing_under_way(output: str) -> MultiturnError:
    """Return the error for a results file that has no batch under way."""
    return MultiturnError(f"no batch for {output!r} is under way")
