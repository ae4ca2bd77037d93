"""The blocks of contents as other tools write them: their keys, and text and media as ours.

The forms are those of OpenAI's chat and Responses APIs, Anthropic, inspect_ai and AgentV, November
2026. Types of media that they declare are not believed: the bytes tell.
"""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args

from msgspec import Struct, defstruct

from multiturn.files.media import EXTENSIONS, is_data, kind_of_type
from multiturn.suites.schema import Detail, Vendor

Segment = dict[str, str]
_TYPE = r"(?a)[\w.+-]+/[\w.+-]+"
_Mapping = dict[str, Any]
# The keys of each form of other tools; those that may be None may be missing.
_FORMS: Mapping[str, Mapping[str, Any]] = {
    # OpenAI
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
    # Anthropic
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
    # AgentV: a path, an address or a data: URI
    "named source": {"type": str, "source": str, "media_type": str | None},
    # inspect_ai, likewise
    "image": {"type": str, "image": str, "detail": Detail | None},
    "audio": {"type": str, "audio": str, "format": str | None},
    "document": {"type": str, "document": str, "filename": str | None, "mime_type": str | None},
    "reasoning": {
        "type": str,
        "reasoning": str,
        **dict.fromkeys(("summary", "signature"), str | None),
        "redacted": bool | None,
        "vendor": Vendor | None,
    },
}


def _form(keys: Mapping[str, Any]) -> type[Struct]:
    fields = [
        (key, type_, None) if NoneType in get_args(type_) else (key, type_)
        for key, type_ in keys.items()
    ]
    return defstruct("Form", fields, kw_only=True)


# By the places that the vocabulary has them under.
BLOCK_FORMS = {place: _form(keys) for place, keys in _FORMS.items()}


def segment_of(block: Mapping[str, Any]) -> Segment | None:
    """Return text or media of another tool's as a segment of ours; None for any other block."""
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return _segment("text", text)
        case {"type": "image_url", "image_url": {"url": str(url), **keys}}:
            return _segment("image", url, keys)
        case {"type": "image_url" | "input_image", "image_url": str(url), **keys}:
            return _segment("image", url, keys)
        case {"type": "file", "file": {"file_data": str(data), **keys}}:
            return _segment("file", data_uri(data), keys)
        case {"type": "input_file", "file_data": str(data), **keys}:
            return _segment("file", data_uri(data), keys)
        case {"type": "input_file", "file_url": str(url), **keys}:
            return _segment("document", url, keys)
        case {"type": "input_audio", "input_audio": {"data": str(data), **keys}}:
            return _segment("audio", data_uri(data, f"audio/{keys.get('format')}"))
        case {"type": "image" | "document" | "audio" as kind, "source": source}:
            return _of_source(kind, source)
        case {"type": "image", "image": str(value), **keys}:
            return _segment("image", value, keys)
        case {"type": "audio", "audio": str(value)}:
            return _segment("audio", value)
        case {"type": "document", "document": str(value), **keys}:
            return _segment(_kind_of(value, keys.get("mime_type")), value, keys)
    return None


def _of_source(kind: str, source: object) -> Segment | None:
    """Return what Anthropic, or AgentV by a text, names as a source."""
    match source:
        case str(value):
            return _segment(kind, value)
        case {"type": "base64", "data": str(data), **keys}:
            return _segment(kind, data_uri(data, keys.get("media_type")))
        case {"type": "url", "url": str(url)}:
            return _segment(kind, url)
        case {"type": "text", "data": str(text)}:
            return _segment("text", text)
    return None


def _kind_of(value: str, declared: object) -> str:
    """Return the kind of a document of inspect_ai's, which is any file."""
    if declared in EXTENSIONS:
        return kind_of_type(str(declared))
    return "document" if "://" in value else "file"


def _segment(kind: str, value: str, keys: Mapping[Any, Any] = {}) -> Segment:
    given = {"detail": keys.get("detail"), "name": keys.get("filename")}
    more = {key: text for key, text in given.items() if isinstance(text, str) and text}
    return {"type": kind, "value": value, **more}


def data_uri(data: str, media_type: object = None) -> str:
    """Return bytes in base64 as a ``data:`` URI, with the type that is declared of them."""
    if is_data(data):
        return data
    declared = str(media_type).partition(";")[0].strip()
    return f"data:{declared if re.fullmatch(_TYPE, declared) else ''};base64,{data}"
