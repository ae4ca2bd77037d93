"""The keys of a suite's mappings: each is known, refused or warned of."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from multiturn.documents.node import MAX_VALUES, Node
from multiturn.errors import InputError, MultiturnError, Place, cut, did_you_mean, nearest, nearly
from multiturn.logs import Notice
from multiturn.suites.schema import ExecutionKeys, MetadataKeys
from multiturn.suites.vocabulary import Vocabulary, vocabulary

# Text under another spelling of these would be missing from the prompt.
_PROMPT_KEYS = {
    *("systemPrompt", "guideline_patterns", "guidelines", "input_messages"),
    *("role", "content", "type", "value"),
}
_OF_ROLES = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}  # likewise, of messages
_ELSEWHERE = {
    "systemPrompt": "write it under metadata",
    "guideline_patterns": "write it at the top of the suite",
}
# What other tools have in a suite or a case.
_INSTEAD = {
    **dict.fromkeys(
        ("files", "attachments"), "attach a file in a content, as {type: file, value: PATH}"
    ),
    **dict.fromkeys(
        ("temperature", "max_output_tokens", "tool_choice"), "write it under execution"
    ),
    "max_tokens": "write it as max_output_tokens under execution",
    "modelParameters": "write temperature and max_output_tokens under execution",
}
_EXECUTION = frozenset(ExecutionKeys.__struct_encode_fields__)
_OF_ANSWERS = ("temperature", "max_output_tokens", "tool_choice")
_METADATA = frozenset(MetadataKeys.__struct_encode_fields__)
MAX_WARNED = 100


class KeyCheck:
    """Checks the keys of one suite, and holds what there is to warn of."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._warnings: list[Notice] = []
        self._warned: set[tuple[frozenset[str], str]] = set()
        self._count = 0
        # Keys that resemble none of the prompt's: each case may have the same, by a merge key.
        self._unlike: dict[tuple[frozenset[str], frozenset[str]], set[str]] = {}

    def warn(self, event: str, where: Place, why: str) -> None:
        """Hold a warning, or count it if it is one of too many."""
        self._count += 1
        if self._count <= MAX_WARNED:
            self._warnings.append(Notice(event, where, why))

    def warn_once(self, event: str, where: Place, why: str) -> None:
        """Hold a warning, if it is the first of its event."""
        if (frozenset[str](), event) not in self._warned:
            self._warned.add((frozenset(), event))
            self.warn(event, where, why)

    def warnings(self) -> Iterator[Notice]:
        """Yield the warnings since the last call."""
        while self._warnings:
            yield self._warnings.pop(0)

    def rest(self) -> Iterator[Notice]:
        """Yield, at the end, how many warnings there are that are not shown."""
        if self._count > MAX_WARNED:
            why = f"{self._count - MAX_WARNED:,} more warnings, of {self._count:,}, are not listed"
            yield Notice("suite.more_warnings", Place(self.name), why)

    def check(self, node: Node, *places: str, label: str = "") -> None:
        """Check each key of a mapping by what the vocabulary of its places says of it."""
        words = vocabulary(*places)
        if node.members.keys() <= words.known:
            return
        self.refuse(node, *places, label=label)
        meant = words.used & _PROMPT_KEYS
        if "guidelines" in words.used:  # a suite or a case
            meant |= _ELSEWHERE.keys()
        if "message" in places:
            meant |= _OF_ROLES.get(str(value_at(node.members, "role")), set())
        unlike = self._unlike.setdefault((words.known, frozenset(meant)), set())
        for key in node.members:
            if key in words.known or key in words.refused or key in unlike:
                continue
            self._refuse_nearly(node, key, sorted(meant), words.used, label)
            self._warn(node, key, words)
            if len(unlike) < MAX_VALUES and nearly(key, meant) is None:
                unlike.add(key)

    def refuse(self, node: Node, *places: str, label: str = "") -> None:
        """Refuse a key that another tool would make prompt text of, if anything is below it."""
        refused = vocabulary(*places).refused
        if refused.keys().isdisjoint(node.members):
            return
        for key, child in node.children.items():
            if key in refused and child.value is not None and child.value not in ("", [], {}):
                why = refused[key]
                what = f'unknown key "{key}"; {why}' if why.startswith("write") else f"{key} {why}"
                raise InputError(what, where=child.key_place(self.name, label))

    def both(self, first: str, second: str, node: Node, label: str = "") -> MultiturnError:
        """Return the error for two keys that mean the same; a node has the one to remove."""
        what = f"{first} and {second} are one thing; keep one of them"
        return InputError(what, where=node.key_place(self.name, label))

    def check_execution(self, execution: Node) -> None:
        """Warn of keys that are like those that matter here; all others are for other tools."""
        words = Vocabulary(_EXECUTION, _EXECUTION, _EXECUTION, {})
        for key in execution.members:
            if key not in _EXECUTION and nearest(key, _OF_ANSWERS):
                self._warn(execution, key, words)

    def check_metadata(self, metadata: Node, label: str) -> None:
        """Check metadata, whose other keys are free, for other spellings of ``systemPrompt``."""
        for key in metadata.members:
            if key not in _METADATA:
                self._refuse_nearly(metadata, key, {"systemPrompt"}, _METADATA, label)

    def check_structured(self, content: Node, label: str) -> None:
        """Check structured content, whose keys are free, for a segment with a misspelled type."""
        for key, child in content.members.items():
            if child.value in ("text", "file"):
                self._refuse_nearly(content, key, {"type"}, frozenset({"type"}), label)

    def refuse_misspelled(self, node: Node, missing: Iterable[str]) -> None:
        """Refuse a key that is nearly one of those that are missing, the likeliest first."""
        for key in node.members:
            self._refuse_nearly(node, key, missing, frozenset(missing), "")

    def _refuse_nearly(
        self, node: Node, key: str, meant: Iterable[str], known: Set[str], label: str
    ) -> None:
        name = nearly(key, meant, node.members.keys() & known)
        if name is not None:
            advice = did_you_mean(key, [name]) if name in known else _ELSEWHERE[name]
            what = f'unknown key "{cut(key)}"; {advice}'
            raise InputError(what, where=node.children[key].key_place(self.name, label))

    def _warn(self, node: Node, key: str, words: Vocabulary) -> None:
        """Warn of an unknown key, once for all mappings of its kind."""
        if (words.used, key) in self._warned:
            return
        if self._count >= MAX_WARNED:  # those after them are only counted
            self._count += 1
            return
        self._warned.add((words.used, key))
        advice = _INSTEAD.get(key) if "guidelines" in words.used else None
        if advice is None:
            near = nearest(key, sorted(words.known))
            advice = did_you_mean(key, [near] if near else sorted(words.ours or words.known))
        what = f'unknown key "{cut(key)}"; {advice}'
        self.warn("suite.unknown_key", node.children[key].key_place(self.name), what)


def value_at(keys: Mapping[str, Node], key: str) -> Any:
    """Return the value of a key; None if it is missing."""
    return keys[key].value if key in keys else None
