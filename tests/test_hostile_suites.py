"""Suites, pipelines, targets and patterns that mean harm: a result, or an error with a place."""

import os
import signal
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anything
from memory import measurable
from multiturn import MultiturnError, load_pipeline, load_suite
from multiturn.suites.patterns import guideline_matcher

CASE = "evalcases:\n- id: a\n  input_messages:\n  - role: user\n    content: "
HEAD = "evalcases:\n- id: a\n  input_messages: [{role: user, content: Hi}]\n"
SIZE = 1_000_000


def filled(head: str, piece: str, tail: str = "", size: int = SIZE) -> str:
    """Return a text of about a size, made of one piece."""
    return head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail


def numbered(head: str, piece: str, tail: str = "", size: int = SIZE) -> str:
    """Return a text of about a size, made of pieces that have a number each."""
    count = (size - len(head) - len(tail)) // len(piece % 100_000)
    return head + "".join(piece % number for number in range(count)) + tail


PRIVATE = "".join(map(chr, range(0xF0000, 0xFFFF0)))
SUITES = {
    "empty segments": filled(CASE + "[", "{},", "]"),
    "lists in lists": filled(CASE + "{x: [", "[[[[[]]]]],", "]}"),
    "keys": numbered(CASE + "{", "k%x: ,", "}"),
    "unknown keys": numbered(HEAD, "k%x: 1\n", size=100_000),
    "anchors": numbered(CASE + "{x: [", "&a%x [],", "]}"),
    "anchors kept": numbered("evalcases:", "\n- {x: &a%x [[],[],[],[],[],[]]}", size=75_000),
    "segments by alias": filled(CASE + "[&a abc,", "*a,", "]"),
    "messages by alias": f"{HEAD[:-1]}\n- id: b\n  input_messages: [&a {{role: user,"
    f" content: [{'a,' * 10_000}]}},{'*a,' * 300}]",
    "a long text by alias": f"{CASE}[&a {'x' * 500_000},{'*a,' * 18}]",
    "guidelines": f"{HEAD}guidelines: [{'a,' * 480_000}]",
    "a long line": f"{CASE}{'x' * SIZE}",
    "escapes": f'{CASE}"{chr(92)}0{f"{chr(92)}x1b" * 240_000}"',
    "private characters": f"{CASE}'{PRIVATE}\u2028'",
    "documents": filled("", "--- {}\n", size=10_000),
    "cases of nothing": filled("evalcases:", "\n-", size=10_000),
    "JSON": filled('{"id": "a", "x": [', "{},", "0]}"),
    "lists of lists in JSON": filled('{"id": "a", "x": [', "[[[[[[]]]]]],", "0]}", size=3 * SIZE),
}


@pytest.mark.skipif(not measurable, reason="measures by /proc")
@pytest.mark.parametrize("name", SUITES)
def test_a_suite_of_a_megabyte_takes_less_than_100_mb(
    tmp_path: Path, peak_of_convert: Callable[[Path], float], name: str
) -> None:
    text = SUITES[name]
    path = tmp_path / ("s.jsonl" if text[0] == "{" else "s.yaml")
    path.write_text(text)
    assert peak_of_convert(path) < (100 if len(text.encode()) > SIZE / 3 else 50)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": 1, ' + '"b": 1, ' * 40_000 + '"b": 1}', id="a repeated last key"),
        pytest.param(
            "{" + "".join(f'"k{n}": 1, ' for n in range(40_000)) + '"z": 1, "z": 1}', id="the last"
        ),
        pytest.param('{"a": "' + '\\"' * 200_000, id="quotes that are escaped"),
    ],
)
def test_a_line_of_json_is_refused_in_linear_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.jsonl").write_text(text)
    with limit(2), pytest.raises(MultiturnError, match=r"duplicate key|not JSON"):
        list(load_suite(tmp_path / "s.jsonl"))


def test_many_directives_are_refused_at_once(tmp_path: Path) -> None:
    text = "".join(f"%TAG !t{n}! x\n" for n in range(60_000))
    (tmp_path / "s.yaml").write_text(text + HEAD)
    with limit(2), pytest.raises(MultiturnError, match="over 100 %TAG directives"):
        list(load_suite(tmp_path / "s.yaml"))


def test_two_cases_of_sixty_thousand_values_are_fine(tmp_path: Path) -> None:
    content = f"{{x: [{'1,' * 60_000}]}}"
    (tmp_path / "s.yaml").write_text(
        f"{CASE}{content}\n- {{id: b, input_messages: [{{role: user, content: {content}}}]}}\n"
    )
    assert [case.id for case in load_suite(tmp_path / "s.yaml")] == ["a", "b"]


