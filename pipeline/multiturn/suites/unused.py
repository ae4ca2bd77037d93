"""Guideline patterns of a suite that match none of the files that it attaches."""

from collections.abc import Iterator
from contextlib import suppress

from multiturn.documents.node import Node
from multiturn.errors import MultiturnError, quoted
from multiturn.files.finding import Files
from multiturn.files.media import FILE_TYPES, is_address
from multiturn.logs import Notice
from multiturn.model.case import Case
from multiturn.suites.patterns import guideline_matcher

EVENT = "suite.unused_pattern"
MAX_JUDGED = 100  # each is matched against each file by itself


class UnusedPatterns:
    """The patterns that no file of the cases seen so far matches; of over 100, none is judged."""

    def __init__(self, patterns: Node | None, name: str) -> None:
        self._name = name
        self._seen: dict[str, list[str]] = {}  # the paths of a file, by how the suite writes it
        self._left: dict[str, Node] = {}
        for node in patterns.children if patterns is not None and patterns.children else ():
            if not node.value.startswith("!"):
                self._left.setdefault(node.value, node)
        if len(self._left) > MAX_JUDGED:
            self._left.clear()

    def see(self, found: Case | MultiturnError) -> None:
        """Take out what the files of a case match; after an error, nothing is known to be left."""
        if isinstance(found, MultiturnError):
            self._left.clear()
            return
        for message in found.input_messages if self._left else ():
            content = message.content
            for segment in content if isinstance(content, list) else [content]:
                match segment:
                    case {"type": str(kind), "value": str(path)} if kind in FILE_TYPES:
                        if found.files is not None and not is_address(path, kind):
                            self._see_file(path, found.files)

    def _see_file(self, written: str, files: Files) -> None:
        if written in self._seen:
            return
        paths = self._seen[written] = [written]
        with suppress(MultiturnError):  # the error comes when the case is converted
            paths.append(files.find(written))
        for pattern in list(self._left):
            if guideline_matcher((pattern,))(*paths):
                del self._left[pattern]

    def warnings(self) -> Iterator[Notice]:
        """Yield a warning for each pattern that is left."""
        for pattern, node in self._left.items():
            what = f"the guideline pattern {quoted(pattern)} matches no file of the suite"
            advice, deeper = "correct or remove it", f"**/{pattern}"
            if any(guideline_matcher((deeper,))(*paths) for paths in self._seen.values()):
                advice = f"did you mean {quoted(deeper)}?"
            yield Notice(EVENT, node.place(self._name), f"{what}; {advice}")
