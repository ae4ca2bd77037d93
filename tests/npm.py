"""Packages from npm that tests use; each is installed once, into pytest's cache."""

import shutil
import subprocess
from contextlib import suppress
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
        # Written beside it and renamed: another process of the same run may install it, too.
        with TemporaryDirectory(dir=folder) as half:
            # By default, npm waits for 70 seconds where the registry is not reached.
            waits = ("--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000")
            command = [npm, "install", *waits, "--no-audit", "--no-fund", "--prefix", half, package]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"npm could not install {package}: {error}")
            version.mkdir(exist_ok=True)
            with suppress(OSError):  # the other one was first
                (Path(half) / "node_modules").rename(path)
    return path
