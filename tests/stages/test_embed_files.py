"""embed_files: a file becomes text where it stood: a header line, then its text (rule 3)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion, Turn
from multiturn_stages.embed_files import embed_files

Build = Callable[..., Conversion]
Read = Callable[..., list[tuple[str, str]]]

CODE = ("file", "./code.js", "console.log('test')")
EMPTY = ("file", "empty.txt", "")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param(["Hi", "{path}"], id="text"),
        pytest.param(["=== a.js ==="], id="text that looks like a header"),
        pytest.param([("reference", "a.md", "<Attached: a.md>")], id="the marker of a guideline"),
        pytest.param([("text", "a.md", "embedded")], id="a file that is embedded already"),
    ],
)
def test_leaves_alone(conversation: Build, run: Build, pieces: Any) -> None:
    conversion = conversation(("user", *pieces))
    conversion = conversion.replace(chat=conversion.turns)
    assert run(embed_files, conversion, system_header="") == conversion


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            ["Review this:", CODE],
            "Review this:\n=== ./code.js ===\nconsole.log('test')",
            id="a file stands under its path as written",
        ),
        pytest.param(
            ["a", CODE, "b", ("file", "x", "1\n2"), "c"],
            "a\n=== ./code.js ===\nconsole.log('test')\nb\n=== x ===\n1\n2\nc",
            id="files stand where they stood",
        ),
        pytest.param([EMPTY], "=== empty.txt ===\n", id="an empty file keeps its header"),
        pytest.param(
            [EMPTY, "end"], "=== empty.txt ===\n\nend", id="an empty file, and text below"
        ),
        pytest.param(
            [CODE, CODE],
            "=== ./code.js ===\nconsole.log('test')\n=== ./code.js ===\nconsole.log('test')",
            id="a file attached twice is embedded twice",
        ),
        pytest.param(
            [("file", "%s {role}", "{path} === %s")],
            "=== %s {role} ===\n{path} === %s",
            id="placeholders in a file or its path are text",
        ),
        pytest.param([("file", "{path}", "x")], "=== {path} ===\nx", id="a path named {path}"),
        pytest.param([("file", "a", " \n x ")], "=== a ===\n \n x ", id="white space is kept"),
        pytest.param([("file", "a", "")], "=== a ===\n", id="nothing is added to an empty file"),
    ],
)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_rewrites(
    conversation: Build, run: Build, contents: Read, role: str, pieces: Any, expected: str
) -> None:
    conversion = conversation((role, *pieces))
    result = run(embed_files, conversion.replace(chat=conversion.turns))
    assert contents(result.turns) == [(role, expected)]
    assert contents(result.chat) == [(role, expected)]
    assert {part.kind for part in result.turns[0].parts} == {"text"}


def test_no_chat_stays_no_chat(conversation: Build, run: Build) -> None:
    assert run(embed_files, conversation(("user", CODE))).chat is None


def test_what_the_stage_wrote_says_so(conversation: Build, run: Build) -> None:
    (turn,) = run(embed_files, conversation(("user", "a", CODE))).turns
    assert [(part.text, part.stage, part.path) for part in turn.parts] == [
        ("a", None, None),
        ("=== ./code.js ===", "embed_files", "./code.js"),
        ("console.log('test')", None, "./code.js"),
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("--- {path}", "a\n--- x/y.js\ntext\nb", id="another header"),
        pytest.param("{path}\n{path}", "a\nx/y.js\nx/y.js\ntext\nb", id="the path stands twice"),
        pytest.param("%s {role} {}", "a\n%s {role} {}\ntext\nb", id="only {path} is special"),
        pytest.param("", "a\ntext\nb", id="an empty header is no line"),
    ],
)
def test_header(conversation: Build, run: Build, header: str, expected: str) -> None:
    conversion = conversation(("user", "a", ("file", "x/y.js", "text"), "b"))
    assert run(embed_files, conversion, header=header).turns[0].content == expected


def test_an_empty_file_without_header_is_an_empty_line(conversation: Build, run: Build) -> None:
    (turn,) = run(embed_files, conversation(("user", "a", EMPTY, "b")), header="").turns
    assert turn.content == "a\n\nb"
    assert turn.has_content


@pytest.mark.parametrize(
    ("options", "system", "user"),
    [
        pytest.param({}, "=== s ===\nS", "=== u ===\nU", id="under a header like any other"),
        pytest.param(
            {"system_header": None, "header": "# {path}"},
            "# s\nS",
            "# u\nU",
            id="None follows the header of all",
        ),
        pytest.param({"system_header": ""}, "S", "=== u ===\nU", id="bare"),
        pytest.param(
            {"system_header": "# {path}", "header": ""}, "# s\nS", "U", id="under its own header"
        ),
    ],
)
def test_system_header(
    conversation: Build,
    run: Build,
    contents: Read,
    options: dict[str, str | None],
    system: str,
    user: str,
) -> None:
    conversion = conversation(("system", ("file", "s", "S")), ("user", ("file", "u", "U")))
    parts = conversion.turns[0].parts
    # What consolidation makes of a system message: the system turn, or an assistant turn.
    chat = (Turn("system", parts), conversion.turns[1], Turn("assistant", parts, 0))
    result = run(embed_files, conversion.replace(chat=chat), **options)
    assert contents(result.turns) == [("system", system), ("user", user)]
    assert contents(result.chat) == [("system", system), ("user", user), ("assistant", system)]


def test_a_bare_file_keeps_its_distance_from_the_section_above(
    conversation: Build, run: Build
) -> None:
    first, second = conversation(("system", "One."), ("system", ("file", "s", "S"))).turns
    (file,) = second.parts
    section = type(file)("file", "S", "\n\n", 1, 0, 0, "s", "s")
    conversion = conversation(("system", "One."), ("system", ("file", "s", "S")))
    conversion = conversion.replace(chat=(Turn("system", (*first.parts, section)),))
    bare = run(embed_files, conversion, system_header="").chat
    headed = run(embed_files, conversion).chat
    assert bare is not None
    assert headed is not None
    assert bare[0].content == "One.\n\nS"
    assert headed[0].content == "One.\n\n=== s ===\nS"
