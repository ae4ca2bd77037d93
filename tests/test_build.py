"""What is published: a wheel that works by itself, and an sdist that it can be built from."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pages import sessions

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "pipeline/multiturn", ROOT / "stages/multiturn_stages")


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_twine_accepts_both(built: tuple[Path, Path]) -> None:
    twine = (sys.executable, "-m", "twine", "check", "--strict")
    assert run(*twine, *built, cwd=ROOT).count("PASSED") == 2


def test_the_wheel_holds_both_packages_and_nothing_else(built: tuple[Path, Path]) -> None:
    ours = {
        path.relative_to(package.parent).as_posix()
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == ours
    assert {"multiturn/py.typed", "multiturn_stages/py.typed"} < names


def test_the_sdist_holds_the_project_without_its_ci(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "README.md", "requirements.lock", "tests/test_build.py"} < names
    hidden = {name.partition("/")[0] for name in names if name.startswith(".")}
    assert hidden <= {".gitignore", ".pre-commit-hooks.yaml"}


def needed(requirements: list[str]) -> set[str]:
    """Return the names of the packages that these are, and of those that they need in turn."""
    names: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names |= {
                canonicalize_name(requirement.name),
                *needed(distribution(requirement.name).requires or []),
            }
    return names


def test_the_wheel_works_beside_nothing_but_the_packages_that_it_needs(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python, program = tmp_path / "venv/bin/python", tmp_path / "venv/bin/multiturn"
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    run(*pip, "--no-index", "--no-deps", built[1], cwd=tmp_path)
    (info,) = tmp_path.glob("venv/lib/*/site-packages/multiturn-*.dist-info")
    metadata = (info / "METADATA").read_text(encoding="utf-8")
    for package in needed(re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)):
        found = distribution(package)
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            (info.parent / top).symlink_to(Path(str(found.locate_file(top))))
    version = re.search(r"^Version: (.*)$", metadata, re.MULTILINE)
    assert version is not None
    assert run(program, "--version", cwd=tmp_path) == f"multiturn, version {version[1]}\n"
    shown = dict(sessions((ROOT / "README.md").read_text(encoding="utf-8")))
    for command, options in {"init": (), "convert": ("--format", "text")}.items():  # no terminal
        said = run(program, command, *options, cwd=tmp_path)
        assert said.startswith(shown[f"multiturn {command}"])
