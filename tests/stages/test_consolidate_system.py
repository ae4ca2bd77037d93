"""consolidate_system: one system message in front, then the other turns (rule 7)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion
from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system

Build = Callable[..., Conversion]
Read = Callable[..., list[tuple[str, str]]]

HI = ("user", "Hi")
MARKER = reference("a.md")


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI], id="a lone user message"),
        pytest.param([HI, ("assistant", "Yes?"), HI], id="a conversation without system messages"),
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
        pytest.param([HI], "", [], None, id="an empty system prompt is none"),
        pytest.param([HI], " \n", [], None, id="a blank system prompt is none"),
        pytest.param([("system",), HI], None, [], None, id="an empty system message is none"),
        pytest.param([("system", " ")], "Prompt.", [], "Prompt.", id="nor is a blank one"),
        pytest.param([HI], "Prompt.", [], "Prompt.", id="the system prompt"),
        pytest.param([HI], " {path} %s\n", [], " {path} %s\n", id="the prompt, to the letter"),
        pytest.param([("system", "One."), HI], None, [], "One.", id="the system message"),
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
            [HI], None, ["Rule."], "[[ ## Guidelines ## ]]\n\nRule.", id="one given guideline too"
        ),
        pytest.param(
            [HI],
            "Prompt.",
            [file("./a.md", "A."), file("b/b.md", "B.")],
            "Prompt.\n\n[[ ## Guidelines ## ]]\n\n=== ./a.md ===\nA.\n\n=== b/b.md ===\nB.",
            id="several attached guidelines stand under their paths",
        ),
        pytest.param(
            [HI],
            None,
            ["Kind.", "Brief."],
            "[[ ## Guidelines ## ]]\n\nKind.\n\nBrief.",
            id="given guidelines have no path, and stand bare",
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
    run_stage: Build,
    contents: Read,
    messages: Any,
    prompt: str | None,
    guidelines: Any,
    system: str | None,
) -> None:
    before = conversion(*messages, guidelines=guidelines, system_prompt=prompt)
    others = [("user", "Hi")] if HI in messages else []
    front = [] if system is None else [("system", system)]
    assert contents(run_stage(consolidate_system, before).chat) == front + others


@pytest.mark.parametrize(
    ("sections", "system"),
    [
        pytest.param(["messages_else_prompt"], "M.", id="messages, else the prompt"),
        pytest.param(["messages"], "M.", id="messages only"),
        pytest.param(["prompt"], "P.", id="the prompt only"),
        pytest.param(["guidelines"], "[[ ## Guidelines ## ]]\n\nG.", id="guidelines only"),
        pytest.param(
            ["prompt", "guidelines", "messages"],
            "P.\n\n[[ ## Guidelines ## ]]\n\nG.\n\nM.",
            id="the prompt, guidelines, messages",
        ),
        pytest.param(
            ["guidelines", "messages_else_prompt"],
            "[[ ## Guidelines ## ]]\n\nG.\n\nM.",
            id="guidelines in front",
        ),
        pytest.param([], None, id="nothing"),
    ],
)
def test_sections(
    run_stage: Build, contents: Read, sections: list[str], system: str | None
) -> None:
    before = conversion(("system", "M."), HI, guidelines=["G."], system_prompt="P.")
    chat = contents(run_stage(consolidate_system, before, sections=tuple(sections)).chat)
    assert chat == ([] if system is None else [("system", system)]) + [("user", "Hi")]


@pytest.mark.parametrize(
    ("sections", "system"),
    [
        pytest.param(["messages"], None, id="no messages, no system message"),
        pytest.param(["messages_else_prompt"], "P.", id="no messages, so the prompt"),
        pytest.param(
            ["prompt", "guidelines", "messages"], "P.", id="what is missing leaves no gap"
        ),
    ],
)
def test_sections_that_are_missing(
    run_stage: Build, contents: Read, sections: list[str], system: str | None
) -> None:
    before = conversion(HI, system_prompt="P.")
    chat = contents(run_stage(consolidate_system, before, sections=tuple(sections)).chat)
    assert chat == ([] if system is None else [("system", system)]) + [("user", "Hi")]


@pytest.mark.parametrize(
    ("later_system", "expected"),
    [
        pytest.param(
            "merge",
            [("system", "One.\n\nTwo.\n\nLate.\nVery."), ("user", "Hi"), ("tool", "4")],
            id="a later system message is merged to the front",
        ),
        pytest.param(
            "assistant",
            [
                ("system", "One.\n\nTwo."),
                ("user", "Hi"),
                ("assistant", "[System]: Late.\nVery."),
                ("tool", "4"),
            ],
            id="a later system message becomes an assistant message after [System]:",
        ),
        pytest.param(
            "keep",
            [("system", "One.\n\nTwo."), ("user", "Hi"), ("system", "Late.\nVery."), ("tool", "4")],
            id="a later system message stays where it stands",
        ),
    ],
)
def test_later_system(run_stage: Build, contents: Read, later_system: str, expected: Any) -> None:
    before = conversion(
        ("system", "One."), ("system", "Two."), HI, ("system", "Late.", "Very."), ("tool", "4")
    )
    result = run_stage(consolidate_system, before, later_system=later_system)
    assert contents(result.chat) == expected


@pytest.mark.parametrize(
    ("later_system", "expected"),
    [
        pytest.param("merge", [("system", "Late."), ("user", "Hi")], id="merged, it beats it"),
        pytest.param(
            "assistant",
            [("system", "P."), ("user", "Hi"), ("assistant", "[System]: Late.")],
            id="as an assistant message it leaves it alone",
        ),
        pytest.param(
            "keep",
            [("system", "P."), ("user", "Hi"), ("system", "Late.")],
            id="where it stands it leaves it alone",
        ),
    ],
)
def test_a_later_system_message_and_the_prompt(
    run_stage: Build, contents: Read, later_system: str, expected: Any
) -> None:
    before = conversion(HI, ("system", "Late."), system_prompt="P.")
    result = run_stage(consolidate_system, before, later_system=later_system)
    assert contents(result.chat) == expected


@pytest.mark.parametrize("references", ["keep", "omit"])
@pytest.mark.parametrize("later_system", ["merge", "assistant", "keep"])
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([("system", MARKER), HI], id="in front"),
        pytest.param([HI, ("system", MARKER, MARKER)], id="later"),
        pytest.param([("system", MARKER), HI, ("system", MARKER)], id="in front and later"),
    ],
)
def test_a_system_message_of_references_only_says_nothing(
    run_stage: Build,
    contents: Read,
    messages: Any,
    later_system: str,
    references: str,
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
def test_references(run_stage: Build, contents: Read, references: str, expected: Any) -> None:
    before = conversion(
        ("system", MARKER, "One."),
        ("user", "Hi", MARKER),
        ("user", MARKER),
        ("system", MARKER, "Late."),
        ("assistant", "Yes?"),
    )
    result = run_stage(consolidate_system, before, references=references, later_system="assistant")
    assert contents(result.chat) == expected


def test_a_file_in_a_system_message_waits_to_be_embedded(run_stage: Build) -> None:
    before = conversion(("system", "One.", file("a.js", "")), HI)
    chat = run_stage(consolidate_system, before).chat
    assert chat is not None
    assert [part.kind for part in chat[0].parts] == ["text", "file"]


def test_an_empty_file_makes_a_system_message(run_stage: Build) -> None:
    before = conversion(("system", file("a.js", "")), HI, system_prompt="Prompt.")
    chat = run_stage(consolidate_system, before).chat
    assert chat is not None
    assert [[part.path for part in turn.parts] for turn in chat] == [["a.js"], [None]]


@pytest.mark.parametrize(
    ("options", "system"),
    [
        pytest.param({}, "P.\n\n[[ ## Guidelines ## ]]\n\nK.\n\n=== a.md ===\nA.", id="as is"),
        pytest.param(
            {"guidelines_heading": "# {path} %s"},
            "P.\n\n# {path} %s\n\nK.\n\n=== a.md ===\nA.",
            id="another heading, in which no placeholder is special",
        ),
        pytest.param(
            {"guideline_header": "{path} %s {0} {path}"},
            "P.\n\n[[ ## Guidelines ## ]]\n\nK.\n\na.md %s {0} a.md\nA.",
            id="another header, in which only {path} is special",
        ),
        pytest.param(
            {"guidelines_heading": ""},
            "P.\n\nK.\n\n=== a.md ===\nA.",
            id="an empty heading is no line",
        ),
        pytest.param(
            {"guideline_header": ""},
            "P.\n\n[[ ## Guidelines ## ]]\n\nK.\n\nA.",
            id="an empty header is no line",
        ),
    ],
)
def test_heading_and_header(
    run_stage: Build, contents: Read, options: dict[str, str], system: str
) -> None:
    before = conversion(HI, guidelines=["K.", file("a.md", "A.")], system_prompt="P.")
    result = run_stage(consolidate_system, before, **options)
    assert contents(result.chat) == [("system", system), ("user", "Hi")]


@pytest.mark.parametrize(
    ("path", "header", "expected"),
    [
        pytest.param("../docs/a.md", "# {name}", "# a.md", id="the name of the file"),
        pytest.param("a.md", "# {name}", "# a.md", id="a path that is a name"),
        pytest.param("b/a.md", "{name} {name} {path}", "a.md a.md b/a.md", id="names and path"),
        pytest.param("{name}/{path}", "{path} {name}", "{name}/{path} {path}", id="paths are text"),
    ],
)
def test_the_name_of_a_file_in_its_header(
    run_stage: Build, contents: Read, path: str, header: str, expected: str
) -> None:
    before = conversion(HI, guidelines=["K.", file(path, "A.")])
    ((_, system), _) = contents(run_stage(consolidate_system, before, guideline_header=header).chat)
    assert system == f"[[ ## Guidelines ## ]]\n\nK.\n\n{expected}\nA."


@pytest.mark.parametrize(
    ("guidelines", "bare", "header"),
    [
        pytest.param([file("a.md", "A.")], "A.", "# a.md\nA.", id="a header above a single one"),
        pytest.param(["K."], "K.", "K.", id="a single one without a path stands bare"),
        pytest.param(
            ["K.", file("a.md", "A.")],
            "K.\n\n# a.md\nA.",
            "K.\n\n# a.md\nA.",
            id="several are left alone",
        ),
    ],
)
def test_single_guideline(
    run_stage: Build, contents: Read, guidelines: Any, bare: str, header: str
) -> None:
    before = conversion(HI, guidelines=guidelines)
    for single_guideline, expected in [("bare", bare), ("header", header)]:
        result = run_stage(
            consolidate_system,
            before,
            guideline_header="# {path}",
            guidelines_heading="",
            single_guideline=single_guideline,
        )
        assert contents(result.chat) == [("system", expected), ("user", "Hi")]


@pytest.mark.parametrize(
    ("texts", "keep", "trim"),
    [
        pytest.param(["A.", "B."], "A.\n\nB.", "A.\n\nB.", id="there is none"),
        pytest.param(
            ["A. \n\n", "B.\t\n"], "A. \n\n\n\nB.\t\n", "A.\n\nB.", id="white space at the end"
        ),
        pytest.param(["\n A.\n B."], "\n A.\n B.", "\n A.\n B.", id="other white space stays"),
    ],
)
def test_guideline_end(
    run_stage: Build, contents: Read, texts: list[str], keep: str, trim: str
) -> None:
    before = conversion(HI, guidelines=texts)
    for guideline_end, expected in [("keep", keep), ("trim", trim)]:
        result = run_stage(
            consolidate_system, before, guidelines_heading="", guideline_end=guideline_end
        )
        assert contents(result.chat) == [("system", expected), ("user", "Hi")]
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
        pytest.param("[System]: ", "[System]: Late.", id="as it is without the option"),
        pytest.param("@system {role}\n", "@system {role}\nLate.", id="another, to the letter"),
        pytest.param("", "Late.", id="none"),
    ],
)
def test_system_marker(run_stage: Build, contents: Read, system_marker: str, expected: str) -> None:
    before = conversion(("system", "One."), HI, ("system", "Late."))
    options = {"later_system": "assistant", "system_marker": system_marker}
    assert contents(run_stage(consolidate_system, before, **options).chat) == [
        ("system", "One."),
        ("user", "Hi"),
        ("assistant", expected),
    ]


def test_a_system_marker_leaves_other_readings_alone(run_stage: Build) -> None:
    before = conversion(("system", "One."), HI, ("system", "Late."))
    for later_system in ("merge", "keep"):
        chats = [
            run_stage(consolidate_system, before, later_system=later_system, system_marker=m).chat
            for m in ("[System]: ", "#")
        ]
        assert chats[0] == chats[1]


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


def test_the_chat_shows_the_turns_as_they_are_later(run_stage: Build, contents: Read) -> None:
    result = run_stage(consolidate_system, conversion(HI, ("system", "S"), system_prompt="P."))
    later = result.replace(turns=result.turns[:1])
    assert contents(later.chat) == [("system", "P."), ("user", "Hi")]
    assert contents(result.chat) == [("system", "S"), ("user", "Hi")]
