"""Images, a document and audio, made by the libraries that write them."""

import base64
import io
import random
import wave
from functools import cache
from pathlib import Path

from PIL import Image

from multiturn import Media


@cache
def image(format_: str = "PNG", seed: int = 0, side: int = 8) -> bytes:
    """Return a small image of random pixels; others for another seed."""
    pixels = random.Random(seed).randbytes(3 * side * side)
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), pixels).save(file, format_)
    return file.getvalue()


@cache
def pdf(seed: int = 0) -> bytes:
    """Return a document with one page, which shows an image."""
    return image("PDF", seed)


@cache
def wav(seed: int = 0) -> bytes:
    """Return a tenth of a second of noise."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8_000)
        sound.writeframes(random.Random(seed).randbytes(800))
    return file.getvalue()


@cache
def mp3(seed: int = 0) -> bytes:
    """Return a tag of ID3 and two frames of 128 kbit/s, each 417 bytes long."""
    frames = random.Random(seed).randbytes(2 * 413)
    head = b"\xff\xfb\x90\x00"
    return b"ID3\x04\0\0\0\0\0\0" + head + frames[:413] + head + frames[413:]


def padded(data: bytes, size: int) -> bytes:
    """Return a PNG of a given size in bytes: more than an image has is behind its end."""
    return data + bytes(size - len(data))


def write_bytes(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder, and the folders above them."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def data_uri(data: bytes) -> str:
    """Return an image, a document or audio as a ``data:`` URI."""
    return f"data:{Media.of(data).media_type};base64,{base64.b64encode(data).decode()}"
