"""Snapshots as they are compared: by their texts, whatever forms YAML gives them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from multiturn.documents.dump import dump, indented_block
from multiturn.review.recorded import EDITED, recorded_in
from multiturn.text import utf8

_DIGEST = re.compile("(SHA-256 [0-9a-f]{12})[0-9a-f]{52}")


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


def with_short_digests(lines: Iterable[str]) -> list[str]:
    """Return the lines of a diff of plain texts with digests that people can compare.

    Only lines that begin with a dash have digests of ours; those of texts are indented.
    """
    return [with_short_digest(line) if line[1:3] == "- " else line for line in lines]


def with_short_digest(line: str) -> str:
    """Return a line with the first 12 digits of what ``SHA-256`` stands before.

    >>> with_short_digest(f"image/png, 104 bytes, SHA-256 {'0' * 64}")
    'image/png, 104 bytes, SHA-256 000000000000…'
    """
    return _DIGEST.sub(r"\1…", line)


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
    for key, value in rest.items():
        if key == "input_files" and value:
            yield from ("input_files:\n", *map(_input_file, value))
        elif value:
            yield _as_yaml({key: value})


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    rest = dict(message)
    yield f"{rest.pop('role')}:\n"
    yield _content(rest.pop("content"))
    if rest:
        yield _as_yaml(rest)


def _content(content: str | list[Any]) -> str:
    pieces = [content] if isinstance(content, str) else content
    return "".join(
        f"{indented_block(piece, '  ')}\n" if isinstance(piece, str) else _file(piece)
        for piece in pieces
    )


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


def _input_file(file: Mapping[str, Any]) -> str:
    """Return the line of an attached file, and one of its digest, which follows from its text."""
    known = dict(file)
    sha256 = known.pop("sha256", None)
    line = ", ".join(_as_yaml({key: value}).rstrip("\n") for key, value in known.items())
    return f"- {line}\n" + (f"- SHA-256 {sha256}\n" if sha256 else "")


def _as_yaml(value: Any) -> str:
    return dump(value).removeprefix("---\n")
