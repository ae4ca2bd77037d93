"""The keys of suites, as any tool writes them, and what becomes of each.

A key is used, or it does not concern the prompt (``IRRELEVANT``), or the tool that it belongs to
would make prompt text of it, so that it is an error here (``REFUSED``). Any other key is a warning.
docs/suites.md shows the tables.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import cache
from types import NoneType
from typing import Any, get_args

from msgspec import Struct, defstruct

from multiturn.documents.node import MAX_VALUES, Node
from multiturn.errors import InputError, MultiturnError, Place, cut, did_you_mean, nearest, nearly
from multiturn.files.media import Detail
from multiturn.logs import Notice
from multiturn.model.case import CASES_KEYS, MESSAGES_KEYS
from multiturn.model.settings import OTHER_NAMES, SETTINGS
from multiturn.suites import schema

CASES = frozenset(CASES_KEYS)
ANSWER = "expected_output"  # also among the variables
SUITE_NAMES = dict.fromkeys(CASES_KEYS[1:], "evalcases")
CASE_NAMES = {
    **dict.fromkeys(MESSAGES_KEYS[1:], "input_messages"),
    ANSWER: "expected_messages",
    "preferred_output": "expected_messages",
    "expected_outcome": "outcome",
    "criteria": "outcome",
    "ideal": "expected_messages",
}
# Beside one of INPUT_KEYS only: elsewhere, a target is what a run sends prompts to.
ANSWER_NAMES = {"target": "expected_messages"}
_EXPECTED = "expected_messages"
ANSWERS = {_EXPECTED, *(key for key, name in CASE_NAMES.items() if name == _EXPECTED)}
INPUT_KEYS = frozenset(MESSAGES_KEYS[1:])
DEFAULTS_KEYS = ("default_test", "defaultTest")
ROLE_NAMES = {"developer": "system"}

# Of AgentV, promptfoo, inspect_ai, OpenAI and GitHub Models, November 2026.
_EVERYWHERE = (
    "aggregation assert assertions assertionTemplates assertScoringFunction author budget_usd "
    "category dataset depends_on description early_exit env environment evaluate_options "
    "evaluator evaluators experiment extensions governance graders license metrics mode model "
    "name on_dependency_failure on_turn_failure outputPath preprocessors provider providers "
    "repeat requires rubrics run runs sharing suite tags target targets testData threshold "
    "timeout_seconds version window_size workspace"
)
IRRELEVANT: Mapping[str, frozenset[str]] = {
    place: frozenset(keys.split())
    for place, keys in {
        "suite": (
            f"{_EVERYWHERE} commandLineOptions derivedMetrics evaluateOptions nunjucksFilters "
            "tracing writeLatestResults"
        ),
        "case": (
            f"{_EVERYWHERE} non_preferred_output parallel_tool_calls prompts providerOutput "
            "sandbox setup"
        ),
        "message": "annotations id metadata model source weight",
        "options": (
            "disableConversationVar disableDefaultAsserts disableVarExpansion factuality "
            "postprocess provider rubricPrompt runSerially storeOutputAs transform"
        ),
        "input": "parallel_tool_calls",
        "execution": (
            "agent agent_options assertions budget_usd budgetUsd cache early_exit evaluators "
            "fail_on_error failOnError model repeat runs sandbox skip_defaults target targets "
            "threshold timeout_seconds trials workers workspace"
        ),
        "tool": "_meta annotations cache_control execution icons outputSchema title",
        "call": "index view",
        "block": (
            "annotations cache_control caller citations internal logprobs prompt_cache_breakpoint"
        ),
    }.items()
}

_AS_PROMPT = "write it as systemPrompt under metadata"
_NO_PART = "cannot be part of a chat prompt"
_OTHER_CASES = "name cases that are not read here; name their files as tests"
_IN_MESSAGES = "would be part of the prompt in promptfoo; write it in the messages"
_IN_ACCOUNT = "is of a file in an account of OpenAI's, which is not read; write its bytes as"
_OF_DOCUMENT = "would be part of the prompt; write it as text before the document"
_VALUE = "and value are one thing; keep value"
_OLD_FORM = "is OpenAI's old form; write"
_OF_BOTH = {
    "system": _AS_PROMPT,
    "instructions": _AS_PROMPT,
    "instruction": "is not read; make it a part of the input",
    "functions": f"{_OLD_FORM} tools",
}
REFUSED: Mapping[str, Mapping[str, str]] = {
    "suite": {
        **_OF_BOTH,
        "imports": _OTHER_CASES,
        "scenarios": _OTHER_CASES,
        "redteam": "makes tests by a model when promptfoo runs; save them by promptfoo redteam"
        " generate, and render those by its provider echo",
        "data_source": "is a run of OpenAI's evals, which makes its messages of a template and of"
        " items; write the messages of each item as input_messages",
    },
    "case": {
        **_OF_BOTH,
        "choices": "would be part of the prompt in inspect_ai; write them in the input",
        "include": "names cases that are not read here; name their file in tests",
        "turns": "are played live, by a mode that multiturn does not have; write the conversation"
        " as input_messages",
    },
    "execution": {other: f"write it as {name}" for other, name in OTHER_NAMES.items()},
    "message": {
        "function_call": f"{_OLD_FORM} tool_calls, and tool_call_id in the result",
        "refusal": f"{_NO_PART}; write it as the content",
        "name": f"{_NO_PART}; write it in the content, and example_user and example_assistant as"
        " the roles user and assistant; in the result of a call, add tool_call_id",
        "call_id": "is of OpenAI's Responses API; write tool_calls, and tool_call_id in the result",
    },
    "options": {
        "prefix": _IN_MESSAGES,
        "suffix": _IN_MESSAGES,
        "transformVars": "would change the messages in promptfoo; write them as they shall be",
    },
    "call": {
        "args": "write arguments",
        "input": "write arguments",
        "parse_error": "says that the arguments are not as the model wrote them; correct them",
    },
    "function": {"args": "write arguments", "input": "write arguments"},
    "tool_use": {"arguments": "write input"},
    "input": {"functions": f"{_OLD_FORM} tools"},
    "segment": {"text": _VALUE},
    "media": dict.fromkeys(("audio", "document", "file", "image", "path", "source"), _VALUE),
    "file.file": {"file_id": f"{_IN_ACCOUNT} file_data"},
    "input_file": {"file_id": f"{_IN_ACCOUNT} file_data"},
    "input_image": {"file_id": f"{_IN_ACCOUNT} image_url"},
    "source": dict.fromkeys(("context", "title"), _OF_DOCUMENT),
}


# The keys of the blocks of AgentV and inspect_ai, November 2026; those that may be None may be
# missing. Those of OpenAI and Anthropic are in their vendors' own modules, which are imported for
# a suite that has such blocks only.
_FORMS: Mapping[str, Mapping[str, Any]] = {
    # AgentV: a path, an address or a data: URI
    "named source": {"type": str, "source": str, "media_type": str | None},
    # inspect_ai, likewise
    "image": {"type": str, "image": str, "detail": Detail | None},
    "audio": {"type": str, "audio": str, "format": str | None},
    "document": {"type": str, "document": str, "filename": str | None, "mime_type": str | None},
    "reasoning": {
        "type": str,
        "reasoning": str,
        **dict.fromkeys(("summary", "signature"), str | None),
        "redacted": bool | None,
        "vendor": schema.Vendor | None,
    },
}


def _form(keys: Mapping[str, Any]) -> type[Struct]:
    fields = [
        (key, type_, None) if NoneType in get_args(type_) else (key, type_)
        for key, type_ in keys.items()
    ]
    return defstruct("Form", fields, kw_only=True)


@cache
def block_forms() -> Mapping[str, type[Struct]]:
    """Return the form of each kind of block, by the places that the vocabulary has them under."""
    from multiturn.providers.anthropic import messages as anthropic
    from multiturn.providers.openai import chat as openai

    forms = {**openai.FORMS, **anthropic.FORMS, **_FORMS}
    return {place: _form(keys) for place, keys in forms.items()}


class Vocabulary(Struct, frozen=True):
    """The keys of a mapping."""

    ours: frozenset[str]  # those of our own format
    used: frozenset[str]
    known: frozenset[str]  # used, or irrelevant to the prompt
    refused: Mapping[str, str]  # each with the reason


def _fields(*structs: type[Struct]) -> frozenset[str]:
    return frozenset(name for struct in structs for name in struct.__struct_encode_fields__)


_OURS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("block", "defaults", "function", "input", "options"), frozenset[str]()),
    "suite": _fields(schema.SuiteKeys),
    "case": _fields(schema.CaseKeys),
    "execution": frozenset(SETTINGS),
    "message": _fields(schema.MessageKeys),
    "segment": _fields(schema.SegmentKeys),
    "tool": _fields(schema.ToolKeys),
    "call": _fields(schema.CallKeys),
    "thinking": _fields(schema.ThinkingKeys),
    "redacted_thinking": _fields(schema.HiddenKeys),
    "media": _fields(schema.MediaKeys),
}
_OF_OTHERS: Mapping[str, Collection[str]] = {
    "suite": {*SUITE_NAMES, *DEFAULTS_KEYS, "input", "input_files", "options", "prompts", "vars"},
    "case": {*CASE_NAMES, *ANSWER_NAMES, "input_files", "options", "vars"},
    "defaults": {"options", "vars"},
    "input": {"messages", "tools"},
    "tool": {"function", "inputSchema", "input_schema", "type"},
    "call": {"function", "type"},
    "function": {"name", "arguments"},
}


@cache
def vocabulary(*places: str) -> Vocabulary:
    """Return the keys of what stands in one or more places: a bare case is a suite and a case."""
    blocks = [place for place in places if place not in _OURS]
    ours = frozenset[str]().union(*(_OURS[place] for place in places if place in _OURS))
    ours = ours.union(*(_fields(block_forms()[place]) for place in blocks))
    used = ours.union(*(_OF_OTHERS.get(place, ()) for place in places))
    asked = ["case" if place == "defaults" else place for place in places]
    irrelevant = frozenset(key for place in asked for key in IRRELEVANT.get(place, ()))
    refused = {key: why for place in asked for key, why in REFUSED.get(place, {}).items()}
    return Vocabulary(ours, used, used | irrelevant, refused)


OF_CASES = vocabulary("case").known


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
    "metadata": "write it at the top of the suite, for all cases",  # in default_test
    **dict.fromkeys(SETTINGS, "write it under execution"),
    "max_tokens": "write it as max_output_tokens under execution",
    "modelParameters": "write its settings under execution",
}
MAX_WARNED = 100


class KeyCheck:
    """Checks the keys of one suite, and holds what there is to warn of."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._warnings: list[Notice] = []
        self._warned: set[str] = set()  # the events that were warned of
        self._unknown: dict[tuple[frozenset[str], str], tuple[Place, str]] = {}  # with advice
        self._times: Counter[tuple[frozenset[str], str]] = Counter()
        self._count = 0
        # Keys that resemble none of the prompt's: each case may have the same, by a merge key.
        self._unlike: dict[tuple[frozenset[str], frozenset[str]], set[str]] = {}

    def warn(self, event: str, where: Place, why: str, *, once: bool = False) -> None:
        """Hold a warning, or count it if it is one of too many; of some, hold only the first."""
        if once and event in self._warned:
            return
        self._warned.add(event)
        self._count += 1
        if self._count <= MAX_WARNED:
            self._warnings.append(Notice(event, where, why))

    def warnings(self) -> list[Notice]:
        """Return the warnings since the last call."""
        found, self._warnings = self._warnings, []
        return found

    def rest(self) -> Iterator[Notice]:
        """Yield, at the end, unknown keys, and how many warnings are not shown."""
        for kind, (where, advice) in self._unknown.items():
            yield unknown_key(kind[1], where, advice, self._times[kind])
        if self._count > MAX_WARNED:
            why = f"{self._count - MAX_WARNED:,} more warnings, of {self._count:,}, are not listed"
            yield Notice("suite.more_warnings", Place(self.name), why)

    def check(self, node: Node, *places: str, label: str = "") -> None:
        """Check each key of a mapping by what the vocabulary of its places says of it."""
        words = vocabulary(*places)
        if node.children.keys() <= words.known:
            return
        self.refuse(node, *places, label=label)
        meant = words.used & _PROMPT_KEYS
        if "guidelines" in words.used:  # a suite or a case
            meant |= _ELSEWHERE.keys()
        if "message" in places:
            meant |= _OF_ROLES.get(str(value_at(node.members, "role")), set())
        unlike = self._unlike.setdefault((words.known, frozenset(meant)), set())
        for key in node.members:
            if key in words.known or key in words.refused:
                continue
            if key in unlike:
                self._times[words.used, key] += 1
                continue
            self._refuse_nearly(node, key, sorted(meant), words.used, label)
            self._warn(node, key, words)
            if len(unlike) < MAX_VALUES and nearly(key, meant) is None:
                unlike.add(key)

    def refuse(self, node: Node, *places: str, label: str = "") -> None:
        """Refuse a key that another tool would make prompt text of, if anything is below it."""
        refused = vocabulary(*places).refused
        for key, child in node.members.items():
            if key in refused and child.value is not None and child.value not in ("", [], {}):
                why = refused[key]
                what = f'unknown key "{key}"; {why}' if why.startswith("write") else f"{key} {why}"
                raise InputError(what, where=child.key_place(self.name, label))

    def both(self, first: str, second: str, node: Node, label: str = "") -> MultiturnError:
        """Return the error for two keys that mean the same; a node has the one to remove."""
        what = f"{first} and {second} are one thing; keep one of them"
        return InputError(what, where=node.key_place(self.name, label))

    def refuse_misspelled(
        self, node: Node, meant: Iterable[str], label: str = "", known: Iterable[str] = ()
    ) -> None:
        """Refuse a key that is nearly one that is meant, the likeliest first, if it is unknown."""
        names = frozenset((*meant, *known))
        for key in node.members:
            if key not in names:
                self._refuse_nearly(node, key, meant, names, label)

    def _refuse_nearly(
        self, node: Node, key: str, meant: Iterable[str], known: Set[str], label: str
    ) -> None:
        name = nearly(key, meant, node.members.keys() & known)
        if name is not None:
            advice = did_you_mean(key, [name]) if name in known else _ELSEWHERE[name]
            what = f'unknown key "{cut(key)}"; {advice}'
            raise InputError(what, where=node.children[key].key_place(self.name, label))

    def _warn(self, node: Node, key: str, words: Vocabulary) -> None:
        """Count an unknown key, for one warning of all mappings of its kind."""
        kind = (words.used, key)
        self._times[kind] += 1
        if kind in self._unknown:
            return
        self._count += 1
        if self._count <= MAX_WARNED:  # those after them are only counted
            advice = _INSTEAD.get(key) if "vars" in words.used else None
            if advice is None:
                near = nearest(key, sorted(words.known))
                advice = did_you_mean(key, [near] if near else sorted(words.ours or words.known))
            self._unknown[kind] = (node.children[key].key_place(self.name), advice)


class UnknownKey(Notice, frozen=True, kw_only=True):
    """A warning of an unknown key, and how often it is there."""

    key: str
    advice: str
    times: int


def unknown_key(key: str, where: Place, advice: str, times: int) -> UnknownKey:
    """Return the warning of an unknown key; the place is the first."""
    said = f" ({times:,} times, first on line {where.line})" if times > 1 else ""
    what = f'unknown key "{cut(key)}"{said}; {advice}'
    return UnknownKey("suite.unknown_key", where, what, key=key, advice=advice, times=times)


def members_at(keys: Mapping[str, Node], key: str) -> dict[str, Node]:
    """Return the nodes of the mapping of a key; none if it is missing, or no mapping."""
    return keys[key].members if key in keys else {}


def value_at(keys: Mapping[str, Node], key: str) -> Any:
    """Return the value of a key; None if it is missing."""
    node = keys.get(key)
    return None if node is None else node.scalar if node.children is None else node.value
