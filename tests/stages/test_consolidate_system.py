"""consolidate_system: one system message in front, then the other turns (rule 7)."""

from typing import Any

import pytest
from msgspec.structs import replace

from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system
from shown import Run, contents

HI = ("user", "Hi")
M = ("system", "M.")
LATE = ("system", "Late.")
MARKER = reference("a.md")
ONLY_MARKER = ("user", "<Attached: a.md>")
TURNS = [("system", "One."), ("system", "Two."), HI, ("system", "Late.", "Very."), ("tool", "4")]
MARKED = [
    ("system", MARKER, "One."),
    ("user", "Hi", MARKER),
    ("user", MARKER),
    ("system", MARKER, "Late."),
    ("assistant", "Yes?"),
]
P = {"system_prompt": "P."}
PG = {"guidelines": ["G."], **P}
A = file("a.md", "A.")
HEADING = "[[ ## Guidelines ## ]]\n\n"

BARE = {"guidelines_heading": ""}
SINGLE = {**BARE, "guideline_header": "# {path}", "single_guideline": "header"}
TRIM = {**BARE, "guideline_end": "trim"}
ASSISTANT = {"later_system": "assistant"}
OMIT = {"references": "omit"}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI], id="a lone user message"),
        pytest.param([("tool", "4"), ("assistant", "Four.")], id="assistant and tool messages"),
        pytest.param([("user", MARKER, "Hi")], id="the marker of a guideline"),
    ],
)
def test_leaves_alone(run_stage: Run, messages: Any) -> None:
    before = conversion(*messages)
    assert run_stage(consolidate_system, before).chat == before.turns


@pytest.mark.parametrize(
    ("messages", "given", "options", "system"),
    [
        pytest.param([], {"system_prompt": " \n"}, {}, None, id="a blank system prompt is none"),
        pytest.param([("system",)], {}, {}, None, id="an empty system message is none"),
        pytest.param([("system", " ")], P, {}, "P.", id="nor is a blank one"),
        pytest.param([], {"system_prompt": " {path}\n"}, {}, " {path}\n", id="to the letter"),
        pytest.param([M], P, {}, "M.", id="a system message that leads replaces the prompt"),
        pytest.param([("system",), HI, M], P, {}, "P.\n\nM.", id="a later one follows the prompt"),
        pytest.param(
            *([HI, M], P, {"sections": ["messages_else_prompt"]}),
            "M.",
            id="unless any one is told to replace it",
        ),
        pytest.param(
            *([("system", "One.", "Still one."), ("system", "Two.")], {}, {}),
            "One.\nStill one.\n\nTwo.",
            id="a blank line is between messages, and none between the parts of one",
        ),
        # sections
        pytest.param(
            *([M], PG, {"sections": ["prompt", "guidelines", "messages"]}),
            f"P.\n\n{HEADING}G.\n\nM.",
            id="the prompt, guidelines, messages",
        ),
        pytest.param(
            *([M], PG, {"sections": ["guidelines", "messages_else_prompt"]}),
            f"{HEADING}G.\n\nM.",
            id="guidelines in front",
        ),
        pytest.param([M], PG, {"sections": []}, None, id="no sections"),
        pytest.param(
            [], PG, {"sections": ["messages", "prompt"]}, "P.", id="what is missing leaves no gap"
        ),
        # guidelines
        pytest.param([], {"guidelines": [A]}, {}, f"{HEADING}A.", id="one guideline stands bare"),
        pytest.param(
            *([M], {"guidelines": ["Kind.", A]}, {}),
            f"M.\n\n{HEADING}Kind.\n\n=== a.md ===\nA.",
            id="given guidelines first and bare, then attached ones under their paths",
        ),
        pytest.param(
            *([], {"guidelines": [file("{path} %s", "{path}"), file("b/{name}", "{name}")]}),
            {"guideline_header": "{path} {name} %s {0}"},
            f"{HEADING}{{path}} %s {{path}} %s %s {{0}}\n{{path}}"
            "\n\nb/{name} {name} %s {0}\n{name}",
            id="only path and name are special in a header, and nothing in a guideline or its path",
        ),
        pytest.param(
            *([], {"guidelines": ["K.", A]}, {"guidelines_heading": "# {path} %s"}),
            "# {path} %s\n\nK.\n\n=== a.md ===\nA.",
            id="another heading, in which no placeholder is special",
        ),
        pytest.param(
            *([], {"guidelines": ["K.", A]}, {**BARE, "guideline_header": ""}, "K.\n\nA."),
            id="an empty heading or header is no line",
        ),
        pytest.param([], {"guidelines": [A]}, SINGLE, "# a.md\nA.", id="a header above a single"),
        pytest.param([], {"guidelines": ["K."]}, SINGLE, "K.", id="but not without a path"),
        pytest.param(
            *([], {"guidelines": ["\n A. \n B. \n\n", "C.\t\n"]}, TRIM, "\n A. \n B.\n\nC."),
            id="the end of each is trimmed, and nothing else",
        ),
    ],
)
def test_rewrites(
    run_stage: Run, messages: Any, given: Any, options: Any, system: str | None
) -> None:
    before = conversion(*messages, HI, **given)
    chat = run_stage(consolidate_system, before, **options).chat
    others = [message for message in messages if message == HI]
    expected = [] if system is None else [("system", system)]
    assert contents(chat) == [*expected, *others, HI]


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
        *(
            pytest.param(
                *([("system", MARKER), HI, ("system", MARKER)], options, [("system", "P."), HI]),
                id=f"a system message of references only says nothing: {options}",
            )
            for options in (ASSISTANT, {"later_system": "keep", **OMIT}, {})
        ),
        pytest.param(
            *(MARKED, ASSISTANT),
            [
                ("system", "<Attached: a.md>\nOne."),
                ("user", "Hi\n<Attached: a.md>"),
                ONLY_MARKER,
                ("assistant", "[System]: <Attached: a.md>\nLate."),
                ("assistant", "Yes?"),
            ],
            id="markers stay in the chat",
        ),
        pytest.param(
            *(MARKED, {**ASSISTANT, **OMIT}),
            [("system", "One."), HI, ("assistant", "[System]: Late."), ("assistant", "Yes?")],
            id="markers are left out, and turns of nothing else",
        ),
        pytest.param(
            *([("user", MARKER)], OMIT, [("system", "P."), ONLY_MARKER]),
            id="markers stay where there is nothing else",
        ),
    ],
)
def test_later_system_and_references(
    run_stage: Run, messages: Any, options: Any, expected: Any
) -> None:
    result = run_stage(consolidate_system, conversion(*messages, **P), **options)
    assert contents(result.chat) == expected


