"""YAML as a person wrote it: values by the 1.2 core schema, exact texts, and places."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limits import limited
from multiturn.documents.dump import dump
from multiturn.documents.node import Node, Repeats
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError

NEL, LS, PS = "\x85", "\u2028", "\u2029"  # line ends to YAML 1.1, characters to YAML 1.2
BOM = "\ufeff"


def nodes(text: str | bytes) -> list[Node]:
    return list(read_documents(text, "x.yaml"))


def value(text: str | bytes) -> Any:
    [node] = nodes(text)
    return node.value


def place(text: str, *steps: str | int) -> str:
    """Return line:column of the value that the steps lead to; the first is the document."""
    node: Any = SimpleNamespace(children=nodes(text))
    for step in steps:
        node = node.children[step]
    return f"{node.place('').line}:{node.place('').column}"


def error_of(text: str | bytes) -> MultiturnError:
    with pytest.raises(MultiturnError) as caught:
        nodes(text)
    return caught.value


# The core schema


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[("0", 0), ("-0", 0), ("+12", 12), ("-19", -19), ("010", 10), ("08", 8)],
        *[("0o14", 12), ("0x1aF", 431), ("12345678901234567890123", 12345678901234567890123)],
        *[("0.", 0.0), ("-0.0", -0.0), (".5", 0.5), ("-.5", -0.5), ("1.5", 1.5), ("1e3", 1000.0)],
        *[("12e03", 12000.0), ("-2E+05", -200000.0), ("+.5e-1", 0.05)],
        *[(".inf", math.inf), ("+.Inf", math.inf), ("-.INF", -math.inf)],
        *[(word, math.nan) for word in (".nan", ".NaN", ".NAN")],
    ],
)
def test_reads_as_a_value_that_is_not_text(written: str, meant: object) -> None:
    assert repr(value(f"k: {written}")) == repr({"k": meant})
    assert repr(value(f"[{written or '~'}]")) == repr([meant])


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
    [("010", "010"), ("True", "True"), ("~", "~"), ("abc", None), ('"010"', None)],
)
def test_a_value_that_is_not_text_is_known_as_it_was_written(
    written: str, source: str | None
) -> None:
    assert nodes(written)[0].source == source


def test_keys_are_text_as_written() -> None:
    text = "010: a\ntrue: b\n~: c\nnull: d\n2024-01-01: e\nyes: f\n1.50: g\n'': h\n"
    assert list(value(text)) == ["010", "true", "~", "null", "2024-01-01", "yes", "1.50", ""]
    assert value("a: &n 010\nb: {*n : x}") == {"a": 10, "b": {"010": "x"}}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("", [], id="an empty stream has no document"),
        pytest.param("# nothing\n\n", [], id="a comment is no document"),
        pytest.param("---\n---\n", [None, None], id="a marker begins a document"),
        pytest.param("k: |\n  ---\n  ...\n", [{"k": "---\n...\n"}], id="an indented --- is text"),
    ],
)
def test_documents_of_a_stream(text: str, meant: list[object]) -> None:
    assert [node.value for node in nodes(text)] == meant


# Exact text: what libyaml does by itself is shown by a few examples


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("|2+\n    a\n\n", "  a\n\n", id="|2+ keeps spaces and newlines"),
        pytest.param('"\\t\\x41\\u00e9\\U0001F600\\0\\e\\/"', "\tAé😀\0\x1b/", id="escapes"),
        pytest.param('"\\N\\L\\P\\_"', "\x85\u2028\u2029\xa0", id="escapes of old line ends"),
        pytest.param('"\\x85\\u2028\\u2029"', "\x85\u2028\u2029", id="the same, by number"),
        pytest.param("a\ufeffb", "a\ufeffb", id="a BOM inside is a character"),
        pytest.param("|\r\n  b\r\n\r\n  c\r\n", "b\n\nc\n", id="CRLF is a line end"),
    ],
)
def test_text_comes_through_exactly(written: str, meant: str) -> None:
    assert value(f"k: {written}") == {"k": meant}
    assert value(f"{BOM}k: {written}".encode()) == {"k": meant}


@pytest.mark.parametrize("char", [NEL, LS, PS], ids=["U+0085", "U+2028", "U+2029"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("aX Xb", "aX Xb", id="in plain text"),
        pytest.param("aX# b", "aX# b", id="before a number sign, where it opens no comment"),
        pytest.param("aX: b", None, id="before a colon, where it is the end of a key"),
        pytest.param('"aXXb  X"', "aXXb  X", id="in double quotes"),
        pytest.param('"a X\n  b"', "a X b", id="before a folded line end"),
        pytest.param('"a\\X"', None, id="behind a backslash"),
        pytest.param("|\n  aXb\n  X\n  X c\n", "aXb\nX\nX c\n", id="in a literal scalar"),
        pytest.param("{aX: [X, aX]}", {"aX": ["X", "aX"]}, id="in a key and in a list"),
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
        pytest.param(r'["\\ud83d\\ude00"]', [r"\ud83d\ude00"], id="escaped backslashes alone"),
        pytest.param(r"['\uD83d\uDe00\ude00']", [r"\uD83d\uDe00\ude00"], id="in single quotes"),
        pytest.param(r"[\ud83d\ude00 \UD83D\ude00]", [r"\ud83d\ude00 \UD83D\ude00"], id="plain"),
        pytest.param("- |\n  \\ud83d\\uDE00\n", ["\\ud83d\\uDE00\n"], id="in a block"),
        pytest.param(
            '["\\ud83d\\ude00\u2028\U000f0000\\U000f0001"]',
            ["😀\u2028\U000f0000\U000f0001"],
            id="beside old line ends and private characters",
        ),
    ],
)
def test_two_escapes_of_json_are_one_character(text: str, meant: object) -> None:
    assert value(text) == meant


@pytest.mark.parametrize("pad", range(2**16 - 16, 2**16 + 2))
def test_two_escapes_across_the_edge_of_two_reads_are_one_character(pad: int) -> None:
    [text] = value('["' + "x" * pad + r'\ud83d\ude00"]')
    assert text.strip("x") == "😀"


# Anchors and aliases


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("- &a x\n- *a", ["x", "x"], id="of a text"),
        pytest.param(
            "a: &x [1, {b: c}]\nd: *x", {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}, id="of a list"
        ),
        pytest.param("- &a x\n- *a\n- &a y\n- *a", ["x", "x", "y", "y"], id="of the latest"),
        pytest.param("- &a [&b x, *b]\n- [*a, *b]", [["x", "x"], [["x", "x"], "x"]], id="nested"),
        pytest.param("&k a: 1\nb: {*k : 2}", {"a": 1, "b": {"a": 2}}, id="of a key"),
        pytest.param("a: {<<: {b: 1}}", {"a": {"b": 1}}, id="merged: a mapping"),
        pytest.param("b: 2\n<<: {b: 1, c: 3}", {"b": 2, "c": 3}, id="merged: also those before"),
        pytest.param(
            "<<: [{b: 1}, {b: 2, c: 3}]", {"b": 1, "c": 3}, id="merged: the first of a list wins"
        ),
        pytest.param('"<<": {b: 1}', {"<<": {"b": 1}}, id="merged: a quoted key is none"),
        pytest.param(
            "a: &a {b: 1}\nc: &c {<<: *a, d: 2}\ne: {<<: *c}",
            {"a": {"b": 1}, "c": {"d": 2, "b": 1}, "e": {"d": 2, "b": 1}},
            id="merged: through anchors",
        ),
    ],
)
def test_an_alias_stands_for_its_anchor(text: str, meant: object) -> None:
    assert value(text) == meant


# Places


@pytest.mark.parametrize(
    ("text", "steps", "meant"),
    [
        pytest.param("a:\n  b:\n    - c\n    -   d", (0, "a", "b", 1), "4:9", id="a list's item"),
        pytest.param("[😀😀, 漢字, x]", (0, 2), "1:10", id="behind characters of many bytes"),
        pytest.param(f"{BOM}a: b", (0, "a"), "1:4", id="behind a BOM"),
        pytest.param(f"a: x{LS}{NEL}{PS}y\nb: c", (0, "b"), "2:4", id="below old line ends"),
        pytest.param(f"[x{LS}{NEL}{PS}y, z]", (0, 1), "1:9", id="behind old line ends"),
        pytest.param(r'["\ud83d\ude00", x]', (0, 1), "1:18", id="behind two escapes of JSON"),
        pytest.param("a: &x b\nc: *x", (0, "c"), "2:4", id="an alias is where it stands"),
        pytest.param("a: &x [b, c]\nd: *x", (0, "d", 1), "1:11", id="inside an alias"),
    ],
)
def test_place_of_a_value(text: str, steps: tuple[int | str, ...], meant: str) -> None:
    assert place(text, *steps) == meant


# Errors: the messages themselves are tables, in tests/errors


def test_an_error_of_a_later_document_does_not_take_the_earlier_ones() -> None:
    documents = read_documents("a: 1\n---\nb: 2\nb: 3\n", "x.yaml")
    assert next(documents).value == {"a": 1}
    with pytest.raises(MultiturnError, match=r"^x\.yaml:4:1: "):
        next(documents)


@pytest.mark.parametrize(
    "number", ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "0o" + "7" * 9000]
)
def test_a_number_of_too_many_digits_is_an_error(number: str) -> None:
    """Python writes no number of over 4,300 digits, so nobody could write the result."""
    assert str(error_of(f"a: {number}").where) == "x.yaml:1:4"


def laughs(levels: int) -> str:
    """Each level is nine of the one before."""
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *lines])


def merges(width: int, times: int) -> str:
    """A wide mapping is merged into many."""
    return f"a: &a {{{', '.join(f'k{n}: 0' for n in range(width))}}}\nb:\n" + "- <<: *a\n" * times


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 10_000 + "]" * 10_000, id="lists in flow style, 10,000 deep"),
        pytest.param("\n".join(" " * i + "a:" for i in range(2_000)), id="in block style"),
        pytest.param(laughs(30), id="a billion laughs"),
        pytest.param(f"a: &a {'x' * 1_000_000}\nb: [{'*a,' * 1_000}]", id="a long text, often"),
        pytest.param(merges(1000, 200), id="a wide mapping, merged often"),
        pytest.param(f"- &a {'k' * 10_000}\n" + "- {*a : 1}\n" * 15_000, id="a long key, often"),
    ],
)
def test_a_bomb_is_an_error_with_its_line_at_once(text: str) -> None:
    with limited(megabytes=50):
        error = error_of(text)
    assert str(error.where).startswith("x.yaml:")
    assert len(str(error)) < 1000


def test_a_document_repeats_a_million_values_and_four_for_each_of_its_characters() -> None:
    repeats = Repeats(length=10)
    assert not repeats.add(1_000_000)
    assert not repeats.add(40)
    assert repeats.add(1)


def test_one_anchor_used_ten_thousand_times_is_fine() -> None:
    uses = value(f"a: &a {'x' * 2048}\nb: [{', '.join(['*a'] * 10_000)}]")["b"]
    assert (len(uses), set(uses)) == (10_000, {"x" * 2048})


def test_a_hundred_levels_are_fine_also_by_alias() -> None:
    assert json.dumps(value("[" * 100 + "]" * 100)) == "[" * 100 + "]" * 100
    levels = ["- &a0 x", *[f"- &a{number} [*a{number - 1}]" for number in range(1, 101)]]
    assert len(value("\n".join(levels[:100]))) == 100
    assert "nested deeper than 100 levels" in str(error_of("\n".join(levels)))


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


def json_like(letters: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    texts = st.text(ODD | letters, max_size=30)
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts
        | st.sampled_from(["yes", "null", "12:30", "010", "1e3", "<<", "---", "- a", "a: b", "~"])
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


@given(json_like(IN_YAML))
@example({LS: [f"a{NEL}", PS]})
def test_json_reads_back_equal(data: Any) -> None:
    assert repr(value(json.dumps(data, ensure_ascii=False))) == repr(data)
    if "\x7f" not in repr(data):  # YAML has no such character
        assert repr(value(json.dumps(data))) == repr(data)


@given(json_like(st.characters(exclude_categories=["Cs"])))
@example({"a": ["a\nb\n", "a\nb\n\n", "a\nb\n\n\n", "\n\na\nb", "\ta\nb", " a\nb"]})
@example({"a": ["\t\n", " \n", "\n", "a\n\n", "\r", "\x1b", LS, BOM]})
@example([[], {}, [[]], [{}], {"a": []}, {"": {}}, {"<<": 1}])
def test_dumped_yaml_reads_back_equal(data: Any) -> None:
    assert repr(value(dump(data))) == repr(data)
