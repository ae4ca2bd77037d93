"""YAML as a person wrote it: values by the 1.2 core schema, exact texts, and places."""

import json
import math
import re
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiturn.documents.dump import dump
from multiturn.documents.node import Node
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError

NEL, LS, PS = "\x85", "\u2028", "\u2029"  # line ends to YAML 1.1, characters to YAML 1.2
NAMES = {NEL: "U+0085", LS: "U+2028", PS: "U+2029"}
BOM = "\ufeff"


def nodes(text: str | bytes) -> list[Node]:
    return list(read_documents(text, "x.yaml"))


def value(text: str | bytes) -> Any:
    [node] = nodes(text)
    return node.value


def place(text: str, *steps: str | int) -> str:
    """Return line:column of the value that the steps lead to; the first is the document."""
    node = nodes(text)[int(steps[0])]
    for step in steps[1:]:
        node = node.children[step]
    _, line, column, _ = node.place("")
    return f"{line}:{column}"


def error_of(text: str | bytes) -> MultiturnError:
    with pytest.raises(MultiturnError) as caught:
        nodes(text)
    return caught.value


# The core schema


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[pytest.param(word, None, id=f"{word} is null") for word in ("~", "null", "Null", "NULL")],
        pytest.param("", None, id="nothing is null"),
        *[pytest.param(word, True, id=f"{word} is true") for word in ("true", "True", "TRUE")],
        *[pytest.param(word, False, id=f"{word} is false") for word in ("false", "False", "FALSE")],
        pytest.param("0", 0, id="0 is an int"),
        pytest.param("-0", 0, id="-0 is an int"),
        pytest.param("+12", 12, id="+12 is an int"),
        pytest.param("-19", -19, id="-19 is an int"),
        pytest.param("010", 10, id="010 is ten, not octal"),
        pytest.param("08", 8, id="08 is eight"),
        pytest.param("0o14", 12, id="0o14 is octal"),
        pytest.param("0x1aF", 431, id="0x1aF is hexadecimal"),
        pytest.param("12345678901234567890123", 12345678901234567890123, id="an int may be long"),
        pytest.param("0.", 0.0, id="0. is a float"),
        pytest.param("-0.0", -0.0, id="-0.0 is a float and keeps its sign"),
        pytest.param(".5", 0.5, id=".5 is a float"),
        pytest.param("-.5", -0.5, id="-.5 is a float"),
        pytest.param("1.5", 1.5, id="1.5 is a float"),
        pytest.param("1e3", 1000.0, id="1e3 is a float"),
        pytest.param("12e03", 12000.0, id="12e03 is a float"),
        pytest.param("-2E+05", -200000.0, id="-2E+05 is a float"),
        pytest.param("+.5e-1", 0.05, id="+.5e-1 is a float"),
        pytest.param(".inf", math.inf, id=".inf is infinite"),
        pytest.param("+.Inf", math.inf, id="+.Inf is infinite"),
        pytest.param("-.INF", -math.inf, id="-.INF is infinite"),
    ],
)
def test_reads_as_a_value_that_is_not_text(written: str, meant: object) -> None:
    assert repr(value(f"k: {written}")) == repr({"k": meant})
    assert repr(value(f"[{written or '~'}]")) == repr([meant])


@pytest.mark.parametrize("written", [".nan", ".NaN", ".NAN"])
def test_reads_as_not_a_number(written: str) -> None:
    assert math.isnan(value(written))


@pytest.mark.parametrize(
    "written",
    [
        *("yes", "Yes", "no", "NO", "on", "Off", "y", "N"),  # booleans to YAML 1.1
        *("12:30", "1:30:45", "-1:00", "2024-01-01", "2024-01-01T10:00:00Z"),
        *("1_000", "0b101", "0o8", "0O17", "-0x1F", "+0o7", "0x", "0o", "0xg", "1e", "e3", "1e3.5"),
        *("1.2.3", "1,000", "+", "..", "...x", "-.", "+.e3", ".e3", "--1", "1-", "0x1.8"),
        *("nULL", "tRUE", "FALSe", "nil", "None", "none", "+.nan", "-.NaN", ".iNF", "inf", "NaN"),
        *("=", "<", "~x", "~~", "null null", "1 2", "٣", "\uff11", "¹", "1\u00a0"),
        *("a:b", "a#b", "http://x/y?z=1#2", "C:\\x", "it's", "x'y\"z", "-a", "?a", ":a"),
    ],
)
def test_reads_as_text_as_a_person_wrote_it(written: str) -> None:
    assert value(f"- {written}\n- [z]") == [written, ["z"]]


