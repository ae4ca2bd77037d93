"""resolve_segments: every message's content becomes parts (rules 1 to 3)."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import InputFile, MultiturnError, Part, TestMessage
from multiturn_stages.resolve_segments import resolve_segments
from shown import Run


def text(value: Any) -> dict[str, Any]:
    return {"type": "text", "value": value}


def file(path: Any) -> dict[str, Any]:
    return {"type": "file", "value": path}


@pytest.mark.parametrize(
    "letters",
    [
        pytest.param("  Hello \n", id="white space around text is kept"),
        pytest.param("a\r\nb", id="line ends inside the text of a message are kept"),
        pytest.param("{path} {role} %s {0} \\n", id="what looks like a placeholder is text"),
    ],
)
def test_leaves_alone(given: Run, run_stage: Run, letters: str) -> None:
    before = given(("user", letters), ("user", [letters, text(letters)]))
    alone, segments = run_stage(resolve_segments, before).turns
    assert [part.text for part in (*alone.parts, *segments.parts)] == [letters] * 3


@pytest.mark.parametrize(
    ("content", "json"),
    [
        pytest.param(
            {"ort": "Köln", "plz": [50667, None, True]},
            '{\n  "ort": "Köln",\n  "plz": [\n    50667,\n    null,\n    true\n  ]\n}',
            id="structured content becomes indented JSON, letters beyond ASCII as they are",
        ),
        pytest.param(
            [{"value": 1, "a": {"c": 0.5}}],
            '{\n  "value": 1,\n  "a": {\n    "c": 0.5\n  }\n}',
            id="in a list too, its keys in their order",
        ),
    ],
)
def test_rewrites_structured_content(given: Run, run_stage: Run, content: Any, json: str) -> None:
    (turn,) = run_stage(resolve_segments, given(("tool", content))).turns
    assert [(part.kind, part.text) for part in turn.parts] == [("text", json)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(" \n\t", id="white space is no content"),
        pytest.param("\u00a0\u3000", id="white space beyond ASCII is no content"),
        pytest.param([], id="an empty list is no content"),
        pytest.param(["", text(" "), "\n"], id="a list of blank texts is no content"),
        pytest.param(text("\t"), id="a blank text segment is no content"),
    ],
)
def test_leaves_a_blank_message_without_parts(given: Run, run_stage: Run, content: Any) -> None:
    result = run_stage(resolve_segments, given(("user", content), ("assistant", "Hi")))
    assert [turn.role for turn in result.turns] == ["user", "assistant"]
    assert [len(turn.parts) for turn in result.turns] == [0, 1]


def test_every_part_knows_its_origin(given: Run, run_stage: Run) -> None:
    message = TestMessage("user", ["", "Look:", file("./a.js")], 7, (9, 10, 12))
    conversion = given(
        input_messages=(TestMessage("system", "Hi", 5), message), files={"a.js": "x"}
    )
    first, second = run_stage(resolve_segments, conversion).turns
    assert [(turn.role, turn.message) for turn in (first, second)] == [("system", 0), ("user", 1)]
    assert first.parts == (Part("text", "Hi", message=0, content=0, line=5),)
    assert second.parts == (
        Part("text", "Look:", message=1, content=1, line=10),
        Part("file", "x", message=1, content=2, line=12, path="./a.js", resolved_path="a.js"),
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"a\n\n\n", "a\n\n\n", id="trailing newlines are kept"),
        pytest.param(b"\r\n", "\n", id="CRLF becomes LF there too"),
        pytest.param(b"\xef\xbb\xbfa\r\nb\n", "a\nb\n", id="all else is as without the option"),
    ],
)
def test_trailing_newlines(given: Run, run_stage: Run, data: bytes, expected: str) -> None:
    before = given(("user", [file("a"), "b \n"]), files={"a": data})
    (turn,) = run_stage(resolve_segments, before, trailing_newlines="keep").turns
    assert [part.text for part in turn.parts] == [expected, "b \n"]
    (turn,) = run_stage(resolve_segments, before).turns  # of the same files, read before
    assert [part.text for part in turn.parts] == [expected.rstrip("\n"), "b \n"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(5, id="a number is no content"),
        pytest.param(True, id="a boolean is no content"),
        pytest.param([None], id="null is no segment"),
        pytest.param([text(5)], id="a text segment holds text"),
        pytest.param([{"type": "text"}], id="a text segment has a value"),
        pytest.param([file(None)], id="a file segment holds a path"),
        pytest.param({"x": float("nan")}, id="structured content is JSON, which has no NaN"),
    ],
)
def test_refuses(given: Run, content: Any) -> None:
    conversion = given(("user", content))
    with pytest.raises(MultiturnError, match=r"^case 'case': input_messages\[0\]\.content"):
        resolve_segments(conversion, missing_file="warn", unknown_type="warn")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param([{"type": "video", "value": "a.mp4"}], "'video'", id="a video"),
        pytest.param({"type": "video", "value": "a.mp4"}, "'video'", id="a video as the content"),
        pytest.param([{"type": None, "value": "a"}], "None", id="a type that is null"),
    ],
)
def test_another_type_is_refused_by_its_name_or_left_out_on_request(
    given: Run, run_stage: Run, content: Any, name: str
) -> None:
    conversion = given(("user", content), ("user", ["Hi", {"type": "sound"}, "there"]))
    with pytest.raises(MultiturnError, match=name):
        resolve_segments(conversion, missing_file="warn")
    result = run_stage(resolve_segments, conversion, unknown_type="warn")
    assert [turn.content for turn in result.turns] == ["", "Hi\nthere"]
    assert [name in left_out.why for left_out in result.notices] == [True, False]
    assert str(result.notices[1].where) == "case 'case': input_messages[1].content[1]"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("missing.js", id="a file that is missing"),
        pytest.param("folder", id="a folder"),
        pytest.param("latin1.txt", id="a file that is not UTF-8"),
        pytest.param("large.txt", id="a file that is too large"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_or_left_out_on_request(
    given: Run, run_stage: Run, path: str
) -> None:
    files = {"folder/x": "", "latin1.txt": b"M\xfcller", "large.txt": "x" * 101, "good.txt": "good"}
    message = TestMessage("user", ["a", file(path), file("good.txt"), "b"], 3, (4, 5, 6, 7))
    conversion = given(input_messages=(message,), files=files, suite="x.yaml")
    with pytest.raises(MultiturnError) as caught:
        resolve_segments(conversion, unknown_type="warn", max_file_bytes=100)
    where = "x.yaml:5: case 'case': input_messages[0].content[1]"
    assert (str(caught.value.where), caught.value.case_id) == (where, "case")
    result = run_stage(resolve_segments, conversion, missing_file="warn", max_file_bytes=100)
    assert result.turns[0].content == "a\ngood\nb"
    assert result.input_files == (InputFile("good.txt", "good.txt", text="good"),)
    assert [str(notice.where) for notice in result.notices] == [where]


def test_a_case_without_files_cannot_attach_any(given: Run, run_stage: Run) -> None:
    conversion = given(("user", ["Hi", file("a.js")]), files={"a.js": "x"})
    without = conversion.replace(case=replace(conversion.case, files=None))
    with pytest.raises(MultiturnError, match=r"'a\.js'"):
        resolve_segments(without)
    assert run_stage(resolve_segments, without, missing_file="warn").turns[0].content == "Hi"


def test_no_option_lets_a_path_leave_the_root(given: Run, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(MultiturnError, match="outside the root"):
        resolve_segments(given(("user", [file("../secret.txt")])), missing_file="warn")
