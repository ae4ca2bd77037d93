"""No generator of ours keeps a program from ending: used up, closed, dropped or just kept."""

import inspect
import json
import os
import subprocess
import sys
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

import commands
import multiturn
from batch_server import BatchServer
from loopback import KEY, Answer, Request
from running import write_suite

Ends = Callable[..., None]
LIMIT = 120  # seconds, which bound a hang: a second is enough unless the machine is busy
# Makes ``it``, the generator of a public function.
SYNCHRONOUS = {
    "dry_run": 'it = m.dry_run("a.eval.yaml", "spec", TARGET)',
    "dry_run, counting": 'it = m.dry_run("a.eval.yaml", "spec", TARGET, count_tokens=True)',
    "run_batches": 'it = m.run_batches("a.eval.yaml", "spec", TARGET, "out.jsonl", poll=0.01)',
    "load_suite": 'it = m.load_suite("a.eval.yaml")',
}
ENDS = {
    "used up": "list(it)",
    "not begun": "",
    "kept": "next(it)",
    "closed": "next(it)\nit.close()",
    "dropped": "next(it)\ndel it",
    "in a cycle": "next(it)\nkept = [it]\nkept.append(kept)\ndel it, kept",
    "in a module": "next(it)\nsys.modules['kept'] = it",
    "kept, and an error": "next(it)\nraise SystemExit(0)",
    "kept in a thread": "\n".join(
        ("import threading", "thread = threading.Thread(target=next, args=(it,))")
    )
    + "\nthread.start()\nthread.join()",
    "left by a loop": "for each in it:\n    break",
    "thrown into": "next(it)\ntry:\n    it.throw(KeyError)\nexcept KeyError:\n    pass",
    "kept until atexit": "import atexit\nnext(it)\natexit.register(it.close)",
    "kept until atexit, and used": "import atexit\nnext(it)\natexit.register(lambda: list(it))",
}
# In a program with an event loop of its own.
ASYNCHRONOUS = {
    "used up": "async for each in it:\n    pass",
    "not begun": "pass",
    "kept": "kept.append(await anext(it))",
    "closed": "await anext(it)\nawait it.aclose()",
    "dropped": "await anext(it)\ndel it",
    "left by a loop": "async for each in it:\n    break",
    "cancelled": "task = asyncio.ensure_future(anext(it))\nawait asyncio.sleep(.01)\ntask.cancel()",
}
PROGRAM = """\
import asyncio, sys
import multiturn as m

TARGET = m.load_target("{target}")
kept = []
"""


def program_of(name: str, end: str, target: str = "openai") -> str:
    return "\n".join((PROGRAM.format(target=target), SYNCHRONOUS[name], ENDS[end], ""))


@pytest.fixture
def host() -> str:
    """The name of the server, which has to be resolved: asyncio does that in a thread."""
    return "localhost"


@pytest.fixture
def folder(host: str, tmp_path: Path) -> Iterator[Path]:
    """A folder with a suite, and with targets at a server that also counts."""
    with BatchServer() as server:
        url = server.url.replace("127.0.0.1", host)
        targets = [
            {"name": "openai", "provider": "openai", "base_url": f"{url}/v1"},
            {"name": "anthropic", "provider": "anthropic", "base_url": url},
            {"name": "gemini", "provider": "gemini", "base_url": url},
        ]
        given = {"api_key": KEY, "model": "m"}
        text = json.dumps({"targets": [{**target, **given} for target in targets]})
        (tmp_path / "targets.yaml").write_text(text)
        write_suite(tmp_path, ["one", "two", "three", "four"])
        act = server.act

        def answer(request: Request) -> Answer:
            if any(word in request.path for word in ("count", "input_tokens")):
                return 200, {"input_tokens": 7, "totalTokens": 7}
            return act(request)

        server.act = answer  # type: ignore[method-assign]
        yield tmp_path


