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
        for name in ("SIGTERM", "SIGHUP"):  # no SIGHUP on Windows, and nohup ignores it
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)
        from multiturn.cli.group import main as commands

        commands(prog_name="multiturn")
    except KeyboardInterrupt:
        sys.exit(exit_code())
    finally:
        gc.freeze()  # the last collection, of all that was imported, would take 10 ms for nothing


def _end(number: int, _: object) -> None:
    """Have all that is left half-done tidied up, as after Ctrl-C."""
    sys.exit(exit_code(number))


def _reopen() -> None:
    """Have a standard stream that is closed fail when it is used, and any text be written."""
    sys.stdin = sys.stdin or _stand_in(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _stand_in(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _stand_in(os.O_WRONLY, "w")
    if isinstance(sys.stdout, TextIOWrapper):  # standard error does so by itself
        sys.stdout.reconfigure(errors="backslashreplace")


def _stand_in(flags: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


if __name__ == "__main__":
    main()
