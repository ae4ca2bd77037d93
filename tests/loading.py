"""Suites that are written into the current folder, and loaded."""

from pathlib import Path
from typing import Any

from comparing import write
from multiturn import Case, MultiturnError, load_suite

HI = "input_messages: [{role: user, content: Hi}]"


def cases(text: str, path: str = "x.eval.yaml", **options: Any) -> list[Case]:
    write(Path(), {path: text})
    return list(load_suite(path, **options))


def cases_and_errors(
    text: str, path: str = "x.eval.yaml", **options: Any
) -> tuple[list[Case], list[MultiturnError]]:
    errors: list[MultiturnError] = []
    return cases(text, path, on_error=errors.append, **options), errors


def messages(case: Case) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in case.input_messages]
