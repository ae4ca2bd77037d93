"""promptfoo gets every message to the letter, by the prompt file and the command of the page."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import commands
import npm
from loopback import KEY, Server
from pages import sessions, shell_command
from running import records

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
SUITE = Path(__file__).with_name("evals.eval.yaml")


def test_promptfoo_sends_the_messages_to_the_letter(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    promptfoo = npm.installed("promptfoo@0.121.20", "promptfoo", pytestconfig)
    shutil.copy(SUITE, tmp_path)
    convert, prompt = (
        command
        for command, _ in sessions(PAGE)
        if re.search(r"(tests.jsonl|messages.txt)$", command)
    )
    _, *arguments = convert.replace("weather.eval.yaml", SUITE.name).split()
    commands.run(*arguments, folder=tmp_path)
    subprocess.run(prompt, shell=True, cwd=tmp_path, check=True)
    _, _, *arguments, provider = shell_command(PAGE, "npx promptfoo")
    assert provider.startswith("openai:")
    environment = {
        **os.environ,
        "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }
    done = subprocess.run(
        [promptfoo, *arguments, "echo", "--no-cache", "--output", "out.json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out.json").read_text())["results"]["results"]
    tests = records(tmp_path / "tests.jsonl")
    assert len(results) == len(tests) == 3
    by_name = {result["testCase"]["description"]: result for result in results}
    for test in tests:
        result = by_name[test["description"]]
        assert json.loads(result["response"]["output"]) == test["vars"]["messages"]
        assert test["metadata"].items() <= result["testCase"]["metadata"].items()


def test_promptfoo_asks_with_the_temperature_and_the_limit_of_execution(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    promptfoo = npm.installed("promptfoo@0.121.20", "promptfoo", pytestconfig)
    shutil.copy(SUITE, tmp_path)
    command = ("convert", SUITE.name, "--format", "promptfoo", "--output", "tests.jsonl")
    commands.run(*command, folder=tmp_path)
    (tmp_path / "messages.txt").write_text("{{ messages | dump | safe }}\n")
    with Server() as server:
        environment = {
            **os.environ,
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home"),
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
        }
        arguments = ["--tests", "tests.jsonl", "--prompts", "file://messages.txt"]
        done = subprocess.run(
            [promptfoo, "eval", *arguments, "--providers", "openai:gpt-4o-mini", "--no-cache"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    bodies = [request.json for request in server.requests]
    assert sorted(body["temperature"] for body in bodies) == [0, 0.5, 0.5]
    assert [body["max_tokens"] for body in bodies if body["temperature"] == 0] == [9]
