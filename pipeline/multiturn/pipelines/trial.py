"""Trying a pipeline on a built-in case, so that a stage that fails is seen without a suite."""

from pathlib import Path

from multiturn.errors import MultiturnError, StageError
from multiturn.files.finding import Files
from multiturn.logs import warnings_to
from multiturn.model.case import Case, TestMessage
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline

# The files that the case attaches are two that are there wherever multiturn is.
_FOLDER = Path(__file__).parent
_GUIDELINE, _FILE = "design.yaml", "spec.yaml"


def built_in_case() -> Case:
    """Return a case with every role and every kind of part."""
    files = [{"type": "file", "value": path} for path in (_GUIDELINE, _FILE)]
    return Case(
        id="built-in",
        input_messages=(
            TestMessage("system", "The customer's name is Ada."),
            TestMessage("user", ["Hello", *files, {"type": "text", "value": "Which is longer?"}]),
            TestMessage("assistant", "One moment."),
            TestMessage("tool", {"lines": 8}),
            TestMessage("system", ["The shop closes soon.", files[1]]),
            TestMessage("user", files[0]),
            TestMessage("user", " \n"),
            TestMessage("user", "And?"),
        ),
        system_prompt="You work in a shop.",
        guidelines=("Be brief.",),
        guideline_patterns=(_GUIDELINE,),
        files=Files(_FOLDER, _FOLDER),
    )


def try_out(pipeline: Pipeline) -> str:
    """Convert the built-in case; return why a stage refuses it, or an empty text.

    Raises:
        StageError: a stage failed, or a fact that it declares is not true.
    """
    with warnings_to(lambda _: None):
        try:
            pipeline(Conversion(built_in_case()))
        except StageError:
            raise
        except MultiturnError as error:
            return error.what
    return ""
