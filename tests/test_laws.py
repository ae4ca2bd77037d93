"""The law of views: what a stage takes out of the texts is gone, wherever the stage is."""

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from multiturn import Case, Conversion, Files, Part, Pipeline, TestMessage, explain, stage
from multiturn.cli.drawing import as_explanation
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline import request_of
from multiturn.providers.codex import CodexProvider, CodexSettings
from multiturn.review.snapshots import snapshot_text
from test_contracts import (
    SECRET,
    SEVEN,
    SHIPPING,
    SIX,
    accepted_orders,
    cases,
    files_in,
    is_accepted,
    results,
)


@stage(requires={"turns"})
def redact(conversion: Conversion) -> Conversion:
    """Replace what must not leave the house, and change other texts too."""

    def redacted(part: Part) -> Part:
        return replace(part, text=part.text.replace(SECRET, "<email>") + "!")

    return conversion.map_parts(redacted)


@cache
def with_redaction(stages: tuple[Stage, ...]) -> list[tuple[Stage, ...]]:
    """Return every accepted order of stages with ``redact`` at every place but the first.

    Before ``resolve_segments`` there is nothing to change.
    """
    return [
        (*order[:place], redact, *order[place:])
        for order in accepted_orders(stages)
        for place in range(1, len(order) + 1)
    ]


@pytest.mark.parametrize("stages", [pytest.param(SIX, id="six"), pytest.param(SEVEN, id="seven")])
def test_a_stage_that_changes_texts_is_accepted_wherever_there_are_texts(
    stages: tuple[Stage, ...],
) -> None:
    assert len(with_redaction(stages)) >= 40 * 6
    assert all(map(is_accepted, with_redaction(stages)))
    assert not any(is_accepted((redact, *order)) for order in accepted_orders(stages))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_in(tmp_path_factory.mktemp("files"))


@settings(max_examples=60)
@given(name=st.sampled_from([*SHIPPING]), case=cases)
def test_a_stage_that_changes_texts_gives_the_same_request_wherever_it_stands(
    files: Files, name: str, case: Case
) -> None:
    case = replace(case, files=files, suite=str(Path(files.root, case.suite)))
    stages = SEVEN if "omit_lone_prompt" in SHIPPING[name] else SIX
    found = results(with_redaction(stages), SHIPPING[name], case)
    conversions = [result for result in found if isinstance(result, Conversion)]
    if not conversions:
        assert len(set(map(str, found))) == 1, "there is nothing to answer"
        return
    assert len(conversions) == len(found)
    first = conversions[0]
    agent = CodexProvider(CodexSettings(name="agent", provider="codex"))
    wire = agent.wire(request_of(first)) if first.question.strip() else None
    for told in (
        str(request_of(first).chat_prompt),
        first.question,
        str(request_of(first)),
        str(first.input_files),
        snapshot_text(first),
        as_explanation(first),
        str(explain(first)),
        str(wire and (wire.body, wire.request)),
    ):
        assert SECRET not in told
    for conversion in conversions[1:]:
        assert request_of(conversion) == request_of(first)
        assert (conversion.chat, conversion.transcript) == (first.chat, first.transcript)
        assert explain(conversion).fates == explain(first).fates


@stage(requires={"turns"})
def blank(conversion: Conversion) -> Conversion:
    """Blank the texts of the suite, as a stage may that belongs before ``filter_empty``."""
    return conversion.map_parts(lambda part: replace(part, text=re.sub("Hello", " ", part.text)))


def test_a_stage_that_blanks_texts_belongs_before_filter_empty() -> None:
    case = Case(
        id="x", input_messages=(TestMessage("user", "Hello"), TestMessage("assistant", "Yes?"))
    )
    pipeline = Pipeline(SIX)
    before = pipeline.insert(blank, before="filter_empty").request(case)
    after = pipeline.insert(blank, after="filter_empty").request(case)
    assert before.question == "[Assistant]: Yes?"
    assert after.question == "[User]:  \n[Assistant]: Yes?"
