"""``multiturn``, and ``python -m multiturn``: ends as other Unix tools do."""

import gc
import os
import signal
import sys
from typing import NoReturn, TextIO, cast

from multiturn.cli import exit_code


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while it starts."""
    try:
        _reopen()
        _guard_exit()
        # A start makes thousands of objects that stay, and Python looks for garbage at each 700th.
        gc.set_threshold(50_000)
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
    """Replace closed standard streams by ones that fail on use, and keep standard output."""
    from multiturn.documents.output import keep_standard_output

    sys.stdin = sys.stdin or _stand_in(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _stand_in(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _stand_in(os.O_WRONLY, "w")
    keep_standard_output()


def _stand_in(flags: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


if __name__ == "__main__":
    main()
