"""Messages, tools and answers in the form of OpenAI's Responses API."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.errors import ProviderError
from multiturn.files.media import Media, MediaKind
from multiturn.model.calls import Thinking, Tool
from multiturn.model.request import PreparedRequest, content_of
from multiturn.model.turns import Turn, is_blank
from multiturn.providers.base import ProviderResponse
from multiturn.providers.layout import Layout
from multiturn.providers.media_parts import (
    address_or_uri,
    file_name,
    move_from_results,
    want_types,
    want_user_media,
)
from multiturn.providers.models import SERVERS, Abilities
from multiturn.providers.openai.chat import caching_of, called
from multiturn.providers.replies import Typed
from multiturn.providers.tool_layout import (
    Choice,
    Names,
    keep_thinking,
    leave_out_thinking,
    pair_results,
    rename_ids,
    tell_errors,
)
from multiturn.providers.usage import counts
from multiturn.text import number_of

_IDS = Names("T10", re.compile(".{1,64}", re.DOTALL))
LOWEST_LIMIT = 16  # of the output, at OpenAI
MEDIA: tuple[MediaKind, ...] = ("image", "document")  # what the API takes
_KINDS = {"rate_limit_exceeded": "rate_limit"}  # of errors, by the vendor's code


def lay_out_for_responses(layout: Layout, abilities: Abilities) -> None:
    """Repair what the Responses API refuses of calls, results, thinking, media and roles."""
    if layout.has_more:
        if abilities.takes("encrypted_thinking").takes is False:
            leave_out_thinking(layout, "T9", lambda *_: "that the model does not take")
        keep_thinking(layout, "openai", lambda block: True)
        pair_results(layout)
        rename_ids(layout, _IDS)
        tell_errors(layout, "O15")
        _keep_reasoning(layout, abilities.vendor)
    layout.tools_as_user("O1")
    if layout.has_media:
        takes_them = bool(abilities.takes("result_media").takes)
        move_from_results(layout, lambda *_: takes_them)
        want_user_media(layout, "O21")
        what = "attach an image or a PDF"
        want_types(layout, "O22", lambda media: media.kind in MEDIA, what)


def _keep_reasoning(layout: Layout, vendor: str) -> None:
    """Leave out thinking that is no reasoning item which the API takes (T9)."""
    whys: dict[tuple[int, int], str] = {}
    kept: set[str] = set()
    for at, message in enumerate(layout.messages):
        is_followed = any(map(_says_something, layout.messages[at : at + 2]))
        number = 0
        for name, blocks in _items_of(message.thinking):
            why = "" if is_followed else "that nothing follows"
            if not blocks[0].data:
                why = "without encrypted content"
            elif name in kept:
                why = "that was there before"
            elif name and vendor != SERVERS and not name.startswith("rs"):
                why = "whose id does not begin with rs"
            if name and not why:
                kept.add(name)
            whys |= {(at, number + each): why for each in range(len(blocks))}
            number += len(blocks)
    leave_out_thinking(layout, "T9", lambda at, number: whys[at, number])
    _doubt_reasoning(layout)


def _doubt_reasoning(layout: Layout) -> None:
    """Note where sources disagree whether OpenAI takes thinking."""
    sent = [[*_items_of(message.thinking)] for message in layout.messages]
    disputed = "sources disagree whether OpenAI takes"
    if any(len(items) > 1 for items in sent):
        what = f"{disputed} two reasoning items in a row (T9: inspect_ai #1990, #1745)"
        layout.doubts.append(f"{what}; keep the last of them")
    if any(not name for items in sent for name, _ in items):
        what = f"{disputed} a reasoning item without its id (T9: inspect_ai 0.3, opencode #49574)"
        layout.doubts.append(f"{what}; add the signature that the API gave, if it did")


def _says_something(message: Turn) -> bool:
    """Return whether a reasoning item may stand before a message."""
    return message.role == "assistant" and bool(message.calls or not is_blank(message.content))


def _items_of(thinking: Iterable[Thinking]) -> Iterator[tuple[str, list[Thinking]]]:
    """Yield the id and the blocks of each reasoning item: one for each text of its summary.

    Only the first of them has the encrypted content.
    """
    blocks: list[Thinking] = []
    for block in thinking:
        if blocks and (block.data or block.signature != blocks[0].signature):
            yield blocks[0].signature, blocks
            blocks = []
        blocks.append(block)
    if blocks:
        yield blocks[0].signature, blocks


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


def write_response(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request, of which the vendor shall store nothing.

    Its form may have ``system_role``, which is ``developer``; ``prompt_caching``, as for
    ``write_chat``; ``phases`` of messages by their index; and ``include``. A system message that is
    taken apart is ``instructions``.
    """
    form = request.form
    phase, role = form.get("phases", {}), form.get("system_role", "")
    items = [
        item
        for at, turn in enumerate(request.messages)
        for item in response_items(turn, role * (turn.role == "system"), phase.get(at, ""))
    ]
    caching = caching_of(request, items, "input_text")
    body = {
        "instructions": request.system and request.system.content,
        "input": items,
        "model": request.model,
        "store": False,
        "include": form.get("include"),
        "max_output_tokens": request.max_output_tokens,
        "prompt_cache_options": caching,
        "temperature": request.temperature,
        "tools": [response_tool(tool) for tool in request.tools] or None,
        "tool_choice": request.tool_choice and response_choice(request.tool_choice),
    }
    return {key: value for key, value in body.items() if value is not None}


