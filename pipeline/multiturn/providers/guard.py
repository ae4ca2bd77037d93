"""Runs a command, and ends every process that it has started: a program of its own.

It is the parent of an agent, and a child of multiturn: ``python -IS guard.py PARENT REPORT END|KEEP
COMMAND...``. On Linux it adopts what the agent's processes leave behind, wherever they hide, and
ends all of them also when multiturn is killed.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 2.0
_LIMIT_SECONDS = 5.0  # for processes that may not be killed
_POLL_SECONDS = 0.005

_is_waiting = False
_stops = 0


class _StopError(Exception):
    """SIGTERM came while nothing but the end of the command was awaited."""


def die_with_parent(parent: int, number: int) -> None:
    """Have the system send this process a signal when its parent ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os.kill(os.getpid(), number)


def main(parent: str, report: str, keep: str, *command: str) -> int:
    """Run a command, and return its exit code; a negative one is the signal that ended it.

    Args:
        parent: process id of multiturn.
        report: file descriptor for the reason why the command cannot be started.
        keep: KEEP to end its processes only on SIGTERM, END to end them when it ends.
        command: the command and its arguments.
    """
    global _is_waiting
    signal.signal(signal.SIGTERM, _stop)
    die_with_parent(int(parent), signal.SIGTERM)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(int(report), False)
    guard, agent = os.getpid(), os.fork()
    if agent == 0:
        _start(guard, int(report), command)
    status = None
    try:
        _is_waiting = True
        if _stops:
            raise _StopError
        while status is None or (keep == "KEEP" and status == 0):
            pid, ended = os.waitpid(-1, 0)
            if pid == agent:
                status = ended
        _is_waiting = False
    except ChildProcessError:
        _is_waiting = False
    except _StopError:
        _is_waiting = False
        if status is None:
            _terminate(agent)
    _kill_all(agent)
    return 0 if status is None else os.waitstatus_to_exitcode(status)


def _stop(*_: object) -> None:
    global _stops
    _stops += 1
    if _is_waiting:
        raise _StopError


def _start(guard: int, report: int, command: tuple[str, ...]) -> None:
    """Become the command, in a session of its own."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(guard, signal.SIGKILL)
        os.execvp(command[0], command)  # noqa: S606 - the target names it
    except OSError as error:
        os.write(report, str(OSError(error.errno, error.strerror, command[0])).encode())
    finally:
        os._exit(127)


def _terminate(agent: int) -> None:
    """Send SIGTERM to the command's group, and wait a grace period; a second stop ends it."""
    with suppress(OSError):
        os.killpg(agent, signal.SIGTERM)
    end = time.monotonic() + _GRACE_SECONDS
    with suppress(ChildProcessError):
        while _stops < 2 and time.monotonic() < end and os.waitpid(-1, os.WNOHANG)[0] != agent:
            time.sleep(_POLL_SECONDS)


def _kill_all(agent: int) -> None:
    """Kill every descendant of this process; elsewhere than on Linux, the command's group."""
    end = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < end:
        if sys.platform != "linux":
            with suppress(OSError):
                os.killpg(agent, signal.SIGKILL)
        for pid in _descendants():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_SECONDS)


def _descendants() -> list[int]:
    """Return the ids of the processes below this one, as Linux lists them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    if code < 0:  # end as the command did
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)
