"""The pipeline agentv: conversations, and the chat prompts that AgentV makes of them."""

from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, Files, TestMessage, load_pipeline
from multiturn.documents.yaml_events import read_documents

PATH = Path(__file__).with_name("agentv.yaml")
TABLE: Any = next(read_documents(PATH.read_text(encoding="utf-8"), PATH.name)).value


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    root = tmp_path_factory.mktemp("files")
    for path, text in TABLE["files"].items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(text.encode())
    return Files(root, root)


def chat_prompt(files: Files, row: Any) -> list[dict[str, str]] | None:
    case = Case(
        id="case",
        input_messages=tuple(TestMessage(**message) for message in row["messages"]),
        guideline_patterns=tuple(TABLE["guideline_patterns"]),
        files=files,
    )
    chat = load_pipeline("agentv").request(case).chat_prompt
    return None if chat is None else [{"role": m.role, "content": m.content} for m in chat]


@pytest.mark.parametrize("name", TABLE["cases"])
def test_chat_prompt(files: Files, name: str) -> None:
    row = TABLE["cases"][name]
    assert chat_prompt(files, row) == row["chat"]


@pytest.mark.parametrize("name", TABLE["different"])
def test_a_case_that_the_docs_name_is_different(files: Files, name: str) -> None:
    row = TABLE["different"][name]
    assert chat_prompt(files, row) == row["chat"] != row["theirs"]
