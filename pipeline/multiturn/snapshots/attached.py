"""Attached files as reviewers see them: texts, or images, documents and audio by what is known."""

from collections.abc import Mapping

from multiturn.files.media import Media
from multiturn.snapshots.locations import digest
from multiturn.snapshots.text_diff import changed_lines
from multiturn.text import first_of, size_in_words

Attached = str | Media  # a file: its text, or its media


def shown(attached: Attached) -> str:
    """Return the text of a file; of media, what is known of the bytes."""
    return attached if isinstance(attached, str) else attached.facts


def media_in(files: Mapping[str, Attached]) -> dict[str, Media]:
    """Return those of some files that are images, documents or audio."""
    return {path: file for path, file in files.items() if isinstance(file, Media)}


def change_in_words(path: str, old: Attached, new: Attached) -> str:
    """Return how a file has changed.

    >>> small = Media("image", "image/png", 12_345, "0a")
    >>> change_in_words("a.png", small, small.replace(size=14_100, digest="0b"))
    'a.png: image changed: 12 kB to 14 kB'
    """
    if isinstance(old, str) and isinstance(new, str):
        return f"{path} changed"
    if isinstance(old, str) or isinstance(new, str) or old.kind != new.kind:
        return f"{path}: {_what(old)} became {_what(new)}"
    return f"{path}: {new.kind} changed: {_sizes(old, new)}"


def new_in_words(path: str, new: Attached, known: Mapping[str, str]) -> str:
    """Return that a file is new; of media, also whose bytes they were.

    Args:
        path: of the file.
        new: what it is.
        known: the digests of files as they were, by their paths.
    """
    same = [other for other, sha256 in known.items() if sha256 == digest(new) and other != path]
    if not isinstance(new, Media) or not same:
        return f"{path} is new"
    return f"{path} is new, with the bytes of {first_of(same)}"


def cause_in_words(path: str, old: Attached, new: Attached) -> str:
    """Return how a file has changed, for a text with the lines where it has."""
    if isinstance(old, str) and isinstance(new, str):
        return f"{path} {changed_lines(old, new)}"
    return change_in_words(path, old, new)


def _what(attached: Attached) -> str:
    if isinstance(attached, str):
        return "text"
    return f"{attached.kind_in_words} of {size_in_words(attached.size)}"


def _sizes(old: Media, new: Media) -> str:
    """Return what is different between the bytes of two media of one kind."""
    if old.media_type != new.media_type:
        was, now = (f"{each.media_type}, {size_in_words(each.size)}" for each in (old, new))
        return f"{was}, to {now}"
    if old.size == new.size:
        return f"other bytes, {size_in_words(new.size)} as before"
    was, now = size_in_words(old.size), size_in_words(new.size)
    return f"{was} to {now}" if was != now else f"{old.size:,} to {new.size:,} bytes"
