"""The public names: those of multiturn, multiturn.testing and multiturn.distributed."""

import subprocess
import sys
from importlib import import_module

import pytest

PUBLIC = {
    "multiturn": {
        *("Case", "ChatMessage", "Conversion", "Files", "InputFile", "Notice", "Part", "Turn"),
        *("MultiturnError", "Pipeline", "PipelineError", "Step", "TestMessage"),
        *("AxProvider", "Provider", "ProviderError", "ProviderRequest", "ProviderResponse"),
        *("Result", "explain", "load_pipeline", "load_suite", "load_target", "run", "stage"),
    },
    "multiturn.testing": {
        *("PromptSnapshot", "cases", "conversion", "convert", "file", "reference", "run_stage"),
    },
    "multiturn.distributed": {"convert_bag"},
}


@pytest.mark.parametrize("module", PUBLIC)
def test_these_names_are_public(module: str) -> None:
    imported = import_module(module)
    assert set(imported.__all__) == PUBLIC[module]
    assert all(hasattr(imported, name) for name in PUBLIC[module])


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="module 'multiturn' has no attribute 'Convert'"):
        import_module("multiturn").Convert  # noqa: B018


def test_importing_multiturn_imports_nothing_heavy() -> None:
    heavy = {"msgspec", "yaml", "click", "rich", "structlog", "asyncio", "openai", "dask"}
    program = f"import sys, multiturn; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
