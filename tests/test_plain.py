"""Cases of texts and files that are read at once are those that the reader of all forms reads."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from multiturn.documents.node import Mark
from multiturn.logs import Notice
from multiturn.suites.plain import PlainCase, plain_line, plain_mapping
from multiturn.suites.suite_reader import SuiteReader

texts = st.sampled_from(
    ["Hello", "", "a.md", "/x", "file://a b", "{{ b }}", "${{ b }}", "a\\", '"', '\\"', "\ud83d"]
) | st.text(max_size=4)
segments = texts | st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "file", "image"]), "value": texts | st.just("data:,x")},
    optional={"x": texts},
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "user", "assistant", "system", "human"]),
        "content": texts | st.lists(segments, max_size=2) | st.none(),
    },
    optional={"name": texts},
)
lines = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "c", " ", "", 7])},
    optional={
        **dict.fromkeys(("input_messages", "messages", "input"), st.lists(messages, max_size=3)),
        "outcome": texts,
        "metadata": st.just({"systemPrompt": "Be brief."}),
    },
)


def read(path: Path) -> list[Any]:
    """Return the cases, errors and warnings of a suite, as they compare."""
    found = SuiteReader(str(path)).read()
    return [str(each) if isinstance(each, Exception | Notice) else each for each in found]


def read_as_all(path: Path) -> list[Any]:
    with (
        patch("multiturn.suites.streaming.plain_line", lambda line, mark: None),
        patch("multiturn.suites.case_reader.plain_messages", lambda *_: None),
    ):
        return read(path)


@settings(deadline=None)
@given(st.lists(lines, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_lines_and_suites_are_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, cases: list[Any], ascii_only: bool, twice: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "plain"
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_text("A file.")
    text = "\n".join(json.dumps(case, ensure_ascii=ascii_only) for case in cases)
    if twice:  # a key, which is an error
        text = text.replace('{"role"', '{"role": "user", "role"', 1)
    path = folder / "s.jsonl"
    path.write_text(text, errors="surrogatepass")
    found = [str(each) for each in read(path)]
    assert found == [str(each) for each in read_as_all(path)]
    path = folder / "s.eval.yaml"
    written = yaml.safe_dump({"evalcases": cases}, sort_keys=False)
    path.write_text(written, errors="surrogatepass")
    assert [str(each) for each in read(path)] == [str(each) for each in read_as_all(path)]


HELLO = '{"role": "user", "content": "Hello"}'


@pytest.mark.parametrize(
    ("line", "is_plain"),
    [
        pytest.param(f'{{"id": "a", "messages": [{HELLO}]}}', True, id="a text"),
        pytest.param(f'{{"input_messages": [{HELLO}]}}', True, id="no id"),
        pytest.param(
            '{"input": [{"role": "user", "content": ["Hello \\"you\\"",'
            ' {"value": "a.md", "type": "file"}]}]}',
            True,
            id="texts and files",
        ),
        pytest.param(f'{{"id": "a", "id": "b", "messages": [{HELLO}]}}', False, id="an id twice"),
        pytest.param(f'{{"messages": [{HELLO}], "messages": [{HELLO}]}}', False, id="twice"),
        pytest.param(f'{{"messages": [{HELLO}], "input": [{HELLO}]}}', False, id="two keys"),
        pytest.param('{"messages": []}', False, id="no messages"),
        pytest.param(f'{{"messages": [{HELLO}], "x": 1}}', False, id="another key"),
        pytest.param('{"messages": [{"role": "user", "content": "a.md"}]}', False, id="a path"),
        pytest.param('{"messages": [{"role": "user", "content": "{{ a }}"}]}', False, id="braces"),
        pytest.param(
            '{"messages": [{"role": "assistant", "content": "A"}]}', False, id="an answer"
        ),
        pytest.param('{"messages": [{"role": "user", "content": "\\ud83d"}]}', False, id="a half"),
        pytest.param("", False, id="a blank line"),
    ],
)
def test_a_line_that_is_read_at_once(line: str, is_plain: bool) -> None:
    assert isinstance(plain_line(line.encode(), Mark(3)), PlainCase) is is_plain


def test_its_messages_have_their_places() -> None:
    case = plain_line(f'{{"id": "a", "messages": [{HELLO}, {HELLO}]}}'.encode(), Mark(3))
    assert case is not None
    assert [case.id, case.key, case.mark.line + 1] == ["a", "messages", 4]
    first, second = case.messages
    assert (first.role, first.content, first.line) == ("user", "Hello", 4)
    assert (second.key, second.content_lines, second.content_columns) == ("messages[1]", (4,), (1,))


def test_a_mapping_with_half_of_a_character_is_not() -> None:
    assert plain_mapping({"messages": [{"role": "user", "content": "\ud83d"}]}) is None
