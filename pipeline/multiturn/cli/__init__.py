"""The command line: the only room that prints, exits, or imports click and rich."""

import signal


def exit_code(number: int = signal.SIGINT) -> int:
    """Return the exit code for a signal, as a shell reports it: 128 and the signal's number.

    >>> exit_code(signal.SIGTERM)
    143
    """
    return 128 + number
