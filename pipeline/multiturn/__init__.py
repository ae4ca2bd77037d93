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
    __version__: str

    from multiturn.engine.batch_run import run_batches as run_batches
    from multiturn.engine.budget import LimitReachedError as LimitReachedError
    from multiturn.engine.costs import Estimate as Estimate
    from multiturn.engine.costs import estimate as estimate
    from multiturn.engine.delivery import Delivery as Delivery
    from multiturn.engine.explanation import Explanation as Explanation
    from multiturn.engine.explanation import explain as explain
    from multiturn.engine.fates import Fate as Fate
    from multiturn.engine.project import load_pipeline as load_pipeline
    from multiturn.engine.project import load_suite as load_suite
    from multiturn.engine.runner import dry_run as dry_run
    from multiturn.engine.runner import run as run
    from multiturn.engine.spans import Message as Message
    from multiturn.engine.spans import Span as Span
    from multiturn.engine.targets import load_target as load_target
    from multiturn.errors import ErrorDetail as ErrorDetail
    from multiturn.errors import MultiturnError as MultiturnError
    from multiturn.errors import PipelineError as PipelineError
    from multiturn.errors import Place as Place
    from multiturn.files.finding import Files as Files
    from multiturn.files.media import Media as Media
    from multiturn.logs import Notice as Notice
    from multiturn.model.calls import Call as Call
    from multiturn.model.calls import Thinking as Thinking
    from multiturn.model.calls import Tool as Tool
    from multiturn.model.case import Case as Case
    from multiturn.model.case import TestMessage as TestMessage
    from multiturn.model.conversion import Conversion as Conversion
    from multiturn.model.request import ChatMessage as ChatMessage
    from multiturn.model.request import InputFile as InputFile
    from multiturn.model.request import ProviderRequest as ProviderRequest
    from multiturn.model.turns import Part as Part
    from multiturn.model.turns import Turn as Turn
    from multiturn.pipelines.contract import marker_text as marker_text
    from multiturn.pipelines.contract import stage as stage
    from multiturn.pipelines.pipeline import Pipeline as Pipeline
    from multiturn.pipelines.step import Step as Step
    from multiturn.providers.ax import AxProvider as AxProvider
    from multiturn.providers.base import Provider as Provider
    from multiturn.providers.base import ProviderResponse as ProviderResponse
    from multiturn.providers.base import TargetProvider as TargetProvider
    from multiturn.providers.base import Wire as Wire
    from multiturn.providers.failures import ProviderError as ProviderError
    from multiturn.providers.results import Failure as Failure
    from multiturn.providers.results import RawRequest as RawRequest
    from multiturn.providers.results import Result as Result
    from multiturn.providers.tokens import Tokens as Tokens

_NAMES = {  # by the module that they are in
    "engine.batch_run": ("run_batches",),
    "engine.budget": ("LimitReachedError",),
    "engine.costs": ("Estimate", "estimate"),
    "engine.delivery": ("Delivery",),
    "engine.project": ("load_pipeline", "load_suite"),
    "engine.targets": ("load_target",),
    "engine.runner": ("dry_run", "run"),
    "errors": ("ErrorDetail", "MultiturnError", "PipelineError", "Place"),
    "files.finding": ("Files",),
    "files.media": ("Media",),
    "model.calls": ("Call", "Thinking", "Tool"),
    "model.case": ("Case", "TestMessage"),
    "model.conversion": ("Conversion",),
    "logs": ("Notice",),
    "pipelines.contract": ("marker_text", "stage"),
    "pipelines.pipeline": ("Pipeline",),
    "pipelines.step": ("Step",),
    "engine.explanation": ("Explanation", "explain"),
    "engine.fates": ("Fate",),
    "engine.spans": ("Message", "Span"),
    "providers.ax": ("AxProvider",),
    "providers.base": ("Provider", "ProviderResponse", "TargetProvider", "Wire"),
    "providers.failures": ("ProviderError",),
    "providers.results": ("Failure", "RawRequest", "Result"),
    "providers.tokens": ("Tokens",),
    "model.request": ("ChatMessage", "InputFile", "ProviderRequest"),
    "model.turns": ("Part", "Turn"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # for a type checker, only the names above are there
    __all__ = [*_HOMES]

    def __getattr__(name):
        """Import a name when it is first used: ``multiturn --help`` needs none of them."""
        if name == "__version__":
            value = import_module("importlib.metadata").version("multiturn")
        elif name in _HOMES:
            value = getattr(import_module(f"multiturn.{_HOMES[name]}"), name)
        else:
            raise AttributeError(f"module 'multiturn' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        """Return the public names, for ``help`` and for completion."""
        return sorted({*globals(), *__all__, "__version__"} - {"TYPE_CHECKING", "import_module"})
