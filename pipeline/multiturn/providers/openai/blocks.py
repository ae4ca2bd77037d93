"""The parts of contents of OpenAI's APIs: their keys, and texts and media as segments of ours."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from multiturn.files.media import Detail
from multiturn.providers.reading import Segment, data_uri, pieces_of_blocks, segment

_V = TypeVar("_V")
_Mapping = dict[str, Any]
# The keys of each form; those that may be None may be missing.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": str, "text": str},
    "image_url": {"type": str, "image_url": _Mapping | str},
    "image_url.image_url": {"url": str, "detail": Detail | None},
    "file": {"type": str, "file": _Mapping},
    "file.file": {"file_data": str, "filename": str | None},
    "input_audio": {"type": str, "input_audio": _Mapping},
    "input_audio.input_audio": {"data": str, "format": str},
    "input_image": {"type": str, "image_url": str, "detail": Detail | None},
    "input_file": {
        "type": str,
        **dict.fromkeys(("file_data", "file_url", "filename"), str | None),
        "detail": Detail | None,
    },
}


def segment_of(block: Mapping[str, Any]) -> Segment | None:
    """Return a text or media as a segment of ours; None for any other block."""
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return segment("text", text)
        case {"type": "image_url", "image_url": {"url": str(url), **keys}}:
            return segment("image", url, keys)
        case {"type": "image_url" | "input_image", "image_url": str(url), **keys}:
            return segment("image", url, keys)
        case {"type": "file", "file": {"file_data": str(data), **keys}}:
            return segment("file", data_uri(data), keys)
        case {"type": "input_file", "file_data": str(data), **keys}:
            return segment("file", data_uri(data), keys)
        case {"type": "input_file", "file_url": str(url), **keys}:
            return segment("document", url, keys)
        case {"type": "input_audio", "input_audio": {"data": str(data), **keys}}:
            return segment("audio", data_uri(data, f"audio/{keys.get('format')}"))
    return None


def call_keys(call: Mapping[str, _V], function: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a call as ours; ``function`` is what the call has under that key.

    >>> call_keys({"id": "c1"}, {"name": "now", "arguments": "{}"})
    {'id': 'c1', 'name': 'now', 'arguments': '{}'}
    """
    others = {key: value for key, value in call.items() if key not in ("type", "function")}
    return {**others, **{key: function[key] for key in ("name", "arguments") if key in function}}


def pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content.

    >>> [*pieces([{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": "a"}])]
    ['Hi', {'type': 'image', 'value': 'a'}]
    """
    return pieces_of_blocks(content, segment_of)
