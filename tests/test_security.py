"""What SECURITY.md promises is shown by the tests that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = re.findall(
    r"^\| (.*?) \| .* \| (.*) \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
)
PROMISES = [pytest.param(tests, id=promise) for promise, tests in TABLE[2:]]


def test_there_are_promises() -> None:
    assert len(PROMISES) >= 16


@pytest.mark.parametrize("tests", PROMISES)
def test_a_promise_names_tests_that_there_are(tests: str) -> None:
    for shown in tests.split("; "):
        name, path, functions = re.fullmatch(r"\[(.*)\]\((.*)\): (.*)", shown).groups()  # type: ignore[union-attr]
        assert path in (f"tests/{name}", f"tests/providers/{name}")
        defined = re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.M)
        assert set(re.findall(r"`(\w+)`", functions)) <= set(defined)
        assert functions