def response_items(turn: Turn, role: str = "", phase: str = "") -> Iterator[dict[str, Any]]:
    """Yield a turn as items: thinking, text, calls.

    Args:
        turn: a message.
        role: what the API calls its role, if it has another name.
        phase: of an assistant's text; empty for none.

    >>> [*response_items(Turn("tool", answers="c1"))]
    [{'type': 'function_call_output', 'call_id': 'c1', 'output': ''}]
    """
    if turn.answers is not None:
        yield {
            "type": "function_call_output",
            "call_id": turn.answers,
            "output": _content(turn),
        }
        return
    for name, blocks in _items_of(turn.thinking):
        yield {
            "type": "reasoning",
            **({"id": name} if name else {}),
            "summary": [
                {"type": "summary_text", "text": each.text} for each in blocks if each.text
            ],
            "encrypted_content": blocks[0].data,
        }
    if turn.content or not turn.is_more:
        message = {"role": role or turn.role, "content": _content(turn)}
        yield {**message, "phase": phase} if phase else message
    for call in turn.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
        }


def _content(turn: Turn) -> str | list[dict[str, Any]]:
    """Return text; where there are images or documents, a list of parts."""
    content = content_of(turn)
    return content if isinstance(content, str) else [_part(piece) for piece in content]


def _part(piece: str | Media) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    if piece.kind == "image":
        detail = piece.detail or "auto"
        return {"type": "input_image", "image_url": address_or_uri(piece), "detail": detail}
    if piece.url:
        return {"type": "input_file", "file_url": piece.url}
    return {
        "type": "input_file",
        "filename": file_name(piece),
        "file_data": address_or_uri(piece),
    }


def response_tool(tool: Tool) -> dict[str, Any]:
    """Return the definition of a tool, which the API takes for strict if it does not say.

    >>> response_tool(Tool("now"))
    {'type': 'function', 'name': 'now', 'parameters': None, 'strict': False}
    """
    return {
        "type": "function",
        "name": tool.name,
        **({"description": tool.description} if tool.description else {}),
        "parameters": tool.parameters or None,
        "strict": bool(tool.strict),
    }


def response_choice(choice: Choice) -> str | dict[str, Any]:
    """Return whether the model must call a tool, and which."""
    return choice if isinstance(choice, str) else {"type": "function", **choice}


class _Error(Struct):
    code: str
    message: str


class _Text(Struct, tag_field="type", tag="output_text"):
    text: str


class _Refusal(Struct, tag_field="type", tag="refusal"):
    refusal: str


class _Said(Struct, tag_field="type", tag="message"):
    content: list[_Text | _Refusal]


class _Called(Struct, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: Any = None


class _Incomplete(Struct):
    reason: str | None = None


class ResponsesAnswer(Struct):
    """An answer of the API."""

    output: list[dict[str, Any]] | None = None
    status: str | None = None  # other servers may leave it out
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    usage: Any = None


def answer_of_response(answer: ResponsesAnswer) -> ProviderResponse:
    """Return what an answer says; a refusal by the model is an answer, too.

    Raises:
        ProviderError: the vendor says that there is none.
    """
    if error := answer.error:
        kind = _KINDS.get(error.code, "http")
        raise ProviderError(f"{error.code}: {error.message}", kind=kind)
    if answer.status not in ("completed", "incomplete", None):
        what = f"the response is no answer: its status is {answer.status!r}"
        raise ProviderError(what, kind="malformed")
    if answer.output is None:
        raise ValueError("there is no output")
    kinds = [item.type for item in msgspec.convert(answer.output, list[Typed])]
    items = [
        msgspec.convert(item, _Said | _Called)
        for item, kind in zip(answer.output, kinds, strict=True)
        if kind in ("message", "function_call")
    ]
    parts = [part for item in items if isinstance(item, _Said) for part in item.content]
    said = "".join(part.text for part in parts if isinstance(part, _Text))
    refused = "".join(part.refusal for part in parts if isinstance(part, _Refusal))
    details = answer.incomplete_details
    stopped = (details and details.reason) or answer.status
    return ProviderResponse(
        text=said or refused,
        tool_calls=tuple(
            called(item.call_id, item.name, item.arguments)
            for item in items
            if isinstance(item, _Called)
        ),
        thinking=[item for item in answer.output if item.get("type") == "reasoning"],
        usage=counts(
            answer.usage,
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cached_tokens="input_tokens_details.cached_tokens",
            cache_write_tokens="input_tokens_details.cache_write_tokens",
        ),
        finish_reason=stopped,
        is_refusal=bool(refused) or stopped == "content_filter",
    )
