"""The keys of images, documents and audio: in our own form, and as other tools write them.

The forms are those of OpenAI's chat and Responses APIs, Anthropic, inspect_ai and AgentV, November
2026. Types of media that they declare are not believed: the bytes tell.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Detail = Literal["auto", "low", "high", "original"]


class MediaKeys(Struct):
    """The keys of a segment that is a file, an image, a document or audio."""

    type: Annotated[
        Literal["file", "image", "document", "audio"],
        Meta(description="what the value is; `file` may be text or any of the others."),
    ]
    value: Annotated[
        str,
        Meta(
            description="the path of a file, an `https:` address that the vendor reads, or a"
            " `data:` URI in base64."
        ),
    ]
    detail: Annotated[
        Detail | None, Meta(description="how closely a model of OpenAI's looks at an image.")
    ] = None
    name: Annotated[
        str | None, Meta(description="of a `data:` URI: what transcripts and vendors call it.")
    ] = None


class UrlKeys(Struct):
    """The keys of ``image_url``."""

    url: str
    detail: Detail | None = None


class ImageUrlKeys(Struct):
    """The keys of an image in OpenAI's chat API."""

    image_url: dict[str, object] | str
    type: Literal["image_url"] = "image_url"


class FileDataKeys(Struct):
    """The keys of ``file``."""

    file_data: str
    filename: str | None = None


class FileKeys(Struct):
    """The keys of a file in OpenAI's chat API."""

    file: dict[str, object]
    type: Literal["file"] = "file"


class AudioDataKeys(Struct):
    """The keys of ``input_audio``."""

    data: str
    format: str


class InputAudioKeys(Struct):
    """The keys of audio in OpenAI's chat API."""

    input_audio: dict[str, object]
    type: Literal["input_audio"] = "input_audio"


class InputImageKeys(Struct):
    """The keys of an image in OpenAI's Responses API."""

    image_url: str
    detail: Detail | None = None
    type: Literal["input_image"] = "input_image"


class InputFileKeys(Struct):
    """The keys of a file in OpenAI's Responses API: its data, or its address."""

    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    detail: Detail | None = None
    type: Literal["input_file"] = "input_file"


class InputTextKeys(Struct):
    """The keys of a text in OpenAI's Responses API."""

    text: str
    type: Literal["input_text", "output_text"] = "input_text"


class SourceKeys(Struct):
    """The keys of an image or a document of Anthropic's."""

    source: dict[str, object]
    type: Literal["image", "document"] = "image"


class Base64Keys(Struct):
    """The keys of a source with bytes."""

    data: str
    media_type: str
    type: Literal["base64"] = "base64"


class AddressKeys(Struct):
    """The keys of a source with an address."""

    url: str
    type: Literal["url"] = "url"


class PlainKeys(Struct):
    """The keys of a source that is text."""

    data: str
    media_type: str | None = None
    type: Literal["text"] = "text"


class NamedSourceKeys(Struct):
    """The keys of an image of AgentV's: a path, an address or a ``data:`` URI."""

    source: str
    media_type: str | None = None
    type: Literal["image", "document", "audio"] = "image"


class ImageKeys(Struct):
    """The keys of an image of inspect_ai's: a path, an address or a ``data:`` URI."""

    image: str
    detail: Detail | None = None
    type: Literal["image"] = "image"


class AudioKeys(Struct):
    """The keys of audio of inspect_ai's: a path or a ``data:`` URI."""

    audio: str
    format: str | None = None
    type: Literal["audio"] = "audio"


class DocumentKeys(Struct):
    """The keys of a document of inspect_ai's: a path or a ``data:`` URI."""

    document: str
    filename: str | None = None
    mime_type: str | None = None
    type: Literal["document"] = "document"


# By the places that the vocabulary has them under.
MEDIA_PLACES: dict[str, type[Struct]] = {
    "media": MediaKeys,
    "image_url": ImageUrlKeys,
    "image_url.image_url": UrlKeys,
    "file": FileKeys,
    "file.file": FileDataKeys,
    "input_audio": InputAudioKeys,
    "input_audio.input_audio": AudioDataKeys,
    "input_image": InputImageKeys,
    "input_file": InputFileKeys,
    "input_text": InputTextKeys,
    "source": SourceKeys,
    "source.base64": Base64Keys,
    "source.url": AddressKeys,
    "source.text": PlainKeys,
    "named source": NamedSourceKeys,
    "image": ImageKeys,
    "audio": AudioKeys,
    "document": DocumentKeys,
}
