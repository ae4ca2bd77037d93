"""Logging through structlog, imported only by a run that has something to say: it takes 0.1 s."""

import sys
from typing import Any, Literal, NamedTuple

from multiturn.text import visible


class Settings(NamedTuple):
    """What is logged, and how it looks."""

    level: Literal["debug", "warning", "error"] = "warning"
    renderer: Literal["console", "json"] = "console"


_unapplied: Settings | None = None
_level = "warning"


def configure(settings: Settings) -> None:
    """Have what is logged sent to standard error, from the first line on."""
    global _unapplied, _level
    _unapplied, _level = settings, settings.level


def _make_visible(_: Any, __: str, event: Any) -> Any:
    return {key: visible(text) if isinstance(text, str) else text for key, text in event.items()}


def debug(event: str, **values: object) -> None:
    """Log an event where a command was asked for that; structlog is imported only then."""
    if _level == "debug":
        logger().debug(event, **values)


def logger() -> Any:
    """Return multiturn's structlog logger."""
    global _unapplied
    import structlog

    if _unapplied is not None:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _make_visible,
                structlog.processors.JSONRenderer()
                if _unapplied.renderer == "json"
                else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_unapplied.level),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
        _unapplied = None
    return structlog.get_logger("multiturn")
