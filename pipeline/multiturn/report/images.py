"""The images of a page, as ``data:`` URIs: only what a browser can show without harm.

How many pixels an image has is read in its header: nothing of an image is decoded.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import error, unpack_from
from typing import Any

from multiturn.files.media import HEAD, Media, type_of
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.text import size_in_words

Pixels = tuple[int, int]  # width and height

MOST_BYTES = 5_000_000  # of all images of a page
MOST_PIXELS = 4_096 * 4_096  # of an image: a browser takes four bytes of memory for each
_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers in a JPEG above its size


def may_be_shown(media: Media) -> bool:
    """Return whether a page may show an image, if its header and the others leave it to."""
    return media.media_type in SHOWN and media.size <= MOST_BYTES


def images_in(case: ReviewedCase) -> Iterator[Media]:
    """Return the images in the messages of a case that a page may show."""
    media = (span.media for message in case.prompt for span in message.spans if span.media)
    return filter(may_be_shown, media)


class Images:
    """The media of a page, and which of them it shows.

    Args:
        read: returns the bytes of an image by its digest; None if they are not known.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._media: dict[tuple[str, str], tuple[int, Media]] = {}  # by digest and name

    def number(self, media: Media) -> int:
        """Return the number of media in what ``records`` returns."""
        return self._media.setdefault((media.digest, media.text), (len(self._media), media))[0]

    def records(
        self, first: Iterable[Media], number_of: Callable[[str], int]
    ) -> list[dict[str, Any]]:
        """Return what the page shows of each: an image, or why there is none.

        Args:
            first: those for which there is room before all others.
            number_of: returns the number of a string of the page.
        """
        shown = [media for _, media in self._media.values()]
        digests = {media.digest for media in shown}
        found: dict[str, dict[str, Any]] = {}
        left = MOST_BYTES
        for media in (*first, *shown):
            if media.digest in digests and media.digest not in found:
                data, why = self._shown(media, left)
                found[media.digest] = {"why": why} if why else {}
                if data is not None:
                    uri = f"data:{media.media_type};base64,{base64.b64encode(data).decode()}"
                    found[media.digest] = {"image": number_of(uri)}
                    left -= len(data)
        return [{"name": media.text, **found[media.digest]} for media in shown]

    def _shown(self, media: Media, left: int) -> tuple[bytes | None, str]:
        """Return the bytes of an image, or why it is not shown; neither of what is no image."""
        if media.media_type not in SHOWN:
            return None, ""
        if media.size > left:
            most = size_in_words(MOST_BYTES)
            return None, f"Not shown: the images of a page have at most {most}."
        data = self._read(media.digest)
        if data is None:
            return None, "Not shown: its bytes are not known, only their digest."
        width, height = pixels_of(data, media.media_type) or (0, 0)
        if type_of(data[:HEAD]) != media.media_type or not width:
            return None, "Not shown: its header does not say how large it is."
        if width * height > MOST_PIXELS:
            return None, f"Not shown: it has {width:,} × {height:,} pixels."  # noqa: RUF001 - a sign
        return data, ""


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
SHOWN = frozenset(_READERS)  # the types of images that a page shows
