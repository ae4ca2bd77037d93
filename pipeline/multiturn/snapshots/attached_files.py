"""Attached files as reviewers see them: texts, or images, documents and audio by what is known."""

import os
from collections.abc import Set
from contextlib import suppress

from toolz import unique

from multiturn.errors import MultiturnError
from multiturn.files.media import Media
from multiturn.snapshots.locations import digest
from multiturn.snapshots.text_diff import changed_lines
from multiturn.text import size_in_words

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
    was, now = size_in_words(old.size), size_in_words(new.size)
    if old.media_type != new.media_type:
        sizes = f"{old.media_type}, {was}, to {new.media_type}, {now}"
    elif old.size == new.size:
        sizes = f"other bytes, {now} as before"
    else:
        sizes = f"{was} to {now}" if was != now else f"{old.size:,} to {new.size:,} bytes"
    return f"{path}: {new.kind} changed: {sizes}"


def _type_and_size(attached: Attached) -> str:
    if isinstance(attached, str):
        return "text"
    return f"{attached.kind_in_words} of {size_in_words(attached.size)}"


def earlier_text(root: str, path: str, digests: Set[str]) -> str | None:
    """Return the text of a file, by its path from a root, that has one of some digests.

    The last commits that changed the file are looked at; None if none of them has such a text.
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
