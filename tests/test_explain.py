"""Where the text of a prompt comes from, and what became of the input."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

import commands
from comparing import write
from generated import cases, files_in
from layout import laid_out
from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Part,
    Pipeline,
    TestMessage,
    Tool,
    Turn,
    explain,
    load_pipeline,
    load_suite,
    stage,
)
from multiturn.cli.explain import as_explanation
from multiturn.engine.converting import ConvertedCase
from multiturn.explaining.spans import joined_text
from multiturn.model.request import message_of
from multiturn.model.settings import RequestSettings
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline_file import pipeline_names

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


EXPLAINED = """\
evals/review.eval.yaml · review
system
  metadata.systemPrompt of evals/review.eval.yaml, changed by whisper
  | you are a reviewer.
  added by consolidate_system
  | [[ ## Guidelines ## ]]
  guidelines[0] of evals/review.eval.yaml, changed by whisper
  | be kind.
  added by consolidate_system for prompts/python.md
  | === ../prompts/python.md ===
  prompts/python.md, attached at evals/review.eval.yaml:12, moved by extract_guidelines
  | 1 type
user
  evals/review.eval.yaml:10, changed by whisper
  | review:
  added by extract_guidelines for prompts/python.md
  | <Attached: ../prompts/python.md>
  added by embed_files for evals/code.py
  | === code.py ===
  evals/code.py, attached at evals/review.eval.yaml:14
  | pass
user
  added by extract_guidelines for prompts/python.md
  | <Attached: /prompts/python.md>
  evals/review.eval.yaml:20
  | and again
question
not where or as it was written
  FILE:10: case 'review': input_messages[0].content[0]: changed, by whisper
  FILE:12: case 'review': input_messages[0].content[1]: moved, by extract_guidelines (rule 4)
  FILE:16: case 'review': input_messages[0].content[3]: dropped, blank text is no content (rule 2)
  FILE:19: case 'review': input_messages[1].content[0]: referenced, moved by \
extract_guidelines once (rule 4)
  FILE:4: case 'review': guidelines[0]: changed, by whisper
  FILE:2: case 'review': metadata.systemPrompt: changed, by whisper
"""


SPEC, SHIPPED = laid_out(), laid_out("shipped")


@stage(requires={"turns"})
def whisper(conversion: Conversion) -> Conversion:
    return conversion.map_parts(lambda part: replace(part, text=part.text.lower()))


def test_each_text_has_its_origin_and_each_segment_its_fate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"prompts/python.md": "1 type", "evals/code.py": "pass", ".git/HEAD": ""}
    write(tmp_path, {"evals/review.eval.yaml": SUITE, **files})
    (case,) = load_suite("evals/review.eval.yaml")
    pipeline = SPEC.insert(whisper, after="resolve_segments").remove("render_question")
    conversion = pipeline(Conversion(case))
    said = str(explain(conversion))
    assert said == EXPLAINED.replace("FILE", "evals/review.eval.yaml")
    assert click.unstyle(as_explanation(explain(conversion))) == said


def case_of(*messages: tuple[Any, Any], **values: Any) -> Case:
    input_messages = tuple(TestMessage(role, content) for role, content in messages)
    return Case(id="x", input_messages=input_messages, **values)


def fates_of(pipeline: Pipeline, case: Case) -> list[tuple[str, str]]:
    return [(fate.fate, fate.why) for fate in explain(pipeline(Conversion(case))).fates]


@stage(requires={"turns"})
def forget_the_first(conversion: Conversion) -> Conversion:
    return conversion.replace(turns=conversion.turns[1:])


@stage(requires={"turns"})
def forget_keys(conversion: Conversion) -> Conversion:
    return conversion.replace(guidelines=(), system_prompt=None)


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


CUTTING = Pipeline([*SPEC.steps, cut])
HELLO = case_of(("user", "U"))
KEYS = case_of(("user", "U"), guidelines=("Polite", " "), system_prompt="Prompt")

BLANK = ("dropped", "blank text is no content (rule 2)")
GONE = ("lost", "no section of the system message holds it")
MERGED = ("merged", "into one system message (rule 7)")
REPLACED = ("dropped", "system messages replace it (rule 7)")
OTHER = ("lost", "its text is missing from the prompt, and no stage explains why")
SHOWN = ("shown", "")
VIDEO = {"type": "video", "value": "x"}
LEFT_OUT = (
    "dropped",
    "segments of type 'video' cannot be part of a chat prompt; use text, file, image, document"
    " or audio, or leave them out by a pipeline with configure:"
    " {resolve_segments: {unknown_type: warn}}",
)


@pytest.mark.parametrize(
    ("pipeline", "case", "fates"),
    [
        pytest.param(
            SPEC,
            case_of(("system", "S"), ("user", "U"), ("system", "T"), system_prompt="P"),
            [MERGED, SHOWN, MERGED, REPLACED],
            id="system messages are merged, and the one that leads replaces the prompt",
        ),
        pytest.param(
            SPEC,
            case_of(("user", "U"), ("system", "T"), system_prompt="P"),
            [SHOWN, MERGED],
            id="a later system message leaves the prompt",
        ),
        pytest.param(
            SPEC.configure("consolidate_system", sections=["messages_else_prompt"]),
            case_of(("user", "U"), ("system", "T"), system_prompt="P"),
            [SHOWN, MERGED, ("dropped", "system messages replace it (rule 7)")],
            id="unless an option says that any system message replaces it",
        ),
        pytest.param(
            *(SHIPPED, case_of(("user", "U"), ("system", "T")), [SHOWN, SHOWN]),
            id="a later system message that stays is shown",
        ),
        pytest.param(
            SPEC.configure("resolve_segments", unknown_type="warn").insert(
                forget_the_first, after="resolve_segments"
            ),
            case_of(("user", "gone"), ("user", ["U", VIDEO])),
            [
                ("lost", "no rule explains it; the stage forget_the_first took it away"),
                SHOWN,
                LEFT_OUT,
            ],
            id="what a stage takes away is lost, what is left out on request is dropped",
        ),
        pytest.param(
            CUTTING,
            case_of(("user", "Hello"), ("user", {"a": 1}), ("user", "Hi")),
            [OTHER, OTHER, SHOWN],
            id="a text that is cut, and no stage says so, is lost",
        ),
        pytest.param(
            SPEC.remove("consolidate_system", "render_question"),
            HELLO,
            [("lost", "the pipeline gives neither a chat prompt nor a question")],
            id="without a view all is lost",
        ),
        *(
            pytest.param(
                SPEC.insert(forget_the_first, after="resolve_segments").remove(other),
                case_of(("user", "gone"), ("user", "U")),
                [("lost", "no rule explains it; the stage forget_the_first took it away"), SHOWN],
                id=f"with one view, without {other}, only what a stage takes away is lost",
            )
            for other in ("render_question", "consolidate_system")
        ),
        pytest.param(SPEC, KEYS, [SHOWN, BLANK], id="keys are sent"),
        pytest.param(SHIPPED, KEYS, [SHOWN, BLANK], id="also without a chat"),
        pytest.param(
            SPEC.configure("consolidate_system", sections=["guidelines"]),
            *(KEYS, [SHOWN, BLANK, GONE]),
            id="a prompt that no section holds is lost, although there are guidelines",
        ),
        *(
            pytest.param(
                pipeline.insert(forget_keys, after="resolve_segments"),
                *(KEYS, [SHOWN, GONE, BLANK, GONE]),
                id=f"keys that a stage takes away are lost in {pipeline.name}",
            )
            for pipeline in (SPEC, SHIPPED)
        ),
    ],
)
def test_each_segment_and_key_has_its_fate(
    pipeline: Pipeline, case: Case, fates: list[tuple[str, str]]
) -> None:
    assert fates_of(pipeline, case) == fates


def test_strict_refuses_what_is_lost() -> None:
    messages = [TestMessage("user", "Hello", line=line) for line in (3, 4, 5)]
    case = Case(id="x", input_messages=tuple(messages), suite="s.yaml")
    assert str(ConvertedCase("s.yaml", case).converted(CUTTING, strict=True).error) == (
        "s.yaml:3: case 'x': input_messages[0].content: lost: its text is missing from the"
        " prompt, and no stage explains why; 2 more: see multiturn explain"
    )


def swapped(change: Callable[[Part], Part]) -> Stage:
    """Return a stage that changes each part of the turns, but for what stages have added."""

    @stage(requires={"turns"})
    def swap(conversion: Conversion) -> Conversion:
        def parts(turn: Turn) -> tuple[Part, ...]:
            return tuple(part if part.stage else change(part) for part in turn.parts)

        turns = tuple(replace(turn, parts=parts(turn)) for turn in conversion.turns)
        return conversion.replace(turns=turns)

    return swap


SWAPS: dict[str, Callable[[Part], Part]] = {
    "a part with another text": lambda part: replace(part, text="Other"),
    "a part with two letters of it": lambda part: replace(part, text=part.text[:2]),
    "a part that says that nobody changed it": lambda part: replace(
        part, text="Other", changed_by=None
    ),
    "a new part that names the file": lambda part: Part(
        "text", "Other", path=part.path, resolved_path=part.resolved_path
    ),
}


@pytest.fixture
def attached(tmp_path: Path) -> Case:
    """A case of one file."""
    (tmp_path / "a.txt").write_text("Line\n" * 300)
    return case_of(("user", [{"type": "file", "value": "a.txt"}]), files=Files(tmp_path, tmp_path))


@pytest.mark.parametrize("after", ["resolve_segments", "embed_files"])
@pytest.mark.parametrize("change", SWAPS.values(), ids=SWAPS)
def test_a_text_that_a_stage_changed_is_not_credited_to_its_file(
    attached: Case, change: Callable[[Part], Part], after: str
) -> None:
    pipeline = SPEC.insert(swapped(change), after=after)
    assert fates_of(pipeline, attached) == [("changed", "by swap")]
    chat = explain(pipeline(Conversion(attached))).chat
    assert chat is not None
    assert chat[0].spans[-1].origin.endswith("changed by swap")
    assert ConvertedCase("x", attached).converted(pipeline, strict=True).error is None


def test_newlines_that_an_option_keeps_are_as_written(attached: Case) -> None:
    pipeline = SPEC.configure("resolve_segments", trailing_newlines="keep")
    assert fates_of(pipeline, attached) == [SHOWN]


@stage(requires={"text"})
def forget_texts(conversion: Conversion) -> Conversion:
    (turn,) = conversion.turns
    return conversion.replace(
        turns=(replace(turn, parts=tuple(part for part in turn.parts if part.stage)),)
    )


def test_a_file_that_a_view_cuts_is_lost(attached: Case) -> None:
    assert fates_of(CUTTING, attached) == [OTHER]


def test_a_header_alone_is_not_the_file(attached: Case) -> None:
    pipeline = SPEC.insert(forget_texts, after="embed_files")
    assert [fate for fate, _ in fates_of(pipeline, attached)] == ["lost"]


def shouted(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    loud = (replace(part, text=part.text.upper()) for part in parts)
    return (*loud, Part("text", "!", ""))


@stage(requires={"question"}, provides={"question"})
def shout(conversion: Conversion) -> Conversion:
    return conversion.edit_question(shouted)


def test_what_an_edit_changed_or_added_names_the_stage() -> None:
    pipeline = Pipeline([*SPEC.steps, shout])
    explained = explain(pipeline(Conversion(case_of(("user", "Hi"), ("user", "there")))))
    assert [(span.text, span.origin) for span in explained.question] == [
        ("[USER]: ", "added by shout"),
        ("HI", "the case: input_messages[0].content[0], changed by shout"),
        ("\n", "between two parts (rule 6)"),
        ("[USER]: ", "added by shout"),
        ("THERE", "the case: input_messages[1].content[0], changed by shout"),
        ("!", "added by shout"),
    ]


@given(name=st.sampled_from(pipeline_names()), case=cases)
def test_spans_concatenate_to_the_text_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, name: str, case: Case
) -> None:
    files = files_in(tmp_path_factory.getbasetemp() / "explained")
    try:
        conversion = load_pipeline(name)(Conversion(replace(case, files=files)))
    except MultiturnError:
        return
    explained, chat = explain(conversion), conversion.chat
    assert joined_text(explained.question) == conversion.question
    assert (chat is None) == (explained.chat is None)
    for turn, message in zip(chat or (), explained.chat or (), strict=True):
        text = message_of(turn).text  # beside media, a line break
        assert (message.role, joined_text(message.spans)) == (turn.role, text)
    assert [fate for fate in explained.fates if fate.fate == "lost"] == []


@stage(requires={"turns"})
def mark(conversion: Conversion) -> Conversion:
    """Change every second text."""
    return conversion.map_parts(
        lambda part: replace(part, text=f"{part.text}\u2603") if len(part.text) % 2 else part
    )


# The pipeline agentv trims the texts of files.
@pytest.mark.parametrize("stages", [[], [mark]])
@given(name=st.sampled_from(sorted({*pipeline_names()} - {"agentv"})), case=cases)
def test_only_a_text_that_a_stage_has_changed_names_it(
    tmp_path_factory: pytest.TempPathFactory, stages: list[Stage], name: str, case: Case
) -> None:
    files = files_in(tmp_path_factory.getbasetemp() / "changed")
    pipeline = load_pipeline(name)
    for each in stages:
        pipeline = pipeline.insert(each, after="resolve_segments")
    try:
        explained = explain(pipeline(Conversion(replace(case, files=files))))
    except MultiturnError:
        return
    shown = [span for message in explained.chat or () for span in message.shown]
    for span in (*shown, *explained.system, *explained.question):
        is_marked = span.stage is None and "\u2603" in span.text
        assert span.changed_by == ("mark" if is_marked else None)


def test_what_is_between_two_parts_belongs_to_a_file_only_between_parts_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a.md": "A", "b.md": "B"})
    (tmp_path / ".git").mkdir()
    files = [{"type": "file", "value": name} for name in ("a.md", "b.md")]
    message = {"role": "user", "content": ["Look:", *files, "Thanks"]}
    suite = {"evalcases": [{"id": "x", "input_messages": [message]}]}
    write(tmp_path, {"s.eval.yaml": json.dumps(suite)})
    (case,) = load_suite("s.eval.yaml")
    said = explain(SPEC(Conversion(case))).chat
    assert said is not None
    # The header of a file, and its text, are two parts; the line feed between them is the file's.
    assert [(span.text, span.path) for span in said[-1].spans] == [
        ("Look:", ""),
        ("\n", ""),
        ("=== a.md ===", "a.md"),
        ("\n", "a.md"),
        ("A", "a.md"),
        ("\n", ""),
        ("=== b.md ===", "b.md"),
        ("\n", "b.md"),
        ("B", "b.md"),
        ("\n", ""),
        ("Thanks", ""),
    ]


def test_a_text_in_a_file_of_cases_is_placed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a.yaml": "evalcases: [b.jsonl]\n", "b.jsonl": '{"id": "c", "input": "Hi"}\n'})
    (case,) = load_suite("a.yaml")
    (span,) = explain(load_pipeline("spec")(Conversion(case))).question
    assert (span.text, span.origin) == ("Hi", "b.jsonl:1")


def test_a_notebook_shows_an_explanation_as_it_is_printed() -> None:
    explained = explain(SPEC(Conversion(case_of(("user", "<b>"), ("assistant", "Yes?")))))
    assert repr(explained) == "<Explanation of 'x'; print() shows it>"
    assert explained._repr_html_().startswith("<pre>x\nuser\n  the case: input_messages[0]")
    assert "  | &lt;b&gt;\n" in explained._repr_html_()


def calls_to_explain(messages: int) -> int:
    """Return how many functions are called to explain a case of so many system messages."""
    turns = [TestMessage("system", f"Rule {number}") for number in range(messages)]
    case = Case(id="a", input_messages=(*turns, TestMessage("user", "Hi")))
    conversion = SPEC(Conversion(case))
    count = 0

    def see(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        explain(conversion)
    finally:
        sys.setprofile(None)
    return count


def test_the_work_to_explain_a_case_grows_with_its_messages_and_not_with_their_square() -> None:
    assert calls_to_explain(800) < 5 * calls_to_explain(200)


# Origins for programs, and the line of a suite

LINES = """\
metadata:
  systemPrompt: |
    You review.
    Be exact.
guideline_patterns: ["*.rules.md"]
guidelines: [Be kind., Be brief.]
evalcases:
  - id: review
    input_messages:
      - role: user
        content:
          - type: text
            value: "Review:"
          - type: file
            value: tone.rules.md
      - {role: assistant, content: [one, two]}
      - role: user
        content: |
          Long
          text
  # a comment
  - id: other
    metadata: {systemPrompt: Mine}
    input_messages: [{role: user, content: Hi}]
"""
TONE = "Be calm."
MY_PROMPT = "You review.\nBe exact.\n"
LONG = "Long\ntext\n"


@pytest.fixture
def suite_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, {"a.eval.yaml": LINES, "tone.rules.md": TONE})
    write(tmp_path, {"more.eval.yaml": "tests: [{id: x, input: Hi}]\n"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spans_of(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the spans of the messages that explain prints, in order."""
    done = commands.run("explain", "a.eval.yaml", "--format", "json", *arguments, folder=folder)
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        {"id": line["id"], "role": message["role"], **span}
        for line in lines
        for message in line["chat_prompt"]
        for span in message["spans"]
    ]


def test_each_span_has_its_origin_as_data(suite_of_lines: Path) -> None:
    (suite_of_lines / "stages.py").write_text(
        "from multiturn import stage\nfrom msgspec.structs import replace\n\n"
        "@stage(requires={'turns'})\ndef upper(conversion):\n"
        "    return conversion.map_parts(lambda part: replace(part, text=part.text.upper()))\n"
    )
    step = "{stage: 'stages:upper', after: resolve_segments}"
    (suite_of_lines / "p.yaml").write_text(f"extends: spec\ninsert: [{step}]\n")
    spans = spans_of(suite_of_lines, "--case", "review", "--pipeline", "p.yaml")
    keys = ("file", "line", "column", "key", "path", "stage", "changed_by")
    found = {span["text"]: tuple(span[key] for key in keys) for span in spans}
    by, suite = "upper", "a.eval.yaml"
    assert found[MY_PROMPT.upper()] == (suite, 2, 17, "metadata.systemPrompt", None, None, by)
    assert found["BE BRIEF."] == (suite, 6, 24, "guidelines[1]", None, None, by)
    assert found["REVIEW:"] == (suite, 12, 13, "input_messages[0].content[0]", None, None, by)
    rules = ("input_messages[0].content[1]", "tone.rules.md", None, by)
    assert found["BE CALM."] == (suite, 14, 13, *rules)
    assert found["TWO"] == (suite, 16, 42, "input_messages[1].content[1]", None, None, by)
    assert found[LONG.upper()] == (suite, 18, 18, "input_messages[2].content", None, None, by)
    added = "[[ ## Guidelines ## ]]"
    assert found[added] == (None, None, None, None, None, "consolidate_system", None)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (1, {"review": [MY_PROMPT]}),
        (4, {"review": [MY_PROMPT]}),
        (5, {}),
        (6, {"review": ["Be kind.", "Be brief."], "other": ["Be kind.", "Be brief."]}),
        (7, {"review": [TONE, "Review:", "one", "two", LONG], "other": ["Mine", "Hi"]}),
        (8, {"review": [TONE, "Review:", "one", "two", LONG]}),
        (10, {"review": [TONE, "Review:"]}),
        (11, {"review": [TONE, "Review:"]}),
        (12, {"review": ["Review:"]}),
        (13, {"review": ["Review:"]}),
        (14, {"review": [TONE]}),
        (15, {"review": [TONE]}),
        (16, {"review": ["one", "two"]}),
        (17, {"review": [LONG]}),
        (20, {"review": [LONG]}),
        (21, {}),
        (22, {"other": ["Mine", "Hi"]}),
        (23, {"other": ["Mine"]}),
        (24, {"other": ["Hi"]}),
        (99, {}),
    ],
)
def test_explain_says_what_a_line_becomes(
    suite_of_lines: Path, line: int, texts: dict[str, list[str]]
) -> None:
    found: dict[str, list[str]] = {}
    for span in spans_of(suite_of_lines, "--at", str(line)):
        found.setdefault(span["id"], []).append(span["text"])
    assert found == texts


