"""Request bodies of the Gemini API."""

import json
import re
from collections.abc import Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.traces.trace import (
    Trace,
    Values,
    call,
    data_uri,
    kind_of,
    mappings,
    media,
    message,
    renamed,
    settings,
)

_MODES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
_USED = ("systemInstruction", "contents", "tools", "toolConfig", "generationConfig")
_OF_USERS = ("args", "response", "parameters", "parametersJsonSchema", "properties")
_SNAKE = re.compile("_([a-z])")


def read_gemini(body: Values) -> Trace:
    """Return what a body says."""
    body = camel(body)
    if body.get("cachedContent"):
        what = "refers to messages that Google stores; import a request that has all of them"
        raise MultiturnError(f"cachedContent {what}")
    reader = _Reader()
    system = [*_texts(body.get("systemInstruction"))]
    messages = [message("system", system)] if system else []
    for each in _listed(body.get("contents")):
        messages += reader.messages(each)
    config = body.get("generationConfig")
    config = config if isinstance(config, dict) else {}
    names = {"temperature": "temperature", "maxOutputTokens": "max_output_tokens"}
    execution = {**settings(body, _USED), **settings(config, names), **renamed(config, names)}
    if choice := _chosen(body.get("toolConfig")):
        execution["tool_choice"] = choice
    tools = mappings(body.get("tools"))
    declared = (each for tool in tools for each in mappings(tool.get("functionDeclarations")))
    return Trace(
        form="gemini",
        provider="gemini",
        messages=messages,
        tools=[_tool(each) for each in declared],
        execution=execution,
    )


def camel(value: Any) -> Any:
    """Return a body with the keys of its REST form; SDKs and proxies write snake_case, too."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, child in value.items():
        name = _SNAKE.sub(lambda match: match[1].upper(), key)
        name = key if name in value else name  # of two spellings, none hides the other
        found[name] = child if name in _OF_USERS else camel(child)
    return found


def _listed(contents: Any) -> list[Any]:
    """Return contents as a list: a text, and a mapping, stand for one."""
    return contents if isinstance(contents, list) else [contents]


class _Reader:
    """Reads contents, and gives ids to calls that have none."""

    def __init__(self) -> None:
        self.open: list[tuple[str, Any]] = []  # the ids of calls without a result, and their names
        self.count = 0

    def messages(self, content: Any) -> Iterator[Values]:
        """Yield the messages that a content is: each result is one of its own."""
        if isinstance(content, str):
            yield message("user", [content])
            return
        if not isinstance(content, dict):
            return
        parts = [*mappings(content.get("parts"))]
        texts = [*_pieces(content)]
        if content.get("role") == "model":
            thoughts = [_thought(each) for each in parts if each.get("thought") is True]
            calls = [self._call(each) for each in parts if "functionCall" in each]
            yield message("assistant", [*thoughts, *texts], tool_calls=calls)
            return
        results = [each["functionResponse"] for each in parts if "functionResponse" in each]
        for result in results:
            yield self._result(result)
        if texts or not results:
            yield message("user", texts)

    def _call(self, part: Values) -> Values:
        given = part["functionCall"]
        if not isinstance(given, dict):
            raise MultiturnError("a functionCall is not an object")
        self.count += 1
        name = given.get("id") or f"call_{self.count}"
        self.open.append((name, given.get("name")))
        return call(name, given.get("name"), given.get("args") or {}, part.get("thoughtSignature"))

    def _result(self, given: Any) -> Values:
        if not isinstance(given, dict):
            raise MultiturnError("a functionResponse is not an object")
        call_id = given.get("id")
        known = [each for each in self.open if call_id in (None, "", each[0])]
        found = next((each for each in known if call_id or each[1] == given.get("name")), None)
        if found is not None:
            self.open.remove(found)
            call_id = found[0]
        match given.get("response"):
            case {"output": str(text), **others} if not others:
                return message("tool", [text], tool_call_id=call_id)
            case {"error": str(text), **others} if not others:
                return message("tool", [text], tool_call_id=call_id, is_error=True)
            case response:
                text = json.dumps(response, ensure_ascii=False)
                return message("tool", [text], tool_call_id=call_id)


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a content that are no thoughts."""
    return (each for each in _pieces(content) if isinstance(each, str))


def _pieces(content: Any) -> Iterator[Any]:
    """Yield the texts of a content that are no thoughts, and the media."""
    if isinstance(content, str):
        yield content
    for part in mappings(content.get("parts")) if isinstance(content, dict) else ():
        match part:
            case {"thought": True}:
                pass
            case {"text": str(text)}:
                yield text
            case {"inlineData": {"data": str(data), **more}}:
                kind = more.get("mimeType")
                yield media(kind_of(kind), data_uri(kind, data), name=more.get("displayName"))
            case {"fileData": {"fileUri": str(url), **more}}:
                yield media(kind_of(more.get("mimeType")), url)


def _thought(part: Values) -> Values:
    found = {"type": "thinking", "thinking": part.get("text"), "vendor": "gemini"}
    return {**found, **({"signature": s} if (s := part.get("thoughtSignature")) else {})}


def _tool(given: Values) -> Values:
    schema = given.get("parametersJsonSchema")
    if schema is None:
        schema = _lower(given.get("parameters"))
    found = {"name": given.get("name"), "description": given.get("description")}
    found["parameters"] = schema
    return {key: value for key, value in found.items() if value is not None}


def _lower(schema: Any) -> Any:
    """Return a schema of Gemini's as a JSON Schema, whose types are in lower case."""
    if isinstance(schema, list):
        return [_lower(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _lower(child) for key, child in schema.items()}
    if isinstance(schema.get("type"), str):
        found["type"] = schema["type"].lower()
    return found


def _chosen(config: Any) -> Any:
    match config:
        case {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [str(name)]}}:
            return {"name": name}
        case {"functionCallingConfig": {"mode": str(mode)}}:
            return _MODES.get(mode)
    return None


def same_gemini(body: Values) -> Values:
    """Return a body with one spelling of what Gemini takes in several."""
    same: Values = camel(body)
    same["contents"] = [_same(each) for each in _listed(same.get("contents"))]
    if isinstance(system := same.get("systemInstruction"), str | dict):
        same["systemInstruction"] = {**_same(system), "role": "user"}
    return same


def _same(content: Any) -> Any:
    if isinstance(content, str):
        return {"role": "user", "parts": [{"text": content}]}
    if not isinstance(content, dict):
        return content
    parts = [_same_part(each) for each in mappings(content.get("parts"))]
    return {"role": "user", **content, "parts": parts}


def _same_part(part: Values) -> Values:
    if isinstance(given := part.get("functionCall"), dict):
        return {**part, "functionCall": {**given, "args": given.get("args") or {}}}
    return {key: value for key, value in part.items() if (key, value) != ("thought", False)}
