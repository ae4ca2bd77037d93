"""Packages from npm that tests use; each is installed once, into pytest's cache."""

import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


def installed(package: str, program: str, config: pytest.Config) -> Path:
    """Return a program of a package, ``NAME@VERSION``; skip the test where it cannot be had."""
    return modules(package, config) / ".bin" / program


def modules(package: str, config: pytest.Config) -> Path:
    """Return the folder ``node_modules`` of a package, too."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"there is no npm to install {package} with")
    name, _, number = package.rpartition("@")
    folder = config.cache.mkdir(name.replace("/", "-"))
    version = folder / number
    path = version / "node_modules"
    if not path.exists():
        if not _reaches_registry(npm):
            pytest.skip(f"npm does not reach its registry, and {package} is not installed")
        # Written beside it and renamed: another process of the same run may install it, too.
        with TemporaryDirectory(dir=folder) as half:
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", half, package]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"npm could not install {package}: {error}")
            version.mkdir(exist_ok=True)
            with suppress(OSError):  # the other one was first
                (Path(half) / "node_modules").rename(path)
    return path


@cache
def _reaches_registry(npm: str) -> bool:
    """Return whether npm gets any answer, if only of an error: ``install`` tries for minutes."""
    command = [npm, "ping", "--fetch-retries=0", "--fetch-timeout=5000"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 or re.search(r" code E\d{3}\b", done.stderr) is not None