def test_explain_at_a_line_says_what_became_of_a_text_that_was_moved(suite_of_lines: Path) -> None:
    done = commands.run("explain", "a.eval.yaml", "--at", "15", folder=suite_of_lines)
    assert (
        done.stdout
        == """\
a.eval.yaml · review
system
  tone.rules.md, attached at a.eval.yaml:14, moved by extract_guidelines
  | Be calm.
question
not where or as it was written
  a.eval.yaml:14: case 'review': input_messages[0].content[1]: moved, by extract_guidelines (rule 4)

"""
    )


def test_a_line_without_text_is_said_in_words(suite_of_lines: Path) -> None:
    done = commands.run("explain", "a.eval.yaml", "--at", "21", folder=suite_of_lines)
    said = "a.eval.yaml:21: no text of a prompt is written here\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)


def test_a_line_of_json_lines_is_a_case(suite_of_lines: Path) -> None:
    write(
        suite_of_lines, {"b.jsonl": "".join(f'{{"id": "{n}", "input": "{n}!"}}\n' for n in "xyz")}
    )
    done = commands.run("explain", "b.jsonl", "--at", "2", folder=suite_of_lines)
    assert "| y!" in done.stdout
    assert "x!" not in done.stdout
    assert "z!" not in done.stdout


def test_a_line_is_of_one_suite(suite_of_lines: Path) -> None:
    done = commands.run("explain", ".", "--at", "2", folder=suite_of_lines)
    said = "Error: --at takes a line of one suite; name its file\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


