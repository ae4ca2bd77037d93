"""Each change of privilege is named, and nothing else."""

import pytest

from multiturn.provenance import Message, Span
from multiturn.review.privilege import privilege_changes
from multiturn.review.snapshots import messages_in

HEAD = Span("[[ ## Guidelines ## ]]", "", stage="consolidate_system")
BREAK = Span("\n\n", "", stage="")
FILE = Span("", "", "a.md")  # as a snapshot has it
HEADER = Span("=== a.md ===", "", "a.md", stage="embed_files")


def says(role: str, *texts: str | Span) -> Message:
    return Message(role, tuple(Span(t, "") if isinstance(t, str) else t for t in texts))


BEFORE = [
    says("system", "Be nice.", BREAK, HEAD, BREAK, FILE),
    says("user", "Read this.\nObey me.\nNow."),
    says("user", Span("Text B", "", "b.md")),
    says("assistant", "Yes"),
]
SYSTEM, *REST = BEFORE
ADDED = "consolidate_system adds to a system message: "


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(BEFORE, [], id="nothing has changed"),
        pytest.param(
            [says("system", "Be nice.\nAnd brief.", *SYSTEM.spans[1:]), *REST],
            ["new text in a system message: 'Be nice.\\nAnd brief.'"],
            id="a system message has new words of the suite",
        ),
        pytest.param(
            [says("system", "Obey me.", BREAK, *SYSTEM.spans), says("user", "Now.")],
            ["user text becomes system text: 'Obey me.'"],
            id="lines of a user are in the system message",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, "Obey"), *REST],
            ["new text in a system message: 'Obey'"],
            id="a word of a user is not a line",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, Span("other", "", "b.md")), REST[0]],
            ["user text becomes system text: b.md"],
            id="a file of a user is in the system message, whatever it says now",
        ),
        pytest.param(
            [SYSTEM, REST[0], says("tool", Span("other", "", "b.md")), says("user", "Yes")],
            ["user text becomes tool text: 'other'", "assistant text becomes user text: 'Yes'"],
            id="roles are others",
        ),
        pytest.param(
            [*BEFORE, says("assistant", "Now.")],
            [],
            id="an answer repeats a line of a user",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, BREAK, Span("Obey all.", "", stage="append")), *REST],
            ["append adds to a system message: 'Obey all.'"],
            id="a stage adds text",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans, Span("\nObey\n", "", stage="")), *REST],
            ["a stage adds to a system message: 'Obey'"],
            id="a separator says something",
        ),
        pytest.param(
            [says("system", *SYSTEM.spans[:-1], HEADER, BREAK, FILE), *REST],
            ["embed_files adds to a system message: '=== a.md ==='"],
            id="a file has another header",
        ),
        pytest.param(
            [says("system", "Be nice."), REST[0], says("user", Span("Text A", "", "a.md"))],
            ["a.md is no longer in a system message"],
            id="a file has left the system message",
        ),
    ],
)
def test_each_change_of_privilege_is_named(after: list[Message], expected: list[str]) -> None:
    assert list(map(str, privilege_changes(BEFORE, after))) == expected


def test_the_lines_around_a_new_file_are_not_named() -> None:
    bare = says("system", "Be nice.")
    assert list(privilege_changes([bare], [says("system", *bare.spans, HEAD, HEADER, FILE)])) == []
    obey = Span("Obey all.", "", stage="append")
    first = says("system", *bare.spans, obey, BREAK, HEAD, BREAK, FILE)
    (change,) = privilege_changes([bare], [first])
    assert str(change) == "append adds to a system message: 'Obey all.'"
    second = (
        HEADER,
        BREAK,
        FILE,
        Span("=== c.md ===", "", "c.md", stage="x"),
        Span("C", "", "c.md"),
    )
    assert list(privilege_changes(BEFORE, [says("system", *SYSTEM.spans, *second), *REST])) == []
    (change,) = privilege_changes(BEFORE, [says("system", *SYSTEM.spans, *second, obey), *REST])
    assert str(change) == "append adds to a system message: 'Obey all.'"
    headed = [says("system", "=== a.md ===\n", FILE)]
    other = Span("Obey all.", "", "a.md", stage="embed_files")
    (change,) = privilege_changes(headed, [says("system", other, BREAK, *second)])
    assert str(change) == "embed_files adds to a system message: 'Obey all.'"


def test_what_somebody_made_of_a_snapshot_is_compared() -> None:
    recorded = messages_in("id: x\nchat_prompt:\n- {role: [], content: Obey me.}\nquestion: ''\n")
    assert list(map(str, privilege_changes(recorded, [says("system", "Obey me.")]))) == [
        "[] text becomes system text: 'Obey me.'"
    ]


def test_a_text_that_has_no_path_is_known_by_what_it_says() -> None:
    """A snapshot that repeats a file's text does not say that it is a file's."""
    inline = [says("user", "Read:\nText A"), says("system", "Text C")]
    user = [says("user", "Read:\n", Span("Text A", "", "a.md")), inline[1]]
    assert list(privilege_changes(inline, user)) == []
    file = Span("Text A", "", "a.md")
    assert list(map(str, privilege_changes(inline, [says("system", file)]))) == [
        "user text becomes system text: a.md"
    ]
    header = [says("system", HEADER, BREAK, Span("Text C", "", "a.md"))]
    assert list(map(str, privilege_changes(inline, header))) == [
        "embed_files adds to a system message: '=== a.md ==='"
    ]
