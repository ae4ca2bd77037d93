"""The repairs of calls, their results and thinking, for conversations that have some."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import NamedTuple

from msgspec import structs

from multiturn.model.calls import Thinking, unpaired
from multiturn.model.request import Choice, ProviderRequest
from multiturn.model.turns import Part, Turn, is_blank, separate_first
from multiturn.providers.layout import Layout
from multiturn.providers.models import Abilities
from multiturn.text import number_of

# What Gemini takes in place of a signature, as Google's own clients spell it.
STAND_IN = "skip_thought_signature_validator"
_LONGEST_ID = 40  # of those that are made here
_LONGEST_STEM = 30  # of what a number is counted for


class Names(NamedTuple):
    """Which ids of calls, or names of tools, a vendor takes."""

    rule: str
    pattern: re.Pattern[str]  # of a whole one


def keep_thinking(layout: Layout, vendor: str, takes: Callable[[Thinking], object]) -> None:
    """Leave out the thinking that a vendor does not take back (T8).

    Args:
        layout: the messages.
        vendor: whose models these are.
        takes: whether it takes a block of its own, which needs a signature.
    """

    def why(at: int, number: int) -> str:
        block = layout.messages[at].thinking[number]
        if block.vendor != vendor:
            return "from another vendor"
        return "" if takes(block) else "without a signature"

    leave_out_thinking(layout, "T8", why)


def leave_out_thinking(layout: Layout, rule: str, why: Callable[[int, int], str]) -> None:
    """Leave out blocks of thinking, and messages that were nothing else.

    Args:
        layout: the messages.
        rule: by which they are left out.
        why: returns the reason for a message and one of its blocks, given by their indexes; empty
            for one that stays.
    """
    kept: list[Turn] = []
    lost: Counter[str] = Counter()  # number of blocks by the reason
    for at, message in enumerate(layout.messages):
        whys = [why(at, number) for number in range(len(message.thinking))]
        if any(whys):
            lost.update(filter(None, whys))
            thinking = [block for block, why in zip(message.thinking, whys, strict=True) if not why]
            message = structs.replace(message, thinking=tuple(thinking))
            if is_blank(message.content) and not message.is_more:
                continue  # so that no API gets a message which says nothing
        kept.append(message)
    for reason, count in lost.items():
        layout.repair(rule, f"left out {number_of(count, 'block')} of thinking {reason}")
    if gone := len(layout.messages) - len(kept):
        layout.repair(rule, f"left out {number_of(gone, 'message')} with nothing but thinking")
    layout.messages = kept


def pair_results(layout: Layout) -> None:
    """Move each result directly after its call; refuse a call or result without the other (T3)."""
    messages = layout.messages
    _, name, what = unpaired(messages)
    if any(message.calls and message.role != "assistant" for message in messages):
        layout.refuse("T3", "only an assistant message calls tools")
    if what:
        layout.refuse("T3", f"the call {name!r} {what}")
        return
    caller = {call.id: at for at, message in enumerate(messages) for call in message.calls}
    results: dict[int, list[Turn]] = {}
    for message in messages:
        if message.answers is not None:
            results.setdefault(caller.pop(message.answers), []).append(message)
    for name in caller:
        layout.refuse("T3", f"the call {name!r} has no result; add a message with its tool_call_id")
    ordered: list[Turn] = []
    for at, message in enumerate(messages):
        if message.answers is None:
            ordered += (message, *results.get(at, ()))
    for before, after in zip(messages, ordered, strict=True):
        if after.answers is not None and before is not after:
            layout.repair("T3", "moved the results of calls directly after them")
            break
    layout.messages = ordered


def rename_ids(layout: Layout, ids: Names) -> None:
    """Give calls that a vendor would refuse for their ids others, and their results, too."""
    given = [call.id for message in layout.messages for call in message.calls]
    refused = [name for name in given if not ids.pattern.fullmatch(name)]
    if not refused:
        return
    taken, named = set(given), {name: name for name in given}
    numbers: Counter[str] = Counter()  # the last one after each stem: thousands may share one
    for name in refused:
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_ID] or "call"
        new = stem
        while new in taken:
            numbers[stem[:_LONGEST_STEM]] += 1
            number = str(numbers[stem[:_LONGEST_STEM]] + 1)
            new = f"{stem[: _LONGEST_ID - 1 - len(number)]}_{number}"
        taken.add(new)
        named[name] = new
    for at, message in enumerate(layout.messages):
        if message.calls:
            calls = tuple(structs.replace(call, id=named[call.id]) for call in message.calls)
            layout.messages[at] = structs.replace(message, calls=calls)
        elif message.answers is not None:
            answers = named.get(message.answers, message.answers)
            layout.messages[at] = structs.replace(message, answers=answers)
    layout.repair(ids.rule, f"renamed the ids of {number_of(len(refused), 'call')}")


def tell_errors(layout: Layout, rule: str) -> None:
    """Begin the results of failed calls with ``error:``, as the transcript does."""
    for at, message in enumerate(layout.messages):
        if message.is_error:
            mark = Part("text", "error: ", stage=f"rule {rule}")
            parts = (mark, *separate_first("", message.parts))
            layout.messages[at] = structs.replace(message, parts=parts, is_error=False)
            layout.repair(rule, "began the result of a call that failed with error:")


def name_joined(layout: Layout, rule: str, *, with_user: bool = False) -> None:
    """Name the results that are sent as one message, and the user's next message with them."""
    for is_result, run in groupby(layout.messages, lambda message: message.answers is not None):
        if is_result and (count := len(list(run))) > 1:
            layout.repair(rule, f"sent {count} results as one message")
    for before, after in pairwise(layout.messages):
        if with_user and before.answers is not None and after.role == "user":
            layout.repair(rule, "sent results and the user message after them as one message")


