"""What goes out: results, written whole or not at all, and the log."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from multiturn.text import visible


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when the block ends well; None is standard output.

    Written beside the file and renamed over it, with the old file's permissions. What is not a
    regular file, such as a pipe, is written to directly.

    Raises:
        OSError: the folder does not exist or may not be written to.
    """
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    import tempfile  # a fifth of the start-up, and only needed here

    descriptor, partial = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.chmod(partial, _mode(target))
        os.replace(partial, target)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt right after it took its name
            os.unlink(partial)
        raise


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


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
    import structlog  # takes 0.1 s, and most runs have nothing to say

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
