"""What CONTRIBUTING.md names is there: targets, programs, files and sections."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from pages import sessions

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_make_knows_each_target_and_variable_that_is_named() -> None:
    commands = [command for command, _ in sessions(PAGE)] + re.findall(r"`(make [^`]*)`", PAGE)
    words = {word for each in commands if each.startswith("make ") for word in each.split()[1:]}
    assert {"lint", "test", "lock", "build", "snapshots"} <= words
    for word in words:
        variable, is_variable, _ = word.partition("=")
        named = f"$({variable})" if is_variable else f"\n{word}:"
        assert named in MAKEFILE, word


def test_every_link_leads_to_a_file_or_a_section() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(links) > 10
    for link in links:
        path, _, section = link.partition("#")
        path = path or "CONTRIBUTING.md"
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
