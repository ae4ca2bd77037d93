"""Snapshots as they are compared: by their texts, whatever forms YAML gives them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from multiturn.documents.dump import dump
from multiturn.review.recorded import EDITED, recorded_in
from multiturn.text import utf8

_EMPTY = re.compile("^  $", re.MULTILINE)


def plain_text(text: str) -> str:
    r"""Return a snapshot as it is compared: each line of a text is a line, below its role.

    YAML writes a text of one line in another form than one of two, and a text with a file in a
    third. Suite and id are left out. A text that is not a snapshot is returned as it is.

    >>> plain_text("chat_prompt:\n  - role: user\n    content: Hi\nquestion: Hi")
    'user:\n  Hi\nquestion:\n  Hi\n'
    """
    try:
        return plain_text_of(recorded_in(text))
    except EDITED:
        return text


def plain_text_of(recorded: Mapping[str, Any]) -> str:
    """Return a snapshot as ``plain_text`` does, from what it records."""
    return utf8("".join(_blocks(recorded)))


def _blocks(recorded: Mapping[str, Any]) -> Iterator[str]:
    messages = recorded["chat_prompt"] or ()
    rest = {k: v for k, v in recorded.items() if k not in ("suite", "id", "chat_prompt")}
    for message in messages:
        yield from _message(message)
    for key in ("system", "question"):
        if key in rest:
            yield from (f"{key}:\n", _content(rest.pop(key)))
    sent = rest.get("sent", {})
    if "messages" in sent:
        rest["sent"] = {key: value for key, value in sent.items() if key != "messages"}
        for message in sent["messages"]:
            yield from ("sent as ", *_message(message))
    yield from (_as_yaml({key: value}) for key, value in rest.items() if value)


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    rest = dict(message)
    yield f"{rest.pop('role')}:\n"
    yield _content(rest.pop("content"))
    if rest:
        yield _as_yaml(rest)


def _content(content: str | list[Any]) -> str:
    pieces = [content] if isinstance(content, str) else content
    return "".join(_indented(piece) if isinstance(piece, str) else _file(piece) for piece in pieces)


def _file(piece: Mapping[str, Any]) -> str:
    """Return what stands for a file or media: without what follows from ``files.lock``.

    No line of a text begins at the start of a line, so none looks like it.
    """
    known = {key: piece[key] for key in ("sha256", "type", "size") if key in piece}
    shown = _as_yaml([{key: value for key, value in piece.items() if key not in known}])
    if "sha256" not in known:
        return shown
    # Its digest is not at the end of the line: a line that ends with one says nothing by itself.
    facts = "SHA-256 {sha256}, {type}, {size:,} bytes".format_map({**known})
    return f"{shown.removesuffix(chr(10))}, {facts}\n"


def _indented(text: str) -> str:
    """Return a text with each line indented, unless it is empty."""
    lines = f"  {text}\n".replace("\n", "\n  ")[:-2]
    return _EMPTY.sub("", lines) if "\n\n" in f"\n{text}\n" else lines


def _as_yaml(value: Any) -> str:
    return dump(value).removeprefix("---\n")
