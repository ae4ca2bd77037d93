"""Suites are converted while they are read: the same cases, in little memory."""

import io
import json
import os
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import measurable
from multiturn import MultiturnError, load_suite
from multiturn.documents.source import Source
from multiturn.documents.yaml_events import read_documents
from multiturn.suites.streaming import stream_documents

HELLO = "input_messages: [{role: user, content: Hello}]"


def prompts(path: Path) -> list[tuple[str, str | None]]:
    return [(case.id, case.system_prompt) for case in load_suite(path)]


def test_a_case_is_there_before_the_rest_of_the_suite_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.eval.yaml"
    whole = "".join(f"  - {{id: c{n}, {HELLO}}}\n" for n in range(1_000))
    path.write_text(f"evalcases:\n{whole}  - {{id: broken\n")
    cases = load_suite(path)
    assert [case.id for case in islice(cases, 1_000)] == [f"c{n}" for n in range(1_000)]
    with pytest.raises(MultiturnError) as caught:
        next(cases)
    assert str(caught.value.where) == f"{path}:1003:1"


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param("metadata: {systemPrompt: L}\nevalcases:\n  - {id: a, %s}\n", id="before"),
        pytest.param("evalcases:\n  - {id: a, %s}\nmetadata: {systemPrompt: L}\n", id="behind"),
        pytest.param("evalcases:\n- {id: a, %s}\n'metadata': {systemPrompt: L}\n", id="quoted"),
        pytest.param("evalcases:\n  - {id: a, %s}\n? metadata\n: {systemPrompt: L}\n", id="?"),
        pytest.param(" evalcases:\n  - {id: a, %s}\n metadata: {systemPrompt: L}\n", id="indented"),
        pytest.param("{evalcases: [{id: a, %s}],\n   metadata: {systemPrompt: L}}", id="flow"),
        pytest.param(
            "# evalcases: x\nx: &p L\ntests:\n  - {id: a, %s}\nmetadata: {systemPrompt: *p}\n",
            id="by alias",
        ),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_keys_count_wherever_they_stand(tmp_path: Path, suite: str, line_end: str) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_bytes((suite % HELLO).replace("\n", line_end).encode())
    assert prompts(path) == [("a", "L")]


def test_keys_count_in_their_own_document_only(tmp_path: Path) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_text(
        f"evalcases:\n  - {{id: a, {HELLO}}}\nmetadata: {{systemPrompt: One}}\n---\n"
        f"evalcases:\n  - {{id: b, {HELLO}}}\n---\n"
        f"metadata: {{systemPrompt: Three}}\nevalcases:\n  - {{id: c, {HELLO}}}\n"
    )
    assert prompts(path) == [("a", "One"), ("b", None), ("c", "Three")]


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        pytest.param("evalcases:\n- {id: b, %s}\n", 3, id="a duplicate key after the cases"),
        pytest.param("metadata: [\n", 4, id="broken YAML after the cases"),
        pytest.param("- {id: b, x: [}\n- {id: c, %s}\n", 3, id="broken YAML among them"),
        pytest.param("- !!python/name:x y\n- {id: c, %s}\n", 3, id="a tag among them"),
        pytest.param("- *nowhere\n- {id: c, %s}\n", 3, id="an alias among them"),
    ],
)
def test_an_error_of_the_document_leaves_the_cases_before_it_and_is_reported_once(
    tmp_path: Path, rest: str, line: int
) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_text(f"evalcases:\n- {{id: a, {HELLO}}}\n{rest.replace('%s', HELLO)}")
    errors: list[MultiturnError] = []
    assert [case.id for case in load_suite(path, on_error=errors.append)] == ["a"]
    assert [error.where.line for error in errors] == [line]


SCALARS = st.text(st.sampled_from("ab: #'\"\n\u2028\x85é\U000f0000"), max_size=12)
CASES = st.lists(st.dictionaries(st.sampled_from(["id", "outcome", "x"]), SCALARS), max_size=4)
SUITES = st.tuples(
    st.dictionaries(st.sampled_from(["metadata", "name", "target"]), SCALARS),
    CASES,
    st.dictionaries(st.sampled_from(["guidelines", "version"]), SCALARS),
)


