"""Where the text of a prompt comes from, and what became of the input."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from msgspec import Struct
from msgspec.structs import replace

from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Part,
    Pipeline,
    TestMessage,
    Turn,
    load_pipeline,
    load_suite,
    stage,
)
from multiturn.cli.drawing import as_explanation
from multiturn.engine.outcomes import Outcome
from multiturn.pipelines.contract import Stage
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
    why = "no rule explains it; the stage forget_the_first took it away"
    assert fates == [("lost", why), ("shown", "")]


def changed(name: str, change: Callable[[Part], Part]) -> Stage:
    """Return a stage that changes each part of the turns, but for what stages have added."""

    @stage(requires={"turns"})
    def change_it(conversion: Conversion) -> Conversion:
        def parts(turn: Turn) -> tuple[Part, ...]:
            return tuple(part if part.stage else change(part) for part in turn.parts)

        turns = tuple(replace(turn, parts=parts(turn)) for turn in conversion.turns)
        return conversion.replace(turns=turns)

    change_it.__name__ = name
    return change_it


SWAPS = {
    "a part with another text": lambda part: replace(part, text="Other"),
    "a part with two letters of it": lambda part: replace(part, text=part.text[:2]),
    "a part that says that nobody changed it": lambda part: replace(
        part, text="Other", changed_by=None
    ),
    "a new part that names the file": lambda part: Part(
        "text", "Other", path=part.path, resolved_path=part.resolved_path
    ),
}


@pytest.mark.parametrize("after", ["resolve_segments", "embed_files"])
@pytest.mark.parametrize("change", SWAPS.values(), ids=SWAPS)
def test_a_text_that_a_stage_changed_is_not_credited_to_its_file(
    tmp_path: Path, change: Callable[[Part], Part], after: str
) -> None:
    (tmp_path / "code.py").write_text("Line\n" * 300)
    content = [{"type": "file", "value": "code.py"}]
    case = Case(
        id="x", input_messages=(TestMessage("user", content),), files=Files(tmp_path, tmp_path)
    )
    pipeline = load_pipeline("spec").insert(changed("swap", change), after=after)
    conversion = pipeline(Conversion(case))
    explained = explain(conversion)
    assert [(fate.fate, fate.why) for fate in explained.fates] == [("changed", "by swap")]
    assert explained.chat is not None
    assert explained.chat[0].spans[-1].origin.endswith("changed by swap")
    assert Outcome("x", case).converted(pipeline, strict=True).error is None


def test_an_explanation_says_what_a_stage_changed() -> None:
    case = Case(id="x", input_messages=(TestMessage("user", "HI", line=3),), suite="s.yaml")
    conversion = load_pipeline("spec").insert(whisper, after="resolve_segments")(Conversion(case))
    said = str(explain(conversion))
    assert click.unstyle(as_explanation(conversion)) == said
    assert said == (
        "s.yaml · x\n"
        "user\n"
        "  s.yaml:3, changed by whisper\n"
        "  | hi\n"
        "question\n"
        "  s.yaml:3, changed by whisper\n"
        "  | hi\n"
        "not as it was written\n"
        "  s.yaml:3: case 'x': input_messages[0].content: changed, by whisper\n"
    )


def test_newlines_that_an_option_keeps_are_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A\n\n")
    pipeline = load_pipeline("spec").configure("resolve_segments", trailing_newlines="keep")
    message = ("user", [{"type": "file", "value": "a.txt"}])
    assert fates_of(pipeline, message, files=Files(tmp_path, tmp_path)) == [("shown", "")]


def test_a_text_of_a_file_that_was_never_read_is_nothing_to_compare_with(review: Case) -> None:
    @stage(requires={"turns"})
    def quote(conversion: Conversion) -> Conversion:
        quoted = Part("text", "Two.", path="other.py", resolved_path="evals/other.py", message=0)
        first, *others = conversion.turns
        return conversion.replace(turns=(replace(first, parts=(*first.parts, quoted)), *others))

    Path("evals/other.py").write_text("one")
    pipeline = load_pipeline("spec").insert(quote, after="embed_files")
    assert "Two." in pipeline(Conversion(review)).question


def test_a_header_alone_is_not_the_file(review: Case) -> None:
    @stage(requires={"text"})
    def forget_texts(conversion: Conversion) -> Conversion:
        turns = (
            replace(turn, parts=tuple(p for p in turn.parts if p.stage))
            for turn in conversion.turns
        )
        return conversion.replace(turns=tuple(turns))

    pipeline = load_pipeline("spec").insert(forget_texts, after="embed_files")
    fates = {str(f.where.line): f.fate for f in explain(pipeline(Conversion(review))).fates}
    assert fates["14"] == "lost"


class Cut(Struct, frozen=True):
    """A view of somebody's own, which signs nothing."""

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        return tuple(
            replace(turn, parts=tuple(replace(part, text=part.text[:2]) for part in turn.parts))
            for turn in conversion.turns
        )