@pytest.mark.parametrize("word", ["true", "null", "~", "12", "010", "1.5", ".inf", "0x1F", ""])
def test_quotes_make_text(word: str) -> None:
    assert value(f"""["{word}", '{word}', !!str {word}]""") == [word, word, word]
    assert value(f"- |-\n  {word}\n- >-\n  {word}") == [word, word]


@pytest.mark.parametrize(
    ("written", "source"),
    [
        pytest.param("010", "010", id="a number is known as it was written"),
        pytest.param("True", "True", id="a boolean is known as it was written"),
        pytest.param("~", "~", id="a null is known as it was written"),
        pytest.param("abc", None, id="plain text needs no source"),
        pytest.param('"010"', None, id="quoted text needs no source"),
    ],
)
def test_source_of_a_plain_scalar(written: str, source: str | None) -> None:
    assert nodes(written)[0].source == source


def test_keys_are_text_as_written() -> None:
    text = "010: a\ntrue: b\n~: c\nnull: d\n2024-01-01: e\nyes: f\n1.50: g\n'': h\n"
    assert list(value(text)) == ["010", "true", "~", "null", "2024-01-01", "yes", "1.50", ""]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("", [], id="an empty stream has no document"),
        pytest.param("# nothing\n\n", [], id="a comment is no document"),
        pytest.param("---\n---\n", [None, None], id="a marker begins a document"),
        pytest.param("a\n---\nb\n...\n---\nc\n", ["a", "b", "c"], id="several documents"),
        pytest.param("--- a\n--- |\n  b\n--- [c]", ["a", "b\n", ["c"]], id="content after ---"),
        pytest.param("k: |\n  ---\n  ...\n", [{"k": "---\n...\n"}], id="an indented --- is text"),
        pytest.param("%YAML 1.2\n---\na: yes\n", [{"a": "yes"}], id="a version directive"),
        pytest.param("%YAML 1.1\n---\na: yes\n", [{"a": "yes"}], id="1.1 is read as 1.2 too"),
    ],
)
def test_documents_of_a_stream(text: str, meant: list[object]) -> None:
    assert [node.value for node in nodes(text)] == meant


# Exact text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("|\n  a\n   b\n\n  c\n\n\n", "a\n b\n\nc\n", id="| ends in one newline"),
        pytest.param("|-\n  a\n\n  b\n\n\n", "a\n\nb", id="|- ends in none"),
        pytest.param("|+\n  a\n\n  b\n\n\n", "a\n\nb\n\n\n", id="|+ keeps them all"),
        pytest.param("|2\n   a\n  b\n", " a\nb\n", id="|2 keeps deeper spaces at the start"),
        pytest.param("|1-\n   a\n", "  a", id="|1- has both indicators"),
        pytest.param("|-1\n   a\n", "  a", id="|-1 has both, turned"),
        pytest.param("|2+\n    a\n\n", "  a\n\n", id="|2+ has both indicators"),
        pytest.param("|\n\n  a\n", "\na\n", id="| keeps an empty line at the start"),
        pytest.param("|+\n\n\n", "\n\n", id="|+ of empty lines only"),
        pytest.param("|\n\n\n", "", id="| of empty lines only"),
        pytest.param("| # note\n  # text\n", "# text\n", id="a number sign inside is text"),
        pytest.param("|\n  a \n  b\t\n", "a \nb\t\n", id="white space at a line's end stays"),
        pytest.param("|\n  a\n  \tb\n", "a\n\tb\n", id="a tab at a line's start stays"),
        pytest.param("|2\n  \ta\n", "\ta\n", id="a tab at the start of the text, behind |2"),
        pytest.param("|\n  a: [\n  - 'x\n", "a: [\n- 'x\n", id="what looks like YAML is text"),
        pytest.param("|\n  a", "a", id="the stream may end without a newline"),
        pytest.param(">\n  a\n  b\n\n  c\n", "a b\nc\n", id="> folds lines"),
        pytest.param(">-\n  a\n  b\n\n", "a b", id=">- ends in none"),
        pytest.param(">+\n  a\n  b\n\n", "a b\n\n", id=">+ keeps them all"),
        pytest.param(">\n  a\n   b\n  c\n  d\n", "a\n b\nc d\n", id="> keeps deeper lines"),
        pytest.param(">1-\n   a\n   b\n", "  a\n  b", id=">1- has both indicators"),
        pytest.param('"a\n  b\n\n  c"', "a b\nc", id="double quotes fold lines"),
        pytest.param("'a\n  b\n\n  c'", "a b\nc", id="single quotes fold lines"),
        pytest.param("a\n  b\n\n  c", "a b\nc", id="plain text folds lines"),
        pytest.param('"a\\\n  b"', "ab", id="a backslash at the end joins lines"),
        pytest.param("'it''s'", "it's", id="two single quotes are one"),
        pytest.param("' a '", " a ", id="quotes keep spaces"),
        pytest.param('"\\t\\x41\\u00e9\\U0001F600\\0\\e\\/"', "\tAé😀\0\x1b/", id="escapes"),
        pytest.param('"\\N\\L\\P\\_"', "\x85\u2028\u2029\xa0", id="escapes of old line ends"),
        pytest.param('"\\x85\\u2028\\u2029"', "\x85\u2028\u2029", id="the same, by number"),
        pytest.param('"\\r\\n"', "\r\n", id="an escaped CR stays"),
        pytest.param("é ü 漢字 😀", "é ü 漢字 😀", id="plain text beyond ASCII"),
        pytest.param("a\ufeffb", "a\ufeffb", id="a BOM inside is a character"),
    ],
)
def test_text_comes_through_exactly(written: str, meant: str) -> None:
    assert value(f"k: {written}") == {"k": meant}


