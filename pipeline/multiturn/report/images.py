"""The images of a page, as ``data:`` URIs: only what a browser can show without harm."""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from multiturn.files.media import HEAD, Media, type_of
from multiturn.report.pixels import SHOWN, pixels_of
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.text import size_in_words

MOST_BYTES = 5_000_000  # of all images of a page
MOST_PIXELS = 4_096 * 4_096  # of an image: a browser takes four bytes of memory for each


def may_be_shown(media: Media) -> bool:
    """Return whether a page may show an image, if its header and the others leave it to."""
    return media.media_type in SHOWN and media.size <= MOST_BYTES


def images_in(case: ReviewedCase) -> Iterator[Media]:
    """Yield the images in the messages of a case that a page may show."""
    for message in case.prompt:
        for span in message.spans:
            if span.media is not None and may_be_shown(span.media):
                yield span.media


class Images:
    """The media of a page, and which of them it shows.

    Args:
        read: returns the bytes of an image by its digest; None if they are not known.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._numbers: dict[tuple[str, str], int] = {}  # by digest and name
        self._media: list[Media] = []

    def number(self, media: Media) -> int:
        """Return the number of media in what ``records`` returns."""
        key = media.digest, media.text
        if key not in self._numbers:
            self._numbers[key] = len(self._media)
            self._media.append(media)
        return self._numbers[key]

    def records(
        self, first: Iterable[Media], number_of: Callable[[str], int]
    ) -> list[dict[str, Any]]:
        """Return what the page shows of each: an image, or why there is none.

        Args:
            first: those for which there is room before all others.
            number_of: returns the number of a string of the page.
        """
        digests = {media.digest for media in self._media}
        found: dict[str, dict[str, Any]] = {}
        left = MOST_BYTES
        for media in (*first, *self._media):
            if media.digest in digests and media.digest not in found:
                data, why = self._shown(media, left)
                if data is None:
                    found[media.digest] = {"why": why} if why else {}
                    continue
                uri = f"data:{media.media_type};base64,{base64.b64encode(data).decode()}"
                found[media.digest] = {"image": number_of(uri)}
                left -= len(data)
        return [{"name": media.text, **found[media.digest]} for media in self._media]

    def _shown(self, media: Media, left: int) -> tuple[bytes | None, str]:
        """Return the bytes of an image, or why it is not shown; neither of what is no image."""
        if media.media_type not in SHOWN:
            return None, ""
        if media.size > left:
            why = f"the images of a page have at most {size_in_words(MOST_BYTES)}"
            return None, f"Not shown: {why}."
        data = self._read(media.digest)
        if data is None:
            return None, "Not shown: its bytes are not known, only their digest."
        pixels = pixels_of(data, media.media_type)
        if type_of(data[:HEAD]) != media.media_type or pixels is None:
            return None, "Not shown: its header does not say how large it is."
        width, height = pixels
        if width * height > MOST_PIXELS:
            return None, f"Not shown: it has {width:,} × {height:,} pixels."  # noqa: RUF001 - a sign
        return data, ""
