"""Tests of stages and of suites, in pytest.

Needs pytest and syrupy, and nothing of them is imported elsewhere. The fixture ``run_stage`` is
there where a ``conftest.py`` says ``pytest_plugins = ["multiturn.testing"]``.

PYTEST_DONT_REWRITE: it has no assertions, and a test file may import it before it is a plugin.
"""

from multiturn.testing.stages import conversion, file, reference, run_stage
from multiturn.testing.suites import PromptSnapshot, cases, convert

__all__ = ["PromptSnapshot", "cases", "conversion", "convert", "file", "reference", "run_stage"]
