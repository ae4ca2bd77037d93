"""The earlier texts of attached files: the lists have only their digests, and Git the texts."""

import os
from collections.abc import Set
from contextlib import suppress

from multiturn.engine.git import git
from multiturn.errors import MultiturnError
from multiturn.snapshots.locations import digest

# A pull request is checked out as a merge; -m compares that with both of its parents.
_LOG = ("log", "-m", "--format=", "--raw", "--no-abbrev", "--no-renames", "--max-count=20")


def earlier_text(root: str, path: str, digests: Set[str]) -> str | None:
    """Return the text of a file that has one of these digests; None if Git has no such one.

    The last commits that changed the file are looked at.

    Args:
        root: what the path is relative to.
        path: of the file.
        digests: SHA-256 of texts as they are sent.
    """
    with suppress(MultiturnError):  # no Git, or no repository
        for blob in _blobs(root, path) if digests else ():
            text = git("-C", root, "cat-file", "blob", blob).removeprefix("\ufeff").rstrip("\n")
            if digest(text) in digests:
                return text
    return None


def _blobs(root: str, path: str) -> dict[str, None]:
    """Return the objects that a file was, the latest first."""
    log = git("-C", root, *_LOG, "--", os.path.join(".", path))
    entries = [line.split()[2:4] for line in log.splitlines() if line.startswith(":")]
    return {blob: None for old, new in entries for blob in (new, old) if blob.strip("0")}