# Imports once what programs do, and lets no collection of garbage look at it: both take most of
# their time. For each folder that it reads it forks: the child is the program of that folder, up to
# the end of the interpreter.
FORKS = f"""\
import gc, os, signal, sys
import aiohttp, multiturn
for name in multiturn.__all__:
    getattr(multiturn, name)
given = dict(name="t", provider="openai", model="gpt-4o", api_key="k")
list(multiturn.dry_run("a.eval.yaml", "spec", multiturn.load_target(given)))
gc.collect()
gc.freeze()
for folder in sys.stdin:
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.alarm({LIMIT})
os.chdir(folder.strip())
for descriptor, name in enumerate((os.devnull, "stdout", "stderr")):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), descriptor)
exec(compile(open("program.py").read(), "program.py", "exec"))
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[commands.Process]:
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks here")
    folder = tmp_path_factory.mktemp("forks")
    write_suite(folder, ["one"])
    command = [sys.executable, "-c", FORKS]
    env = {**os.environ, "NO_PROXY": "127.0.0.1,localhost"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=env, text=True, bufsize=1, **pipes) as found:
        yield found
        found.communicate()


@pytest.fixture
def ends(forks: commands.Process, folder: Path) -> Ends:
    """Return what runs a program in the folder to its end, which is soon and says nothing."""

    def run(program: str, *, is_quiet: bool = True) -> None:
        assert forks.stdin is not None
        assert forks.stdout is not None
        (folder / "program.py").write_text(program)
        forks.stdin.write(f"{folder}\n")
        code = int(forks.stdout.readline())
        said = (folder / "stderr").read_text()
        assert (code, said if is_quiet else "") == (0, ""), said

    return run


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("openai", "localhost"),
        ("anthropic", "localhost"),
        ("gemini", "localhost"),
        ("openai", "127.0.0.1"),  # an address is resolved by no thread, whoever is asked
    ],
)
@pytest.mark.parametrize("name", ["dry_run, counting", "run_batches"])
def test_a_program_ends_whatever_the_vendor(ends: Ends, name: str, target: str) -> None:
    """A batch of one vendor is created in other steps than that of another."""
    ends(program_of(name, "kept", target))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_program_ends_whatever_it_does_with_a_generator(ends: Ends, name: str, end: str) -> None:
    ends(program_of(name, end))


@pytest.mark.parametrize("name", ["dry_run, counting", "run_batches"])
def test_a_program_ends_whose_function_has_the_generator(ends: Ends, name: str) -> None:
    body = indent("\n".join((SYNCHRONOUS[name], "next(it)", "kept.append(locals())")), "    ")
    ends(f"{PROGRAM.format(target='openai')}\ndef main():\n{body}\n\nmain()\n")


@pytest.mark.parametrize("use", ["next", "list"])
@pytest.mark.parametrize("name", ["dry_run, counting", "run_batches"])
def test_a_program_ends_that_calls_it_in_a_thread_of_its_loop(
    ends: Ends, name: str, use: str
) -> None:
    call = f"kept.append(it)\nawait asyncio.to_thread({use}, it)"
    body = indent(f"{SYNCHRONOUS[name]}\n{call}", "    ")
    main = f"async def main():\n{body}\n\nasyncio.run(main())\n"
    ends(PROGRAM.format(target="openai") + main)


@pytest.mark.parametrize("end", ASYNCHRONOUS)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_program_ends_whatever_it_does_with_a_run(ends: Ends, end: str, is_open: bool) -> None:
    """A provider that is not closed, and a generator that asyncio has to close, may be said."""
    body = f'it = m.run("a.eval.yaml", "spec", TARGET)\nkept.append(it)\n{ASYNCHRONOUS[end]}'
    body = f"async with TARGET:\n{indent(body, '    ')}" if is_open else body
    main = f"async def main():\n{indent(body, '    ')}\n\nasyncio.run(main())\n"
    is_quiet = is_open and end in ("used up", "not begun", "closed")
    ends(PROGRAM.format(target="openai") + main, is_quiet=is_quiet)


BAG = """\
import dask
from multiturn.distributed import convert_bag

bag = convert_bag("a.eval.yaml", "spec")
parts = bag.to_delayed()
with dask.config.set(scheduler="synchronous"):
    it = iter(parts[0].compute())
    next(it)
"""


@pytest.mark.parametrize(
    "program",
    [program_of("dry_run, counting", "kept"), program_of("run_batches", "kept"), BAG],
    ids=["dry_run", "run_batches", "convert_bag"],
)
def test_a_program_ends_that_imports_all_itself(folder: Path, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1,localhost"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def gives_an_iterator(function: object) -> bool:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return True
    found = getattr(function, "__annotations__", {}).get("return")
    origins = {typing.get_origin(each) for each in (found, *typing.get_args(found))}
    return not origins.isdisjoint((Iterator, AsyncIterator))


def test_these_are_all_public_generators() -> None:
    """A new one belongs into the tables above."""
    found = {
        name
        for module in (multiturn, __import__("multiturn.testing").testing)
        for name in module.__all__
        if gives_an_iterator(getattr(module, name))
    }
    tested = {name.partition(",")[0] for name in SYNCHRONOUS} | {"run"}
    assert found - {"capture"} == tested  # a fixture, which pytest ends
