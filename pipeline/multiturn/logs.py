"""Logging through structlog, imported only by a run that has something to say: it takes 0.1 s."""

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from multiturn.assembly import Step
    from multiturn.model import Conversion


class Settings(NamedTuple):
    """What is logged, and how it looks."""

    level: Literal["debug", "warning"] = "warning"
    renderer: Literal["console", "json"] = "console"


_unapplied: Settings | None = None


def configure(settings: Settings) -> None:
    """Have what is logged sent to standard error, from the first line on."""
    global _unapplied
    _unapplied = settings


def logger() -> Any:
    """Return multiturn's structlog logger."""
    global _unapplied
    import structlog

    if _unapplied is not None:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer()
                if _unapplied.renderer == "json"
                else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_unapplied.level),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
        _unapplied = None
    return structlog.get_logger("multiturn")


def log_stage(step: "Step", conversion: "Conversion") -> "Conversion":
    """Run one step, and log its stage, case and time."""
    start = perf_counter()
    result = step(conversion)
    elapsed = perf_counter() - start
    logger().debug(
        "stage.done",
        stage=step.name,
        suite=conversion.case.suite,
        case=conversion.case.id,
        ms=round(elapsed * 1000, 3),
    )
    return result