@stage(requires={"turns"}, provides={"chat"})
def cut(conversion: Conversion) -> Conversion:
    return conversion.replace(chat_view=Cut())


def test_a_text_that_is_cut_and_no_stage_says_so_is_lost() -> None:
    pipeline = Pipeline([*load_pipeline("spec").steps, cut])
    assert fates_of(pipeline, ("user", "Hello"), ("user", {"a": 1}), ("user", "Hi")) == [
        ("lost", "the prompt has another text, and no stage says that it changed it"),
        ("lost", "the prompt has another text, and no stage says that it changed it"),
        ("shown", ""),
    ]
    messages = [TestMessage("user", "Hello", line=line) for line in (3, 4, 5)]
    case = Case(id="x", input_messages=tuple(messages), suite="s.yaml")
    error = Outcome("s.yaml", case).converted(pipeline, strict=True).error
    assert str(error) == (
        "s.yaml:3: case 'x': input_messages[0].content: lost: the prompt has another text, and no"
        " stage says that it changed it; 2 more: see multiturn explain"
    )


@stage(requires={"turns"})
def forget_keys(conversion: Conversion) -> Conversion:
    return conversion.replace(guidelines=(), system_prompt=None)


@stage(requires={"turns"})
def hush(conversion: Conversion) -> Conversion:
    return conversion.map_parts(lambda part: replace(part, text=part.text.replace("P", "p")))


@pytest.mark.parametrize(
    ("pipeline", "inserted", "expected"),
    [
        ("spec", None, []),
        ("shipped", None, []),
        ("spec", hush, [("changed", "by hush"), ("changed", "by hush")]),
        ("spec", forget_keys, [("lost", "no section of the system message holds it")] * 2),
        ("shipped", forget_keys, [("lost", "no section of the system message holds it")] * 2),
    ],
)
def test_texts_that_are_in_no_message_have_a_fate_too(
    pipeline: str, inserted: Stage | None, expected: list[tuple[str, str]]
) -> None:
    chosen = load_pipeline(pipeline)
    if inserted is not None:
        chosen = chosen.insert(inserted, after="resolve_segments")
    texts: dict[str, Any] = {"system_prompt": "Prompt", "guidelines": ("Polite", " ")}
    (first, *others) = fates_of(chosen, ("user", "U"), **texts)
    assert first == ("shown", "")
    blank = ("dropped", "blank text is no content (rule 2)")
    assert sorted(others) == sorted([blank, *expected])


def test_guidelines_do_not_take_the_place_of_a_prompt() -> None:
    pipeline = load_pipeline("spec").configure("consolidate_system", sections=["guidelines"])
    fates = fates_of(pipeline, ("user", "U"), system_prompt="P", guidelines=("G",))
    assert fates[-1] == ("lost", "no section of the system message holds it")


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


@settings(max_examples=50)
@given(case=cases)
@pytest.mark.parametrize("name", ["spec", "design", "shipped", "agentv"])
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