WITH_SETTINGS = """\
execution: {temperature: 0.5, seed: 7}
tools:
  - name: weather
    description: The weather.
evalcases:
  - id: a
    execution:
      temperature: 1
      stop: [END]
    input_messages: [{role: user, content: Hi}]
"""
SETTINGS_EXPLAINED = """\
settings
  s.eval.yaml:8: execution.temperature
  | temperature: 1.0
  s.eval.yaml:9: execution.stop
  | stop: ["END"]
  s.eval.yaml:1: execution.seed
  | seed: 7
tools
  s.eval.yaml:3: tools[0]
  | weather: {
  |   "name": "weather",
  |   "description": "The weather."
  | }
"""
SETTINGS_EXPLAINED_AFTER_A_STAGE = """\
settings
  s.eval.yaml:8: execution.temperature, changed by house
  | temperature: 0.0
  s.eval.yaml:9: execution.stop
  | stop: ["END"]
  s.eval.yaml:1: execution.seed, changed by house
  | seed: left out
  added by house
  | verbosity: "low"
tools
  s.eval.yaml:3: tools[0], changed by house
  | weather: {
  |   "name": "weather",
  |   "description": "Weather."
  | }
  added by house
  | now: {
  |   "name": "now"
  | }
not where or as it was written
  s.eval.yaml:3: case 'a': tools[0]: changed, by house
"""


