"""Messages that stand in a variable of promptfoo, named by the only prompt of a suite."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import structs

from multiturn.documents.node import Node
from multiturn.errors import MultiturnError
from multiturn.suites.keys import KeyCheck
from multiturn.suites.vocabulary import DEFAULTS_KEYS, INPUT_KEYS

_VARIABLE = r"\s*\{\{-?\s*(?:vars\.)?(\w+)\s*-?\}\}\s*"


class Variables(NamedTuple):
    """What a suite says of the variables of its cases."""

    messages: str = ""  # the name of the one that holds the messages, if one does
    defaults: Mapping[str, Node] = {}  # those of all cases


def variables_of(keys: dict[str, Node], check: KeyCheck) -> Variables:
    """Take ``prompts`` and the defaults out of a suite, and return what they say."""
    both = [name for name in DEFAULTS_KEYS if name in keys]
    if len(both) > 1:
        raise check.both(both[0], both[1], keys[both[1]])
    messages = _only_prompt(keys.pop("prompts"), check.name) if "prompts" in keys else ""
    check_options(keys, check, "")
    values = _mapping(keys.get("vars"), "vars", check.name, "")
    if "input" in values:
        raise _no_prompts(values["input"], check.name, "")
    if not both:
        return Variables(messages)
    defaults = keys.pop(both[0])
    given = _mapping(defaults, both[0], check.name, "")
    if given:
        check.check(defaults, "defaults", label=both[0])
    check_options(given, check, both[0])
    variables = _mapping(given.get("vars"), "vars", check.name, both[0])
    if "input" in variables and not messages:
        raise _no_prompts(variables["input"], check.name, both[0])
    return Variables(messages, variables)


def take_messages(variables: Variables, keys: dict[str, Node], check: KeyCheck, label: str) -> str:
    """Write the variable with the messages as the ``input`` of a case; return its name, if any."""
    check_options(keys, check, label)
    own = keys.pop("vars", None)
    values = _mapping(own, "vars", check.name, label)
    written = next((key for key in (*INPUT_KEYS, "input_messages") if key in keys), "")
    name = variables.messages
    if not name:
        given = values.get("input")
        if given is not None and not written:
            raise _no_prompts(given, check.name, label)
        name = "input"
    else:
        given = values.get(name, variables.defaults.get(name))
    if given is None:
        if not written and variables.messages and own is not None:
            what = f"there is no vars.{name}, which holds the messages; add it"
            raise MultiturnError(what, where=own.key_place(check.name, label))
        return ""
    if written:
        raise check.both(written, f"vars.{name}", given, label)
    _check_plain(given, name, check.name, label)
    if given.source:  # a number, or a boolean: promptfoo writes it as text
        given = structs.replace(given, value=given.source, source=None)
    keys["input"] = given
    return f"vars.{name}"


def check_options(keys: Mapping[str, Node], check: KeyCheck, label: str) -> None:
    """Check the options of a suite, a case, or the defaults of all cases."""
    options = keys.get("options")
    if options is not None and _mapping(options, "options", check.name, label):
        check.check(options, "options", label=": ".join(filter(None, (label, "options"))))


def _only_prompt(prompts: Node, suite: str) -> str:
    """Return the variable that each prompt of a suite is; any other prompt is an error."""
    found = ""
    for prompt in prompts.children if isinstance(prompts.children, list) else [prompts]:
        match = re.fullmatch(_VARIABLE, prompt.value) if isinstance(prompt.value, str) else None
        if match is None or found not in ("", match[1]):
            what = "multiturn takes conversations, not templates; write each case's messages as its"
            what += ' input, or the only prompt as "{{ input }}" with vars.input'
            raise MultiturnError(what, where=prompt.place(suite))
        found = match[1]
    return found or "input"


def _mapping(given: Node | None, key: str, suite: str, label: str) -> dict[str, Node]:
    if given is None or given.value is None:
        return {}
    if not isinstance(given.children, dict):
        what = f"{key} must be a mapping; no file of it is read"
        raise MultiturnError(what, where=given.place(suite, label))
    return given.children


def _no_prompts(given: Node, suite: str, label: str) -> MultiturnError:
    what = 'vars.input is the messages only beside prompts: ["{{ input }}"]; write it as input'
    return MultiturnError(what, where=given.key_place(suite, label))


def _check_plain(given: Node, name: str, suite: str, label: str) -> None:
    """Refuse what promptfoo reads from a file, or makes several tests of."""
    what = ""
    if isinstance(given.value, str) and given.value.startswith("file://"):
        what = "is a file; write the text itself"
    elif isinstance(given.value, list) and not all(isinstance(m, dict) for m in given.value):
        what = "is a list, of which promptfoo makes several tests; write each as a test"
    if what:
        raise MultiturnError(f"vars.{name} {what}", where=given.place(suite, label))