@given(st.lists(SUITES, min_size=1, max_size=3), st.booleans())
def test_a_suite_read_case_by_case_is_the_suite_read_whole(
    suites: list[tuple[Any, Any, Any]], flow: bool
) -> None:
    """In JSON, which is YAML, or in block style; the old line breaks may stand anywhere."""
    text = ""
    for before, cases, behind in suites:
        keys = {**before, "evalcases": cases, **behind}
        dumped = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        text += "---\n" + (f"{{{', '.join(dumped)}}}\n" if flow else "\n".join(dumped) + "\n")
    data = text.encode()
    whole = [node.value for node in read_documents(data, "x")]
    streamed = []
    for document in stream_documents(Source(io.BytesIO(data), "x")):
        value = dict(document.head.value)
        if document.cases is not None:
            items = list(document.cases)
            value["evalcases"] = [node.value for node in items]  # type: ignore[union-attr]
        streamed.append(value)
    assert streamed == whole


@pytest.mark.parametrize("size", [2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1])
def test_a_character_across_the_edge_of_two_reads_stays_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.eval.yaml"
    start = "input_messages:\n  - role: user\n    content: "
    text = "x" * (size - len(start)) + "\u2028é\x85"
    path.write_text(f"{start}{text}.\n", encoding="utf-8")
    (case,) = load_suite(path)
    assert case.input_messages[0].content == f"{text}."


def test_a_named_pipe_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    text = f"evalcases:\n  - {{id: a, {HELLO}}}\nmetadata: {{systemPrompt: L}}\n"
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    assert prompts(path) == [("a", "L")]
    writer.join()


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_what_is_no_file_is_no_suite(path: str) -> None:
    with pytest.raises(MultiturnError, match="not a regular file"):
        list(load_suite(path))


def lines(*cases: Any) -> str:
    return "".join(f"{json.dumps(case)}\n" for case in cases)


def case_of(case_id: str, **keys: Any) -> dict[str, Any]:
    return {"id": case_id, "input_messages": [{"role": "user", "content": "Hello"}], **keys}


def test_a_suite_in_json_lines_has_a_case_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.eval.jsonl"
    prompt = {"metadata": {"systemPrompt": "Be brief."}}
    path.write_text("\ufeff" + lines(case_of("a")) + "\n" + lines(case_of("b", **prompt)))
    first, second = load_suite(path)
    assert (first.id, first.line, first.system_prompt) == ("a", 1, None)
    assert (second.id, second.line, second.system_prompt) == ("b", 3, "Be brief.")


@pytest.mark.parametrize("line", ['{"id": "x"', "[" * 9_000, "[]", '{"id": "a"}', "x" * 50_000])
def test_a_line_that_is_wrong_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("multiturn.documents.json_lines.MAX_LINE", 10_000)
    path = tmp_path / "a.jsonl"
    path.write_text(lines(case_of("a")) + line + "\n" + lines(case_of("b")))
    errors: list[MultiturnError] = []
    assert [case.id for case in load_suite(path, on_error=errors.append)] == ["a", "b"]
    assert [error.where.line for error in errors] == [2]


@pytest.mark.skipif(not measurable, reason="measures by /proc")
@pytest.mark.parametrize("ending", ["yaml", "jsonl"])
def test_memory_does_not_grow_with_the_suite(
    tmp_path: Path, peak_of_convert: Callable[[Path], float], ending: str
) -> None:
    path = tmp_path / f"x.eval.{ending}"
    if ending == "yaml":
        cases = "".join(f"  - {{id: c{n}, {HELLO}}}\n" for n in range(2_000))
        path.write_text(f"evalcases:\n{cases}")
    else:
        path.write_text(lines(*(case_of(f"c{n}") for n in range(2_000))))
    assert peak_of_convert(path) < 4  # 2,000 cases that are kept take four times as much
