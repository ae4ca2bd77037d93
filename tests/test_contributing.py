"""What CONTRIBUTING.md names is there: targets, programs, files and sections."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pages import sessions

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = [command for command, _ in sessions(PAGE)]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = {*re.findall(r"^([\w-]+):.*## ", MAKEFILE, re.MULTILINE)}


@pytest.mark.parametrize("command", [command for command in COMMANDS if "make" in command])
def test_make_knows_what_to_do(command: str) -> None:
    make, *words = command.split()
    assert make == "make"
    targets = [word for word in words if "=" not in word]
    assert {*targets} <= TARGETS
    for variable in (word.partition("=")[0] for word in words if "=" in word):
        assert f"$({variable})" in MAKEFILE


def test_every_target_in_the_text_is_there() -> None:
    named = {word for span in re.findall(r"`make ([^`]*)`", PAGE) for word in span.split()}
    targets = {word for word in named if "=" not in word}
    assert {"lint", "test", "lock", "build", "snapshots"} <= targets
    assert targets <= TARGETS


def test_every_link_leads_to_a_file_or_a_section() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(links) > 10
    for link in links:
        path, _, section = link.partition("#")
        assert (ROOT / path).exists(), link
        if section:
            titles = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
            assert section in [title.lower().replace(" ", "-") for title in titles]


def test_the_version_of_a_release_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    hatchling = [sys.executable, "-m", "hatchling", "version"]
    said = subprocess.run(hatchling, cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == version
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\] - (?:\d{4}-\d\d-\d\d|Unreleased)$", changes, re.M)
    assert sections[0] == version