def test_the_suite_says_which_message_leads(run_stage: Run) -> None:
    """No stage changes it by what it removes, adds, or makes a system message."""
    before = conversion(HI, LATE, ("user", "And?"), **P)
    for turns in (before.turns[1:], (replace(before.turns[1], message=None), *before.turns[2:])):
        chat = run_stage(consolidate_system, before.replace(turns=turns)).chat
        assert contents(chat) == [("system", "P.\n\nLate."), ("user", "And?")]
    turns = (replace(before.turns[0], role="system"), *before.turns[2:])
    chat = run_stage(consolidate_system, before.replace(turns=turns)).chat
    assert contents(chat) == [("system", "P.\n\nHi"), ("user", "And?")]


def test_an_empty_file_makes_a_system_message(run_stage: Run) -> None:
    before = conversion(("system", file("a.js", "")), HI, **P)
    assert contents(run_stage(consolidate_system, before).chat) == [("system", ""), HI]


def test_what_the_stage_wrote_or_trimmed_says_so(run_stage: Run) -> None:
    before = conversion(HI, guidelines=[file("a.md", "A.\n"), file("b.md", "B.")], **P)
    system, user = run_stage(consolidate_system, before, guideline_end="trim").chat or ()
    assert [(part.text, part.stage, part.changed_by) for part in system.parts] == [
        ("P.", None, None),
        ("[[ ## Guidelines ## ]]", "consolidate_system", None),
        ("=== a.md ===", "consolidate_system", None),
        ("A.", None, "consolidate_system"),
        ("=== b.md ===", "consolidate_system", None),
        ("B.", None, None),
    ]
    assert (system.message, user.message) == (None, 0)
