"""The locks hold what pyproject.toml asks for, each package by its hashes and from any index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.dependency_groups import resolve_dependency_groups
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
ASKED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ASKED["project"]["optional-dependencies"]
NEEDED = ASKED["project"]["dependencies"]


def group(name: str) -> list[str]:
    return [*resolve_dependency_groups(ASKED["dependency-groups"], name)]


LOCKS = {  # inspect is a hundred packages, and not in the lock of all others
    "requirements.lock": [
        *ASKED["build-system"]["requires"],
        *NEEDED,
        *(each for name, extra in EXTRAS.items() if name != "inspect" for each in extra),
        *group("dev"),
    ],
    "requirements-coverage.lock": group("coverage"),
    "requirements-demo.lock": [*NEEDED, *group("install")],
    "requirements-fuzz.lock": group("fuzz"),
    "requirements-litellm.lock": group("litellm"),
    "requirements-oldest.lock": [
        *NEEDED,
        *(each for name in ("openai", "anthropic", "gemini") for each in EXTRAS[name]),
        *group("sdks"),
    ],
    "requirements-tools.lock": [*NEEDED, *EXTRAS["inspect"], *group("tools")],
}


def entries(name: str) -> list[str]:
    """Return each package of a lock with its hashes, without the comments."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    """Return the version of each package of a lock."""
    pairs = re.findall(r"^([\w.-]+)==([^\s;]+)", "\n".join(entries(name)), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pairs}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_version_that_each_requirement_takes(name: str) -> None:
    versions = locked(name)
    for requirement in map(Requirement, LOCKS[name]):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_hashes_and_no_addresses(name: str) -> None:
    for entry in entries(name):
        assert re.fullmatch(r"[^\\]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+", entry)
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_the_demo_has_the_versions_that_are_tested() -> None:
    assert locked("requirements-demo.lock").items() <= locked("requirements.lock").items()
