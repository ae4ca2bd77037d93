"""The exit code of a command that a signal ends."""

import signal


def exit_code(number: int = signal.SIGINT) -> int:
    """Return the exit code for a signal, as a shell reports it: 128 and the signal's number.

    >>> exit_code(signal.SIGTERM)
    143
    """
    return 128 + number
