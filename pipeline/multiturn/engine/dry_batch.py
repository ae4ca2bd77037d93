"""What a run in batches would send."""

from typing import TYPE_CHECKING, Any

from multiturn.engine.batches import Batch
from multiturn.engine.filling import Filling
from multiturn.providers.results import Result

if TYPE_CHECKING:
    from multiturn.providers.batches.base import Part


class DryBatch(Batch):
    """A batch whose parts are counted, not sent.

    Attributes:
        parts: the parts that would be sent.
    """

    def __init__(self, provider: Any, output: str) -> None:
        super().__init__(provider, output, poll=0, say=lambda _: None)
        self.parts: list[Part] = []

    def _ask(self, part: str, where: str, result: Result) -> None:
        """Record nothing."""

    def _send(self, filling: Filling) -> None:
        self.parts.append(filling.finish())
        filling.begin()
