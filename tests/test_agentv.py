"""The pipeline agentv: conversations, and the chat prompts that AgentV makes of them."""

from pathlib import Path
from typing import Any

import pytest

from comparing import write
from multiturn import Case, Files, TestMessage, load_pipeline
from multiturn.documents.yaml_reader import read_documents

PATH = Path(__file__).with_name("agentv.yaml")
TABLE: Any = next(read_documents(PATH.read_text(encoding="utf-8"), PATH.name)).value


@pytest.mark.parametrize("name", [*TABLE["cases"], *TABLE["different"]])
def test_chat_prompt(root: Path, name: str) -> None:
    """Those that the docs name are different from AgentV's, on purpose."""
    write(root, TABLE["files"])
    row = TABLE["cases"].get(name) or TABLE["different"][name]
    case = Case(
        id="case",
        input_messages=tuple(TestMessage(**message) for message in row["messages"]),
        guideline_patterns=tuple(TABLE["guideline_patterns"]),
        files=Files(root, root),
    )
    chat = load_pipeline("agentv").request(case).chat_prompt
    found = None if chat is None else [{"role": m.role, "content": m.content} for m in chat]
    assert found == row["chat"] != row.get("theirs", "another one")
