"""Batches of a dry run: what would be sent in how many parts."""

from collections.abc import Iterator
from typing import BinaryIO

from multiturn.engine.batch_run import BatchRun
from multiturn.engine.batch_state import Waiting
from multiturn.engine.costs import Estimate
from multiturn.engine.delivery import Delivery
from multiturn.engine.prefixes import SharedPrefixes
from multiturn.engine.run import Run
from multiturn.providers.batch_api import BatchPart


class DryBatchRun(BatchRun):
    """A run in batches whose parts are counted, not sent; ``deliveries`` are the run's."""

    def __init__(self, run: Run, deliveries: Iterator[Delivery]) -> None:
        super().__init__(run, poll=0, say=lambda _: None)
        self.parts: list[BatchPart] = []
        self.estimate = Estimate(run.budget.price, SharedPrefixes(run.provider))
        self._given = deliveries
        self._digests: set[str] = set()

    def _deliveries(self) -> Iterator[Delivery]:
        for delivery in self._given:
            if delivery.result.digest not in self._digests:  # cases with one request share it
                self.estimate.add(delivery)
            self._digests.add(delivery.result.digest)
            yield delivery

    def _ask(self, asked: Waiting) -> None:
        """Record nothing."""

    def _send(self, part: BatchPart, file: BinaryIO) -> None:
        self.parts.append(part)