@pytest.mark.parametrize("char", [pytest.param(char, id=name) for char, name in NAMES.items()])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("aXb", "aXb", id="in plain text"),
        pytest.param("a X b", "a X b", id="between spaces"),
        pytest.param("X", "X", id="alone"),
        pytest.param("aX", "aX", id="at the end"),
        pytest.param("Xa", "Xa", id="at the start"),
        pytest.param("a #X b", "a", id="in a comment"),
        pytest.param("aX# b", "aX# b", id="before a number sign, where it opens no comment"),
        pytest.param("aX: b", None, id="before a colon, where it is the end of a key"),
        pytest.param('"aXXb  X"', "aXXb  X", id="in double quotes"),
        pytest.param('"a X\n  b"', "a X b", id="before a folded line end"),
        pytest.param('"a\\X"', None, id="behind a backslash"),
        pytest.param("'a  X  b'", "a  X  b", id="in single quotes"),
        pytest.param("|\n  aXb\n  X\n  X c\n", "aXb\nX\nX c\n", id="in a literal scalar"),
        pytest.param("|+\n  aX\n\n", "aX\n\n", id="at the end of a literal scalar"),
        pytest.param("|-\n  aX\n", "aX", id="at the end of a stripped scalar"),
        pytest.param(">\n  aX\n  b\n", "aX b\n", id="in a folded scalar"),
        pytest.param(">\n  X\n  b\n", "X b\n", id="at the start of a folded scalar"),
        pytest.param("[aX, X]", ["aX", "X"], id="in a list"),
        pytest.param("{aX: X}", {"aX": "X"}, id="in a key"),
        pytest.param("!!str X", "X", id="behind a tag"),
    ],
)
def test_an_old_line_end_is_a_character(char: str, written: str, meant: object) -> None:
    text = f"k: {written}".replace("X", char)
    if meant is None:
        assert str(error_of(text).where).startswith("x.yaml:1:")
    else:
        assert value(text) == json.loads(json.dumps({"k": meant}).replace("X", char))


