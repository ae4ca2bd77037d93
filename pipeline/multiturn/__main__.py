"""``multiturn``, and ``python -m multiturn``: ends as other Unix tools do."""

import os
import sys
from typing import TextIO, cast


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while it starts."""
    try:
        _reopen()
        from multiturn.cli import main as commands

        commands(prog_name="multiturn")
    except KeyboardInterrupt:
        sys.exit(130)  # 128 and the signal's number, as a shell says it


def _reopen() -> None:
    """Have a standard stream that is closed fail when it is used, as it does in other tools."""
    sys.stdin = sys.stdin or _stand_in(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _stand_in(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _stand_in(os.O_WRONLY, "w")


def _stand_in(flags: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


if __name__ == "__main__":
    main()
