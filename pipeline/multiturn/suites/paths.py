"""Paths that stand where texts do: whoever wrote one meant the file."""

import os
import re
from contextlib import suppress

from multiturn.documents.node import Node
from multiturn.errors import MultiturnError, cut, quoted
from multiturn.files.finding import Files
from multiturn.files.media import FILE_TYPES
from multiturn.suites.keys import KeyCheck

EVENT = "suite.path_as_text"
_PATH = re.compile(r"\S*(?:/\S*|\.\w+)")
_LONGEST = 1000
_URL = "file://"


def may_be_path(text: str) -> bool:
    """Return whether a text looks like a path; quick, as each text is asked for."""
    return len(text) <= _LONGEST and _PATH.fullmatch(text) is not None


def warn_of_path(text: Node, files: Files, check: KeyCheck, label: str, advice: str) -> None:
    """Warn of a text that is the path of a file; ``advice`` ends the sentence."""
    written = text.value
    is_url = written.startswith(_URL)
    if is_url or _is_file(written, files):
        path = written.removeprefix(_URL)
        what = f"{quoted(written)} is sent as text, not as the file; "
        check.warn(EVENT, text.place(check.name, label), what + advice.format(path=path))


def warn_of_file_key(content: Node, check: KeyCheck, label: str) -> None:
    """Warn of structured content that has nothing but a ``file``, an ``image`` and so on."""
    match [*content.value.items()]:
        case [(str(kind), str(path))] if kind in FILE_TYPES:
            advice = f"to attach it, write {{type: {kind}, value: {cut(path)}}}"
            what = f"{{{kind}: {cut(path)}}} is sent as JSON; {advice}"
            check.warn(EVENT, content.place(check.name, label), what)


ATTACH = "to attach it, write {{type: file, value: {path}}}"
AS_GUIDELINE = "attach it in a message, and let guideline_patterns match it"


def _is_file(written: str, files: Files) -> bool:
    """Return whether a suite could attach a file by a path; quick where there is none."""
    path = written.lstrip("/")
    if not any(os.path.isfile(os.path.join(folder, path)) for folder in files.folders):
        return False
    with suppress(MultiturnError):
        return bool(files.find(written))
    return False
