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
MARKER = reference("a.md")
HEADING = "[[ ## Guidelines ## ]]\n\n"


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


def test_leaves_the_turns_alone(run_stage: Build) -> None:
    before = conversion(HI, ("system", "Late."), ("user", MARKER), system_prompt="Prompt.")
    for later_system in ("merge", "assistant", "keep"):
        for references in ("keep", "omit"):
            result = run_stage(
                consolidate_system, before, later_system=later_system, references=references
            )
            assert result.replace(chat_view=None) == before


@pytest.mark.parametrize(
    ("messages", "prompt", "guidelines", "system"),
    [
        pytest.param([HI], None, [], None, id="of nothing no system message is made"),
        pytest.param([HI], " \n", [], None, id="a blank system prompt is none"),
        pytest.param([("system",), HI], None, [], None, id="an empty system message is none"),
        pytest.param([("system", " ")], "Prompt.", [], "Prompt.", id="nor is a blank one"),
        pytest.param([HI], " {path} %s\n", [], " {path} %s\n", id="the prompt, to the letter"),
        pytest.param(
            [("system", "One."), HI], "Prompt.", [], "One.", id="a system message beats the prompt"
        ),
        pytest.param(
            [("system", "One."), ("system", "Two."), HI, ("system", "Three.")],
            "Prompt.",
            [],
            "One.\n\nTwo.\n\nThree.",
            id="all system messages, with blank lines between",
        ),
        pytest.param(
            [("system", "One.", "Still one."), ("system", "Two.")],
            None,
            [],
            "One.\nStill one.\n\nTwo.",
            id="the parts of one system message are joined by one newline",
        ),
        pytest.param(
            [HI],
            None,
            [file("a.md", "Rule.")],
            "[[ ## Guidelines ## ]]\n\nRule.",
            id="one attached guideline stands bare",
        ),
        pytest.param(
            [("system", "One.")],
            "Prompt.",
            ["Kind.", file("a.md", "A.")],
            "One.\n\n[[ ## Guidelines ## ]]\n\nKind.\n\n=== a.md ===\nA.",
            id="given guidelines first and bare, then attached ones under their paths",
        ),
        pytest.param(
            [HI],
            None,
            [file("{path} %s", "{path}"), file("{role}", "=== {path} ===")],
            "[[ ## Guidelines ## ]]\n\n=== {path} %s ===\n{path}\n\n=== {role} ===\n=== {path} ===",
            id="placeholders in a guideline or in its path are text",
        ),
    ],
)
def test_rewrites(
    run_stage: Build, messages: Any, prompt: str | None, guidelines: Any, system: str | None
) -> None:
    before = conversion(*messages, guidelines=guidelines, system_prompt=prompt)
    others = [("user", "Hi")] if HI in messages else []
    front = [] if system is None else [("system", system)]
    assert contents(run_stage(consolidate_system, before).chat) == front + others


ALL = {"guidelines": ["G."], "system_prompt": "P."}
ONLY_PROMPT = {"system_prompt": "P."}
M = [("system", "M."), HI]


@pytest.mark.parametrize(
    ("messages", "given", "sections", "system"),
    [
        pytest.param(
            *(M, ALL, ["prompt", "guidelines", "messages"], f"P.\n\n{HEADING}G.\n\nM."),
            id="the prompt, guidelines, messages",
        ),
        pytest.param(
            *(M, ALL, ["guidelines", "messages_else_prompt"], f"{HEADING}G.\n\nM."),
            id="guidelines in front",
        ),
        pytest.param(M, ALL, [], None, id="nothing"),
        pytest.param([HI], ONLY_PROMPT, ["messages"], None, id="no messages, no system message"),
        pytest.param(
            *([HI], ONLY_PROMPT, ["prompt", "guidelines", "messages"], "P."),
            id="what is missing leaves no gap",
        ),
    ],
)
def test_sections(
    run_stage: Build, messages: Any, given: dict[str, Any], sections: list[str], system: str | None
) -> None:
    before = conversion(*messages, **given)
    chat = contents(run_stage(consolidate_system, before, sections=tuple(sections)).chat)
    assert chat == ([] if system is None else [("system", system)]) + [HI]


SEVERAL = [("system", "One."), ("system", "Two."), HI, ("system", "Late.", "Very."), ("tool", "4")]
LATE = [HI, ("system", "Late.")]


