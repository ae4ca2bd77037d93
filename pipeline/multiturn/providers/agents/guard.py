"""Runs a command, and ends every process that it has started: a program of its own.

It is the parent of an agent, and a child of multiturn: ``python -IS guard.py PARENT END|KEEP
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
_AWAITED = {signal.SIGTERM, signal.SIGCHLD}


def die_with_parent(parent: int, number: int) -> None:
    """Have the system send this process a signal when its parent ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os.kill(os.getpid(), number)


def main(parent: str, keep: str, *command: str) -> int:
    """Run a command, and return its exit code; for a signal that ended it, 128 and its number.

    ``parent`` is the process id of multiturn. With END, the command's processes are ended when it
    ends; with KEEP, only when it fails, or on SIGTERM.
    """
    signal.signal(signal.SIGCHLD, lambda *_: None)  # sigwait may miss an ignored signal
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    die_with_parent(int(parent), signal.SIGTERM)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    guard, agent = os.getpid(), os.fork()
    if agent == 0:
        _start(guard, command)
    status = None
    with suppress(ChildProcessError):  # no process is left
        while status is None or (keep == "KEEP" and status == 0):
            if signal.sigwait(_AWAITED) == signal.SIGTERM:
                if status is None:
                    _terminate(agent)
                break
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == agent:
                    status = ended[1]
    _kill_all(agent)
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(guard: int, command: tuple[str, ...]) -> None:
    """Become the command, in a session of its own; one that cannot be started is exit code 127."""
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        die_with_parent(guard, signal.SIGKILL)
        os.execvp(command[0], command)  # noqa: S606 - the target names it
    except OSError as error:
        os.write(2, os.fsencode(f"cannot start {command[0]}: {error.strerror}\n"))
    finally:
        os._exit(127)


def _terminate(agent: int) -> None:
    """Send SIGTERM to the command's group, and wait a grace period."""
    with suppress(OSError):
        os.killpg(agent, signal.SIGTERM)
    end = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < end and os.waitpid(-1, os.WNOHANG)[0] != agent:
        time.sleep(_POLL_SECONDS)


def _kill_all(agent: int) -> None:
    """Kill every descendant of this process; elsewhere than on Linux, the command's group."""
    end = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < end:
        if sys.platform != "linux":
            with suppress(OSError):
                os.killpg(agent, signal.SIGKILL)
        for pid in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_SECONDS)


def descendants(pid: int) -> list[int]:
    """Return the ids of the processes below one, as Linux lists them; none that has ended."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(name))
            if state == b"Z":
                ended.add(int(name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return [each for each in found[1:] if each not in ended]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
