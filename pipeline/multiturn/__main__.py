"""``multiturn``, and ``python -m multiturn``: ends as other Unix tools do."""

import gc
import os
import signal
import sys
from io import TextIOWrapper
from typing import TextIO, cast

from multiturn.cli.exits import exit_code


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while it starts."""
    try:
        _reopen()
        # Windows has no SIGHUP. A signal that is ignored, as SIGHUP is under nohup, stays ignored.
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)
        from multiturn.cli.group import main as commands

        commands(prog_name="multiturn")
    except KeyboardInterrupt:
        sys.exit(exit_code())
    finally:
        # Python collects garbage once more at exit. To walk all that was imported takes 10 ms, and
        # the end of the process frees it anyway, so it is hidden from the collector.
        gc.freeze()


def _end(number: int, _: object) -> None:
    """Exit by an exception, so that ``finally`` blocks clean up as after Ctrl-C."""
    sys.exit(exit_code(number))


def _reopen() -> None:
    """Replace closed standard streams by ones that fail on use; escape what cannot be encoded."""
    sys.stdin = sys.stdin or _stand_in(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _stand_in(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _stand_in(os.O_WRONLY, "w")
    if isinstance(sys.stdout, TextIOWrapper):  # Python itself sets this for standard error
        sys.stdout.reconfigure(errors="backslashreplace")


def _stand_in(flags: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


if __name__ == "__main__":
    main()
