"""Stand-ins for agents: a function in this process, or a small Python program as one of its own."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from multiturn.model.request import ProviderRequest
from multiturn.providers.agents.agent import AgentProvider
from multiturn.providers.agents.codex import CodexProvider, CodexSettings
from multiturn.providers.agents.vscode import VSCodeProvider, VSCodeSettings
from multiturn.providers.base import ProviderResponse

T = TypeVar("T")
PATIENCE = 60  # seconds, for what happens at once on a machine that is not busy

# What every program can do.
COMMON = r"""
import json, os, re, signal, sys, time


def stay(witness):
    "Stay until somebody ends this process."
    end = os.open(witness, os.O_WRONLY)
    os.write(end, b"%d\n" % os.getpid())
    time.sleep(600)
    os._exit(0)


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.005)


def start_bare():
    "Become another program, which nothing but its parents leads to: setsid env -i ..."
    os.setsid()
    program = "import os, time; end = os.open({!r}, os.O_WRONLY);"
    program += "os.write(end, str(os.getpid()).encode() + bytes([10])); time.sleep(600)"
    command = [sys.executable, "-ISc", program.format(WITNESS)]
    os.execve(sys.executable, command, {})


def leave_behind(witness, change=lambda: None):
    "Start a process in the background, which inherits standard output, and see it run."
    global WITNESS
    WITNESS = witness
    reader, writer = os.pipe()
    if os.fork() == 0:
        change()
        os.write(writer, b"!")
        stay(witness)
    os.close(writer)
    os.read(reader, 1)


"""
# Answers with its prompt, as an event; or in a file, from a process that it leaves behind.
CODEX = """
item = {"type": "agent_message", "text": sys.stdin.buffer.read().decode()}
print(json.dumps({"type": "item.completed", "item": item}))
"""
VSCODE = r"""
prompt = open(sys.argv[sys.argv.index("--add-file") + 1], encoding="utf-8", newline="").read()
half = re.findall(r"\S+/response\.tmp\.md", prompt)[-1]
whole = re.findall(r"\S+/response\.md", prompt)[-1]
if os.fork():
    sys.exit()
with open(half, "w") as file:
    file.write(prompt[:9])
    file.flush()
    time.sleep(0.02)
    file.write(prompt[9:])
os.rename(half, whole)
"""

# Answers with its arguments, its prompt, and the digest of each file that the prompt lists. The
# prompt is a file for VS Code, and standard input for Codex.
SEES = r"""
import hashlib
add = "--add-file"
path = sys.argv[sys.argv.index(add) + 1] if add in sys.argv else 0
prompt = open(path, encoding="utf-8", newline="").read()
listed = re.findall(r"^- (\S+)", prompt, re.MULTILINE)
files = {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in listed}
text = json.dumps({"args": sys.argv[1:], "prompt": prompt, "files": files})
if add in sys.argv:
    answer = re.findall(r"\S+/response\.md", prompt)[-1]
    with open(answer + "~", "w") as file:
        file.write(text)
    os.rename(answer + "~", answer)
else:
    item = {"type": "agent_message", "text": text}
    print(json.dumps({"type": "item.completed", "item": item}))
"""


class Kind(NamedTuple):
    provider: Callable[..., AgentProvider]
    settings: Callable[..., Any]
    program: str


KINDS = {
    "codex": Kind(CodexProvider, CodexSettings, CODEX),
    "vscode": Kind(VSCodeProvider, VSCodeSettings, VSCODE),
}


def executable(folder: Path, program: str) -> str:
    path = folder / "agent"
    path.write_text(f"#!{sys.executable} -IS\n{COMMON}{program}", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def agent(kind: str, folder: Path, program: str | None = None, **settings: Any) -> AgentProvider:
    """Return a provider whose agent works in the folder ``work``."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    if "executable" not in settings:
        settings["executable"] = executable(folder, program or KINDS[kind].program)
    given = {"name": "target", "provider": kind, "cwd": str(work), "timeout_seconds": 60}
    return KINDS[kind].provider(KINDS[kind].settings(**{**given, **settings}))


async def sees(command: tuple[str, ...], **given: Any) -> None:
    """Answer, in place of ``run_command``, with all that an agent gets to see.

    It opens every file that its prompt lists.
    """
    answer, folder = given.get("answer"), Path(given["cwd"] or "")
    if answer is None:
        prompt = given["stdin"].decode()
    else:
        prompt = Path(command[command.index("--add-file") + 1]).read_bytes().decode()
    paths = re.findall(r"^- (.+)$", prompt, re.MULTILINE)
    files = {path: (folder / path).read_bytes() for path in paths}
    record = {
        "args": command[1:],
        "cwd": given["cwd"],
        "env": dict(given["env"]),
        "prompt": prompt,
        "files": {path: text.decode("utf-8", "surrogatepass") for path, text in files.items()},
        "ignored": [path.read_text() for path in folder.rglob(".gitignore")],
    }
    if answer is None:
        item = {"type": "agent_message", "text": json.dumps(record)}
        given["take_line"](json.dumps({"type": "item.completed", "item": item}).encode())
    else:
        answer.write_text(json.dumps(record))


def left(folder: Path) -> list[str]:
    """Return what a run has left in the working folder."""
    return [path.name for path in (folder / "work").rglob("*")]


async def invoked(provider: AgentProvider, request: ProviderRequest) -> ProviderResponse:
    """Ask a provider that is closed when it has answered."""
    async with provider:
        return await provider.invoke(request)


def ask(provider: AgentProvider, question: str = "Hi", **request: Any) -> ProviderResponse:
    work = invoked(provider, ProviderRequest(question=question, **request))
    return asyncio.run(asyncio.wait_for(work, 2 * PATIENCE))


class Witness:
    """Hears from processes: each opens a pipe, and is heard no longer once it is gone."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "witness")
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._heard = b""

    def listen(self) -> bool:
        """Whether some process is there."""
        try:
            news = os.read(self._end, 4096)
        except BlockingIOError:
            return True
        self._heard += news
        return bool(news)

    def heard(self, count: int = 1) -> bool:
        self.listen()
        return self._heard.count(b"\n") >= count

    def tell(self, file: Path) -> Callable[[], bool]:
        """Return a condition that never holds, and that makes a file once a process is heard."""

        def never() -> bool:
            if self.heard():
                file.touch()
            return False

        return never

    def close(self) -> bool:
        """Whether all processes are gone soon; kills what is left."""
        deadline = time.monotonic() + PATIENCE
        while (is_left := self.listen()) and time.monotonic() < deadline:
            time.sleep(0.005)
        for number in self._heard.split() if is_left else ():
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
        os.close(self._end)
        return not is_left


@contextmanager
def witness(folder: Path) -> Iterator[Witness]:
    """Give a witness, and see at the end that every process that it heard from is gone."""
    listener = Witness(folder)
    yield listener
    assert listener.heard(), "no process has come to run at all"
    assert listener.close(), "a process outlived the run"


class _Loop(asyncio.SelectorEventLoop):
    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def until(condition: Callable[[], bool], work: Coroutine[Any, Any, T], *, cancels: int = 0) -> T:
    """Do some work whose time is up, or which is canceled, as soon as a condition holds."""

    async def both() -> T:
        task = asyncio.create_task(work)
        deadline = time.monotonic() + PATIENCE
        while not condition() and not task.done() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.1)
        if not cancels:
            loop.ahead += 1_000_000
        return await task

    loop = _Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(both())
