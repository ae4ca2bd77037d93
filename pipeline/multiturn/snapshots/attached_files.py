"""Attached files as reviewers see them: texts, or images, documents and audio by what is known."""

import os
from collections.abc import Mapping, Set
from contextlib import suppress

from toolz import unique

from multiturn.errors import MultiturnError
from multiturn.files.media import Media
from multiturn.snapshots.locations import digest
from multiturn.snapshots.text_diff import changed_lines
from multiturn.text import first_of, size_in_words

Attached = str | Media  # a file: its text, or its media

# A pull request is checked out as a merge; -m compares that with both of its parents.
_LOG = ("log", "-m", "--format=", "--raw", "--no-abbrev", "--no-renames", "--max-count=20")


def text_to_review(attached: Attached) -> str:
    """Return the text of a file; of media, what is known of the bytes."""
    return attached if isinstance(attached, str) else attached.facts


def change_in_words(path: str, old: Attached, new: Attached, *, has_lines: bool = False) -> str:
    """Return how a file has changed; if ``has_lines``, also which lines of a text.

    >>> small = Media("image", "image/png", 12_345, "0a")
    >>> change_in_words("a.png", small, small.replace(size=14_100, digest="0b"))
    'a.png: image changed: 12 kB to 14 kB'
    """
    if isinstance(old, str) and isinstance(new, str):
        return f"{path} {changed_lines(old, new) if has_lines else 'changed'}"
    if isinstance(old, str) or isinstance(new, str) or old.kind != new.kind:
        return f"{path}: {_type_and_size(old)} became {_type_and_size(new)}"
    return f"{path}: {new.kind} changed: {_changed_sizes(old, new)}"


def new_in_words(path: str, new: Attached, known: Mapping[str, str]) -> str:
    """Return that a file is new; of media, also whose bytes they were.

    Args:
        path: of the file.
        new: what it is.
        known: the digests of files as they were, by their paths.
    """
    same = [other for other, sha256 in known.items() if sha256 == digest(new) and other != path]
    has_others = isinstance(new, Media) and same
    return f"{path} is new" + (f", with the bytes of {first_of(same)}" if has_others else "")


def _type_and_size(attached: Attached) -> str:
    if isinstance(attached, str):
        return "text"
    return f"{attached.kind_in_words} of {size_in_words(attached.size)}"


def _changed_sizes(old: Media, new: Media) -> str:
    """Return what is different between the bytes of two media of one kind."""
    was, now = size_in_words(old.size), size_in_words(new.size)
    if old.media_type != new.media_type:
        return f"{old.media_type}, {was}, to {new.media_type}, {now}"
    if old.size == new.size:
        return f"other bytes, {now} as before"
    return f"{was} to {now}" if was != now else f"{old.size:,} to {new.size:,} bytes"


def earlier_text(root: str, path: str, digests: Set[str]) -> str | None:
    """Return the text of a file that has one of these digests; None if Git has no such one.

    The lists have only digests. The last commits that changed the file are looked at.

    Args:
        root: what the path is relative to.
        path: of the file.
        digests: SHA-256 of texts as they are sent.
    """
    from multiturn.engine.revision import git

    with suppress(MultiturnError):  # no Git, or no repository
        log = git("-C", root, *_LOG, "--", os.path.join(".", path)) if digests else ""
        entries = [line.split()[2:4] for line in log.splitlines() if line.startswith(":")]
        for blob in unique(blob for old, new in entries for blob in (new, old) if blob.strip("0")):
            text = git("-C", root, "cat-file", "blob", blob).removeprefix("\ufeff").rstrip("\n")
            if digest(text) in digests:
                return text
    return None
