"""Warnings, and the log of what is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from multiturn.errors import MultiturnError, Place
from multiturn.text import indented, may_color, visible


class LogSettings(NamedTuple):
    """The lowest level that is logged, and how it looks."""

    level: Literal["debug", "warning", "error"] = "warning"
    renderer: Literal["console", "json"] = "console"


_settings: LogSettings | None = None  # None where multiturn is imported by another program


class Notice(Struct, frozen=True):
    """Something that a suite, or a segment of a case, is warned of.

    Attributes:
        event: a dotted name, such as ``segment.left_out``, for logs that programs read.
        where: the place in the suite.
        why: what was noticed, and what to do about it.
        message: index in ``input_messages``.
        content: index of the segment in that message's content.
        case_id: id of the case that it belongs to; None if it belongs to none.
        is_warning: whether it is logged, and an error with ``--strict``; else it is meant so.
    """

    event: str
    where: Place
    why: str
    message: int | None = None
    content: int | None = None
    case_id: str | None = None
    is_warning: bool = True


TEXT_AS_MEDIA = "segment.text_as_media"  # the event of an attached text that is sent as media

_sink: ContextVar[Callable[[Notice], None] | None] = ContextVar("sink", default=None)


def configure(settings: LogSettings) -> None:
    """Set what is logged to standard error, and how it looks."""
    global _settings
    _settings = settings


@contextmanager
def warnings_to(sink: Callable[[Notice], None] | None) -> Iterator[None]:
    """Give each warning inside the block to ``sink``; None writes it to standard error."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


def fail(notice: Notice) -> None:
    """Raise a warning as an error: a sink for ``warnings_to``."""
    raise MultiturnError(notice.why, where=notice.where, case_id=notice.case_id)


def warn(notice: Notice) -> None:
    """Give a warning to the sink; without one, say it as ``file:line: warning: ...``.

    A command writes it to standard error. A program that imports multiturn gets it from structlog
    if it has configured that, else from the standard logger ``multiturn``.
    """
    sink, where = _sink.get(), notice.where
    if sink is not None:
        sink(notice)
        return
    if _is_configured() or (_settings and _settings.renderer == "json"):
        logger().warning(notice.event, where=str(where), why=notice.why)
        return
    place = str(where._replace(label=""))
    text = indented(": ".join(filter(None, [place, "warning", where.label, notice.why])))
    if _settings is None:
        import logging

        logging.getLogger("multiturn").warning("%s", text, extra={"notice": notice})
    elif _settings.level != "error" and sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def is_debugging() -> bool:
    """Return whether a command was asked to log what it does."""
    return _settings is not None and _settings.level == "debug"


def debug(event: str, **values: object) -> None:
    """Log an event where a command was asked for that; structlog is imported only then."""
    if is_debugging():
        logger().debug(event, **values)


def logger() -> Any:
    """Return multiturn's structlog logger: the program's own, else one to standard error."""
    import structlog

    if _is_configured():
        return structlog.get_logger("multiturn")
    settings = _settings or LogSettings()
    render: Any = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and may_color())
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _make_visible,
            structlog.processors.JSONRenderer() if settings.renderer == "json" else render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
    )


def _is_configured() -> bool:
    """Return whether the program that imports multiturn has configured structlog."""
    structlog = sys.modules.get("structlog")
    return _settings is None and structlog is not None and structlog.is_configured()


def _make_visible(_: Any, __: str, event: Any) -> Any:
    return {key: visible(text) if isinstance(text, str) else text for key, text in event.items()}
