"""``multiturn``, and ``python -m multiturn``: ends as other Unix tools do."""

import gc
import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

from multiturn.cli import exit_code


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while it starts."""
    try:
        _reopen()
        _guard_exit()
        # A start makes thousands of objects that stay, and Python looks for garbage at each 700th.
        gc.set_threshold(10_000)
        # Windows has no SIGHUP. A signal that is ignored, as SIGHUP is under nohup, stays ignored.
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)
        from multiturn.cli.group import command_line

        command_line(prog_name="multiturn")
    except KeyboardInterrupt:
        sys.exit(exit_code())
    finally:
        # Python collects garbage once more at exit. To walk all that was imported takes 10 ms, and
        # the end of the process frees it anyway, so it is hidden from the collector.
        gc.freeze()


def _end(number: int, _: object) -> None:
    """Exit by an exception, so that ``finally`` blocks clean up as after Ctrl-C."""
    sys.exit(exit_code(number))


def _guard_exit() -> None:
    """Make ``os._exit`` an exception, which names the stage or the provider that called it.

    The command would end as if it had succeeded, without the rest of its output. Processes that it
    starts, such as those of ``multiprocessing``, end by ``os._exit`` as ever.
    """
    command, end = os.getpid(), os._exit

    def exit_process(status: int) -> NoReturn:
        if os.getpid() == command:
            sys.exit(status)
        end(status)

    os._exit = exit_process


def _reopen() -> None:
    """Keep standard output for what commands print, and replace closed standard streams.

    A closed stream becomes one that fails on use. What else is printed, also by C code and child
    processes of stages and providers, goes to standard error.
    """
    sys.stdin = sys.stdin or _stand_in(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _stand_in(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _stand_in(os.O_WRONLY, "w")
    if not isinstance(sys.stdout, TextIOWrapper):
        return
    sys.stdout.flush()
    was = sys.stdout
    buffering = 0 if was.write_through else -1  # by PYTHONUNBUFFERED
    ours = TextIOWrapper(
        os.fdopen(os.dup(was.fileno()), "wb", buffering, closefd=False),
        encoding=was.encoding,
        errors="backslashreplace",  # Python itself sets this for standard error
        line_buffering=was.line_buffering,
        write_through=was.write_through,
    )
    os.dup2(sys.stderr.fileno(), was.fileno())
    # A worker process ends without a flush of ``sys.__stdout__``, which a stage may print to.
    was.reconfigure(line_buffering=True)
    sys.stdout = cast("TextIO", _Output(ours))


class _Output:
    """Standard output for the code of multiturn, standard error for any other."""

    def __init__(self, ours: TextIO) -> None:
        self._ours = ours

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream for the code that asks."""
        frame = sys._getframe().f_back  # None where the interpreter flushes at its end
        while frame is not None and _package(frame) == "click":  # prints for whoever calls it
            frame = frame.f_back
        is_ours = frame is None or _package(frame) in ("multiturn", "__main__")
        return getattr(self._ours if is_ours else sys.stderr, name)


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _stand_in(flags: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


if __name__ == "__main__":
    main()