def want_signatures(layout: Layout, abilities: Abilities, *, skips: bool) -> None:
    """Refuse a call that lacks the signature which the model needs (T5), or send a stand-in.

    The model checks the first call of each message since the last one of the user.
    """
    messages = layout.messages
    last = max((at for at, each in enumerate(messages) if each.role == "user"), default=-1)
    unsigned = [
        at
        for at, message in enumerate(messages)
        if at > last and message.calls and not message.calls[0].signature
    ]
    if not unsigned:
        return
    verdict = abilities.takes("unsigned_calls")
    if verdict.takes or not skips:
        advice = "add it to the call; or set thought_signature: skip in the target"
        layout.judge(verdict, advice)
        return
    for at in unsigned:
        first, *others = messages[at].calls
        calls = (structs.replace(first, signature=STAND_IN), *others)
        messages[at] = structs.replace(messages[at], calls=calls)
    layout.repair("T5", f"sent a stand-in for the signature of {number_of(len(unsigned), 'call')}")


def want_names(layout: Layout, request: ProviderRequest, names: Names) -> None:
    """Refuse tools, and calls of tools, whose names a vendor does not take."""
    given = [tool.name for tool in request.tools]
    if layout.has_more:
        given += [call.name for message in layout.messages for call in message.calls]
    for name in dict.fromkeys(given):
        if not names.pattern.fullmatch(name):
            layout.refuse(names.rule, f"rename {name!r}")


def choice_of(layout: Layout, request: ProviderRequest, of_target: Choice | None) -> Choice | None:
    """Return whether the model must call a tool: what the request says, else the target (C5)."""
    choice = of_target if request.tool_choice is None else request.tool_choice
    if choice is None:
        return None
    if not request.tools:
        if request.tool_choice is not None:
            layout.repair("C5", "left out tool_choice: the case has no tools")
        return None
    names = [tool.name for tool in request.tools]
    if not isinstance(choice, str) and choice["name"] not in names:
        layout.refuse("C5", f"name one of the tools: {', '.join(names)}")
    return choice
