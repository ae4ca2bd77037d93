"""What SECURITY.md promises is shown by the tests that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
_, _, *ROWS = re.findall(r"^\| (.*?) \| .* \| (.*) \|$", TABLE, re.MULTILINE)


@pytest.mark.parametrize("tests", [pytest.param(tests, id=promise) for promise, tests in ROWS])
def test_a_promise_names_tests_that_there_are(tests: str) -> None:
    for shown in tests.split("; "):
        name, path, functions = re.fullmatch(r"\[(.*)\]\((.*)\): (.*)", shown).groups()  # type: ignore[union-attr]
        assert path in (f"tests/{name}", f"tests/providers/{name}")
        named = re.findall(r"`(\w+)`", functions)
        defined = re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.M)
        assert named
        assert [each for each in named if each not in defined] == []
