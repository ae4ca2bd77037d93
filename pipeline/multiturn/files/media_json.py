"""The bytes of media in JSON: read from the store as a body is encoded, and kept by nothing."""

from typing import Any

from multiturn.files.media import Media


class Base64:
    """The bytes of media as a value of a body: ``str`` reads them, and keeps nothing."""

    __slots__ = ("is_uri", "media")

    def __init__(self, media: Media, *, is_uri: bool = False) -> None:
        self.media, self.is_uri = media, is_uri

    def __str__(self) -> str:
        return self.media.data_uri if self.is_uri else self.media.base64

    @property
    def shown(self) -> str:
        """What a reader sees in their place."""
        media = self.media
        return f"({media.media_type}, {media.size:,} bytes, SHA-256 {media.digest})"


def with_bytes(value: Any) -> str:
    """Return a value of a body as it is sent, where an encoder of JSON does not know its type."""
    if isinstance(value, Base64):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def without_bytes(value: Any) -> str:
    """Return a value of a body as readers see it: in place of bytes, what they are."""
    return value.shown if isinstance(value, Base64) else with_bytes(value)
