"""The blocks of Anthropic's contents: their keys, and texts and media as segments of ours."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from multiturn.providers.reading import Segment, data_uri, pieces_of_blocks, segment

_V = TypeVar("_V")
_Mapping = dict[str, Any]
# The keys of each form; those that may be None may be missing.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": str, "text": str},
    "source": {"type": str, "source": _Mapping},
    "source.base64": {"type": str, "data": str, "media_type": str},
    "source.url": {"type": str, "url": str},
    "source.text": {"type": str, "data": str, "media_type": str | None},
    "tool_use": {"type": str, "id": str, "name": str, "input": _Mapping | None},
    "tool_result": {
        "type": str,
        "tool_use_id": str,
        "content": str | list[str | _Mapping] | _Mapping | None,
        "is_error": bool | None,
    },
}


def segment_of(block: Mapping[str, Any]) -> Segment | None:
    """Return a text or media as a segment of ours; None for any other block."""
    match block:
        case {"type": "text", "text": str(text)}:
            return segment("text", text)
        case {"type": "image" | "document" as kind, "source": {"type": "base64", **keys}}:
            data = keys.get("data")
            is_text = isinstance(data, str)
            return segment(kind, data_uri(str(data), keys.get("media_type"))) if is_text else None
        case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
            return segment(kind, url)
        case {"source": {"type": "text", "data": str(text)}}:
            return segment("text", text)
    return None


def use_keys(block: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a call as ours.

    >>> use_keys({"type": "tool_use", "id": "c1", "name": "now", "input": {}})
    {'id': 'c1', 'name': 'now', 'arguments': {}}
    """
    names = {"id": "id", "name": "name", "input": "arguments"}
    return {ours: block[theirs] for theirs, ours in names.items() if theirs in block}


def result_keys(block: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a result as those of our message of a tool."""
    names = {"tool_use_id": "tool_call_id", "content": "content", "is_error": "is_error"}
    return {ours: block[theirs] for theirs, ours in names.items() if theirs in block}


def pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content."""
    return pieces_of_blocks(content, segment_of)
