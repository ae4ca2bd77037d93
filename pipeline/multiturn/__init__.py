"""Eval conversations in YAML become the structured chat prompts that LLM APIs expect.

>>> from multiturn import Case, Conversion, TestMessage, load_pipeline
>>> pipeline = load_pipeline("spec")
>>> case = Case(id="hello", input_messages=(TestMessage("user", "Hello"),))
>>> pipeline(Conversion(case)).chat[0].content
'Hello'
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiturn.assembly import Pipeline, Step
    from multiturn.contract import stage
    from multiturn.declaration import load_pipeline
    from multiturn.errors import MultiturnError, PipelineError
    from multiturn.explanation import explain
    from multiturn.files import Files
    from multiturn.model import (
        Case,
        ChatMessage,
        Conversion,
        InputFile,
        Notice,
        ProviderRequest,
        TestMessage,
    )
    from multiturn.orchestrator import run
    from multiturn.provider import Provider, ProviderError, ProviderResponse
    from multiturn.providers.ax import AxProvider
    from multiturn.results import Result
    from multiturn.suite import load_suite
    from multiturn.targets import load_target
    from multiturn.turns import Part, Turn

_MODULES = {
    "assembly": ("Pipeline", "Step"),
    "contract": ("stage",),
    "declaration": ("load_pipeline",),
    "errors": ("MultiturnError", "PipelineError"),
    "explanation": ("explain",),
    "files": ("Files",),
    "model": (
        "Case",
        "ChatMessage",
        "Conversion",
        "InputFile",
        "Notice",
        "ProviderRequest",
        "TestMessage",
    ),
    "orchestrator": ("run",),
    "provider": ("Provider", "ProviderError", "ProviderResponse"),
    "providers.ax": ("AxProvider",),
    "results": ("Result",),
    "suite": ("load_suite",),
    "targets": ("load_target",),
    "turns": ("Part", "Turn"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AxProvider",
    "Case",
    "ChatMessage",
    "Conversion",
    "Files",
    "InputFile",
    "MultiturnError",
    "Notice",
    "Part",
    "Pipeline",
    "PipelineError",
    "Provider",
    "ProviderError",
    "ProviderRequest",
    "ProviderResponse",
    "Result",
    "Step",
    "TestMessage",
    "Turn",
    "explain",
    "load_pipeline",
    "load_suite",
    "load_target",
    "run",
    "stage",
]


if not TYPE_CHECKING:  # for a type checker, only the names above are there

    def __getattr__(name):
        """Import a name when it is first used: ``multiturn --help`` needs none of them."""
        if name not in _HOMES:
            raise AttributeError(f"module 'multiturn' has no attribute {name!r}")
        value = getattr(import_module(f"multiturn.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