@pytest.mark.parametrize(
    "written",
    [
        pytest.param('"{}"', id="as they are"),
        pytest.param('"{}" # \u2028\x85\u2029', id="beside old line ends"),
        pytest.param('"\\UFC\u2028"', id="as escapes"),
    ],
)
def test_private_characters_come_through_beside_old_line_ends(written: str) -> None:
    """No character may be taken for another on its way around libyaml's YAML 1.1."""
    private = [0xE000, 0xF8FF, *range(0xF0000, 0xF0010), 0xFFFFD, 0x100000, 0x10FFFD]
    raw = "".join(map(chr, private))
    escaped = "".join(f"\\U{code:08x}" for code in private)
    text = f"- {written}".replace("\\UFC", escaped).replace("{}", raw)
    assert value(text) == [raw + LS if "\\U" in text else raw]
    assert value(text.replace("\\U000f", "\\U000F")) == value(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param(r'["\ud83d\ude00"]', ["😀"], id="as JSON has them"),
        pytest.param(
            r'{"\uD83d\uDe00": "a\ud83d\ude00\ud83d\ude01b"}', {"😀": "a😀😁b"}, id="keys"
        ),
        pytest.param(r'["\\\ud83d\ude00"]', ["\\😀"], id="after an escaped backslash"),
        pytest.param(r'["\\ud83d\\ude00"]', [r"\ud83d\ude00"], id="escaped backslashes alone"),
        pytest.param(r"['\uD83d\uDe00\ude00']", [r"\uD83d\uDe00\ude00"], id="in single quotes"),
        pytest.param(r"[\ud83d\ude00 \UD83D\ude00]", [r"\ud83d\ude00 \UD83D\ude00"], id="plain"),
        pytest.param("- |\n  \\ud83d\\uDE00\n", ["\\ud83d\\uDE00\n"], id="in a block"),
        pytest.param(r"# \ud83d\ude00" + '\n["x"]', ["x"], id="in a comment"),
        pytest.param(
            '["\\ud83d\\ude00\u2028\U000f0000\\U000f0001"]', ["😀\u2028\U000f0000\U000f0001"]
        ),
    ],
)
def test_two_escapes_of_json_are_one_character(text: str, meant: object) -> None:
    assert value(text) == meant


@pytest.mark.parametrize("pad", range(2**16 - 16, 2**16 + 2))
def test_two_escapes_across_the_edge_of_two_reads_are_one_character(pad: int) -> None:
    [text] = value('["' + "x" * pad + r'\ud83d\ude00"]')
    assert text.strip("x") == "😀"


def test_a_value_after_two_escapes_is_where_it_stands() -> None:
    assert place(r'["\ud83d\ude00", x]', 0, 1) == "1:18"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("a: |\r\n  b\r\n\r\n  c\r\n", {"a": "b\n\nc\n"}, id="in a literal scalar"),
        pytest.param("a: >\r\n  b\r\n  c\r\n", {"a": "b c\n"}, id="in a folded scalar"),
        pytest.param('a: "b\r\n  c"\r\n', {"a": "b c"}, id="in quotes"),
        pytest.param("a: b\r\nc:\r\n- d\r\n", {"a": "b", "c": ["d"]}, id="between values"),
        pytest.param("a: |+\r\n  b\r\n\r\n", {"a": "b\n\n"}, id="in kept line ends"),
    ],
)
def test_crlf_is_a_line_end(text: str, meant: object) -> None:
    assert value(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{BOM}k: v", id="before a mapping"),
        pytest.param(f"{BOM}---\nk: v", id="before a marker"),
        pytest.param(f"{BOM}# note\nk: v", id="before a comment"),
        pytest.param(f"{BOM}{{k: v}}", id="before a flow mapping"),
    ],
)
def test_a_bom_at_the_start_is_dropped(text: str) -> None:
    assert value(text) == {"k": "v"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("- |2\n  \ta\n", ["\ta\n"], id="at the start of a literal scalar"),
        pytest.param("- |2\n\n  \ta\n", ["\n\ta\n"], id="behind an empty line of it"),
        pytest.param("- |2\n  \t\n  a\n", ["\t\na\n"], id="alone on its first line"),
        pytest.param("- |2\n  \ta\n  \tb\n   \tc\n", ["\ta\n\tb\n \tc\n"], id="on each line"),
        pytest.param("- |2 # code\r\n  \ta\r\n", ["\ta\n"], id="below a comment and CRLF"),
        pytest.param("- |\n  a |\n  \tb\n", ["a |\n\tb\n"], id="below what looks like a header"),
        pytest.param("- >2\n  \ta\n  b\n", ["\ta\nb\n"], id="at the start of a folded scalar"),
        pytest.param("- >\n  a\n  \tb\n  c\n", ["a\n\tb\nc\n"], id="inside a folded scalar"),
        pytest.param("- >\n  a |\n  \tb\n  c\n", ["a |\n\tb\nc\n"], id="below a | in it"),
        pytest.param("- >2-\n  \t\n\n  b\n", ["\t\n\nb"], id="alone in a folded scalar"),
        pytest.param('- "a |\n  \tb"', ["a | b"], id="below a | in double quotes, where it folds"),
        pytest.param("- 'a >\n  \tb'", ["a > b"], id="below a > in single quotes, where it folds"),
        pytest.param("- a |\n  \tb", ["a | b"], id="below a | in plain text, where it folds"),
        pytest.param("[a, # >\n \t b]", ["a", "b"], id="below a comment, where it is nothing"),
        pytest.param(
            "[a, b|\n  \t, c]", ["a", "b|", "c"], id="in a flow list, where it is nothing"
        ),
    ],
)
def test_a_tab_behind_an_indentation(text: str, meant: object) -> None:
    assert value(text) == meant


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        pytest.param("é: 漢\u2028字".encode(), {"é": "漢\u2028字"}, id="UTF-8"),
        pytest.param(b"\xef\xbb\xbfa: b", {"a": "b"}, id="UTF-8 with a BOM"),
        pytest.param(b"a: |\r\n  b\r\n", {"a": "b\n"}, id="CRLF"),
        pytest.param(b"a: \xc2\x85\xe2\x80\xa8", {"a": "\x85\u2028"}, id="old line ends"),
    ],
)
def test_bytes_are_utf_8(data: bytes, meant: object) -> None:
    assert value(data) == meant


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_or_read_exactly(encoding: str) -> None:
    text = "\u85c2\uc285"  # bytes that are those of an old line end in UTF-8
    for char in text:
        with suppress(MultiturnError):
            assert value(f"{BOM}a: {char}".encode(encoding)) == {"a": char}
    with suppress(MultiturnError):
        assert value(f"{BOM}a: {LS}".encode(encoding)) == {"a": LS}


