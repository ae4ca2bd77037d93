"""How many pixels an image has, from its header: nothing of an image is decoded."""

from collections.abc import Callable, Mapping
from struct import error, unpack_from

Pixels = tuple[int, int]  # width and height

_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers in a JPEG above its size


def pixels_of(data: bytes, media_type: str) -> Pixels | None:
    """Return the width and the height of an image; None if its header does not tell them.

    >>> pixels_of(b"GIF89a" + bytes([1, 0, 2, 0, 0, 0, 0, 0x2C, *[0] * 4, 3, 0, 1, 0]), "image/gif")
    (3, 2)
    """
    try:
        found = _READERS[media_type](data)
    except (KeyError, IndexError, error):
        return None
    return found if found is not None and min(found) > 0 else None


def _of_png(data: bytes) -> Pixels | None:
    width, height = unpack_from(">II", data, 16)
    return (width, height) if data[12:16] == b"IHDR" else None


def _of_gif(data: bytes) -> Pixels | None:
    """Return the size of the screen, or of a first frame that is larger, as browsers do."""
    width, height, flags = unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while data[at] == 0x21:  # an extension, in blocks that begin with their size
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    if data[at] != 0x2C:  # which begins a frame
        return None
    left, top, wide, high = unpack_from("<HHHH", data, at + 1)
    return max(width, left + wide), max(height, top + high)


def _of_jpeg(data: bytes) -> Pixels | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAME:
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        # A marker may follow any number of bytes 0xFF.
        at += 1 if marker == 0xFF else 2 + unpack_from(">H", data, at + 2)[0]
    return None


def _of_webp(data: bytes) -> Pixels | None:
    form = data[12:16]
    if form == b"VP8X":
        wide, wide_top, high, high_top = unpack_from("<HBHB", data, 24)
        return (wide_top << 16) + wide + 1, (high_top << 16) + high + 1
    if form == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


_READERS: Mapping[str, Callable[[bytes], Pixels | None]] = {
    "image/png": _of_png,
    "image/gif": _of_gif,
    "image/jpeg": _of_jpeg,
    "image/webp": _of_webp,
}
SHOWN = frozenset(_READERS)  # the types of images whose size is known, and that a page shows
