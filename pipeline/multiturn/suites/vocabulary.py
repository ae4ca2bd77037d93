"""The keys of suites, as any tool writes them, and what becomes of each.

A key is used, or it does not concern the prompt (``IRRELEVANT``), or the tool that it belongs to
would make prompt text of it, so that it is an error here (``REFUSED``). Any other key is a warning.
docs/suites.md shows the tables.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from multiturn.model.case import CASES_KEYS, MESSAGES_KEYS
from multiturn.suites.block_forms import BLOCK_FORMS
from multiturn.suites.schema import (
    CallKeys,
    CaseKeys,
    HiddenKeys,
    MediaKeys,
    MessageKeys,
    SegmentKeys,
    SuiteKeys,
    ThinkingKeys,
    ToolKeys,
)

CASES = frozenset(CASES_KEYS)
SUITE_NAMES = dict.fromkeys(CASES_KEYS[1:], "evalcases")
CASE_NAMES = {
    **dict.fromkeys(MESSAGES_KEYS[1:], "input_messages"),
    "expected_output": "expected_messages",
    "preferred_output": "expected_messages",
    "expected_outcome": "outcome",
    "criteria": "outcome",
    "ideal": "expected_messages",
}
# Beside one of INPUT_KEYS only: elsewhere, a target is what a run sends prompts to.
ANSWER_NAMES = {"target": "expected_messages"}
INPUT_KEYS = frozenset(MESSAGES_KEYS[1:])
DEFAULTS_KEYS = ("default_test", "defaultTest")
ROLE_NAMES = {"developer": "system"}

# Of AgentV, promptfoo, inspect_ai, OpenAI and GitHub Models, November 2026.
_EVERYWHERE = frozenset(
    {
        *("aggregation", "assert", "assertScoringFunction", "assertionTemplates", "assertions"),
        *("author", "budget_usd", "category", "dataset", "depends_on", "description"),
        *("early_exit", "env", "environment", "evaluate_options", "evaluator", "evaluators"),
        *("experiment", "extensions", "governance", "graders", "license", "metrics", "mode"),
        *("model", "name", "on_dependency_failure", "on_turn_failure", "outputPath"),
        *("preprocessors", "provider", "providers", "repeat", "requires", "rubrics", "run"),
        *("runs", "sharing", "suite", "tags", "target", "targets", "testData", "threshold"),
        *("timeout_seconds", "version", "window_size", "workspace"),
    }
)
IRRELEVANT: Mapping[str, frozenset[str]] = {
    "suite": _EVERYWHERE
    | {
        *("commandLineOptions", "derivedMetrics", "evaluateOptions", "nunjucksFilters"),
        *("tracing", "writeLatestResults"),
    },
    "case": _EVERYWHERE
    | {
        *("non_preferred_output", "parallel_tool_calls", "prompts", "providerOutput", "sandbox"),
        *("setup",),
    },
    "message": frozenset({"annotations", "id", "metadata", "model", "source", "weight"}),
    "options": frozenset(
        {
            *("disableConversationVar", "disableDefaultAsserts", "disableVarExpansion"),
            *("factuality", "postprocess", "provider", "rubricPrompt", "runSerially"),
            *("storeOutputAs", "transform"),
        }
    ),
    "input": frozenset({"parallel_tool_calls"}),
    "tool": frozenset({"cache_control"}),
    "call": frozenset({"index", "view"}),
    "block": frozenset(
        {
            *("annotations", "cache_control", "caller", "internal", "logprobs"),
            *("prompt_cache_breakpoint",),
        }
    ),
}

_AS_PROMPT = "write it as systemPrompt under metadata"
_NO_PART = "cannot be part of a chat prompt"
_ELSEWHERE = "name cases that are not read here; name their files as tests"
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
        "imports": _ELSEWHERE,
        "scenarios": _ELSEWHERE,
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


class Vocabulary(NamedTuple):
    """The keys of a mapping."""

    ours: frozenset[str]  # those of our own format
    used: frozenset[str]
    known: frozenset[str]  # used, or irrelevant to the prompt
    refused: Mapping[str, str]  # each with the reason


def _fields(*structs: type[Struct]) -> frozenset[str]:
    return frozenset(name for struct in structs for name in struct.__struct_encode_fields__)


_OURS: Mapping[str, frozenset[str]] = {
    "suite": _fields(SuiteKeys),
    "case": _fields(CaseKeys),
    "message": _fields(MessageKeys),
    "segment": _fields(SegmentKeys),
    "tool": _fields(ToolKeys),
    "call": _fields(CallKeys),
    "thinking": _fields(ThinkingKeys),
    "redacted_thinking": _fields(HiddenKeys),
    "media": _fields(MediaKeys),
    **{place: _fields(keys) for place, keys in BLOCK_FORMS.items()},
}
_OF_OTHERS: Mapping[str, Collection[str]] = {
    "suite": {*SUITE_NAMES, *DEFAULTS_KEYS, "input", "input_files", "options", "prompts", "vars"},
    "case": {*CASE_NAMES, *ANSWER_NAMES, "input_files", "options", "vars"},
    "defaults": {"options", "vars"},
    "input": {"messages", "tools"},
    "tool": {"function", "input_schema", "type"},
    "call": {"function", "type"},
    "function": {"name", "arguments"},
}


@cache
def vocabulary(*places: str) -> Vocabulary:
    """Return the keys of what stands in one or more places: a bare case is a suite and a case."""
    ours = frozenset(key for place in places for key in _OURS.get(place, ()))
    used = ours.union(*(_OF_OTHERS.get(place, ()) for place in places))
    asked = ["case" if place == "defaults" else place for place in places]
    irrelevant = frozenset(key for place in asked for key in IRRELEVANT.get(place, ()))
    refused = {key: why for place in asked for key, why in REFUSED.get(place, {}).items()}
    return Vocabulary(ours, used, used | irrelevant, refused)


OF_CASES = vocabulary("case").known
OF_MESSAGES = vocabulary("message").known
