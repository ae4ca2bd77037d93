"""Suites are converted while they are read: the same cases, in little memory."""

import io
import json
import os
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loading import HI, cases, cases_and_errors
from memory import measurable, peak_of_convert
from multiturn import MultiturnError, load_suite
from multiturn.documents.node import Node
from multiturn.documents.yaml_reader import read_documents
from multiturn.suites.streaming import suite_documents

pytestmark = pytest.mark.usefixtures("root")


def listed(count: int) -> str:
    return "evalcases:\n" + "".join(f"  - {{id: c{n}, {HI}}}\n" for n in range(count))


def test_a_case_is_there_before_the_rest_of_the_suite_is_read(root: Path) -> None:
    (root / "long.yaml").write_text(f"{listed(1_000)}  - {{id: broken\n")
    found = load_suite("long.yaml")
    assert [case.id for case in islice(found, 1_000)] == [f"c{n}" for n in range(1_000)]
    with pytest.raises(MultiturnError) as caught:
        next(found)
    assert str(caught.value.where) == "long.yaml:1003:1"


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param("metadata: {systemPrompt: L}\nevalcases:\n  - {id: a, %s}\n", id="before"),
        pytest.param(
            "x: &p {metadata: {systemPrompt: L}}\n<<: *p\nevalcases:\n- {id: a, %s}\n", id="merged"
        ),
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
def test_keys_count_wherever_they_stand(suite: str, line_end: str) -> None:
    [case] = cases((suite % HI).replace("\n", line_end))
    assert (case.id, case.system_prompt) == ("a", "L")


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
    rest: str, line: int
) -> None:
    found, errors = cases_and_errors(f"evalcases:\n- {{id: a, {HI}}}\n{rest.replace('%s', HI)}")
    assert [case.id for case in found] == ["a"]
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
    for before, listed_cases, behind in suites:
        keys = {**before, "evalcases": listed_cases, **behind}
        dumped = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        text += "---\n" + (f"{{{', '.join(dumped)}}}\n" if flow else "\n".join(dumped) + "\n")
    data = text.encode()
    streamed = []
    for document in suite_documents(io.BytesIO(data), "x", "x"):
        items = [item.value for item in document.cases or () if isinstance(item, Node)]
        streamed.append({**document.head.value, **({"evalcases": items} if items else {})})
    assert streamed == [node.value for node in read_documents(data, "x")]


@pytest.mark.parametrize("size", [2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1])
def test_a_character_across_the_edge_of_two_reads_stays_whole(size: int) -> None:
    start = "input_messages:\n  - role: user\n    content: "
    text = "x" * (size - len(start)) + "\u2028é\x85"
    [case] = cases(f"{start}{text}.\n")
    assert case.input_messages[0].content == f"{text}."


def test_a_named_pipe_is_a_suite(root: Path) -> None:
    os.mkfifo("pipe")
    text = f"{listed(1)}metadata: {{systemPrompt: L}}\n"
    writer = threading.Thread(target=(root / "pipe").write_text, args=(text,))
    writer.start()
    assert [(case.id, case.system_prompt) for case in load_suite("pipe")] == [("c0", "L")]
    writer.join()


# JSON Lines


def line_of(case_id: str) -> str:
    messages = [{"role": "user", "content": "Hi"}]
    return json.dumps({"id": case_id, "input_messages": messages}) + "\n"


@pytest.mark.parametrize("line", ['{"id": "x"', "[" * 9_000, "[]", '{"id": "a"}', "x" * 50_000])
def test_a_line_that_is_wrong_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("multiturn.documents.json_lines.MAX_CASE_LINE", 10_000)
    found, errors = cases_and_errors(f"{line_of('a')}{line}\n{line_of('b')}", "a.jsonl")
    assert [case.id for case in found] == ["a", "b"]
    assert [error.where.line for error in errors] == [2]


@pytest.mark.skipif(not measurable, reason="measures by /proc")
@pytest.mark.parametrize("ending", ["yaml", "jsonl"])
def test_memory_does_not_grow_with_the_suite(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.eval.{ending}"
    lines = "".join(line_of(f"c{n}") for n in range(2_000))
    path.write_text(listed(2_000) if ending == "yaml" else lines)
    assert peak_of_convert(path) < 4  # 2,000 cases that are kept take four times as much