# Anchors and aliases


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("- &a x\n- *a", ["x", "x"], id="of a text"),
        pytest.param("- &a 010\n- *a", [10, 10], id="of a number"),
        pytest.param("- &a\n- *a", [None, None], id="of nothing"),
        pytest.param("- &a |\n  x\n- *a", ["x\n", "x\n"], id="of a block scalar"),
        pytest.param("a: &x [1, {b: c}]\nd: *x", {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}),
        pytest.param("- &a x\n- *a\n- &a y\n- *a", ["x", "x", "y", "y"], id="of the latest"),
        pytest.param("- &a [&b x, *b]\n- [*a, *b]", [["x", "x"], [["x", "x"], "x"]], id="nested"),
        pytest.param("&k a: 1\nb: {*k : 2}", {"a": 1, "b": {"a": 2}}, id="of a key"),
    ],
)
def test_an_alias_stands_for_its_anchor(text: str, meant: object) -> None:
    assert value(text) == meant


def test_an_alias_of_a_number_used_as_a_key_is_text_as_written() -> None:
    assert value("a: &n 010\nb: {*n : x}") == {"a": 10, "b": {"010": "x"}}


# Places


@pytest.mark.parametrize(
    ("text", "steps", "meant"),
    [
        pytest.param("a: b", (0,), "1:1", id="a document"),
        pytest.param("\n\n  a: b", (0,), "3:3", id="a document behind empty lines"),
        pytest.param("a: b", (0, "a"), "1:4", id="a value"),
        pytest.param("a:\n  b:\n    - c\n    -   d", (0, "a", "b", 1), "4:9", id="a list's item"),
        pytest.param("a:\n  - b: c\n    d: e", (0, "a", 0), "2:5", id="a mapping in a list"),
        pytest.param("a: [b, {c: d}]", (0, "a", 1, "c"), "1:12", id="in flow style"),
        pytest.param("a: |\n  b\nc: >\n  d\ne: f", (0, "a"), "1:4", id="a block scalar"),
        pytest.param("a: |\n  b\nc: >\n  d\ne: f", (0, "e"), "5:4", id="behind block scalars"),
        pytest.param('a: "b\n\n  c"\nd: e', (0, "d"), "4:4", id="behind a text of three lines"),
        pytest.param("é: ü", (0, "é"), "1:4", id="behind a letter beyond ASCII"),
        pytest.param("[😀😀, 漢字, x]", (0, 2), "1:10", id="behind characters of many bytes"),
        pytest.param("a: b\r\nc: d\r\n", (0, "c"), "2:4", id="behind CRLF"),
        pytest.param("a: |\r\n  b\r\n\r\nc: d", (0, "c"), "4:4", id="behind a scalar with CRLF"),
        pytest.param(f"{BOM}a: b", (0, "a"), "1:4", id="behind a BOM"),
        pytest.param(f"{BOM}a: b\nc: d", (0, "c"), "2:4", id="below a BOM"),
        pytest.param(f"a: x{LS}{NEL}{PS}y\nb: c", (0, "b"), "2:4", id="below old line ends"),
        pytest.param(f"[x{LS}{NEL}{PS}y, z]", (0, 1), "1:9", id="behind old line ends"),
        pytest.param(f"# {LS}\na: |\n  {NEL}\n  x\nb: c", (0, "b"), "5:4", id="below both"),
        pytest.param("a\n---\nb: c\n---\n\nd: e", (2, "d"), "6:4", id="in the third document"),
        pytest.param("a: &x b\nc: *x", (0, "c"), "2:4", id="an alias is where it stands"),
        pytest.param("a: &x [b, c]\nd: *x", (0, "d", 1), "1:11", id="inside an alias"),
        pytest.param("a: &x [b]\nc: [*x, *x, d]", (0, "c", 2), "2:13", id="behind aliases"),
        pytest.param("# \t note\na:\tb", (0, "a"), "2:4", id="behind a tab"),
    ],
)
def test_place_of_a_value(text: str, steps: tuple[int | str, ...], meant: str) -> None:
    assert place(text, *steps) == meant


