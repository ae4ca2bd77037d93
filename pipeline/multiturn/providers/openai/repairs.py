"""What OpenAI's APIs refuse of calls, results, thinking, media and roles, and its repairs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from multiturn.errors import quoted
from multiturn.files.media import MediaKind
from multiturn.model.settings import JsonSchema, RequestSettings
from multiturn.model.turns import Tool, is_blank
from multiturn.providers import layout as rules
from multiturn.providers.layout import Layout
from multiturn.providers.models import SERVERS, Abilities
from multiturn.providers.openai.responses import reasoning_items
from multiturn.text import number_of

_CHAT_IDS = rules.Names("T1", re.compile(".{1,40}", re.DOTALL))


def lay_out_for_chat(layout: Layout, *, is_asked: bool = True) -> None:
    """Repair what the Chat Completions API refuses of calls, results, thinking, media and roles.

    A model that is not asked to answer the messages learns from them.
    """
    if layout.has_more:
        reasons = (["that this API does not take"] * len(each.thinking) for each in layout.messages)
        rules.leave_out_thinking(layout, "T8", reasons)
        rules.pair_results(layout, is_asked=is_asked)
        rules.rename_ids(layout, _CHAT_IDS)
        rules.tell_errors(layout, "O15")
    layout.tools_as_user("O1")
    if layout.has_media:
        rules.move_from_results(layout, lambda *_: False)
        rules.want_user_media(layout, "O19")
        what = "write the path of a file"
        rules.want_types(layout, "O20", lambda media: media.kind == "image" or not media.url, what)


_RESPONSE_IDS = rules.Names("T10", re.compile(".{1,64}", re.DOTALL))
LOWEST_LIMIT = 16  # of the output, at OpenAI
MEDIA: tuple[MediaKind, ...] = ("image", "document")  # what the API takes


def lay_out_for_responses(layout: Layout, abilities: Abilities) -> None:
    """Repair what the Responses API refuses of calls, results, thinking, media and roles."""
    if layout.has_more:
        if abilities.takes("encrypted_thinking").takes is False:
            why = "that the model does not take"
            reasons = ([why] * len(each.thinking) for each in layout.messages)
            rules.leave_out_thinking(layout, "T9", reasons)
        rules.keep_thinking(layout, "openai", lambda block: True)
        rules.pair_results(layout)
        rules.rename_ids(layout, _RESPONSE_IDS)
        rules.tell_errors(layout, "O15")
        rules.leave_out_thinking(layout, "T9", _reasons(layout, abilities.vendor))
        _doubt_reasoning(layout)
    layout.tools_as_user("O1")
    if layout.has_media:
        takes_them = bool(abilities.takes("result_media").takes)
        rules.move_from_results(layout, lambda *_: takes_them)
        rules.want_user_media(layout, "O21")
        what = "attach an image or a PDF"
        rules.want_types(layout, "O22", lambda media: media.kind in MEDIA, what)


NAMES = re.compile("[A-Za-z0-9_-]{1,64}")  # of tools and JSON Schemas
_CLOSE = "add additionalProperties: false and each property to required, or leave out"


def want_schemas(layout: Layout, tools: Iterable[Tool], settings: RequestSettings) -> None:
    """Refuse schemas (T13, O32) and stop texts (O31) that OpenAI's own servers refuse."""
    for tool in tools:
        name = quoted(tool.name)
        inside = [*rules.schemas_in(tool.parameters)]
        arrays = (each for each in inside if each.get("type") in ("array", ["array", "null"]))
        if any(each.keys().isdisjoint(("items", "prefixItems")) for each in arrays):
            layout.refuse("T13", f"add items to the arrays of the tool {name}")
        if tool.strict and not all(map(_is_strict, inside)):
            layout.refuse("T13", f"{_CLOSE} strict of the tool {name}")
    if isinstance(form := settings.response_format, JsonSchema):
        if not NAMES.fullmatch(form.name):
            layout.refuse("O32", f"rename {quoted(form.name)}")
        if form.strict and not all(map(_is_strict, rules.schemas_in(form.schema))):
            layout.refuse("O32", f"{_CLOSE} strict of response_format")
    if settings.stop and len(settings.stop) > 4:
        layout.refuse("O31", f"this one has {len(settings.stop)}")


def _is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema requires the properties that it has, and takes no others."""
    properties, required = schema.get("properties"), schema.get("required", [])
    is_closed = schema.get("additionalProperties") is False and isinstance(required, list)
    return not isinstance(properties, Mapping) or (
        is_closed
        and len(properties) == len(required)
        and all(each in required for each in properties)
    )


def _reasons(layout: Layout, vendor: str) -> Iterator[list[str]]:
    """Yield for each message why its thinking is no reasoning item which the API takes (T9)."""
    kept: set[str] = set()
    for at, message in enumerate(layout.messages):
        is_followed = any(
            each.role == "assistant" and (each.calls or not is_blank(each.content))
            for each in layout.messages[at : at + 2]
        )
        whys: list[str] = []
        for name, blocks in reasoning_items(message.thinking):
            why = "" if is_followed else "that nothing follows"
            if not blocks[0].data:
                why = "without encrypted content"
            elif name in kept:
                why = "that was there before"
            elif name and vendor != SERVERS and not name.startswith("rs"):
                why = "whose id does not begin with rs"
            if name and not why:
                kept.add(name)
            whys += [why] * len(blocks)
        yield whys


def _doubt_reasoning(layout: Layout) -> None:
    """Note where sources disagree whether OpenAI takes thinking."""
    sent = [[*reasoning_items(message.thinking)] for message in layout.messages]
    disputed = "sources disagree whether OpenAI takes"
    if any(len(items) > 1 for items in sent):
        what = f"{disputed} two reasoning items in a row (T9: inspect_ai #1990, #1745)"
        layout.doubts.append(f"{what}; keep the last of them")
    if any(not name for items in sent for name, _ in items):
        what = f"{disputed} a reasoning item without its id (T9: inspect_ai 0.3, opencode #49574)"
        layout.doubts.append(f"{what}; add the signature that the API gave, if it did")


def phases(layout: Layout, abilities: Abilities) -> dict[int, str]:
    """Return the phase of each assistant text, by its index, for a model that wants it (T11).

    ``final_answer`` is the text that ends a turn: before a message of another role. All others are
    ``commentary``, and so is the last message, which the model is to continue.
    """
    messages = layout.messages
    spoken = [at for at, each in enumerate(messages) if each.role == "assistant" and each.content]
    verdict = abilities.takes("phase")
    if spoken and verdict.takes is None and abilities.vendor != SERVERS:
        layout.doubts.append(verdict.doubt)
    if not spoken or not verdict.takes:
        return {}
    count = number_of(len(spoken), "assistant message")
    layout.repair("T11", f"marked {count} as commentary or final_answer")
    return {
        at: "commentary"
        if messages[at].calls or at + 1 == len(messages) or messages[at + 1].role == "assistant"
        else "final_answer"
        for at in spoken
    }


def wanted_thinking(layout: Layout, abilities: Abilities) -> list[str] | None:
    """Return what makes the API give thinking in a form that can be sent again; None if nothing.

    Models that do not think refuse it. Others are asked for it where it is known that they think,
    or where the conversation has such thinking, and nobody says that they do not.
    """
    verdict = abilities.takes("encrypted_thinking")
    has_thinking = any(message.thinking for message in layout.messages)
    is_wanted = verdict.takes or (has_thinking and not verdict.rows)
    return ["reasoning.encrypted_content"] if is_wanted else None
