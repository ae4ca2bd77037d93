"""Suites are converted while they are read: the same cases, in little memory."""

import io
import json
import os
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import measurable, peak_of_convert
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
        pytest.param("evalcases:\n- {id: a, %s}\nmetadata: {systemPrompt: L}\n", id="no indent"),
        pytest.param("evalcases:\n  - {id: a, %s}\n'metadata': {systemPrompt: L}\n", id="quoted"),
        pytest.param("evalcases:\n  - {id: a, %s}\n? metadata\n: {systemPrompt: L}\n", id="?"),
        pytest.param("evalcases:\n  - {id: a, %s}\n!!str metadata: {systemPrompt: L}\n", id="tag"),
        pytest.param(" evalcases:\n  - {id: a, %s}\n metadata: {systemPrompt: L}\n", id="indented"),
        pytest.param("{evalcases: [{id: a, %s}], metadata: {systemPrompt: L}}", id="flow"),
        pytest.param("{evalcases: [{id: a, %s}],\n   metadata: {systemPrompt: L}}", id="lines"),
        pytest.param(
            "# evalcases: none\nevalcases:\n  - {id: a, %s}\nmetadata: {systemPrompt: L}\n",
            id="behind a comment that speaks of cases",
        ),
        pytest.param(
            "x: &p L\nevalcases:\n  - {id: a, %s}\nmetadata: {systemPrompt: *p}\n", id="alias"
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


def test_a_duplicate_key_after_the_cases_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_text(f"evalcases:\n  - {{id: a, {HELLO}}}\nevalcases:\n  - {{id: b, {HELLO}}}\n")
    with pytest.raises(MultiturnError, match="duplicate key 'evalcases'") as caught:
        list(load_suite(path))
    assert str(caught.value.where) == f"{path}:3:1"


def test_an_error_after_the_cases_leaves_the_cases_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_text(f"evalcases:\n  - {{id: a, {HELLO}}}\nmetadata: [\n")
    errors: list[MultiturnError] = []
    assert [case.id for case in load_suite(path, on_error=errors.append)] == ["a"]
    assert [str(error.where) for error in errors] == [f"{path}:4:1"]


@pytest.mark.parametrize("bad", ["- {id: b, x: [}\n", "- !!python/name:x y\n", "- *nowhere\n"])
def test_an_error_among_the_cases_is_reported_once(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "a.eval.yaml"
    path.write_text(f"evalcases:\n- {{id: a, {HELLO}}}\n{bad}- {{id: c, {HELLO}}}\n")
    errors: list[MultiturnError] = []
    assert [case.id for case in load_suite(path, on_error=errors.append)] == ["a"]
    assert [str(error.where).split(":")[1] for error in errors] == ["3"]


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


@pytest.mark.parametrize("size", [2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1, 2**20 - 1, 2**20])
def test_a_character_across_the_edge_of_two_reads_stays_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.eval.yaml"
    start = "input_messages:\n  - role: user\n    content: "
    text = "x" * (size - len(start)) + "\u2028é\x85"
    path.write_text(f"{start}{text}.\n", encoding="utf-8")
    (case,) = load_suite(path)
    assert case.input_messages[0].content == f"{text}."


def through_a_pipe(path: Path, text: str) -> threading.Thread:
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    return writer


def test_a_named_pipe_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = through_a_pipe(
        path, f"evalcases:\n  - {{id: a, {HELLO}}}\nmetadata: {{systemPrompt: L}}\n"
    )
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


@pytest.mark.parametrize("line", ['{"id": "x"', "[" * 100_000, "[]", '{"id": "a"}'])
def test_a_line_that_is_wrong_leaves_the_others_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(case_of("a")) + line + "\n" + lines(case_of("b")))
    errors: list[MultiturnError] = []
    assert [case.id for case in load_suite(path, on_error=errors.append)] == ["a", "b"]
    assert [error.where.line for error in errors] == [2]


def test_a_folder_is_searched_for_json_lines_too(tmp_path: Path) -> None:
    (tmp_path / "a.eval.jsonl").write_text(lines(case_of("a")))
    (tmp_path / "results.jsonl").write_text("no suite")
    command = [sys.executable, "-m", "multiturn", "convert", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


@pytest.mark.skipif(not measurable, reason="measures by /proc")
@pytest.mark.parametrize("ending", ["yaml", "jsonl"])
def test_memory_does_not_grow_with_the_suite(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.eval.{ending}"
    if ending == "yaml":
        cases = "".join(f"  - {{id: c{n}, {HELLO}}}\n" for n in range(5_000))
        path.write_text(f"evalcases:\n{cases}")
    else:
        path.write_text(lines(*(case_of(f"c{n}") for n in range(5_000))))
    assert peak_of_convert(path) < 4  # 5,000 cases that are kept take ten times as much