def test_a_place_has_a_name_and_a_label() -> None:
    node = nodes("a:\n  b")[0].children["a"]
    assert (str(node.place("evals/x.yaml")), node.line) == ("evals/x.yaml:2:3", 2)
    assert str(node.place("evals/x.yaml", "case 'y'")) == "evals/x.yaml:2:3: case 'y'"


# Errors: the messages themselves are tables, in tests/errors


def test_an_error_of_a_later_document_does_not_take_the_earlier_ones() -> None:
    documents = read_documents("a: 1\n---\nb: 2\nb: 3\n", "x.yaml")
    assert next(documents).value == {"a": 1}
    with pytest.raises(MultiturnError, match=r"^x\.yaml:4:1: "):
        next(documents)


def test_the_first_error_counts() -> None:
    assert str(error_of("a: 1\na: 2\nb: !x y\n").where) == "x.yaml:2:1"


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("9" * 5000, id="decimal digits"),
        pytest.param("-" + "9" * 5000, id="decimal digits behind a sign"),
        pytest.param("0x" + "f" * 5000, id="hexadecimal digits"),
        pytest.param("0o" + "7" * 9000, id="octal digits"),
    ],
)
def test_a_number_of_too_many_digits_is_an_error(number: str) -> None:
    """Python writes no number of over 4,300 digits, so nobody could write the result."""
    assert str(error_of(f"a: {number}").where) == "x.yaml:1:4"


def test_a_lone_surrogate_is_an_error() -> None:
    assert str(error_of("a: \ud800").where).startswith("x.yaml")


# Bombs


def laughs(levels: int) -> str:
    """Each level is nine of the one before."""
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *lines])


BOMBS = [
    pytest.param("[" * 10_000 + "]" * 10_000, id="lists in flow style, 10,000 deep"),
    pytest.param("[" * 10_000, id="lists in flow style that do not close"),
    pytest.param("{a: " * 10_000, id="mappings in flow style"),
    pytest.param("- " * 10_000 + "x", id="lists in block style on a line"),
    pytest.param("\n".join(" " * i + "a:" for i in range(10_000)), id="mappings in block style"),
    pytest.param("\n".join(" " * i + "-" for i in range(10_000)), id="lists in block style"),
    pytest.param("? " * 10_000, id="keys in keys"),
    pytest.param("[{a: " * 5_000, id="lists and mappings in turn"),
    pytest.param(laughs(30), id="a billion laughs"),
    pytest.param(f"a: &a {'x' * 1_000_000}\nb: [{'*a,' * 100_000}]", id="a long text, often"),
    pytest.param(f"- &a [{'x,' * 50_000}]\n" + "- *a\n" * 50_000, id="a long list, often"),
    pytest.param(
        f"- &a {{{','.join(f'k{i}: ' for i in range(20_000))}}}\n" + "- *a\n" * 50_000,
        id="a long mapping, often",
    ),
    pytest.param(f"- &a {'k' * 1000}\n" + "- {*a : 1}\n" * 150_000, id="a long key, often"),
]


