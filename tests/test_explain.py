"""Where the text of a prompt comes from, and what became of the input."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Part,
    Pipeline,
    TestMessage,
    load_pipeline,
    load_suite,
    stage,
)
from multiturn.prompts.provenance import Explanation, Message, Span, explain, text_of
from test_contracts import FILES, cases

SUITE = """\
metadata:
  systemPrompt: You are a reviewer.
guideline_patterns: ["prompts/**"]
guidelines: [Be kind.]
evalcases:
  - id: review
    input_messages:
      - role: user
        content:
          - type: text
            value: "Review:"
          - type: file
            value: ../prompts/python.md
          - type: file
            value: code.py
          - " "
      - role: user
        content:
          - {type: file, value: /prompts/python.md}
          - and again
"""


@pytest.fixture
def review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "evals/review.eval.yaml": SUITE,
        "prompts/python.md": "Use types.",
        "evals/code.py": "pass",
        ".git/HEAD": "",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (case,) = load_suite("evals/review.eval.yaml")
    return case


def origins(conversion: Conversion) -> list[list[tuple[str, str]]]:
    """Return text and origin of each span of the chat that is no separator."""
    chat = explain(conversion).chat
    assert chat is not None
    return [
        [
            (span.text, span.origin)
            for span in message.spans
            if span.origin != "between two parts (rule 6)"
        ]
        for message in chat
    ]


def test_each_text_has_its_origin(review: Case) -> None:
    system, user, again = origins(load_pipeline("spec")(Conversion(review)))
    suite = "evals/review.eval.yaml"
    assert system == [
        ("You are a reviewer.", f"metadata.systemPrompt of {suite}"),
        ("[[ ## Guidelines ## ]]", "added by consolidate_system"),
        ("Be kind.", f"guidelines[0] of {suite}"),
        ("=== ../prompts/python.md ===", "added by consolidate_system for prompts/python.md"),
        (
            "Use types.",
            f"prompts/python.md, attached at {suite}:12, moved by extract_guidelines",
        ),
    ]
    assert user == [
        ("Review:", f"{suite}:10"),
        ("<Attached: ../prompts/python.md>", "added by extract_guidelines for prompts/python.md"),
        ("=== code.py ===", "added by embed_files for evals/code.py"),
        ("pass", f"evals/code.py, attached at {suite}:14"),
    ]
    assert again[-1] == ("and again", f"{suite}:20")


def test_each_segment_has_its_fate(review: Case) -> None:
    fates = explain(load_pipeline("spec")(Conversion(review))).fates
    assert [(str(fate.where).rpartition(".")[2], fate.fate) for fate in fates] == [
        ("content[0]", "shown"),
        ("content[1]", "moved"),
        ("content[2]", "shown"),
        ("content[3]", "dropped"),
        ("content[0]", "referenced"),
        ("content[1]", "shown"),
    ]
    assert fates[1].why == "by extract_guidelines (rule 4)"
    assert fates[3].why == "blank text is no content (rule 2)"
    assert str(fates[1].where).startswith("evals/review.eval.yaml:12: case 'review'")


def fates_of(pipeline: Pipeline, *messages: tuple[Any, Any], **case: Any) -> list[tuple[str, str]]:
    input_messages = tuple(TestMessage(role, content) for role, content in messages)
    conversion = pipeline(Conversion(Case(id="x", input_messages=input_messages, **case)))
    return [(fate.fate, fate.why) for fate in explain(conversion).fates]


def test_system_messages_are_merged_and_take_the_place_of_the_prompt() -> None:
    fates = fates_of(
        load_pipeline("spec"), ("system", "S"), ("user", "U"), ("system", "T"), system_prompt="P"
    )
    assert [fate for fate, _ in fates] == ["merged", "shown", "merged", "dropped"]
    assert fates[-1][1] == "system messages take its place (rule 7)"


def test_a_later_system_message_that_stays_is_shown() -> None:
    fates = fates_of(load_pipeline("shipped"), ("user", "U"), ("system", "T"))
    assert [fate for fate, _ in fates] == ["shown", "shown"]


def test_a_prompt_that_no_section_holds_is_lost() -> None:
    pipeline = load_pipeline("spec").configure("consolidate_system", sections=["guidelines"])
    assert fates_of(pipeline, ("user", "U"), system_prompt="P")[-1][0] == "lost"


def test_a_segment_left_out_on_request_is_dropped() -> None:
    pipeline = load_pipeline("spec").configure("resolve_segments", unknown_type="warn")
    fates = fates_of(pipeline, ("user", ["U", {"type": "image", "value": "x"}]))
    assert [fate for fate, _ in fates] == ["shown", "dropped"]
    assert "'image'" in fates[1][1]


@stage(requires={"turns"})
def forget_the_first(conversion: Conversion) -> Conversion:
    return conversion.replace(turns=conversion.turns[1:])


def test_what_a_stage_takes_away_without_a_rule_is_lost() -> None:
    pipeline = load_pipeline("spec").insert(forget_the_first, after="resolve_segments")
    fates = fates_of(pipeline, ("user", "gone"), ("user", "here"))
    assert [fate for fate, _ in fates] == ["lost", "shown"]


def shouted(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    loud = (replace(part, text=part.text.upper()) for part in parts)
    return (*loud, Part("text", "!", ""))


@stage(requires={"question"}, provides={"question"})
def shout(conversion: Conversion) -> Conversion:
    return conversion.edit_question(shouted)


@stage(requires={"turns"})
def whisper(conversion: Conversion) -> Conversion:
    return conversion.map_parts(lambda part: replace(part, text=part.text.lower()))


def test_what_a_stage_changed_or_added_names_the_stage() -> None:
    pipeline = Pipeline([*load_pipeline("spec").steps, shout])
    pipeline = pipeline.insert(whisper, after="resolve_segments")
    messages = (TestMessage("user", "HI"), TestMessage("user", "there"))
    explained = explain(pipeline(Conversion(Case(id="x", input_messages=messages))))
    the_case = "the case: input_messages[{}].content[0]"
    assert explained.chat == (
        Message("user", (Span("hi", f"{the_case.format(0)}, changed by whisper"),)),
        Message("user", (Span("there", the_case.format(1)),)),
    )
    assert [span.origin for span in explained.question] == [
        "added by shout",  # [USER]: where render_question had [User]:
        f"{the_case.format(0)}, changed by shout",
        "between two parts (rule 6)",
        "added by shout",
        f"{the_case.format(1)}, changed by shout",
        "added by shout",
    ]


def check_spans(conversion: Conversion, explained: Explanation) -> None:
    assert text_of(explained.question) == conversion.question
    assert (conversion.chat is None) == (explained.chat is None)
    for turn, message in zip(conversion.chat or (), explained.chat or (), strict=True):
        assert (message.role, text_of(message.spans)) == (turn.role, turn.content)


@settings(max_examples=150, deadline=None)
@given(case=cases)
@pytest.mark.parametrize("name", ["spec", "design", "shipped"])
def test_spans_concatenate_to_the_text_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, name: str, case: Case
) -> None:
    root = tmp_path_factory.getbasetemp() / "explained"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, newline="")
    case = Case(
        id="x",
        input_messages=case.input_messages,
        system_prompt=case.system_prompt,
        guidelines=case.guidelines,
        guideline_patterns=case.guideline_patterns,
        files=Files(root, root),
    )
    try:
        conversion = load_pipeline(name)(Conversion(case))
    except MultiturnError:
        return
    explained = explain(conversion)
    check_spans(conversion, explained)
    assert [fate for fate in explained.fates if fate.fate == "lost"] == []
