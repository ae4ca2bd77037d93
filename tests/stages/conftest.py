"""What the tests of the stages build their conversions with."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, Conversion, Files, TestMessage


@pytest.fixture
def given(tmp_path: Path) -> Callable[..., Conversion]:
    """Build a conversion on which no stage has run: messages as (role, content), real files."""

    def build(*messages: Any, files: Mapping[str, str | bytes] = {}, **case: Any) -> Conversion:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for path, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        input_messages = tuple(TestMessage(role, content) for role, content in messages)
        fields = {"id": "case", "input_messages": input_messages, "files": Files(root, root)}
        return Conversion(Case(**{**fields, **case}))

    return build
