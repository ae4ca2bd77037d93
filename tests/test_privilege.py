"""Each change of privilege is named, and nothing else."""

from collections.abc import Sequence

import pytest

from multiturn.explaining.spans import Message, Span
from multiturn.snapshots.privilege import privilege_changes
from multiturn.snapshots.snapshot_file import read_snapshot


def says(role: str, *texts: str | Span) -> Message:
    return Message(role, tuple(Span(t, "") if isinstance(t, str) else t for t in texts))


def file(path: str, text: str = "") -> Span:
    """Return a file's text, without one as a snapshot has it."""
    return Span(text, "", path)


def added(text: str, by: str = "append", path: str = "") -> Span:
    return Span(text, "", path, stage=by)


BREAK = added("\n\n", by="")
HEAD = added("[[ ## Guidelines ## ]]", by="consolidate_system")
HEADER = added("=== a.md ===", by="embed_files", path="a.md")
OTHER_HEADER = added("=== c.md ===", by="embed_files", path="c.md")
OBEY = added("Obey all.")
NICE = ("Be nice.", BREAK)
A, B, C = file("a.md"), file("b.md", "Text B"), file("c.md", "C")

SYSTEM = says("system", *NICE, HEAD, BREAK, A)
USER = says("user", "Read this.\nObey me.\nNow.")
BEFORE = [SYSTEM, USER, says("user", B), says("assistant", "Yes")]
ADDED = "append adds to a system message: 'Obey all.'"


def changes(before: Sequence[Message], after: Sequence[Message]) -> list[str]:
    return list(map(str, privilege_changes(before, after)))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(BEFORE, [], id="nothing has changed"),
        pytest.param(
            [says("system", "Be nice.\nAnd brief.", HEAD, A), *BEFORE[1:]],
            ["new text in a system message: 'Be nice.\\nAnd brief.'"],
            id="a system message has new words of the suite",
        ),
        pytest.param(
            [says("system", "Obey me.", BREAK, *SYSTEM.spans), says("user", "Now.")],
            ["user text becomes system text: 'Obey me.'"],
            id="lines of a user are in the system message",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, "Obey"), *BEFORE[1:]],
            ["new text in a system message: 'Obey'"],
            id="a word of a user is not a line",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, file("b.md", "other")), USER],
            ["user text becomes system text: b.md"],
            id="a file of a user is in the system message, whatever it says now",
        ),
        pytest.param(
            [SYSTEM, USER, says("tool", file("b.md", "other")), says("user", "Yes")],
            ["user text becomes tool text: 'other'", "assistant text becomes user text: 'Yes'"],
            id="roles are others",
        ),
        pytest.param(
            [*BEFORE, says("assistant", "Now.")], [], id="an answer repeats a line of a user"
        ),
        pytest.param(
            [*BEFORE, says("user", "Thanks", added("\n", by=""), "Yes")],
            ["assistant text becomes user text: 'Yes'"],
            id="a text is a part of a message of another role",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, OBEY), *BEFORE[1:]],
            [ADDED],
            id="a stage adds text",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, added("\nObey\n", by="")), *BEFORE[1:]],
            ["a stage adds to a system message: 'Obey'"],
            id="a separator says something",
        ),
        pytest.param(
            [says("system", *NICE, HEAD, BREAK, HEADER, BREAK, A), *BEFORE[1:]],
            ["embed_files adds to a system message: '=== a.md ==='"],
            id="a file has another header",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, HEADER, BREAK, A, OTHER_HEADER, C), *BEFORE[1:]],
            ["c.md is new in a system message"],
            id="a second file comes, and both have headers",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, HEADER, BREAK, A, OTHER_HEADER, C, OBEY), *BEFORE[1:]],
            ["c.md is new in a system message", ADDED],
            id="a stage adds text behind a second file",
        ),
        pytest.param(
            [says("system", HEAD, BREAK, A, BREAK, "Be nice."), *BEFORE[1:]],
            [],
            id="the pieces of a system message are in another order",
        ),
        pytest.param(
            [says("system", HEAD, BREAK, A), *BEFORE[1:]], [], id="a text of the suite is gone"
        ),
        pytest.param(
            [says("system", "Be nice."), USER, says("user", file("a.md", "Text A"))],
            ["a.md is no longer in a system message"],
            id="a file has left the system message",
        ),
    ],
)
def test_each_change_of_privilege_is_named(after: list[Message], expected: list[str]) -> None:
    assert changes(BEFORE, after) == expected


def test_a_text_that_was_a_line_of_its_role_gets_no_other_role() -> None:
    """A snapshot has the texts of a message as one."""
    said, line = says("assistant", "Now."), added("\n", by="")
    assert changes([said, USER], [said, says("user", "Read it.", line, "Now.")]) == []
    becomes = "assistant text becomes tool text: 'Now.'"
    assert changes([said, USER], [said, says("tool", "No.", line, "Now.")]) == [becomes]


def test_the_heading_of_a_first_file_is_not_named_but_what_else_a_stage_adds() -> None:
    bare = says("system", "Be nice.")
    assert changes([bare], [says("system", *NICE, HEAD, HEADER, A)]) == []
    assert changes([bare], [says("system", *NICE, OBEY, BREAK, HEAD, BREAK, A)]) == [ADDED]


def test_another_heading_of_a_file_that_has_one_is_named_beside_a_new_file() -> None:
    headed = says("system", "=== a.md ===\n", A)
    other = added("Obey all.", path="a.md")
    new = "c.md is new in a system message"
    assert changes([headed], [says("system", other, BREAK, A, OTHER_HEADER, C)]) == [ADDED, new]


def test_what_somebody_made_of_a_snapshot_is_compared() -> None:
    recorded = read_snapshot("id: x\nchat_prompt:\n- {role: [], content: Obey me.}\nquestion: ''\n")
    assert changes(recorded.messages, [says("system", "Obey me.")]) == [
        "[] text becomes system text: 'Obey me.'"
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([says("user", "Read:\n", file("a.md", "Text A")), says("system", "Text C")], []),
        ([says("system", file("a.md", "Text A"))], ["user text becomes system text: a.md"]),
        (
            [says("system", HEADER, BREAK, file("a.md", "Text C"))],
            ["embed_files adds to a system message: '=== a.md ==='"],
        ),
    ],
)
def test_a_text_that_has_no_path_is_known_by_what_it_says(
    after: list[Message], expected: list[str]
) -> None:
    """A snapshot that repeats a file's text does not say that it is a file's."""
    inline = [says("user", "Read:\nText A"), says("system", "Text C")]
    assert changes(inline, after) == expected


def test_a_file_of_the_list_is_not_named_again_but_its_other_header_is() -> None:
    """Its changed text is on the list of promoted files; the header is the pipeline's."""
    user, text = says("user", file("a.md")), file("a.md", "Text A")
    header = added("# Obey a.md", by="embed_files", path="a.md")
    moved, headed = says("system", text), says("system", header, BREAK, text)
    for listed, expected in ((), ["user text becomes system text: a.md"]), (("a.md",), []):
        assert list(map(str, privilege_changes([user], [moved], listed))) == expected
        named = list(map(str, privilege_changes([SYSTEM], [headed], listed)))
        assert named == ["embed_files adds to a system message: '# Obey a.md'"]
