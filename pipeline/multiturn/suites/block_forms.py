"""The blocks of contents as other tools write them: their keys, and text and media as ours.

The forms are those of OpenAI's chat and Responses APIs and of Anthropic, which their vendors' own
modules know, and those of inspect_ai and AgentV, November 2026. Types of media that they declare
are not believed: the bytes tell. Only a suite that has such blocks imports a vendor's module.
"""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, get_args

from msgspec import Struct, defstruct

from multiturn.files.media import EXTENSIONS, Detail, kind_of_type
from multiturn.suites.schema import Vendor

Segment = dict[str, str]
# The keys of each form; those that may be None may be missing.
_FORMS: Mapping[str, Mapping[str, Any]] = {
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


@cache
def block_forms() -> Mapping[str, type[Struct]]:
    """Return the form of each kind of block, by the places that the vocabulary has them under."""
    from multiturn.providers.anthropic import messages as anthropic
    from multiturn.providers.openai import chat as openai

    forms = {**openai.FORMS, **anthropic.FORMS, **_FORMS}
    return {place: _form(keys) for place, keys in forms.items()}


def segment_of(block: Mapping[str, Any]) -> Segment | None:
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
