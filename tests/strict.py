"""Servers on the loopback interface that answer as strictly as the vendors' own.

They apply what the vendors document, and what others saw on the wire: the SDKs' types, roles and
their order, and parameters of some models. Nothing here is taken from multiturn. A request that a
vendor would answer with HTTP 400 gets that, in the vendor's words.

with StrictServer() as server:
    ...  # whoever asks server.url gets an answer, or why not
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from loopback import TEXT, Answer, Request, Server, Step, completion
from strict_media import (
    refused_by_anthropic,
    refused_by_gemini,
    refused_by_openai,
    refused_by_responses,
)

# On the wire, by published probes: a temperature other than 1 is HTTP 400.
ONLY_1 = ("o1", "o3", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5.5", "gpt-5.6-sol")
ONLY_1_OR_NONE = ("gpt-6-astra",)  # by bolna #1019 only 1, by tee-gateway #154 none
NO_TEMPERATURE = ("gpt-6-sol",)
NO_MAX_TOKENS = ("o1", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5-nano")
NO_CHAT = ("gpt-5-codex", "gpt-5.3-codex", "gpt-5.1-codex-max")
NO_REASONING = ("gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-5-chat")
# What the API says to a phase that a model does not know, nobody has told: here it is refused.
WANTS_PHASE = ("gpt-5.3-codex", "gpt-5.4", "gpt-6-astra")
NO_CLAUDE_TEMPERATURE = ("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5")
NO_PREFILL = (
    *("claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8"),
    *("gemini-3.6-flash", "gemini-3.5-flash-lite", "gemini-3.7-flash", "gemini-3.8-flash"),
)
LATER_SYSTEM = ("claude-opus-4-8", "claude-opus-5")


class RefusedError(Exception):
    """An HTTP 400: the vendor's words, and the parameter."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.code = param, code


class StrictServer(Server):
    """Answers what a vendor would take, and refuses the rest as the vendor does."""

    def __init__(self) -> None:
        super().__init__()
        self.then(Step(self.judged), None)
        self.host = ""  # whose server it plays where the path does not tell: openai or azure

    def judged(self, request: Request) -> Answer:
        vendor = request.vendor
        try:
            if vendor == "anthropic":
                judge_anthropic(request.json, request.headers)
            elif vendor == "gemini":
                judge_gemini(request.json, request.path.rpartition("/")[2].partition(":")[0])
            elif vendor == "responses":
                judge_responses(request.json)
            else:
                judge_openai(request.json)
        except RefusedError as refused:
            return 400, error_of(vendor, refused)
        return 200, completion(vendor, TEXT)


