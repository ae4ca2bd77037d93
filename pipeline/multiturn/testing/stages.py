"""Tests of stages: conversions to run them on, and a fixture that runs them."""

import pickle
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn.model.case import PROMPT_KEY, Case, TestMessage
from multiturn.model.conversion import Conversion
from multiturn.model.turns import Call, Part, Thinking, Turn
from multiturn.pipelines.contract import contract_of, read_options
from multiturn.pipelines.pipeline import loose_in
from multiturn.pipelines.pipeline_file import read_pipeline
from multiturn.pipelines.step import Step


def file(path: str, text: str = "", *, resolved_path: str | None = None) -> Part:
    """Return an attached file, for ``conversion``.

    Args:
        path: as a suite would write it.
        text: what is in the file.
        resolved_path: relative to the root; by default the path without a leading ``./``.
    """
    return Part("file", text, path=path, resolved_path=resolved_path or path.removeprefix("./"))


def reference(path: str) -> Part:
    """Return the marker that ``extract_guidelines`` leaves of a guideline, for ``conversion``."""
    text = f"<Attached: {path}>"
    return replace(file(path, text), kind="reference", stage="extract_guidelines")


def conversion(
    *messages: tuple[Any, ...] | Turn,
    guidelines: Iterable[str | Part] = (),
    system_prompt: str | None = None,
    **case: Any,
) -> Conversion:
    """Return a Conversion on which ``resolve_segments`` has run; no file is read.

    Unlike that stage, it keeps blank texts. Its ``markers`` are those of the pipeline ``spec``.

    Args:
        messages: each its role, then its content: texts, parts such as ``file(...)``, blocks of
            Thinking and Calls; or a Turn, such as ``Turn("tool", (), answers="c1")``.
        guidelines: given in the case if they are texts; else files that were extracted.
        system_prompt: ``metadata.systemPrompt``.
        case: other fields of the Case, such as ``guideline_patterns``.

    >>> conversion(("user", "Review:", file("a.py", "pass"))).turns[0].parts[1].path
    'a.py'
    """
    is_tuple = all(isinstance(message, tuple | list | Turn) for message in messages)
    if not is_tuple or isinstance(guidelines, str):
        raise TypeError('messages are tuples, as in conversion(("user", "Hi")); guidelines a list')
    guidelines = list(guidelines)
    given = tuple(text for text in guidelines if isinstance(text, str))
    turns = tuple(_turn(message, at) for at, message in enumerate(messages))
    input_messages = tuple(
        TestMessage(
            turn.role,
            [p.text if p.path is None else {"type": "file", "value": p.path} for p in turn.parts],
            calls=turn.calls,
            answers=turn.answers,
            is_error=turn.is_error,
            thinking=turn.thinking,
        )
        for turn in turns
    )
    fields = {"id": "case", "input_messages": input_messages, **case}
    prompt = None if system_prompt is None else Part("text", system_prompt, "\n\n", key=PROMPT_KEY)
    return Conversion(
        Case(**fields, system_prompt=system_prompt, guidelines=given),
        turns=turns,
        tools=tuple(fields.get("tools", ())),
        guidelines=tuple(
            Part("text", each, "\n\n", key=f"guidelines[{given.index(each)}]")
            if isinstance(each, str)
            else replace(each, kind="text", moved_by="extract_guidelines")
            for each in guidelines
        ),
        system_prompt=prompt,
        markers=read_pipeline("spec").markers,
    )


def _turn(message: tuple[Any, ...] | Turn, at: int) -> Turn:
    """Return the turn of a message, whose parts know where they are."""
    if not isinstance(message, Turn):
        role, *pieces = message
        calls = tuple(piece for piece in pieces if isinstance(piece, Call))
        thinking = tuple(piece for piece in pieces if isinstance(piece, Thinking))
        said = tuple(piece for piece in pieces if not isinstance(piece, Call | Thinking))
        message = Turn(role, said, thinking=thinking, calls=calls)
    parts = []
    for content, piece in enumerate(message.parts):
        if not isinstance(piece, str | Part):
            raise TypeError(f"content is texts and parts such as file(...), not {piece!r}")
        part = Part("text", piece) if isinstance(piece, str) else piece
        parts.append(replace(part, message=at, content=content))
    return replace(message, parts=tuple(parts), message=at)


@pytest.fixture
def run_stage() -> Callable[..., Conversion]:
    """Return a function that runs a stage as a pipeline does: ``run_stage(stage, conversion)``.

    Options follow by keyword. Whatever the test is about, the stage must leave the Conversion that
    it is given as it is, give the same when it runs twice, and choose views that pickle.
    """
    return _run_stage


def _run_stage(
    stage: Callable[..., Conversion], conversion: Conversion, /, **options: Any
) -> Conversion:
    contract_of(stage)  # raises the error of its declaration
    options, wrong = read_options(stage, options)
    if wrong:
        pytest.fail("; ".join(wrong.values()))
    files = conversion.case.files  # what they have read is no part of the Conversion
    step, before = Step(stage, options), deepcopy(conversion, {id(files): files})
    once = replace(step(conversion), stage=conversion.stage)
    if conversion != before:
        pytest.fail(f"{step.name} changed the Conversion that it was given")
    if replace(step(once), stage=conversion.stage) != once:
        pytest.fail(f"{step.name} gives something else when it runs twice")
    if (what := loose_in(once)) and not loose_in(conversion):
        pytest.fail(f"{step.name} left {what}")
    views = once.chat_view, once.question_view, once.edits
    try:
        again = pickle.loads(pickle.dumps(views))  # noqa: S301 - of what was pickled here
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        pytest.fail(f"{step.name} chose a view that cannot be pickled: {error}")
    if again != views:
        pytest.fail(f"{step.name} chose a view that changes when it is pickled")
    _ = once.chat, once.question
    return once
