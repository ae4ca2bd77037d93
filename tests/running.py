"""What tests of commands share: suites, a stage, targets, and the command ``multiturn run``."""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import commands
from loopback import KEY, Server


def write_target(folder: Path, server: Server, **settings: Any) -> None:
    """Write a targets file with the target ``az`` that leads to the server."""
    target = {
        "name": "az",
        "provider": "azure",
        "endpoint": server.url,
        "api_key": KEY,
        "model": "gpt-x",
        **settings,
    }
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))


def write_suite(folder: Path, contents: Iterable[Any], name: str = "a.eval.yaml") -> None:
    """Write a suite with a case ``c0``, ``c1``... for each content."""
    cases = [
        {"id": f"c{number}", "input_messages": [{"role": "user", "content": content}]}
        for number, content in enumerate(contents)
    ]
    text = json.dumps({"evalcases": cases}, ensure_ascii=False)
    (folder / name).write_text(text.replace("\u2028", "\\u2028"))  # YAML would fold it


def write_stage(
    folder: Path, body: str, *, before: str = "", options: str = "", module: str = "house"
) -> None:
    """Write ``p.yaml``: the pipeline spec, and last a stage of the user's own with a body."""
    (folder / f"{module}.py").write_text(
        f"from multiturn import MultiturnError, Part, stage\n{before}\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        f"def house(conversion{options}):\n{indent(body, '    ')}\n    return conversion\n"
    )
    step = f"{{stage: '{module}:house', after: render_question}}"
    (folder / "p.yaml").write_text(f"extends: spec\ninsert: [{step}]\n")


def start(*arguments: str, folder: Path, **options: Any) -> commands.Process:
    """Start the command ``multiturn run``."""
    env = {**os.environ, "NO_PROXY": "127.0.0.1", **options.pop("env", {})}
    return commands.start("run", *arguments, folder=folder, env=env, **options)


def run(*arguments: str, folder: Path, env: Mapping[str, str] | None = None) -> commands.Done:
    """Run the command ``multiturn run`` to its end, inside this process."""
    env = {"NO_PROXY": "127.0.0.1", **(env or {})}
    return commands.run("run", *arguments, folder=folder, env=env)


def records(text: str | Path) -> list[dict[str, Any]]:
    """Return the lines of an output or a file, each decoded."""
    text = text.read_text() if isinstance(text, Path) else text
    return [json.loads(line) for line in text.split("\n") if line]


def by_id(text: str | Path) -> dict[str, dict[str, Any]]:
    """Return the results by their case's id; each stands there once."""
    found = {record["id"]: record for record in records(text)}
    assert len(found) == len(records(text))
    return found


def run_on_terminal(*arguments: str, folder: Path) -> str:
    """Run the command with its standard error on a terminal, and return what that shows."""
    shown = commands.read_terminal(
        *("run", *arguments),
        folder=folder,
        stream="stderr",
        env={**os.environ, "NO_PROXY": "127.0.0.1", "TERM": "xterm"},
    )
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; that it never does is a failure."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.001)


_SLOW = """\
import asyncio
from multiturn import ProviderError, ProviderResponse


class Slow:
    async def invoke(self, request):
        with open("asked", "a") as asked:
            asked.write(f"{request.question}\\n")
        await asyncio.sleep(600 if request.question == "slow" else 0.03)
        if request.question == "bad":
            raise ProviderError("no", kind="http")
        return ProviderResponse(text="hi", retries=int(request.question == "again"))
"""


def write_slow_target(folder: Path) -> None:
    """Write the default target: it never answers ``slow``, and others after a moment."""
    (folder / "slow_provider.py").write_text(_SLOW)
    target = {"name": "slow", "provider": "slow_provider:Slow"}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    (folder / "multiturn.toml").write_text('target = "slow"')


def asked(folder: Path) -> list[str]:
    """Return what the slow target was asked."""
    return (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []
