"""What the vendors' servers refuse of images, documents and audio, in their words.

The bytes are decoded, by libraries that have nothing to do with multiturn.
"""

import base64
import binascii
import io
import wave
from collections.abc import Iterator
from typing import Any

from PIL import Image, UnidentifiedImageError

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
OF_GEMINI = {*IMAGES, "application/pdf", "audio/wav", "audio/mp3"} - {"image/gif"}
OF_RESULTS = ("image/png", "image/jpeg", "image/webp", "application/pdf")


def type_of(data: str) -> str:
    """Return the type of bytes in base64: what a library finds in them; empty if it finds none."""
    try:
        found = base64.b64decode(data, validate=True)
    except binascii.Error:
        return ""
    if found.startswith(b"%PDF-"):
        return "application/pdf"
    if found.startswith(b"ID3"):
        return "audio/mp3"
    try:
        if found.startswith(b"RIFF") and found[8:12] == b"WAVE":
            wave.open(io.BytesIO(found)).close()
            return "audio/wav"
        with Image.open(io.BytesIO(found)) as image:
            image.load()
            return f"image/{(image.format or '').lower()}"
    except (wave.Error, UnidentifiedImageError, OSError):
        return ""


def refused_by_anthropic(messages: list[Any], version: str) -> Iterator[str]:
    for at, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        for block in content:
            inside = block.get("content") if block["type"] == "tool_result" else None
            is_text = not isinstance(inside, list) or all(b["type"] == "text" for b in inside)
            if block.get("is_error") and not is_text:
                yield f"messages.{at}: all content must be type `text` if `is_error` is true"
            for each in inside if isinstance(inside, list) else [block]:
                yield from _refused_block(each, f"messages.{at}", message["role"], version)


def _refused_block(block: Any, where: str, role: str, version: str) -> Iterator[str]:
    kind, source = block["type"], block.get("source", {})
    if kind == "text" and not block["text"].strip():
        yield "messages: text content blocks must be non-empty"
    if kind not in ("image", "document"):
        return
    if role == "assistant" and (kind == "image" or version == "2026-10-21"):
        yield f"{where}: '{kind}' blocks are not permitted within assistant turns"
    if source["type"] != "base64":
        return
    size = len(source["data"])
    if kind == "image" and size > 5_242_880:
        what = f"image exceeds 5 MB maximum: {size} bytes > 5242880 bytes"
        yield f"{where}.image.source.base64: {what}"
    if source["media_type"] != type_of(source["data"]):
        yield f"{where}: The {kind} does not match the provided media type {source['media_type']}"


def refused_by_openai(messages: list[Any]) -> Iterator[str]:
    for at, message in enumerate(messages):
        content = message.get("content")
        for part in content if isinstance(content, list) else []:
            if part["type"] != "text" and message["role"] != "user":
                what = "Image URLs are only allowed for messages with role 'user'"
                yield f"Invalid 'messages[{at}]'. {what}"
            yield from _refused_part(part, f"messages[{at}].content")


def _refused_part(part: Any, where: str) -> Iterator[str]:
    if part["type"] == "image_url":
        url = part["image_url"]["url"]
        head, _, data = url.partition(";base64,")
        if not url.startswith("https://") and (
            head not in {f"data:{each}" for each in IMAGES} or head[5:] != type_of(data)
        ):
            yield f"Invalid {where}: Invalid MIME type. Only image types are supported."
    elif part["type"] == "file":
        head, _, data = part["file"]["file_data"].partition(";base64,")
        if head != "data:application/pdf" or type_of(data) != "application/pdf":
            yield f"Invalid file data: '{where}.file.file_data'. Expected a base64-encoded data URL"
        if "/" in part["file"]["filename"]:
            yield f"Invalid {where}: a folder of the user's"
    elif part["type"] == "input_audio":
        audio = part["input_audio"]
        if type_of(audio["data"]) != f"audio/{audio['format']}":
            yield f"Invalid {where}: the audio is not {audio['format']}"


def refused_by_responses(items: list[Any]) -> Iterator[str]:
    for at, item in enumerate(items):
        content = item.get("content", item.get("output"))
        for part in content if isinstance(content, list) else []:
            kind, where = part["type"], f"input[{at}].content"
            if item.get("role") == "assistant":
                yield f"Invalid value: '{kind}'. Supported values are: 'output_text' and 'refusal'."
            elif kind != "input_text" and item.get("role", "user") != "user":
                yield f"Invalid value: '{kind}'. Supported values are: 'input_text'."
            if kind == "input_image" and not part["image_url"].startswith("https://"):
                image = {"type": "image_url", "image_url": {"url": part["image_url"]}}
                yield from _refused_part(image, where)
            elif kind == "input_file" and "file_url" not in part:
                yield from _refused_part({"type": "file", "file": part}, where)


def refused_by_gemini(contents: list[Any], model: str) -> Iterator[str]:
    for content in contents:
        for part in content["parts"]:
            yield from _refused_data(part, OF_GEMINI)
            inside = part.get("functionResponse", {}).get("parts")
            if inside is not None and not model.startswith("gemini-3"):
                yield "Multimodal function responses are not supported for this model."
            for each in inside or ():
                yield from _refused_data(each, OF_RESULTS)


def _refused_data(part: Any, types: Any) -> Iterator[str]:
    given = part.get("inlineData")
    if given is None:
        return
    if given["mimeType"] not in types:
        yield f"Unsupported MIME type: {given['mimeType']}"
    if given["mimeType"] != type_of(given["data"]):
        yield "Unable to process input image. Please retry or report"
