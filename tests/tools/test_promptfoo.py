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