def error_of(vendor: str | None, refused: RefusedError) -> Any:
    """Return a refusal in a vendor's format."""
    message = str(refused)
    if vendor == "anthropic":
        error = {"type": "invalid_request_error", "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}
    if vendor == "gemini":
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    kind = "invalid_request_error"
    body = {"message": message, "type": kind, "param": refused.param, "code": refused.code}
    return {"error": body}


def refuse(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        raise RefusedError(sentence)


def plain(model: str, names: tuple[str, ...]) -> bool:
    """Return whether a model is one of these, with a date or as a base of fine-tuning."""
    base = model.split(":")[1] if model.startswith("ft:") else model
    return any(base == name or base.startswith((f"{name}-20", f"{name}@")) for name in names)


# --- Anthropic


@cache
def _anthropic_type() -> Any:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParamsNonStreaming), frozenset(
        {
            **MessageCreateParamsNonStreaming.__annotations__,
            **_bases(MessageCreateParamsNonStreaming),
        }
    )


def _bases(type_: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in getattr(type_, "__orig_bases__", ()):
        found |= {**getattr(base, "__annotations__", {}), **_bases(base)}
    return found


def fit(adapter: Any, body: Any) -> None:
    """Refuse a body that is not of a type; iterables are validated only as they are consumed."""
    from pydantic import ValidationError

    try:
        consume(adapter.validate_python(body))
    except ValidationError as error:
        raise RefusedError(str(error)) from error


def consume(value: Any) -> None:
    if isinstance(value, Mapping):
        value = value.values()
    if not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for item in value:
            consume(item)


def judge_anthropic(body: Any, headers: Mapping[str, str]) -> None:
    version, model = headers.get("anthropic-version"), body["model"]
    if version not in ("2023-06-01", "2026-10-21"):
        raise RefusedError("anthropic-version: header is required")
    if not headers.get("authorization", "").startswith("Bearer ") and "x-api-key" not in headers:
        raise RefusedError("authentication: no key")
    adapter, keys = _anthropic_type()
    fit(adapter, body)
    sampling = {"temperature", "top_p", "top_k"} & body.keys()
    for key in sampling:
        if version == "2026-10-21":
            raise RefusedError(f"{key}: Extra inputs are not permitted")
        if plain(model, NO_CLAUDE_TEMPERATURE) and body[key] != 1:
            raise RefusedError(f"`{key}` is deprecated for this model.")
        if not 0 <= body[key] <= 1:
            raise RefusedError(f"{key}: range: 0..1")
    for key in body.keys() - keys - sampling:
        raise RefusedError(f"{key}: Extra inputs are not permitted")
    if not body["messages"]:
        raise RefusedError("messages: at least one message is required")
    for text in (text for message in body["messages"] for text in texts(message["content"])):
        if not text.strip():
            raise RefusedError("messages: text content blocks must be non-empty")
    if "system" in body and not all(text.strip() for text in texts(body["system"])):
        raise RefusedError("system: text content blocks must be non-empty")
    _judge_blocks(body["messages"])
    refuse(refused_by_anthropic(body["messages"], version))
    _judge_order([message["role"] for message in body["messages"]], model)
    judge_names((tool["name"] for tool in body.get("tools", ())), "[a-zA-Z0-9_-]{1,128}")
    judge_choice(body, "tool_choice may only be specified while providing tools")
    last = body["messages"][-1]
    if last["role"] == "assistant":
        if plain(model, NO_PREFILL):
            raise RefusedError(
                "This model does not support assistant message prefill. The conversation must end"
                " with a user message."
            )
        ending = [*texts(last["content"])][-1:]
        if ending != [text.rstrip() for text in ending]:
            raise RefusedError(
                "messages: final assistant content cannot end with trailing whitespace"
            )


def _judge_blocks(messages: list[Any]) -> None:
    """Refuse blocks that do not belong together: calls, results and thinking."""
    asked: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        if not message["content"]:
            raise RefusedError("messages: all messages must have non-empty content")
        if at and message["role"] == messages[at - 1]["role"]:
            raise RefusedError('messages: roles must alternate between "user" and "assistant"')
        blocks = message["content"] if isinstance(message["content"], list) else []
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(asked):
            raise RefusedError(
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately"
                " after, or unexpected `tool_use_id` found in `tool_result` blocks"
            )
        if "tool_result" in kinds[len(results) :] or (results and message["role"] != "user"):
            raise RefusedError(f"messages.{at}: `tool_result` blocks must come first")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if any(re.fullmatch("[a-zA-Z0-9_-]+", name) is None for name in asked):
            raise RefusedError(f"messages.{at}: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if seen & {*asked} or len(asked) > len({*asked}):
            raise RefusedError(f"messages.{at}: `tool_use` ids must be unique")
        seen |= {*asked}
        if asked and message["role"] != "assistant":
            raise RefusedError(f"messages.{at}: `tool_use` blocks can only be in `assistant`")
        for block in blocks:
            if block["type"] == "thinking" and not block["signature"]:
                raise RefusedError(f"messages.{at}: Invalid `signature` in `thinking` block")
            content = block.get("content", "-")
            if block["type"] == "tool_result" and isinstance(content, str) and content.isspace():
                raise RefusedError("messages: text content blocks must be non-empty")
    if asked:
        raise RefusedError("messages: `tool_use` ids were found without `tool_result` blocks")


def judge_names(names: Iterable[str], pattern: str) -> None:
    for at, name in enumerate(names):
        if re.fullmatch(pattern, name) is None:
            raise RefusedError(f"tools.{at}.custom.name: String should match pattern '^{pattern}$'")


def judge_choice(body: Any, message: str) -> None:
    """Refuse the choice of a tool where there is none, or none of its name."""
    choice = body.get("tool_choice")
    if choice is None:
        return
    tools = [tool.get("function", tool)["name"] for tool in body.get("tools", ())]
    named = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    if not tools or named not in (None, *tools):
        raise RefusedError(message, "tool_choice")


def texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block["text"] for block in content if block["type"] == "text")


def _judge_order(roles: list[str], model: str) -> None:
    for at, role in enumerate(roles):
        if role != "system":
            continue
        if not plain(model, LATER_SYSTEM):
            raise RefusedError("messages: role 'system' is not supported on this model")
        if at == 0 or roles[at - 1] != "user":
            raise RefusedError("messages: role 'system' must follow a user message")
        if at + 1 < len(roles) and roles[at + 1] != "assistant":
            raise RefusedError(
                "messages: role 'system' must be the last message, or precede an assistant message"
            )


# --- Gemini


@cache
def _gemini_type(name: str) -> Any:
    from google.genai import types
    from pydantic import TypeAdapter

    return TypeAdapter(getattr(types, name))


PARTS_OF_GEMINI = frozenset({"functionCall", "functionResponse", "inlineData", "fileData"})


def judge_gemini(body: Any, model: str) -> None:
    for content in body["contents"]:
        fit(_gemini_type("Content"), content)
        if content["role"] not in ("user", "model"):
            raise RefusedError("Please use a valid role: user, model.")
        for part in content["parts"]:
            if not part.get("text") and not part.keys() & PARTS_OF_GEMINI:
                what = "Unable to submit request because it must have a text parameter."
                raise RefusedError(what)
    if not body["contents"]:
        raise RefusedError("* GenerateContentRequest.contents: contents is not specified")
    fit(_gemini_type("GenerationConfig"), body.get("generationConfig", {}))
    for tool in body.get("tools", ()):
        fit(_gemini_type("Tool"), tool)
        names = [each["name"] for each in tool["functionDeclarations"]]
        judge_names(names, "[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
    if "toolConfig" in body:
        fit(_gemini_type("ToolConfig"), body["toolConfig"])
        names = body["toolConfig"]["functionCallingConfig"].get("allowedFunctionNames", ())
        declared = [each["name"] for each in body["tools"][0]["functionDeclarations"]]
        if not set(names) <= set(declared):
            raise RefusedError("allowed_function_names has a function that is not declared")
    if not 0 <= body.get("generationConfig", {}).get("temperature", 0) <= 2:
        raise RefusedError(
            "* GenerateContentRequest.generation_config.temperature: must be in [0, 2]"
        )
    _judge_calls(body["contents"], model)
    refuse(refused_by_gemini(body["contents"], model))
    roles = [content["role"] for content in body["contents"]]
    if roles[-1] == "model" and plain(model, NO_PREFILL):
        raise RefusedError("Requests ending with a model turn are not supported.")


def _judge_calls(contents: list[Any], model: str) -> None:
    """Refuse contents that do not alternate; those of results are between the model's."""
    asked: list[str] = []
    before = ""
    texts_at = [
        at
        for at, content in enumerate(contents)
        if content["role"] == "user" and "functionResponse" not in content["parts"][0]
    ]
    for at, content in enumerate(contents):
        results = [
            part["functionResponse"] for part in content["parts"] if "functionResponse" in part
        ]
        if results and len(results) < len(content["parts"]):
            raise RefusedError("Function response parts must not be mixed with other parts.")
        if sorted(result["name"] for result in results) != sorted(asked):
            raise RefusedError(
                "Please ensure that the number of function response parts is equal to the number of"
                " function call parts of the function call turn."
            )
        role = "results" if results else content["role"]
        if role == before or (not before and role != "user"):
            what = "Please ensure that multiturn requests alternate between user and model."
            raise RefusedError(what)
        before = role
        calls = [part for part in content["parts"] if "functionCall" in part]
        asked = [part["functionCall"]["name"] for part in calls]
        is_current = not texts_at or at > texts_at[-1]
        needs_signature = is_current and model.startswith("gemini-3")
        if calls and needs_signature and "thoughtSignature" not in calls[0]:
            what = "Function call is missing a thought_signature in functionCall parts."
            raise RefusedError(what)
    if asked:
        raise RefusedError("Please ensure that function call turn comes before its responses.")


# --- OpenAI


@cache
def _openai_type(name: str) -> Any:
    from importlib import import_module

    from pydantic import TypeAdapter

    module, _, type_ = name.rpartition(".")
    return TypeAdapter(getattr(import_module(f"openai.types.{module}"), type_))


def _judge_temperature(model: str, temperature: float | None) -> None:
    if temperature is None:
        return
    if plain(model, NO_TEMPERATURE):
        what = "Unsupported parameter: 'temperature' is not supported with this model."
        raise RefusedError(what, "temperature")
    if temperature != 1 and plain(model, (*ONLY_1, *ONLY_1_OR_NONE)):
        what = f"Unsupported value: 'temperature' does not support {temperature:g} with this"
        what += " model. Only the default (1) value is supported."
        raise RefusedError(what, "temperature", "unsupported_value")
    if not 0 <= temperature <= 2:
        what = f"Invalid 'temperature': decimal above maximum value. Got {temperature}."
        raise RefusedError(what, "temperature", "decimal_above_max_value")


def judge_openai(body: Any) -> None:
    fit(_openai_type("chat.completion_create_params.CompletionCreateParamsNonStreaming"), body)
    model = body["model"]
    if plain(model, NO_CHAT):
        raise RefusedError(
            "This model is only supported in v1/responses and not in v1/chat/completions.", "model"
        )
    refuse(refused_by_openai(body["messages"]))
    _judge_temperature(model, body.get("temperature"))
    if "max_tokens" in body and plain(model, NO_MAX_TOKENS):
        what = "Unsupported parameter: 'max_tokens' is not supported with this model."
        what += " Use 'max_completion_tokens' instead."
        raise RefusedError(what, "max_tokens", "unsupported_parameter")
    tools = body.get("tools", ())
    judge_names((tool["function"]["name"] for tool in tools), "[a-zA-Z0-9_-]{1,64}")
    judge_choice(body, "'tool_choice' is only allowed when 'tools' are specified.")
    waiting: list[str] = []
    for at, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                what = "Invalid parameter: messages with role 'tool' must be a response to a"
                what += " preceeding message with 'tool_calls'."
                raise RefusedError(what, f"messages.[{at}].role")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        for call in message.get("tool_calls", ()):
            if not 0 < len(call["id"]) <= 40:
                what = f"Invalid 'messages[{at}].tool_calls[0].id': string too long. Expected a"
                raise RefusedError(
                    f"{what} string with maximum length 40.", None, "string_above_max"
                )
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                raise RefusedError(f"Invalid 'messages[{at}].tool_calls[0].function.arguments'")
            waiting.append(call["id"])
    if waiting:
        what = "An assistant message with 'tool_calls' must be followed by tool messages responding"
        raise RefusedError(f"{what} to each 'tool_call_id'.", "messages")


# --- OpenAI's Responses API

KEYS_OF_RESPONSES = frozenset(
    {
        *("input", "instructions", "model", "store", "include", "max_output_tokens", "temperature"),
        *("tools", "tool_choice", "prompt_cache_options"),
    }
)


def judge_responses(body: Any) -> None:
    """Refuse what the API does: T1 to T9 for it, and what was seen on its wire."""
    # With store: false the API gives reasoning items without the id that the type requires (so
    # inspect_ai 0.3, _openai_responses.py), and takes them.
    items = [
        {"id": "rs"} | item if item.get("type") == "reasoning" else item for item in body["input"]
    ]
    type_ = _openai_type("responses.response_create_params.ResponseCreateParamsNonStreaming")
    fit(type_, {**body, "input": items})
    for key in body.keys() - KEYS_OF_RESPONSES:
        raise RefusedError(f"Unknown parameter: '{key}'.", key, "unknown_parameter")
    model = body["model"]
    if body["store"] is not False:
        raise RefusedError("this organization stores nothing", "store")
    if body.get("max_output_tokens", 16) < 16:
        what = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
        raise RefusedError(what, "max_output_tokens", "integer_below_min_value")
    if body.get("include") and plain(model, NO_REASONING):
        raise RefusedError("Encrypted content is not supported with this model.", "include")
    if not body.get("instructions", "-"):
        raise RefusedError("Invalid 'instructions': empty string.", "instructions")
    _judge_temperature(model, body.get("temperature"))
    judge_names((tool["name"] for tool in body.get("tools", ())), "[a-zA-Z0-9_-]{1,64}")
    judge_choice(body, "'tool_choice' is only allowed when 'tools' are specified.")
    if not body["input"]:
        raise RefusedError("One of 'input' or 'previous_response_id' must be provided.", "input")
    refuse(refused_by_responses(body["input"]))
    _judge_items(body["input"], model)


def _judge_items(items: list[Any], model: str) -> None:
    """Refuse items that do not belong together."""
    waiting: list[str] = []
    seen: set[str] = set()
    called: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        following = items[at + 1] if at + 1 < len(items) else {}
        if waiting and kind not in ("function_call", "function_call_output", "reasoning"):
            raise RefusedError(f"No tool output found for function call {waiting[0]}.", "input")
        if "id" in item and item["id"] in seen:
            what = f"Duplicate item found with id {item['id']}. Remove duplicate items from your"
            raise RefusedError(f"{what} input and try again.", "input")
        seen.add(item.get("id", f"at {at}"))
        if kind == "reasoning":
            if plain(model, NO_REASONING):
                what = "Reasoning input items can only be provided to a reasoning or computer use"
                raise RefusedError(f"{what} model.", "input")
            _judge_reasoning(item, following)
        elif kind == "function_call":
            _judge_call(item, items[at - 1] if at else {}, called)
            waiting.append(item["call_id"])
            called.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                what = f"No tool call found for function call output with call_id {item['call_id']}"
                raise RefusedError(what, "input")
            waiting.remove(item["call_id"])
        elif item["role"] == "assistant" and plain(model, WANTS_PHASE) and item["content"]:
            if item.get("phase") not in ("commentary", "final_answer"):  # so says the manual
                raise RefusedError("preserve and resend phase on all assistant messages", "input")
        elif "phase" in item:
            raise RefusedError("Unknown parameter: 'phase'.", "input")
    if waiting:
        raise RefusedError(f"No tool output found for function call {waiting[0]}.", "input")


def _judge_reasoning(item: Any, following: Any) -> None:
    name = item.get("id", "rs")
    if not name.startswith("rs"):
        raise RefusedError(f"Invalid id: '{name}'. Expected an ID that begins with 'rs'.", "input")
    if not item.get("encrypted_content"):
        what = f"Item with id '{name}' not found. Items are not persisted when `store` is set to"
        raise RefusedError(f"{what} false.", "input")
    is_followed = following.get("role") == "assistant" or following.get("type") in (
        *("function_call", "reasoning"),
    )
    if not is_followed:
        what = f"Item '{name}' of type 'reasoning' was provided without its required following item"
        raise RefusedError(what, "input")


def _judge_call(item: Any, before: Any, called: set[str]) -> None:
    if not 0 < len(item["call_id"]) <= 64:
        what = "Invalid 'input[0].call_id': string too long. Expected a string with maximum length"
        raise RefusedError(f"{what} 64.", "input", "string_above_max_length")
    if item["call_id"] in called:
        raise RefusedError(f"Duplicate call_id {item['call_id']}", "input")
    if not isinstance(json.loads(item["arguments"]), dict):
        raise RefusedError("Invalid 'input[0].arguments'", "input")
    if "id" in item and before.get("type") != "reasoning":
        what = f"Item '{item['id']}' of type 'function_call' was provided without its required"
        raise RefusedError(f"{what} 'reasoning' item", "input")
