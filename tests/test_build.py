"""What is published: a wheel that works by itself, and an sdist that it can be built from."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from threading import Thread

import pytest
from packaging.requirements import Requirement

from pages import sessions

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "pipeline/multiturn", ROOT / "stages/multiturn_stages")


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    environment = {**os.environ, **more}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an sdist, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    (sdist,) = dist.glob("*.tar.gz")
    return sdist


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_git_address_installs_what_init_lets_a_workflow_install(
    sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "--all"), ("commit", "-q", "-m", "all")):
        run(*git, *arguments, cwd=source, GIT_CONFIG_GLOBAL=os.devnull)
    run(*git, "update-server-info", cwd=source)  # so that files are enough to clone it
    commit = run(*git, "rev-parse", "HEAD", cwd=source).strip()
    pip = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation")
    installed, project = tmp_path / "installed", tmp_path / "project"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=source)) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        address = f"git+http://127.0.0.1:{server.server_port}/.git@{commit}"
        try:
            run(*pip, "--target", installed, f"multiturn @ {address}", cwd=tmp_path)
        finally:
            server.shutdown()
    project.mkdir()
    start = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); from multiturn.__main__ import main"
    )
    said = run(sys.executable, "-c", f"{start}; main()", "init", cwd=project)
    assert "Fill in" not in said
    workflow = (project / ".github/workflows/prompts.yml").read_text()
    assert f"  MULTITURN: {address} #" in workflow
    assert 'pip install "multiturn @ $MULTITURN"' in workflow


def test_twine_accepts_both(wheel: Path, sdist: Path) -> None:
    twine = (sys.executable, "-m", "twine", "check", "--strict")
    assert run(*twine, wheel, sdist, cwd=ROOT).count("PASSED") == 2


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    ours = {
        path.relative_to(package.parent).as_posix()
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == ours
    assert {"multiturn/py.typed", "multiturn_stages/py.typed"} < names
    suffixes = {Path(name).suffix for name in names}
    assert {".py", ".yaml", ".html", ".css", ".js"} <= suffixes


def test_the_sdist_holds_the_project_without_its_ci(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("Makefile", "README.md", "requirements.lock", "tests/test_build.py"):
        assert name in names
    assert {name.partition("/")[0] for name in names if name.startswith(".")} <= {
        ".gitignore",
        ".pre-commit-hooks.yaml",
    }


def needed(requirements: list[str]) -> set[str]:
    """Return the names of the packages that these are, and of those that they need in turn."""
    names: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names |= {requirement.name, *needed(distribution(requirement.name).requires or [])}
    return names


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and with links to no packages but those it needs."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    purelib = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)[:-1]
    )
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    for package in needed(re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)):
        found = distribution(package)
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            (purelib / top).symlink_to(Path(str(found.locate_file(top))))
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    assert "No broken requirements" in run(*pip, "check", cwd=folder)
    return folder


def test_the_wheel_gives_the_command_in_an_environment_of_its_own(elsewhere: Path) -> None:
    said = run(elsewhere / "venv/bin/multiturn", "--version", cwd=elsewhere)
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert said == f"multiturn, version {version}\n"
    packages = "import multiturn, multiturn_stages as s; print(multiturn.__file__, s.__file__)"
    where = run(elsewhere / "venv/bin/python", "-c", packages, cwd=elsewhere)
    assert where.count(str(elsewhere / "venv")) == 2


def test_the_wheel_converts_the_suite_of_the_readme(elsewhere: Path) -> None:
    shown = dict(sessions((ROOT / "README.md").read_text(encoding="utf-8")))
    program = str(elsewhere / "venv/bin/multiturn")
    arguments = ("convert", "--format", "text")
    assert run(program, "init", cwd=elsewhere).startswith(shown["multiturn init"])
    assert (
        run(program, *arguments, cwd=elsewhere).strip()
        == shown["multiturn convert --format text"].strip()
    )
    for pipeline in ("spec", "design", "shipped", "agentv"):
        assert "café" in run(program, *arguments, "--pipeline", pipeline, cwd=elsewhere)
