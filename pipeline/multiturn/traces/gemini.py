"""Request bodies of the Gemini API."""

import json
import re
from collections.abc import Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.files.media import kind_of_type
from multiturn.providers.reading import data_uri
from multiturn.traces.trace import (
    OF_PROGRAMS,
    Trace,
    Values,
    call,
    execution,
    mappings,
    message,
    system,
    thought,
    tool,
)

_NAMES = {"temperature": "temperature", "maxOutputTokens": "max_output_tokens"}
_MODES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
_USED = ("systemInstruction", "contents", "tools", "toolConfig", "generationConfig")
_SNAKE = re.compile("_([a-z])")


def read_gemini(body: Values) -> Trace:
    """Return what a body says."""
    body = camel(body)
    if body.get("cachedContent"):
        what = "refers to messages that Google stores; import a request that has all of them"
        raise MultiturnError(f"cachedContent {what}")
    reader = _Reader()
    messages = system(_pieces(body.get("systemInstruction")))
    for each in _listed(body.get("contents")):
        messages += reader.messages(each)
    config = body.get("generationConfig")
    given = {**body, **config} if isinstance(config, dict) else body
    listed = (each.get("functionDeclarations") for each in mappings(body.get("tools")))
    declared = (each for functions in listed for each in mappings(functions))
    return Trace(
        provider="gemini",
        messages=messages,
        tools=[tool({**each, "parameters": _schema(each)}) for each in declared],
        execution=execution(given, _NAMES, _chosen(body.get("toolConfig")), _USED),
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
        found[name] = child if name in OF_PROGRAMS else camel(child)
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
        said = [*_pieces(content)]
        if content.get("role") == "model":
            calls = [self._call(each) for each in parts if "functionCall" in each]
            yield message("assistant", [*thoughts(parts), *said], tool_calls=calls)
            return
        results = [each["functionResponse"] for each in parts if "functionResponse" in each]
        for result in results:
            yield self._result(result)
        if said or not results:
            yield message("user", said)

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
                kind, name = str(more.get("mimeType")), more.get("displayName")
                named = {"name": name} if isinstance(name, str) and name else {}
                yield {"type": kind_of_type(kind), "value": data_uri(data, kind), **named}
            case {"fileData": {"fileUri": str(url), **more}}:
                yield {"type": kind_of_type(str(more.get("mimeType"))), "value": url}


def thoughts(parts: Any) -> Iterator[Values]:
    """Yield the parts that are thoughts, as blocks of thinking."""
    for part in mappings(parts):
        if part.get("thought") is True:
            yield thought("gemini", part.get("text"), part.get("thoughtSignature"))


def _schema(given: Values) -> Any:
    """Return the parameters of a function as a JSON Schema."""
    schema = given.get("parametersJsonSchema")
    return _lower(given.get("parameters")) if schema is None else schema


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
    """Return a body in camelCase, with its contents as a list of mappings that have roles."""
    same: Values = camel(body)
    same["contents"] = [_with_role(each) for each in _listed(same.get("contents"))]
    same["systemInstruction"] = _with_role(same.get("systemInstruction"), role="user")
    return same


def _with_role(content: Any, **role: str) -> Any:
    """Return a content as a mapping with a role; a text stands for one."""
    if isinstance(content, str):
        content = {"parts": [{"text": content}]}
    return {"role": "user", **content, **role} if isinstance(content, dict) else content
