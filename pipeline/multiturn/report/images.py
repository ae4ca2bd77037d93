"""The images of a page, as ``data:`` URIs: only what a browser can show without harm."""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from multiturn.files.media import HEAD, Media, type_of
from multiturn.files.pixels import SHOWN, pixels_of
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.text import size_in_words

MOST_BYTES = 5_000_000  # of all images of a page
MOST_PIXELS = 4_096 * 4_096  # of an image: a browser takes four bytes of memory for each


def may_be_shown(media: Media) -> bool:
    """Return whether a page may show an image, if its header and the others leave it to."""
    return media.media_type in SHOWN and media.size <= MOST_BYTES


def images_in(case: ReviewedCase) -> Iterator[Media]:
    """Return the images in the messages of a case that a page may show."""
    media = (span.media for message in case.prompt for span in message.spans if span.media)
    return filter(may_be_shown, media)


class Images:
    """The media of a page, and which of them it shows."""

    def __init__(self, *readers: Callable[[str], bytes | None]) -> None:
        self._readers = readers  # return the bytes of an image by its digest; None if not known
        self._media: dict[tuple[str, str], tuple[int, Media]] = {}  # by digest and name

    def number(self, media: Media) -> int:
        """Return the number of media in what ``records`` returns."""
        return self._media.setdefault((media.digest, media.text), (len(self._media), media))[0]

    def records(
        self, first: Iterable[Media], number_of: Callable[[str], int]
    ) -> list[dict[str, Any]]:
        """Return what the page shows of each: an image, or why there is none.

        Those that are ``first`` get room before all others; strings are given by their numbers.
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
        data = next(filter(None, (read(media.digest) for read in self._readers)), None)
        if data is None:
            return None, "Not shown: its bytes are not known, only their digest."
        width, height = pixels_of(data, media.media_type) or (0, 0)
        if type_of(data[:HEAD]) != media.media_type or not width:
            return None, "Not shown: its header does not say how large it is."
        if width * height > MOST_PIXELS:
            return None, f"Not shown: it has {width:,} × {height:,} pixels."  # noqa: RUF001 - a sign
        return data, ""
