"""What a stage declares: its options, and the facts it requires, provides and consumes."""

import inspect
import json
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import msgspec

from multiturn.documents.validation import choices_of, must_be
from multiturn.errors import InputError, Place, cut, did_you_mean, from_here
from multiturn.model.conversion import Conversion
from multiturn.model.turns import ROLES, is_blank

Stage = Callable[..., Conversion]
_S = TypeVar("_S", bound=Stage)
_NAME = "[A-Za-z_][A-Za-z0-9_]*"


# What stages make true of a Conversion, in the order in which they do; and what a stage that
# consumes it has done, in the words of errors. docs/stages.md has their meaning.
FACTS = {
    "turns": "taken them away",
    "files": "turned them into text",
    "history": "trimmed it",
    "guidelines": "used them up",
    "text": "taken it away",
    "chat": "left it out",
    "visible_turns": "used them up",
    "question": "left it out",
    "guarded": "taken it away",
}
_OWN_FACT = rf"{_NAME}(?:\.{_NAME})+"


def ordered_facts(facts: Iterable[str]) -> list[str]:
    """Return facts in the order in which a pipeline makes them; an author's own come last."""
    found = set(facts)
    return [fact for fact in FACTS if fact in found] + sorted(found - FACTS.keys())


class Contract(msgspec.Struct, frozen=True):
    """The facts a stage requires before it, provides after it, and consumes."""

    requires: frozenset[str]
    provides: frozenset[str]
    consumes: frozenset[str]

    def in_words(self) -> str:
        """Return ``requires ...; provides ...; consumes ...``, the facts in their order."""
        parts = msgspec.structs.asdict(self).items()
        return "; ".join(f"{verb} {', '.join(ordered_facts(each))}" for verb, each in parts if each)


def stage(
    *wrong: Any,
    requires: Collection[str] = (),
    provides: Collection[str] = (),
    consumes: Collection[str] = (),
) -> Callable[[_S], _S]:
    """Declare a function to be a stage; the function itself stays as it is.

    A stage takes a Conversion and keyword-only options, and returns a new Conversion. A fact of
    your own has a dot, such as ``house.redacted``. An error in the facts is raised where the stage
    is used, so that it spoils no other stage.

    Args:
        wrong: whatever has no name, which is an error, as where parentheses were forgotten.
        requires: facts that must be true before it runs.
        provides: facts that are true once it has run.
        consumes: facts that are true before it runs, and no longer after it.

    Raises:
        TypeError: the facts have no names.

    >>> @stage(requires={"chat"}, provides={"house.wrapped"})
    ... def wrap(conversion, *, tag="user_input"):
    ...     return conversion.edit_chat(wrapped, tag=tag)
    >>> contract_of(wrap).in_words()
    'requires chat; provides house.wrapped'
    """
    if wrong:
        raise TypeError("facts are given by their kind; write @stage(requires={...}), or @stage()")
    facts = {"requires": requires, "provides": provides, "consumes": consumes}

    def declare(function: _S) -> _S:
        function.__multiturn_facts__ = facts  # type: ignore[attr-defined]
        return function

    return declare


def is_declared(value: Any) -> bool:
    """Return whether a value is a function with ``@stage`` above it."""
    return isinstance(value, FunctionType) and hasattr(value, "__multiturn_facts__")


@cache
def contract_of(function: Stage) -> Contract | None:
    """Return what ``@stage`` declared, or raise the error in it; None without ``@stage``."""
    if not is_declared(function):
        return None
    given: Mapping[str, Collection[str]] = function.__multiturn_facts__  # type: ignore[attr-defined]
    if wrong := _wrong_fact(given):
        code = function.__code__
        raise InputError(wrong, where=Place(from_here(code.co_filename), code.co_firstlineno))
    return Contract(*map(frozenset, given.values()))


def _wrong_fact(given: Mapping[str, Collection[str]]) -> str:
    """Return the error in what a stage declares; empty if there is none."""
    for kind, facts in given.items():
        if isinstance(facts, str) or not isinstance(facts, Collection):
            example = facts if isinstance(facts, str) else "turns"
            return f'{kind} is a set of facts; write {kind}={{"{example}"}}'
        for fact in sorted(map(str, facts)):
            if fact not in FACTS and not re.fullmatch(_OWN_FACT, fact):
                hint = f"{did_you_mean(fact, FACTS)} (a fact of your own has a dot, such as"
                return f"there is no fact {fact!r}; {hint} house.redacted)"
    return ""


class Option(msgspec.Struct, frozen=True):
    """A keyword-only parameter of a stage."""

    type: Any
    default: Any

    def in_words(self) -> str:
        """Return the default as YAML has it, and what else there is to choose from."""
        if self.default is inspect.Parameter.empty:
            return "no default"
        chosen = self.default if isinstance(self.default, tuple) else (self.default,)
        others = [choice for choice in choices_of(self.type) if choice not in map(str, chosen)]
        return as_yaml_value(self.default) + (f" (or {', '.join(others)})" if others else "")


