"""The locks hold what pyproject.toml asks for, each package by its hashes and from any index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.dependency_groups import resolve_dependency_groups
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = {
    name: resolve_dependency_groups(PROJECT["dependency-groups"], name)
    for name in PROJECT["dependency-groups"]
}
EXTRAS = PROJECT["project"]["optional-dependencies"]
ASKED = {
    "requirements.lock": [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(
            requirement
            for name, extra in EXTRAS.items()
            if name != "inspect"  # a hundred packages
            for requirement in extra
        ),
        *GROUPS["dev"],
    ],
    "requirements-demo.lock": [*PROJECT["project"]["dependencies"], *GROUPS["install"]],
    "requirements-fuzz.lock": GROUPS["fuzz"],
    "requirements-litellm.lock": GROUPS["litellm"],
    "requirements-tools.lock": [
        *PROJECT["project"]["dependencies"],
        *EXTRAS["inspect"],
        *GROUPS["tools"],
    ],
}


def locked(name: str) -> dict[str, str]:
    """Return the version of each package of a lock."""
    return {
        canonicalize_name(package): version
        for entry in entries(name)
        for package, version in re.findall(r"^([\w.-]+)==([^\s;]+)", entry)
    }


def entries(name: str) -> list[str]:
    """Return each package of a lock with its hashes, without the comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return re.findall(r"^\S.*(?:\n .*)*", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize("name", ASKED)
def test_a_lock_has_a_version_that_each_requirement_takes(name: str) -> None:
    versions = locked(name)
    asked = [Requirement(requirement) for requirement in ASKED[name]]
    missing = [
        str(requirement)
        for requirement in asked
        if not requirement.specifier.contains(
            versions.get(canonicalize_name(requirement.name), "0")
        )
    ]
    assert missing == []


@pytest.mark.parametrize("name", ASKED)
def test_a_lock_has_hashes_and_no_addresses(name: str) -> None:
    for entry in entries(name):
        assert re.fullmatch(r"[^\\]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+", entry)
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_the_demo_has_the_versions_that_are_tested() -> None:
    assert locked("requirements-demo.lock").items() <= locked("requirements.lock").items()