@pytest.mark.parametrize("name", ["s.yaml", "s.jsonl"])
def test_too_many_values_are_an_error_with_a_place(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"x":[' + "1," * 100_000 + "1]}")
    with pytest.raises(MultiturnError, match="over 100,000 values in one case") as caught:
        list(load_suite(tmp_path / name))
    assert str(caught.value.where).startswith(f"{tmp_path / name}:1")


def test_too_many_characters_by_alias_are_an_error_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{CASE}[&a {'x' * 500_000},{'*a,' * 20}]")
    with pytest.raises(
        MultiturnError, match=r"s\.yaml:2:3: case 'a': .* than 10,000,000 characters"
    ):
        list(load_suite(tmp_path / "s.yaml"))


def test_one_file_attached_a_thousand_times_is_an_error_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 1_000_000)
    suite = tmp_path / "s.yaml"
    suite.write_text(f"{CASE}[{'{type: file, value: a.txt},' * 1_000}]")
    [case] = load_suite(suite)
    tracemalloc.start()
    try:
        with pytest.raises(
            MultiturnError, match="larger than 10,000,000 characters with its files"
        ):
            load_pipeline().request(case)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(CASE + "!!python/object/apply:os.mkdir [ran]", id="a tag of PyYAML"),
        pytest.param(CASE + "!!python/name:os.mkdir ran", id="a name"),
        pytest.param("!!python/object/new:os.mkdir [ran]", id="as the whole suite"),
        pytest.param("%TAG ! tag:yaml.org,2002:python/\n---\n!module:ran", id="a tag of its own"),
        pytest.param(f"{HEAD}pipeline: {{stages: ['ran:mkdir']}}", id="a pipeline in a suite"),
        pytest.param(CASE + "$(mkdir ran) `mkdir ran` ${{ HOME }} {{ mkdir }}", id="templates"),
    ],
)
def test_a_suite_runs_no_code(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ran.py").write_text("import os; os.mkdir('ran')")
    (tmp_path / "s.yaml").write_text(written)
    for case in load_suite("s.yaml", on_error=lambda _: None):
        assert load_pipeline().request(case).question.lstrip("$") in written
    assert sorted(os.listdir()) == ["ran.py", "s.yaml"]


# Patterns


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Fail where a block takes longer: a property cannot be waited for."""

    def fail(*_: object) -> None:
        raise AssertionError(f"still not done after {seconds} s of computing")

    signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param(("a",) * 9_091, id="many patterns"),
        pytest.param(("{a,b}" * 9,) * 1_000, id="alternatives of many patterns"),
        pytest.param(("{a,b}" * 9 + "{" * 900,), id="braces that stay open"),
        pytest.param(("{,}" * 333 + "a",), id="empty alternatives"),
    ],
)
def test_the_patterns_of_a_suite_have_one_limit(patterns: tuple[str, ...]) -> None:
    with limit(2), pytest.raises(MultiturnError, match="makes too many patterns, braces expanded"):
        guideline_matcher(patterns)
    guideline_matcher(("a",) * 9_090)


def test_many_patterns_are_matched_against_deep_paths_at_once() -> None:
    is_guideline = guideline_matcher(tuple(f"**/a/**/a/**/x{number}" for number in range(3_000)))
    with limit(2):
        assert not any(is_guideline("a/" * 500 + str(number)) for number in range(5))


# Anything as a file

SYNTAX = (
    *("\n", "\n  ", "\n- ", ": ", "---\n", "&a ", "*a", "!!str ", "{", "}", "[", "]", ",", "<<"),
    *('"', "'", "|", ">", "#", "\x00", "\ud800", "\u2028", "é", "~", "1e999", "null", "true"),
)
WORDS = {
    "suites": (
        *("evalcases:", "input_messages:", "id: a", "role: user", "content: x", "metadata:"),
        *("guideline_patterns:", "guidelines:", "execution:", "temperature: 1", "systemPrompt:"),
        *("- {id: b, input_messages: [{role: user, content: [{type: file, value: ../x}]}]}",),
    ),
    "pipelines": (
        *("stages:", "extends: spec", "configure:", "insert:", "remove:", "replace:", "header: x"),
        *("embed_files", "resolve_segments", "stage:", "after: embed_files", "max_file_bytes: 1"),
    ),
    "targets": (
        *("targets:", "- name: t", "provider: azure", "provider: codex", "api_key: ${{ NO_NAME }}"),
        *("model: m", "endpoint: http://localhost", "timeout_seconds: 1e9", "settings:"),
    ),
    "patterns": ("*", "**", "?", "!", "/", ".", "..", "a", "b", "-", "\\", "^", "[!]a-]", "{a,"),
    "results": ('"suite":"a"', '"id":"a"', '"digest":"d"', '"error":', '"output":"x"'),
    "locks": ("a.yaml:", "path: x", "sha256: 0", "pattern: '*'", "cases: 1"),
    "reports": ("- {id: b, input: <b>}", "evalcases:", "<script>", "&lt;"),
}


@pytest.mark.parametrize("kind", anything.KINDS)
@settings(max_examples=50)
@given(data=st.data())
def test_anything_is_read_or_is_an_error_with_a_place(kind: str, data: st.DataObject) -> None:
    pieces = st.lists(st.sampled_from([*WORDS[kind], *SYNTAX]), max_size=25).map("".join)
    written = pieces.map(lambda text: text.encode("utf-8", "surrogatepass"))
    with limit(5):
        anything.KINDS[kind](data.draw(st.binary() | written))


def test_a_pipe_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.documents.source.MAX_PIPED", 100_000)
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError):
            path.write_bytes(b"#" * 1_000_000)

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(MultiturnError, match="more than 100,000 bytes through a pipe"):
        list(load_suite(path))
    writer.join()