@pytest.mark.parametrize(
    ("messages", "prompt", "later_system", "expected"),
    [
        pytest.param(
            *(SEVERAL, None, "merge"),
            [("system", "One.\n\nTwo.\n\nLate.\nVery."), HI, ("tool", "4")],
            id="a later system message is merged to the front",
        ),
        pytest.param(
            *(SEVERAL, None, "assistant"),
            [
                *[("system", "One.\n\nTwo."), HI],
                *[("assistant", "[System]: Late.\nVery."), ("tool", "4")],
            ],
            id="a later system message becomes an assistant message after [System]:",
        ),
        pytest.param(
            *(SEVERAL, None, "keep"),
            [("system", "One.\n\nTwo."), HI, ("system", "Late.\nVery."), ("tool", "4")],
            id="a later system message stays where it stands",
        ),
        pytest.param(
            *(LATE, "P.", "assistant"),
            [("system", "P."), HI, ("assistant", "[System]: Late.")],
            id="as an assistant message it leaves the prompt alone",
        ),
    ],
)
def test_later_system(
    run_stage: Build, messages: Any, prompt: str | None, later_system: str, expected: Any
) -> None:
    before = conversion(*messages, system_prompt=prompt)
    result = run_stage(consolidate_system, before, later_system=later_system)
    assert contents(result.chat) == expected


@pytest.mark.parametrize("references", ["keep", "omit"])
@pytest.mark.parametrize("later_system", ["merge", "assistant", "keep"])
@pytest.mark.parametrize(
    "messages",
    [pytest.param([("system", MARKER), HI, ("system", MARKER)], id="in front and later")],
)
def test_a_system_message_of_references_only_says_nothing(
    run_stage: Build, messages: Any, later_system: str, references: str
) -> None:
    before = conversion(*messages, guidelines=[file("a.md", "Rule.")], system_prompt="Prompt.")
    result = run_stage(consolidate_system, before, later_system=later_system, references=references)
    assert contents(result.chat) == [
        ("system", "Prompt.\n\n[[ ## Guidelines ## ]]\n\nRule."),
        ("user", "Hi"),
    ]


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        pytest.param(
            "keep",
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
            "omit",
            [
                ("system", "One."),
                ("user", "Hi"),
                ("assistant", "[System]: Late."),
                ("assistant", "Yes?"),
            ],
            id="markers are left out, and turns of nothing else",
        ),
    ],
)
def test_references(run_stage: Build, references: str, expected: Any) -> None:
    before = conversion(
        ("system", MARKER, "One."),
        ("user", "Hi", MARKER),
        ("user", MARKER),
        ("system", MARKER, "Late."),
        ("assistant", "Yes?"),
    )
    result = run_stage(consolidate_system, before, references=references, later_system="assistant")
    assert contents(result.chat) == expected


def test_an_empty_file_makes_a_system_message(run_stage: Build) -> None:
    before = conversion(("system", file("a.js", "")), HI, system_prompt="Prompt.")
    chat = run_stage(consolidate_system, before).chat
    assert chat is not None
    assert [[part.path for part in turn.parts] for turn in chat] == [["a.js"], [None]]


A = file("a.md", "A.")
BARE = {"guidelines_heading": ""}
SINGLE = {**BARE, "guideline_header": "# {path}", "single_guideline": "header"}
TRIM = {**BARE, "guideline_end": "trim"}


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
                ("a.md", "# {name}", "# a.md", "a path that is a name"),
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


def test_a_guideline_that_was_trimmed_says_so(run_stage: Build) -> None:
    before = conversion(HI, guidelines=[file("a.md", "A.\n"), file("b.md", "B.")])
    chat = run_stage(consolidate_system, before, guideline_end="trim").chat
    assert chat is not None
    assert [(part.text, part.changed_by) for part in chat[0].parts[2::2]] == [
        ("A.", "consolidate_system"),
        ("B.", None),
    ]


@pytest.mark.parametrize(
    ("system_marker", "expected"),
    [
        pytest.param("@system {role}\n", "@system {role}\nLate.", id="another, to the letter"),
        pytest.param("", "Late.", id="none"),
    ],
)
def test_system_marker(run_stage: Build, system_marker: str, expected: str) -> None:
    before = conversion(("system", "One."), HI, ("system", "Late."))
    options = {"later_system": "assistant", "system_marker": system_marker}
    assert contents(run_stage(consolidate_system, before, **options).chat) == [
        ("system", "One."),
        ("user", "Hi"),
        ("assistant", expected),
    ]


def test_what_the_stage_wrote_says_so(run_stage: Build) -> None:
    before = conversion(HI, guidelines=[file("a.md", "A."), file("b.md", "B.")], system_prompt="P.")
    chat = run_stage(consolidate_system, before).chat
    assert chat is not None
    assert [(part.text, part.stage) for part in chat[0].parts] == [
        ("P.", None),
        ("[[ ## Guidelines ## ]]", "consolidate_system"),
        ("=== a.md ===", "consolidate_system"),
        ("A.", None),
        ("=== b.md ===", "consolidate_system"),
        ("B.", None),
    ]
    assert (chat[0].message, chat[1].message) == (None, 0)
