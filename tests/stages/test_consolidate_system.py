"""consolidate_system: one system message in front, then the other turns (rule 7)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion
from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system
from shown import contents

Build = Callable[..., Conversion]

HI = ("user", "Hi")
M = ("system", "M.")
LATE = ("system", "Late.")
TURNS = [("system", "One."), ("system", "Two."), HI, ("system", "Late.", "Very."), ("tool", "4")]
MARKER = reference("a.md")
MARKED = [
    ("system", MARKER, "One."),
    ("user", "Hi", MARKER),
    ("user", MARKER),
    ("system", MARKER, "Late."),
    ("assistant", "Yes?"),
]
A = file("a.md", "A.")
HEADING = "[[ ## Guidelines ## ]]\n\n"

ALL: dict[str, Any] = {"guidelines": ["G."], "system_prompt": "P."}
P = {"system_prompt": "P."}
BARE = {"guidelines_heading": ""}
SINGLE = {**BARE, "guideline_header": "# {path}", "single_guideline": "header"}
TRIM = {**BARE, "guideline_end": "trim"}
ASSISTANT = {"later_system": "assistant"}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI], id="a lone user message"),
        pytest.param([("tool", "4"), ("assistant", "Four.")], id="assistant and tool messages"),
        pytest.param([("user", MARKER, "Hi")], id="the marker of a guideline"),
    ],
)
def test_leaves_alone(run_stage: Build, messages: Any) -> None:
    before = conversion(*messages)
    assert run_stage(consolidate_system, before).chat == before.turns


@pytest.mark.parametrize("later_system", ["merge", "assistant", "keep"])
@pytest.mark.parametrize("references", ["keep", "omit"])
def test_leaves_the_turns_alone(run_stage: Build, later_system: str, references: str) -> None:
    before = conversion(HI, LATE, ("user", MARKER), **P)
    options = {"later_system": later_system, "references": references}
    assert run_stage(consolidate_system, before, **options).replace(chat_view=None) == before


@pytest.mark.parametrize(
    ("messages", "case", "system"),
    [
        pytest.param([HI], {}, None, id="of nothing no system message is made"),
        pytest.param([HI], {"system_prompt": " \n"}, None, id="a blank system prompt is none"),
        pytest.param([("system",), HI], {}, None, id="an empty system message is none"),
        pytest.param([("system", " "), HI], P, "P.", id="nor is a blank one"),
        pytest.param([HI], {"system_prompt": " {path}\n"}, " {path}\n", id="to the letter"),
        pytest.param([M, HI], P, "M.", id="a system message beats the prompt"),
        pytest.param(
            [M, ("system", "Two."), HI, LATE],
            *(P, "M.\n\nTwo.\n\nLate."),
            id="all system messages, with blank lines between",
        ),
        pytest.param(
            [("system", "One.", "Still one."), ("system", "Two."), HI],
            *({}, "One.\nStill one.\n\nTwo."),
            id="the parts of one system message are joined by one newline",
        ),
        pytest.param([HI], {"guidelines": [A]}, f"{HEADING}A.", id="one guideline stands bare"),
        pytest.param(
            [M, HI],
            {"guidelines": ["Kind.", A]},
            f"M.\n\n{HEADING}Kind.\n\n=== a.md ===\nA.",
            id="given guidelines first and bare, then attached ones under their paths",
        ),
        pytest.param(
            [HI],
            {"guidelines": [file("{path} %s", "{path}"), file("{role}", "=== {path} ===")]},
            f"{HEADING}=== {{path}} %s ===\n{{path}}\n\n=== {{role}} ===\n=== {{path}} ===",
            id="placeholders in a guideline or in its path are text",
        ),
    ],
)
def test_rewrites(run_stage: Build, messages: Any, case: Any, system: str | None) -> None:
    chat = contents(run_stage(consolidate_system, conversion(*messages, **case)).chat)
    assert chat == ([] if system is None else [("system", system)]) + [HI]


@pytest.mark.parametrize(
    ("messages", "sections", "system"),
    [
        pytest.param(
            *([M, HI], ["prompt", "guidelines", "messages"], f"P.\n\n{HEADING}G.\n\nM."),
            id="the prompt, guidelines, messages",
        ),
        pytest.param(
            *([M, HI], ["guidelines", "messages_else_prompt"], f"{HEADING}G.\n\nM."),
            id="guidelines in front",
        ),
        pytest.param([M, HI], [], None, id="nothing"),
        pytest.param([HI], ["messages"], None, id="no messages, no system message"),
        pytest.param([HI], ["messages", "prompt"], "P.", id="what is missing leaves no gap"),
    ],
)
def test_sections(run_stage: Build, messages: Any, sections: Any, system: str | None) -> None:
    result = run_stage(consolidate_system, conversion(*messages, **ALL), sections=sections)
    assert contents(result.chat) == ([] if system is None else [("system", system)]) + [HI]


@pytest.mark.parametrize(
    ("messages", "options", "expected"),
    [
        pytest.param(
            *(TURNS, {"later_system": "merge"}),
            [("system", "One.\n\nTwo.\n\nLate.\nVery."), HI, ("tool", "4")],
            id="a later system message is merged to the front",
        ),
        pytest.param(
            *(TURNS, {"later_system": "keep"}),
            [("system", "One.\n\nTwo."), HI, ("system", "Late.\nVery."), ("tool", "4")],
            id="a later system message stays where it stands",
        ),
        pytest.param(
            *([HI, LATE], ASSISTANT, [("system", "P."), HI, ("assistant", "[System]: Late.")]),
            id="a later system message becomes an assistant message, and the prompt counts",
        ),
        pytest.param(
            *([M, HI, LATE], {**ASSISTANT, "system_marker": "@system {role}\n"}),
            [M, HI, ("assistant", "@system {role}\nLate.")],
            id="another marker, to the letter",
        ),
        pytest.param(
            *([M, HI, LATE], {**ASSISTANT, "system_marker": ""}, [M, HI, ("assistant", "Late.")]),
            id="no marker",
        ),
        *(
            pytest.param(
                *([("system", MARKER), HI, ("system", MARKER)], options, [("system", "P."), HI]),
                id=f"a system message of references only says nothing: {options}",
            )
            for options in (ASSISTANT, {"later_system": "keep", "references": "omit"}, {})
        ),
        pytest.param(
            *(MARKED, ASSISTANT),
            [
                ("system", "<Attached: a.md>\nOne."),
                ("user", "Hi\n<Attached: a.md>"),
                ("user", "<Attached: a.md>"),
                ("assistant", "[System]: <Attached: a.md>\nLate."),
                ("assistant", "Yes?"),
            ],
            id="markers stay in the chat",
        ),
        pytest.param(
            *(MARKED, {**ASSISTANT, "references": "omit"}),
            [
                *[("system", "One."), HI],
                *[("assistant", "[System]: Late."), ("assistant", "Yes?")],
            ],
            id="markers are left out, and turns of nothing else",
        ),
        pytest.param(
            *([("user", MARKER)], {"references": "omit"}),
            [("system", "P."), ("user", "<Attached: a.md>")],
            id="markers stay where there is nothing else",
        ),
    ],
)
def test_later_system_and_references(
    run_stage: Build, messages: Any, options: Any, expected: Any
) -> None:
    result = run_stage(consolidate_system, conversion(*messages, **P), **options)
    assert contents(result.chat) == expected


def test_an_empty_file_makes_a_system_message(run_stage: Build) -> None:
    before = conversion(("system", file("a.js", "")), HI, **P)
    chat = run_stage(consolidate_system, before).chat
    assert chat is not None
    assert [[part.path for part in turn.parts] for turn in chat] == [["a.js"], [None]]


@pytest.mark.parametrize(
    ("guidelines", "options", "system"),
    [
        pytest.param(
            *(["K.", A], {"guidelines_heading": "# {path} %s"}),
            "# {path} %s\n\nK.\n\n=== a.md ===\nA.",
            id="another heading, in which no placeholder is special",
        ),
        pytest.param(
            *(["K.", A], {"guideline_header": "{path} %s {0} {path}"}),
            f"{HEADING}K.\n\na.md %s {{0}} a.md\nA.",
            id="another header, in which only {path} is special",
        ),
        pytest.param(["K.", A], BARE, "K.\n\n=== a.md ===\nA.", id="an empty heading is no line"),
        pytest.param(
            *(["K.", A], {"guideline_header": ""}, f"{HEADING}K.\n\nA."),
            id="an empty header is no line",
        ),
        *(
            pytest.param(
                *(["K.", file(path, "A.")], {**BARE, "guideline_header": header}),
                f"K.\n\n{expected}\nA.",
                id=id_,
            )
            for path, header, expected, id_ in (
                ("../docs/a.md", "# {name}", "# a.md", "the name of the file"),
                ("b/a.md", "{name} {name} {path}", "a.md a.md b/a.md", "names and path"),
                ("{name}/{path}", "{path} {name}", "{name}/{path} {path}", "paths are text"),
            )
        ),
        pytest.param([A], {**SINGLE, "single_guideline": "bare"}, "A.", id="a single one is bare"),
        pytest.param([A], SINGLE, "# a.md\nA.", id="a header above a single one"),
        pytest.param(["K."], SINGLE, "K.", id="a single one without a path stands bare"),
        pytest.param(["A. \n\n", "B.\t\n"], TRIM, "A.\n\nB.", id="the end is trimmed"),
        pytest.param(["\n A.\n B."], TRIM, "\n A.\n B.", id="other white space stays"),
    ],
)
def test_how_guidelines_are_written(
    run_stage: Build, guidelines: Any, options: dict[str, Any], system: str
) -> None:
    before = conversion(HI, guidelines=guidelines)
    result = run_stage(consolidate_system, before, **options)
    assert contents(result.chat) == [("system", system), HI]
    assert result.guidelines == before.guidelines


def test_what_the_stage_wrote_or_trimmed_says_so(run_stage: Build) -> None:
    before = conversion(HI, guidelines=[file("a.md", "A.\n"), file("b.md", "B.")], **P)
    chat = run_stage(consolidate_system, before, guideline_end="trim").chat
    assert chat is not None
    assert [(part.text, part.stage, part.changed_by) for part in chat[0].parts] == [
        ("P.", None, None),
        ("[[ ## Guidelines ## ]]", "consolidate_system", None),
        ("=== a.md ===", "consolidate_system", None),
        ("A.", None, "consolidate_system"),
        ("=== b.md ===", "consolidate_system", None),
        ("B.", None, None),
    ]
    assert (chat[0].message, chat[1].message) == (None, 0)
