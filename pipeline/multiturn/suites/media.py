"""Images, documents and audio in a content; those of other tools are rewritten as ours.

Types of media that other tools declare are not believed: the bytes tell.
"""

from collections.abc import Mapping
from typing import Any

from multiturn.documents.node import Node, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import MultiturnError, did_you_mean, quoted
from multiturn.files.media import EXTENSIONS, FILE_TYPES, is_data, kind_of_type
from multiturn.suites.keys import KeyCheck, block_forms, value_at
from multiturn.suites.schema import MediaKeys

_ONLY_OF_OTHERS = ("image_url", "input_audio", "input_image", "input_file")
_TEXTS = ("input_text", "output_text")
_NO_CITATIONS: tuple[Any, ...] = (None, False, {}, {"enabled": False})
_NESTED = ("image_url", "file", "input_audio", "source")  # where a mapping has the rest
_SOURCES = ("base64", "url", "text")  # of Anthropic


def as_segment(block: Node, place: str, check: KeyCheck, label: str) -> Node:
    """Return text or media of another tool's form as a segment of ours, at the same place."""
    if value_at(block.members, "citations") not in _NO_CITATIONS:
        where, what = block.children["citations"], "citations are not asked for; they are left out"
        check.warn("suite.citations_left_out", where.key_place(check.name), what, once=True)
    check.check(block, place, "block", label=label)
    read_as(block, block_forms()[place], where=check.name, label=label)
    if place in _NESTED and isinstance(block.value[place], dict):
        inner, below = block.children[place], f"{label}.{place}"
        place = _place_of_source(inner, check, below) if place == "source" else f"{place}.{place}"
        check.check(inner, place, label=below)
        read_as(inner, block_forms()[place], where=check.name, label=below)
    segment = segment_of(block.value)
    if segment is None:
        what = "there is neither 'file_data' nor 'file_url'; add one of them"
        raise MultiturnError(what, where=block.place(check.name, label))
    return with_keys(block, {key: Node(text, block.mark) for key, text in segment.items()})


def check_segment(segment: Node, check: KeyCheck, label: str) -> None:
    """Check the keys of a segment that has a type and a value."""
    if segment.value["type"] not in FILE_TYPES or not isinstance(segment.value["value"], str):
        check.check(segment, "segment", "block", label=label)
        return
    check.check(segment, "media", "block", label=label)
    keys = read_as(segment, MediaKeys, where=check.name, label=label)
    is_named = keys.name is not None and keys.name != keys.value.rpartition("/")[2]
    if is_named and not is_data(keys.value):
        what = "name is of a data: URI; a file is called by its path, and an address by itself"
        raise MultiturnError(what, where=segment.children["name"].place(check.name, label))


def size_of_data(messages: Node) -> int:
    """Return how many characters of messages are in ``data:`` URIs, which have another limit."""
    segments = [each.members for message in messages.children for each in message.segments]
    values = [value_at(each, "value") for each in segments if value_at(each, "type") in FILE_TYPES]
    return sum(len(value) for value in values if isinstance(value, str) and is_data(value))


def form_of(segment: Mapping[str, Any]) -> str | None:
    """Return the place that the vocabulary has a form of another tool's under; None for ours."""
    kind = segment.get("type")
    if kind in _TEXTS:
        return "text"
    if isinstance(kind, str) and kind in _ONLY_OF_OTHERS:
        return kind
    if kind not in ("text", *FILE_TYPES) or "value" in segment:
        return None
    if kind == "file":
        return "file" if isinstance(segment.get("file"), dict) else None
    if "source" in segment:
        return "named source" if isinstance(segment["source"], str) else "source"
    return str(kind) if kind in segment else None


def _place_of_source(source: Node, check: KeyCheck, label: str) -> str:
    """Return the place of the source of Anthropic's image or document."""
    kind = source.value.get("type")
    if kind in _SOURCES:
        return f"source.{kind}"
    at = source.children.get("type", source)
    said = f"no source of the type {quoted(str(kind))}" if "type" in source.value else "no type"
    what = f"there is {said}; {did_you_mean(str(kind), _SOURCES)}"
    raise MultiturnError(what, where=at.place(check.name, label))


def segment_of(block: Mapping[str, Any]) -> dict[str, str] | None:
    """Return text or media of another tool's as a segment of ours; None for any other block."""
    from multiturn.providers.anthropic import messages as anthropic
    from multiturn.providers.openai import chat as openai
    from multiturn.providers.reading import segment

    match block:
        case {"type": "image" | "document" | "audio" as kind, "source": str(value)}:
            return segment(kind, value)
        case {"type": "image", "image": str(value), **keys}:
            return segment("image", value, keys)
        case {"type": "audio", "audio": str(value)}:
            return segment("audio", value)
        case {"type": "document", "document": str(value), **keys}:
            return segment(_kind_of(value, keys.get("mime_type")), value, keys)
    return openai.read_segment(block) or anthropic.read_segment(block)


def _kind_of(value: str, declared: object) -> str:
    """Return the kind of a document of inspect_ai's, which is any file."""
    if declared in EXTENSIONS:
        return kind_of_type(str(declared))
    return "document" if "://" in value else "file"
