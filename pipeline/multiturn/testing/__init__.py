"""Tests of stages and of suites, in pytest.

Needs pytest and syrupy, and nothing of them is imported elsewhere. The fixtures ``run_stage`` and
``capture`` are there where a ``conftest.py`` says ``pytest_plugins = ["multiturn.testing"]``.

PYTEST_DONT_REWRITE: it has no assertions, and a test file may import it before it is a plugin.
"""

from multiturn.testing.stages import conversion, file, reference, run_stage
from multiturn.testing.suites import PromptSnapshot, capture, cases, convert

__all__ = [
    "PromptSnapshot",
    "capture",
    "cases",
    "conversion",
    "convert",
    "file",
    "reference",
    "run_stage",
]