def as_yaml_value(value: Any) -> str:
    """Return the value of an option as one writes it in a pipeline file.

    >>> [as_yaml_value(value) for value in ("warn", "§ {path}", ("prompt",), None)]
    ['warn', '"§ {path}"', '["prompt"]', 'null']
    """
    if isinstance(value, str) and value.isidentifier():
        return value
    return json.dumps(value, ensure_ascii=False, default=repr)


def marker_text(*placeholders: str) -> msgspec.Meta:
    """Return an annotation for an option whose text begins a line of the prompt.

    No other text can pose as that line where the stage ``guard_markers`` is in the pipeline. It
    knows the line by the text before the first placeholder; ``{role}`` stands for each role.

    Args:
        placeholders: the names that may be in braces in the text; without any, braces are text.

    >>> from typing import Annotated
    >>> Header = Annotated[str, marker_text("path")]
    >>> @stage(requires={"files"}, consumes={"files"}, provides={"text"})
    ... def quote_files(conversion, *, header: Header = "File {path}:"): ...
    """
    known = [f"{{{name}}}" for name in placeholders]
    extra = {"placeholders": known}
    if not known:
        return msgspec.Meta(extra=extra)
    return msgspec.Meta(
        pattern=rf"^(?:(?!\{{(?!(?:{'|'.join(placeholders)})\}}){_NAME}\}})[\s\S])*$",
        extra=extra,
        extra_json_schema={"patternErrorMessage": f"the placeholders are: {', '.join(known)}"},
    )


def markers_of(
    function: Stage, options: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each option that begins lines, with how they begin: empty if with a placeholder."""
    for name, option in options_of(function).items():
        text = options.get(name, option.default)
        known = placeholders_of(option.type)
        if known is not None and isinstance(text, str) and not is_blank(text):
            # The roles are known, and before "{role}" there is often only a bracket.
            roles = ROLES if "{role}" in known else ()
            texts = [text.replace("{role}", role.capitalize()) for role in roles] or [text]
            found = (_beginning(each, known) for each in texts)
            yield name, tuple(dict.fromkeys(filter(None, found)))


def _beginning(text: str, known: Sequence[str]) -> str:
    """Return the first line of a text that is not blank, up to the first placeholder."""
    line = text.strip().splitlines()[0].rstrip()
    for each in known:
        line = line.partition(each)[0]
    return line


def summary_of(function: Stage) -> str:
    """Return the first sentence of a stage's docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0]


@cache
def options_of(function: Stage) -> dict[str, Option]:
    """Return a stage's options by name, in the order of its signature."""
    try:
        types = typing.get_type_hints(function, include_extras=True)
    except NameError:  # an annotation that only a type checker can read
        types = {}
    return {
        name: Option(types.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def read_options(
    function: Stage, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the valid options, converted to their types, and what is wrong with the others."""
    name, known = function.__name__, options_of(function)
    values, errors = {}, {}
    for option, value in given.items():
        if option not in known:
            hint = did_you_mean(option, known)
            errors[option] = f'unknown option "{option}" of {name}; {hint}'
            continue
        try:
            values[option] = msgspec.convert(value, known[option].type)
        except msgspec.ValidationError as error:
            what = _wrong_value(known[option].type, value, str(error))
            errors[option] = f'option "{option}" of {name}: {what}'
    for option, details in known.items():
        if details.default is inspect.Parameter.empty and option not in given:
            errors[option] = f'option "{option}" of {name} has no default; give it'
    return values, errors


def _wrong_value(type_: Any, value: Any, error: str) -> str:
    """Return what is wrong with the value of an option, by the error that msgspec has for it."""
    known = placeholders_of(type_) or ()
    for written in re.findall(rf"\{{{_NAME}\}}", str(value)) if known else ():
        if written not in known:
            return f'there is no placeholder "{written}"; {did_you_mean(written, known)}'
    what = error.partition(" - at `$")[0]
    choices = choices_of(type_)
    if unknown := re.fullmatch("Invalid enum value '(.*)'", what, re.DOTALL):
        return f'there is no "{cut(unknown[1])}"; {did_you_mean(unknown[1], choices)}'
    if least := re.fullmatch("Expected `int` >= (.*)", what):
        what = f"this must be {least[1]} or more"
    if types := re.fullmatch("Expected `(.*)`, got `(.*)`", what):
        what = f"this {must_be(*types.groups())}"
    return what + (f"; choose from: {', '.join(choices)}" if choices else "")


def placeholders_of(type_: Any) -> list[str] | None:
    """Return the placeholders of a text that begins a line; None for a type without such."""
    if isinstance(type_, msgspec.Meta):
        return (type_.extra or {}).get("placeholders")
    found = map(placeholders_of, typing.get_args(type_))
    return next((each for each in found if each is not None), None)