@stage(requires={"turns"})
def house(conversion: Conversion) -> Conversion:
    """Change settings and tools."""
    settings = RequestSettings(temperature=0.0, stop=("END",), verbosity="low")
    (tool,) = conversion.tools
    tools = (replace(tool, description="Weather."), Tool("now"))
    return conversion.replace(settings=settings, tools=tools)


def test_settings_and_tools_have_their_places_and_the_stages_that_changed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"s.eval.yaml": WITH_SETTINGS})
    (case,) = load_suite("s.eval.yaml")
    text = str(explain(laid_out()(Conversion(case))))
    assert text.partition("settings")[1:] == SETTINGS_EXPLAINED.partition("settings")[1:]
    changed = str(explain(laid_out().insert(house, before="filter_empty")(Conversion(case))))
    assert f"settings{changed.partition('settings')[2]}" == SETTINGS_EXPLAINED_AFTER_A_STAGE


TARGETS = """\
targets:
  - name: t
    provider: openai
    model: gpt-4o
    api_key: none
    top_p: 0.5
    seed: 3
    temperature: omit
"""


def test_a_target_adds_its_settings_and_leaves_some_out(tmp_path: Path) -> None:
    write(tmp_path, {"s.eval.yaml": WITH_SETTINGS, "targets.yaml": TARGETS})
    done = commands.run("explain", "s.eval.yaml", "--target", "t", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.partition("settings\n")[2].partition("tools\n")[0] == (
        "  s.eval.yaml:8: execution.temperature\n"
        "  | temperature: left out\n"
        "  targets.yaml:2: target 't'\n"
        "  | top_p: 0.5\n"
        "  s.eval.yaml:9: execution.stop\n"
        '  | stop: ["END"]\n'
        "  s.eval.yaml:1: execution.seed\n"
        "  | seed: 7\n"
    )
    done = commands.run(
        "explain", "s.eval.yaml", "--target", "t", "--format", "json", folder=tmp_path
    )
    line = json.loads(done.stdout)
    dry = commands.run("run", "s.eval.yaml", "--target", "t", "--dry-run", folder=tmp_path)
    body = json.loads(json.loads(dry.stdout)["wire"])
    sent = {
        name: json.loads(each["text"]) for name, each in line["settings"].items() if each["text"]
    }
    assert sent == {name: body[name] for name in ("top_p", "stop", "seed")}
    assert line["settings"]["temperature"]["text"] == ""
    assert "temperature" not in body
    tool = line["tools"]["weather"]
    assert json.loads(tool["text"]) == {"name": "weather", "description": "The weather."}
    assert (tool["file"], tool["line"], tool["key"]) == ("s.eval.yaml", 3, "tools[0]")
    assert (tool["origin"], tool["changed_by"]) == ("s.eval.yaml:3: tools[0]", None)
    assert body["tools"] == [{"type": "function", "function": json.loads(tool["text"])}]


def test_a_line_with_a_setting_is_explained_alone(tmp_path: Path) -> None:
    write(tmp_path, {"s.eval.yaml": WITH_SETTINGS})
    done = commands.run("explain", "s.eval.yaml", "--at", "9", folder=tmp_path)
    assert done.stdout == (
        "s.eval.yaml · a\nquestion\nsettings\n  s.eval.yaml:9: execution.stop\n"
        '  | stop: ["END"]\n\n'
    ), done.stderr