@pytest.mark.parametrize("text", BOMBS)
def test_a_bomb_is_an_error_with_its_line_at_once(text: str) -> None:
    start = process_time()
    error = error_of(text)
    assert process_time() - start < 2
    assert str(error.where).startswith("x.yaml:")


@pytest.mark.parametrize("text", BOMBS[:-1])
def test_a_bomb_takes_little_memory(text: str) -> None:
    tracemalloc.start()
    try:
        error_of(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000


def test_an_error_about_a_bomb_is_short() -> None:
    assert all(len(str(error_of(str(bomb.values[0])))) < 1000 for bomb in BOMBS[:8])


def test_one_anchor_used_ten_thousand_times_is_fine() -> None:
    uses = value(f"a: &a {'x' * 2048}\nb: [{', '.join(['*a'] * 10_000)}]")["b"]
    assert (len(uses), set(uses)) == (10_000, {"x" * 2048})


def test_fifty_levels_are_fine() -> None:
    assert json.dumps(value("[" * 50 + "]" * 50)) == "[" * 50 + "]" * 50


def test_aliases_do_not_get_around_the_limit_of_levels() -> None:
    lines = [f"- &a{i} [*a{i - 1}]" for i in range(1, 5_000)]
    assert str(error_of("\n".join(["- &a0 [x]", *lines])).where).startswith("x.yaml:")


def test_without_libyaml_the_import_says_what_to_install() -> None:
    program = "import yaml; del yaml.CSafeLoader; yaml.__with_libyaml__ = False; import multiturn; "
    command = [sys.executable, "-c", program + "multiturn.load_suite"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: multiturn needs PyYAML with libyaml, as its wheels have it: "
        "pip install --force-reinstall --only-binary pyyaml pyyaml"
    )


# Properties

ODD = st.sampled_from(f"\t\n\r {NEL}{LS}{PS}{BOM}\xa0\\\"'#:-?[]{{}},&*!|>%@`~=<0.xé漢😀")
IN_YAML = st.characters(  # what may stand in YAML unescaped, beyond the ASCII that JSON escapes
    exclude_categories=["Cs"],
    exclude_characters=[chr(code) for code in (*range(0x7F, 0xA0), 0xFFFE, 0xFFFF) if code != 0x85],
)
ANY = st.characters(exclude_categories=["Cs"])


def texts(letters: st.SearchStrategy[str], max_size: int = 30) -> st.SearchStrategy[str]:
    return st.text(ODD | letters, max_size=max_size)


def json_like(letters: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts(letters)
        | st.sampled_from(["yes", "null", "12:30", "010", "1e3", "<<", "---", "- a", "a: b", "~"])
    )
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(texts(letters), inner, max_size=4)
        ),
        max_leaves=12,
    )


@given(json_like(IN_YAML))
@example({LS: [f"a{NEL}", PS]})
def test_json_reads_back_equal(data: Any) -> None:
    assert repr(value(json.dumps(data, ensure_ascii=False))) == repr(data)
    if "\x7f" not in repr(data):  # YAML has no such character
        assert repr(value(json.dumps(data))) == repr(data)


@given(json_like(ANY))
@example({"a": ["a\nb\n", "a\nb\n\n", "a\nb\n\n\n", "\n\na\nb", "\ta\nb", " a\nb"]})
@example({"a": ["\t\n", " \n", "\n", "a\n\n", "\r", "\x1b", LS, BOM]})
@example([[], {}, [[]], [{}], {"a": []}, {"": {}}, {"<<": 1}])
def test_dumped_yaml_reads_back_equal(data: Any) -> None:
    assert repr(value(dump(data))) == repr(data)


@given(texts(IN_YAML).filter(lambda text: "\r" not in text), st.sampled_from(["\n", "\r\n"]))
@example(f"{LS}\n", "\n")
@example(f"a\n{NEL}\n\n b{PS}", "\r\n")
def test_a_literal_scalar_reads_back_equal(text: str, newline: str) -> None:
    text = "".join(c for c in text if c >= " " or c in "\t\n")
    if text and BOM not in text:
        body = "".join(f"  {line}{newline}" for line in f"{text}x".split("\n"))
        assert value(f"k: |2-{newline}{body}") == {"k": f"{text}x"}
        body = "".join(f"  {line}{newline}" for line in f"{text}x\n\n".split("\n")[:-1])
        assert value(f"k: |2+{newline}{body}z: 1") == {"k": f"{text}x\n\n", "z": 1}


