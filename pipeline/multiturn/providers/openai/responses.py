"""Messages, tools and answers in the form of OpenAI's Responses API."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.files.media import Media, address_or_uri, file_name
from multiturn.model.request import PreparedRequest, content_of
from multiturn.model.turns import Thinking, Tool, Turn
from multiturn.providers import reading, settings
from multiturn.providers.openai import chat
from multiturn.providers.reading import BodyForm, MediaReader, Piece
from multiturn.providers.settings import Key, Values


def reasoning_items(thinking: Iterable[Thinking]) -> Iterator[tuple[str, list[Thinking]]]:
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
    caching = chat.caching_of(request, items, "input_text")
    written = settings.write_settings(request.settings, KEYS)
    body = {
        "instructions": request.system and request.system.content,
        "input": items,
        "model": request.model,
        "store": False,
        "include": form.get("include"),
        "max_output_tokens": written.pop("max_output_tokens", None),
        "prompt_cache_options": caching,
        "temperature": written.pop("temperature", None),
        "tools": [response_tool(tool) for tool in request.tools] or None,
    }
    return settings.with_body({**body, **written}, request.settings)


def response_items(turn: Turn, role: str = "", phase: str = "") -> Iterator[dict[str, Any]]:
    """Yield a turn as items: thinking, text, calls; ``role`` is another name of its role.

    An assistant's text has the phase, unless that is empty.

    >>> [*response_items(Turn("tool", answers="c1"))]
    [{'type': 'function_call_output', 'call_id': 'c1', 'output': ''}]
    """
    if turn.answers is not None:
        yield {"type": "function_call_output", "call_id": turn.answers, "output": _content(turn)}
        return
    for name, blocks in reasoning_items(turn.thinking):
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
    return {"type": "input_file", "filename": file_name(piece), "file_data": address_or_uri(piece)}


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


def _write_format(form: Any) -> Values:
    if isinstance(form, str):
        return settings.write_format(form)
    return {"type": "json_schema", **settings.schema_keys(form)}


KEYS: settings.Keys = {
    "max_output_tokens": Key("max_output_tokens"),
    "temperature": Key("temperature"),
    "tool_choice": Key(
        "tool_choice",
        lambda choice: choice if isinstance(choice, str) else {"type": "function", **choice},
        chat.read_choice,
    ),
    "top_p": Key("top_p"),
    "reasoning_effort": Key("reasoning.effort"),
    "response_format": Key("text.format", _write_format, settings.read_format),
    "verbosity": Key("text.verbosity"),
    "parallel_tool_calls": Key("parallel_tool_calls"),
    "service_tier": Key("service_tier"),
}
_STORED = ("previous_response_id", "conversation", "prompt")
_READ = ("instructions", "input", "include", "model", "store", "tools")


def read_response(body: Mapping[str, Any], media: MediaReader) -> PreparedRequest:
    """Return the request that a body was written of."""
    if stored := [key for key in _STORED if body.get(key)]:
        what = "refers to messages that OpenAI stores; import a request that has all of them"
        raise MultiturnError(f"{stored[0]} {what}")
    items = [*reading.mappings(_items(body.get("input")))]
    instructions = reading.texts(chat.pieces(body.get("instructions")))
    spoken = [*_turns(items, media)]
    is_cached = body.get("prompt_cache_options") == {"mode": "explicit"}
    read = (*_READ, "prompt_cache_options") if is_cached else _READ
    form = {
        "phases": {at: phase for at, (_, phase) in enumerate(spoken) if phase},
        "include": body.get("include"),
        "prompt_caching": is_cached,
        **chat.role_form(items),
    }
    return PreparedRequest(
        messages=tuple(turn for turn, _ in spoken),
        system=reading.turn("system", instructions, media) if instructions else None,
        model=str(body.get("model") or ""),
        tools=tuple(reading.read_tool(_strict(each)) for each in chat.functions_of(body)),
        settings=settings.read_settings(body, KEYS, read),
        form={name: given for name, given in form.items() if given},
    )


def _turns(items: Iterable[Values], media: MediaReader) -> Iterator[tuple[Turn, str]]:
    """Yield each turn with its phase.

    Thinking, a text and calls in this order are one turn of the assistant's.
    """
    found: list[Piece] | None = None  # of the assistant's turn; None where there is none
    phase = ""
    for at, item in enumerate(items):
        kind, role = item.get("type", "message"), item.get("role")
        is_said = kind == "message" and role == "assistant"
        is_thought = kind == "reasoning"
        if found is not None and kind != "function_call":
            is_spoken = not all(isinstance(each, Thinking) for each in found)
            if not (is_said or is_thought) or is_spoken or (is_said and not found):
                yield reading.turn("assistant", found, media), phase
                found, phase = None, ""
        if kind == "function_call":
            arguments = reading.decoded(item.get("arguments"), f"input[{at}].arguments")
            call = reading.read_call(item.get("call_id"), item.get("name"), arguments)
            found = [*(found or ()), call]
        elif is_said:
            found, phase = [*(found or ()), *chat.said_in(item)], item.get("phase") or ""
        elif is_thought:
            found = [*(found or ()), *read_reasoning(item)] or found
        elif kind == "function_call_output":
            said, answers = chat.pieces(item.get("output")), item.get("call_id")
            yield reading.turn("tool", said, media, answers=answers), ""
        elif kind == "message" and role == "user":
            yield reading.turn("user", chat.pieces(item.get("content")), media), ""
        elif kind == "message" and role in ("system", "developer"):
            yield reading.turn("system", reading.texts(chat.pieces(item.get("content"))), media), ""
    if found is not None:
        yield reading.turn("assistant", found, media), phase


def read_reasoning(item: Values) -> list[Thinking]:
    """Return an item of reasoning as blocks of thinking: one for each text of its summary."""
    data = item.get("encrypted_content")
    summary = [each["text"] for each in reading.mappings(item.get("summary")) if each.get("text")]
    if not summary and not data:  # OpenAI has stored the rest
        return []
    first, *others = summary or [None]
    found = [reading.thinking_of("openai", first, item.get("id"), data)]
    return found + [reading.thinking_of("openai", text, item.get("id")) for text in others]


def _items(given: Any) -> list[Any]:
    """Return the items of an input: a text stands for one."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _strict(given: Values) -> Values:
    """Return a tool, strict if it does not say: so the API takes it."""
    return {"strict": True, **{key: value for key, value in given.items() if value is not None}}


def _same(body: Values) -> Values:
    """Return a body with its input as a list, and its tools as strict as the API takes them."""
    same = dict(body)
    if isinstance(same.get("tools"), list):
        same["tools"] = [
            _strict(each) if isinstance(each, dict) else each for each in same["tools"]
        ]
    return reading.same_spelling(
        {**same, "input": _items(body.get("input"))},
        contents=("content", "instructions", "output"),
        types={"input_text": "text", "output_text": "text"},
        defaults=(("detail", "auto"), ("type", "function"), ("type", "message")),
        programs=("parameters",),
    )


def _settings(request: PreparedRequest) -> Values:
    form = {key: each for key, each in request.form.items() if key not in ("phases", "include")}
    apart = {"system_as": "instructions"} if request.system else {}
    return {"api": "responses", **form, **apart}


FORM = BodyForm(
    write_response,
    read_response,
    lambda body: 4 if "input" in body else 0,
    _same,
    _settings,
    read_reasoning,
    keys=KEYS,
    # From the types of openai 3.52.0 on 22 November 2026.
    closed=(*_READ, *_STORED, "max_tool_calls", "prompt_cache_options", "truncation"),
)
