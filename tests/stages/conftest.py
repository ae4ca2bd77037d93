"""What the tests of the stages build their conversions with."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, Conversion, Files, InputFile, Part, TestMessage, Turn

Content = list[tuple[str, str]]


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


@pytest.fixture
def conversation() -> Callable[..., Conversion]:
    """Build a conversion whose messages are turns already; no file is read.

    A message is its role and its pieces. A piece is text, or (kind, path, text), where a fourth
    value is the path relative to the root. A collected guideline is text, or (path, text).
    """

    def build_part(piece: Any, message: int, content: int) -> Part:
        if isinstance(piece, str):
            return Part("text", piece, message=message, content=content)
        kind, path, text, *resolved = piece
        resolved_path = resolved[0] if resolved else path.removeprefix("./")
        return Part(kind, text, "\n", message, content, 0, path, resolved_path)

    def build(*messages: Any, collected: Iterable[Any] = (), **case: Any) -> Conversion:
        turns = tuple(
            Turn(role, tuple(build_part(piece, at, n) for n, piece in enumerate(pieces)), at)
            for at, (role, *pieces) in enumerate(messages)
        )
        attached: dict[str, InputFile] = {}
        for part in (part for turn in turns for part in turn.parts):
            if part.path is not None and part.resolved_path is not None:
                attached.setdefault(part.resolved_path, InputFile(part.path, part.resolved_path))
        return Conversion(
            Case(
                id="case",
                input_messages=tuple(TestMessage(role, pieces) for role, *pieces in messages),
                **case,
            ),
            turns=turns,
            guidelines=tuple(
                Part("text", guideline)
                if isinstance(guideline, str)
                else Part("text", guideline[1], path=guideline[0], resolved_path=guideline[0])
                for guideline in collected
            ),
            input_files=tuple(attached.values()),
        )

    return build


@pytest.fixture
def run() -> Callable[..., Conversion]:
    """Run a stage and, whatever the case, see that it repeats itself and changes no input."""

    def run_twice(
        stage: Callable[..., Conversion], conversion: Conversion, **options: Any
    ) -> Conversion:
        before = repr(conversion)
        once = stage(conversion, **options)
        assert repr(conversion) == before, "the stage changed the conversion it was given"
        assert stage(once, **options) == once, "running it twice gives something else than once"
        return once

    return run_twice


@pytest.fixture
def contents() -> Callable[[Iterable[Turn] | None], Content | None]:
    """Return what turns say: the role and the content of each."""

    def read(turns: Iterable[Turn] | None) -> Content | None:
        return None if turns is None else [(turn.role, turn.content) for turn in turns]

    return read