@given(st.text(st.sampled_from("ab|>#\t \n"), max_size=12), st.sampled_from(["", "'", '"']))
@example("|\n\tb", '"')
@example("> #\n\t b", "'")
def test_flow_scalars_fold_as_the_rules_say(text: str, quote: str) -> None:
    """Lines are stripped of white space and joined; an empty line becomes a newline."""
    lines = [line.strip(" \t") for line in f"x{text}x".split("\n")]
    if quote == "" and any(re.search(r"^#|[ \t]#", line) for line in lines):
        return  # a comment, which ends plain text
    meant = re.sub("\n+", lambda run: run[0][1:] or " ", "\n".join(lines))
    written = "\n ".join(f"x{text}x".split("\n"))
    assert value(f"- {quote}{written}{quote}\n- z") == [meant, "z"]


@given(texts(IN_YAML))
def test_a_single_quoted_scalar_reads_back_equal(text: str) -> None:
    text = "".join(c for c in text if c >= " " or c == "\t")
    quoted = text.replace("'", "''")
    assert value(f"- '{quoted}'\n- z") == [text, "z"]


@given(st.lists(texts(IN_YAML), min_size=1, max_size=5))
def test_a_value_is_where_it_stands(items: list[str]) -> None:
    written = [json.dumps(item, ensure_ascii=False) for item in items]
    [node] = nodes(f"[{', '.join(written)}]")
    columns = [2 + sum(len(before) + 2 for before in written[:i]) for i in range(len(written))]
    assert [child.place("")[1:3] for child in node.children] == [(1, c) for c in columns]


PIECES = [
    "- ",
    "a: ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "|",
    ">",
    "|2-",
    "---",
    "...",
    "\n",
    "\n  ",
    "\n\n",
    "\r\n",
    "<<",
    "%YAML 1.2",
    "%TAG ! x\n",
    "#",
    "é",
    "{",
    "}",
    "[",
    "]",
    ",",
    '"',
    "'",
    "\\u",
    "\\x4",
    "\x00",
    "\x1b",
    "\x85",
    "\u2028",
    BOM,
    "~",
    "1e999",
]


@settings(max_examples=500)
@given(texts(ANY) | st.lists(st.sampled_from(PIECES), max_size=15).map("".join))
@example("%")
@example("\\")
@example("! x")
@example("&")
def test_any_text_gives_values_or_an_error_with_a_place(text: str) -> None:
    try:
        list(read_documents(text, "x.yaml"))
    except MultiturnError as error:
        _, line, column, _ = error.where
        assert 1 <= line <= text.count("\n") + text.count("\r") + 2
        assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("a: {<<: {b: 1}}", {"a": {"b": 1}}, id="a mapping"),
        pytest.param("<<: {b: 1}\nb: 2", {"b": 2}, id="its own keys win"),
        pytest.param("b: 2\n<<: {b: 1, c: 3}", {"b": 2, "c": 3}, id="also those before"),
        pytest.param("<<: [{b: 1}, {b: 2, c: 3}]", {"b": 1, "c": 3}, id="the first of a list wins"),
        pytest.param('"<<": {b: 1}', {"<<": {"b": 1}}, id="a quoted key is none"),
        pytest.param(
            "a: &a {b: 1}\nc: &c {<<: *a, d: 2}\ne: {<<: *c}",
            {"a": {"b": 1}, "c": {"d": 2, "b": 1}, "e": {"d": 2, "b": 1}},
            id="through anchors",
        ),
    ],
)
def test_merge_keys_add_the_keys_of_another_mapping(text: str, meant: object) -> None:
    (node,) = read_documents(text, "x.yaml")
    assert node.value == meant


def test_merged_keys_are_counted_as_aliases_are() -> None:
    wide = ", ".join(f"k{number}: 0" for number in range(1000))
    text = f"a: &a {{{wide}}}\nb:\n" + "- <<: *a\n" * 200
    with pytest.raises(MultiturnError, match="over 100,000 values in one case"):
        list(read_documents(text, "x.yaml"))
