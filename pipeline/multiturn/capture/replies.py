"""What a program is answered: a text, and calls of tools, in the form that its SDK reads."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from multiturn.model.tokens import estimated_tokens
from multiturn.model.turns import Call
from multiturn.providers.settings import Values

# The end of the path of each endpoint, and its vendor; the counting of tokens has a form, too.
_ENDPOINTS = {
    r"/chat/completions": ("openai", "chat"),
    r"/responses": ("openai", "responses"),
    r"/responses/input_tokens": ("openai", "input_tokens"),
    r"/messages": ("anthropic", "messages"),
    r"/messages/count_tokens": ("anthropic", "input_tokens"),
    r"/models/[^/]+:(?:streamG|g)enerateContent": ("gemini", "gemini"),
    r"/models/[^/]+:countTokens": ("gemini", "totalTokens"),
}
_COUNTS = ("input_tokens", "totalTokens")


class Endpoint(NamedTuple):
    """Where a program has sent a request."""

    vendor: str
    form: str
    is_lines: bool = True  # whether Gemini streams events, and not one list

    @property
    def counts(self) -> bool:
        """Whether it only counts tokens."""
        return self.form in _COUNTS


class Answer(NamedTuple):
    """What a program is answered."""

    text: str = "(captured)"
    calls: tuple[Call, ...] = ()


def endpoint_at(path: str, query: str) -> Endpoint | None:
    """Return the endpoint at a path, whatever stands before it; None if it is none."""
    for pattern, (vendor, form) in _ENDPOINTS.items():
        if re.search(f"{pattern}$", path):
            return Endpoint(vendor, form, "alt=sse" in query)
    return None


def with_address(body: Values, path: str) -> Values:
    """Return a body with what its address says: Gemini's model, and Azure's deployment."""
    if found := re.search(r"/models/([^/]+):(stream)?", path):
        return {"model": found[1], **({"stream": True} if found[2] else {}), **body}
    if found := re.search(r"/deployments/([^/]+)/", path):
        return {"model": found[1], **body}
    return body


def refusal(vendor: str, status: int, what: str) -> Values:
    """Return an error as a vendor writes it."""
    error = {"type": "not_found_error", "code": status, "message": what, "status": "NOT_FOUND"}
    return {"type": "error", "error": error} if vendor == "anthropic" else {"error": error}


def reply(form: str, body: Values, answer: Answer, number: int) -> Values:
    """Return the answer to the body of a request, as the vendor's form has it.

    Args:
        form: of an ``Endpoint``.
        body: what the program has sent.
        answer: what it gets.
        number: of the request, which makes its ids.
    """
    model, sent = str(body.get("model")), round(estimated_tokens(json.dumps(body)))
    said = max(1, round(estimated_tokens(answer.text)))
    usage = {"input_tokens": sent, "output_tokens": said}
    total = {"total_tokens": sent + said}
    text, calls = answer.text, answer.calls
    arguments = {call.id: json.dumps(call.arguments, ensure_ascii=False) for call in calls}
    if form in _COUNTS:
        return {"object": "response.input_tokens", form: sent}
    if form == "messages":
        uses = [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls
        ]
        return {
            **{"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model},
            "content": [*([{"type": "text", "text": text}] if text else []), *uses],
            **{"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None},
            "usage": usage,
        }
    if form == "gemini":
        parts: list[Values] = [{"text": text}] if text else []
        parts += [{"functionCall": {"name": c.name, "args": c.arguments}} for c in calls]
        content = {"role": "model", "parts": parts}
        counted = {"promptTokenCount": sent, "candidatesTokenCount": said}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {**counted, "totalTokenCount": sent + said},
            **{"modelVersion": model, "responseId": f"resp_{number}"},
        }
    if form == "responses":
        content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        said_item = {"type": "message", "role": "assistant", "content": [content]}
        items = [{"id": f"msg_{number}", "status": "completed", **said_item}] if text else []
        items += [
            {
                **{"id": f"fc_{call.id}", "type": "function_call", "status": "completed"},
                **{"call_id": call.id, "name": call.name, "arguments": arguments[call.id]},
            }
            for call in calls
        ]
        details = {"input_tokens_details": {"cached_tokens": 0}}
        details["output_tokens_details"] = {"reasoning_tokens": 0}
        return {
            **{"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model},
            **{"status": "completed", "error": None, "incomplete_details": None},
            **{"output": items, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
            "usage": {**usage, **details, **total},
        }
    message: Values = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        functions = ({"name": call.name, "arguments": arguments[call.id]} for call in calls)
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip(calls, functions, strict=True)
        ]
    ended = {"finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    return {
        **{"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model},
        "choices": [{"index": 0, "message": message, **ended}],
        "usage": {"prompt_tokens": sent, "completion_tokens": said, **total},
    }


def streamed(endpoint: Endpoint, body: Values, whole: Values) -> str:
    """Return an answer as a stream: server-sent events, or the list of Gemini."""
    if endpoint.form == "gemini":
        return f"data: {json.dumps(whole)}\n\n" if endpoint.is_lines else json.dumps([whole])
    if endpoint.form == "chat":
        chunks = (f"data: {json.dumps(each)}\n\n" for each in _chunks(body, whole))
        return "".join((*chunks, "data: [DONE]\n\n"))
    events = _of_responses(whole) if endpoint.form == "responses" else _of_messages(whole)
    numbered = ({"sequence_number": at, **event} for at, event in enumerate(events))
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in numbered)


def _chunks(body: Values, whole: Values) -> Iterator[Values]:
    (choice,) = whole["choices"]
    base = {**whole, "object": "chat.completion.chunk", "usage": None}
    delta = dict(choice["message"])
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
    yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**base, "choices": [ended]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**base, "choices": [], "usage": whole["usage"]}


def _of_responses(whole: Values) -> Iterator[Values]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(whole["output"]):
        where: Values = {"output_index": at}
        of_item = {**where, "item_id": item["id"]}
        empty = {"content": []} if "content" in item else {"arguments": ""}
        added = {**item, "status": "in_progress", **empty}
        yield {"type": "response.output_item.added", **where, "item": added}
        for part in item.get("content", ()):
            of_part = {**of_item, "content_index": 0}
            begun = {**part, "text": ""}
            yield {"type": "response.content_part.added", **of_part, "part": begun}
            text = {**of_part, "logprobs": []}
            yield {"type": "response.output_text.delta", **text, "delta": part["text"]}
            yield {"type": "response.output_text.done", **text, "text": part["text"]}
            yield {"type": "response.content_part.done", **of_part, "part": part}
        if "arguments" in item:
            kind, written = "response.function_call_arguments", item["arguments"]
            yield {"type": f"{kind}.delta", **of_item, "delta": written}
            yield {"type": f"{kind}.done", **of_item, "name": item["name"], "arguments": written}
        yield {"type": "response.output_item.done", **where, "item": item}
    yield {"type": "response.completed", "response": whole}


def _of_messages(whole: Values) -> Iterator[Values]:
    begun = {**whole, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for at, block in enumerate(whole["content"]):
        where: Values = {"index": at}
        empty: Values = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", **where, "content_block": {**block, **empty}}
        delta: Values = {"type": "text_delta", "text": block.get("text")}
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_delta", **where, "delta": delta}
        yield {"type": "content_block_stop", **where}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
    yield {"type": "message_stop"}
