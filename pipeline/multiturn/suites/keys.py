"""Unknown keys: one that is nearly a key of the prompt is an error, any other one a warning."""

from collections.abc import Iterable, Set
from functools import cache

from msgspec import Struct

from multiturn.documents.node import MAX_VALUES, Node
from multiturn.errors import MultiturnError, cut, did_you_mean, nearest, nearly
from multiturn.logs import Notice
from multiturn.suites.dialects import OTHER_KEYS
from multiturn.suites.schema import ExecutionKeys, MetadataKeys

# Text under another spelling of these would be missing from the prompt.
_PROMPT_KEYS = {
    *("systemPrompt", "guideline_patterns", "guidelines", "input_messages"),
    *("role", "content", "type", "value"),
}
_ELSEWHERE = {
    "systemPrompt": "write it under metadata",
    "guideline_patterns": "write it at the top of the suite",
}
# What other tools have in a suite or a case.
_INSTEAD = {
    "system": "write a system prompt as systemPrompt under metadata",
    "files": "attach a file in a content, as {type: file, value: PATH}",
    "attachments": "attach a file in a content, as {type: file, value: PATH}",
}
MAX_WARNED = 100


class KeyCheck:
    """Checks the keys of one suite; whoever reports its ``warnings`` takes them out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.warnings: list[Notice] = []
        self._warned: set[tuple[frozenset[str], str]] = set()
        # Keys that resemble none of the prompt's: each case may have the same, by a merge key.
        self._unlike: dict[frozenset[str], set[str]] = {}

    def check(self, node: Node, *structs: type[Struct], label: str = "") -> None:
        """Warn of keys of a mapping that no struct has; refuse what is nearly the prompt's."""
        known = names_of(structs)
        if node.value.keys() <= known:
            return
        meant = known & _PROMPT_KEYS
        if "guidelines" in known:  # a suite or a case
            meant |= _ELSEWHERE.keys()
        unlike = self._unlike.setdefault(known, set())
        for key in node.value:
            if key in known or key in OTHER_KEYS or key in unlike:
                continue
            self._refuse_nearly(node, key, sorted(meant), known, label)
            self._warn(node, key, known)
            if len(unlike) < MAX_VALUES and nearly(key, meant) is None:
                unlike.add(key)

    def check_execution(self, execution: Node) -> None:
        """Warn of keys that are like those that matter here; all others are for other tools."""
        known = names_of((ExecutionKeys,))
        for key in execution.value:
            if key not in known and nearest(key, ("temperature", "max_output_tokens")):
                self._warn(execution, key, known)

    def check_metadata(self, metadata: Node, label: str) -> None:
        """Check metadata, whose other keys are free, for other spellings of ``systemPrompt``."""
        known = names_of((MetadataKeys,))
        for key in metadata.value:
            if key not in known:
                self._refuse_nearly(metadata, key, {"systemPrompt"}, known, label)

    def check_structured(self, content: Node, label: str) -> None:
        """Check structured content, whose keys are free, for a segment with a misspelled type."""
        for key, value in content.value.items():
            if value in ("text", "file"):
                self._refuse_nearly(content, key, {"type"}, frozenset({"type"}), label)

    def refuse_misspelled(self, node: Node, missing: Iterable[str]) -> None:
        """Refuse a key that is nearly one of those that are missing, the likeliest first."""
        for key in node.value:
            self._refuse_nearly(node, key, missing, frozenset(missing), "")

    def _refuse_nearly(
        self, node: Node, key: str, meant: Iterable[str], known: Set[str], label: str
    ) -> None:
        name = nearly(key, meant, node.value.keys() & known)
        if name is not None:
            advice = did_you_mean(key, [name]) if name in known else _ELSEWHERE[name]
            what = f'unknown key "{cut(key)}"; {advice}'
            raise MultiturnError(what, where=node.children[key].key_place(self.name, label))

    def _warn(self, node: Node, key: str, known: frozenset[str]) -> None:
        if (known, key) in self._warned or len(self._warned) > MAX_WARNED:
            return
        self._warned.add((known, key))
        instead = _INSTEAD.get(key) if "guidelines" in known else None
        advice = instead or did_you_mean(key, sorted(known))
        where, why = node.children[key].key_place(self.name), f'unknown key "{cut(key)}"; {advice}'
        if len(self._warned) > MAX_WARNED:
            why = f"over {MAX_WARNED} unknown keys; the others are not listed"
        self.warnings.append(Notice("suite.unknown_key", where, why))


@cache
def names_of(structs: tuple[type[Struct], ...]) -> frozenset[str]:
    """Return the keys that structs have."""
    return frozenset(name for struct in structs for name in struct.__struct_encode_fields__)
