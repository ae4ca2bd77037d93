"""What suites and cases say beside their messages; keys that mean nothing are warned of."""

from difflib import get_close_matches
from functools import cache, lru_cache

from msgspec import Struct

from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import Node
from multiturn.errors import MultiturnError, add_or_mend, did_you_mean, nearest
from multiturn.logs import logger
from multiturn.suites.schema import CaseKeys, ExecutionKeys, MetadataKeys, SuiteKeys

_NEAR = 0.8  # other keys of metadata are free, so little may be different in what is warned of


class SuiteSettings:
    """Reads the settings of one suite and its cases.

    Args:
        name: what errors and warnings call the suite.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.warned: set[tuple[frozenset[str], str]] = set()

    def no_cases(self, head: Node, is_case: bool) -> MultiturnError:
        """Return the error for a document that is a suite and a case, or nothing of it."""
        what = 'a suite has "evalcases:", a bare case has "input_messages:"; this has '
        if is_case:
            return MultiturnError(f"{what}both", where=head.place(self.name))
        unknown = [key for key in head.value if key not in _names((SuiteKeys, CaseKeys))]
        for key in ("evalcases", "input_messages"):
            near = nearest(key, unknown)
            if near is not None:
                what += f"neither{add_or_mend(key, unknown)}"
                return MultiturnError(what, where=head.children[near].key_place(self.name))
        return MultiturnError(f"{what}neither", where=head.place(self.name))

    def system_prompt(self, node: Node, label: str = "") -> str | None:
        """Return the system prompt in the metadata of a suite or a case."""
        metadata = node.children.get("metadata")
        if metadata is None or metadata.value is None:
            return None
        keys = read_as(
            metadata, MetadataKeys, where=self.name, label=f"{label}: metadata".removeprefix(": ")
        )
        if keys.system_prompt is not None and keys.systemPrompt is not None:
            what = "systemPrompt and system_prompt are one thing; keep one of them"
            raise MultiturnError(what, where=metadata.place(self.name, label))
        names = _names((MetadataKeys,))
        if names.isdisjoint(metadata.value):
            for key in filter(_is_nearly_prompt, metadata.value):
                self.warn(metadata, key, names, "systemPrompt")
        return keys.systemPrompt if keys.system_prompt is None else keys.system_prompt

    def execution(self, node: Node, label: str = "") -> ExecutionKeys:
        """Return what the ``execution`` of a suite or a case says of the answer wanted."""
        execution = node.children.get("execution")
        if execution is None or not isinstance(execution.value, dict):
            return ExecutionKeys()
        self.warn_unknown(execution, ExecutionKeys)
        label = f"{label}: execution".removeprefix(": ")
        return read_as(execution, ExecutionKeys, where=self.name, label=label)

    def warn_unknown(self, node: Node, *known: type[Struct]) -> None:
        """Warn of keys that mean nothing here, once a suite for each."""
        names = _names(known)
        if node.value.keys() <= names:
            return
        for key in node.value:
            if key not in names:
                self.warn(node, key, names, *sorted(names))

    def warn(self, node: Node, key: str, names: frozenset[str], *meant: str) -> None:
        """Warn of a key, unless that has been done where the same names are known."""
        if (names, key) in self.warned:
            return
        self.warned.add((names, key))
        place, hint = node.children[key].key_place(self.name), did_you_mean(key, meant)
        logger().warning("suite.unknown_key", key=key, where=str(place), hint=hint)


@cache
def _names(structs: tuple[type[Struct], ...]) -> frozenset[str]:
    return frozenset(name for struct in structs for name in struct.__struct_encode_fields__)


@lru_cache(1000)  # each case of a suite may have the same keys
def _is_nearly_prompt(key: str) -> bool:
    return bool(get_close_matches(key, _names((MetadataKeys,)), cutoff=_NEAR))
