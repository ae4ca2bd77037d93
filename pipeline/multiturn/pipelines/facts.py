"""Looking at what a stage made: its types, and the facts that the stage declares."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import structs

from multiturn.logs import Notice
from multiturn.model.calls import Tool
from multiturn.model.case import Case
from multiturn.model.checks import check_parts, check_turns, kind_of
from multiturn.model.conversion import Conversion, changed, parts_of
from multiturn.model.views import calls_of, signed, signed_turn, texts_of
from multiturn.pipelines.contract import Stage, contract_of, in_order

_Look = Callable[[Conversion], bool]


def _no_files(conversion: Conversion) -> bool:
    return not any(part.kind == "file" for turn in conversion.turns for part in turn.parts)


def _references_have_guidelines(conversion: Conversion) -> bool:
    references = {
        part.resolved_path
        for turn in conversion.turns
        for part in turn.parts
        if part.kind == "reference"
    }
    return references <= {part.resolved_path for part in conversion.guidelines}


# How a declared fact can be seen in what a stage returns, and what is wrong if it is not true.
# The others cannot be seen: a case may have no files, and texts may pose as markers on request.
_PROVIDED: Mapping[str, tuple[_Look, str]] = {
    "turns": (lambda it: bool(it.turns) or not it.case.input_messages, "there are no turns"),
    "guidelines": (_references_have_guidelines, "a reference is left without its guideline"),
    "text": (_no_files, "an attached file is left that is not text"),
    "chat": (lambda it: it.chat_view is not None, "there is no chat_view"),
    "visible_turns": (
        lambda it: all(turn.says_something for turn in it.turns),
        "a turn without content is left",
    ),
    "question": (lambda it: it.question_view is not None, "there is no question_view"),
}
_CONSUMED: Mapping[str, tuple[_Look, str]] = {
    "turns": (lambda it: not it.turns, "turns are left"),
    "files": (_no_files, "an attached file is left that is not text"),
    "guidelines": (lambda it: not it.guidelines, "guidelines are left"),
    "chat": (lambda it: it.chat_view is None, "there is still a chat_view"),
    "question": (lambda it: it.question_view is None, "there is still a question_view"),
}


@cache
def _looks(stage: Stage) -> tuple[tuple[_Look, str], ...]:
    """Return how each fact that a stage declares can be seen, and the error if it is not true."""
    contract = contract_of(stage)
    if contract is None:
        return ()
    consumed = contract.consumes - contract.provides
    declared = [("provides", fact, _PROVIDED) for fact in in_order(contract.provides)]
    declared += [("consumes", fact, _CONSUMED) for fact in in_order(consumed)]
    looks: dict[_Look, str] = {}  # each once: two facts can be seen by the same
    for verb, fact, known in declared:
        if fact in known:
            is_true, what = known[fact]
            looks.setdefault(is_true, f"declares that it {verb} {fact}, but {what}")
    return tuple(looks.items())


def checked(before: Conversion, after: Any, stage: Stage) -> Conversion:
    """Return what a stage made; each text that the stage changed or added names the stage.

    A ValueError says what is wrong with it: it is not a Conversion, something in it has a wrong
    type, or a fact that the stage declares is not true.
    """
    if not isinstance(after, Conversion):
        hint = "Maybe you forgot to return what conversion.replace() gives?"
        raise ValueError(f"returned {type(after).__name__} instead of a Conversion. {hint}")
    # Most stages leave most of these as they are, which the identity tells at no cost.
    result = after
    try:
        if not (
            after.turns is before.turns
            and after.guidelines is before.guidelines
            and after.system_prompt is before.system_prompt
        ):
            result = _signed(before, after, stage.__name__)
        if not (
            after.case is before.case
            and after.tools is before.tools
            and after.notices is before.notices
            and after.chat_view is before.chat_view
            and after.question_view is before.question_view
        ):
            _check_others(after)
    except ValueError as error:
        raise ValueError(f"returned {error}") from None
    for is_true, what in _looks(stage):
        if not is_true(result):
            raise ValueError(what)
    return result


def _signed(before: Conversion, after: Conversion, stage: str) -> Conversion:
    """Return a Conversion whose texts have the right types, the new ones signed by the stage."""
    texts = (after.turns, after.guidelines, after.system_prompt)
    if texts == (before.turns, before.guidelines, before.system_prompt):
        return after
    check_turns(after.turns, wholly=True)
    check_parts(after.guidelines, wholly=True)
    if after.system_prompt is not None:
        check_parts((after.system_prompt,), wholly=True)
    if not before.turns:  # the stage has read the suite
        return after
    known = texts_of(parts_of(before))
    signed_after = changed(after, lambda parts: signed(parts, known, stage))
    if not (calls := calls_of(before.turns)):
        return signed_after
    turns = (signed_turn(turn, known, calls, stage) for turn in after.turns)
    return structs.replace(signed_after, turns=tuple(turns))


def _check_others(conversion: Conversion) -> None:
    """Raise a ValueError if something beside the texts has a wrong type."""
    if not isinstance(conversion.case, Case):
        raise ValueError(f"{kind_of(conversion.case)} in place of a Case")
    if not isinstance(conversion.notices, tuple | list):
        raise ValueError(f"{kind_of(conversion.notices)} in place of a tuple of notices")
    for tool in conversion.tools:
        if not isinstance(tool, Tool):
            raise ValueError(f"{kind_of(tool)} in place of a Tool")
    for notice in conversion.notices:
        if not isinstance(notice, Notice):
            raise ValueError(f"{kind_of(notice)} in place of a Notice")
    views = {"chat_view": conversion.chat_view, "question_view": conversion.question_view}
    for name, view in views.items():
        if view is not None and not callable(view):
            raise ValueError(f"{kind_of(view)} as {name}, which is called with the Conversion")
