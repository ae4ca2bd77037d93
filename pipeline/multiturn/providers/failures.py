"""The error of a provider that gives no answer, and what is none."""

from functools import cache

from multiturn.errors import MultiturnError, Place

ENDS_RUN = ("access_denied", "target", "unreachable")  # kinds that every case would meet


class ProviderError(MultiturnError):
    """A provider gave no answer.

    Attributes:
        kind: ``refused`` (before sending), ``content_filter``, ``http``,
            ``access_denied`` (HTTP 401 or 403, or a key that is not valid: the run ends),
            ``target`` (a setting of the target is refused: the run ends), ``unreachable`` (there
            is no connection to the server: the run ends),
            ``rate_limit``, ``timeout``, ``connection``, ``malformed``, ``process``,
            ``batch`` (it ended without this answer) or ``provider``.
        status: of HTTP; 0 if there is none.
        retries: number of retries.
        wire: the exact body, if it was sent.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Place | str = "",
        case_id: str | None = None,
        kind: str = "refused",
        status: int = 0,
        retries: int = 0,
        wire: bytes = b"",
    ) -> None:
        super().__init__(what, where=where, case_id=case_id)
        self.kind = kind
        self.status = status
        self.retries = retries
        self.wire = wire


@cache
def passing() -> tuple[type[BaseException], ...]:
    """Return what ends a request and is no failure of it."""
    from asyncio import CancelledError  # takes 4 MB, which snapshots and reports do not need

    return CancelledError, KeyboardInterrupt, GeneratorExit
