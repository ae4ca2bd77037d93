"""What a request body says, in the form of a suite."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from multiturn.documents.json_lines import read_value
from multiturn.errors import MultiturnError
from multiturn.suites.block_forms import segment_of

Values = dict[str, Any]
# Keys of what programs write, whose own keys and values are left as they are.
OF_PROGRAMS = (
    *("args", "arguments", "input", "response"),
    *("input_schema", "parameters", "parametersJsonSchema", "properties"),
)


class Trace(Struct, kw_only=True):
    """What a request body says, in the form of a suite.

    Attributes:
        provider: the kind of target that sends such bodies.
        messages: as ``input_messages`` has them.
        tools: as ``tools`` has them.
        execution: the settings, those that no target sends under their own names.
        target: the settings of a target that sends the body as it was.
    """

    provider: str
    messages: list[Values]
    tools: list[Values] = []
    execution: Values = {}
    target: Values = {}


def message(
    role: str, pieces: Iterable[Any], tool_calls: Sequence[Values] = (), **more: Any
) -> Values:
    """Return a message; a single text is its content itself.

    >>> message("user", ["Hello"])
    {'role': 'user', 'content': 'Hello'}
    >>> message("assistant", [], tool_calls=[{"id": "c1", "name": "now"}])
    {'role': 'assistant', 'tool_calls': [{'id': 'c1', 'name': 'now'}]}
    """
    content: Any = [*pieces]
    if not content:
        content = ""
    elif len(content) == 1 and isinstance(content[0], str):
        content = content[0]
    given = {key: value for key, value in more.items() if value}
    said = {} if tool_calls and not content else {"content": content}
    calls = {"tool_calls": tool_calls} if tool_calls else {}
    return {"role": role, **given, **said, **calls}


def system(pieces: Iterable[Any]) -> list[Values]:
    """Return the message of a system prompt, if there is any; it has only texts."""
    said = texts(pieces)
    return [message("system", said)] if said else []


def call(call_id: Any, name: Any, arguments: Any, signature: Any = None) -> Values:
    """Return a call of a tool; nothing is left out of it that a suite would want."""
    written = {"id": call_id, "name": name, "arguments": arguments}
    if signature:
        written["thought_signature"] = signature
    return written


def thought(vendor: str, text: Any = None, signature: Any = None, data: Any = None) -> Values:
    """Return a block of thinking; without a text, it is one that only the vendor can read."""
    is_hidden = data and not text
    said = {} if is_hidden else {"thinking": text or ""}
    known = {"signature": signature, "data": data, "vendor": vendor}
    kind = "redacted_thinking" if is_hidden else "thinking"
    return {"type": kind, **said, **{key: value for key, value in known.items() if value}}


def tool(given: Values, schema: str = "parameters") -> Values:
    """Return the definition of a tool; ``schema`` is the key of its parameters."""
    found = {"name": given.get("name"), "description": given.get("description")}
    found |= {"parameters": given.get(schema), "strict": given.get("strict")}
    return {key: value for key, value in found.items() if value is not None}


def execution(given: Values, names: Mapping[str, str], choice: Any, used: Iterable[str]) -> Values:
    """Return the settings of a body: those of ``names`` by our names, the others as they are.

    Args:
        given: the body.
        names: our name of each setting that targets send; of two for one, the first counts.
        choice: whether the model must call a tool, in our form.
        used: the keys of the body that are no settings.
    """
    known = (*used, *names)
    found = {k: value for k, value in given.items() if k not in known and value is not None}
    ours: Values = {}
    for theirs, name in names.items():
        if given.get(theirs) is not None:
            ours.setdefault(name, given[theirs])
    return {**found, **ours, **({"tool_choice": choice} if choice else {})}


def pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content of OpenAI's or Anthropic's, as segments of ours.

    >>> [*pieces([{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": "a"}])]
    ['Hi', {'type': 'image', 'value': 'a'}]
    """
    for segment in map(segment_of, mappings(blocks(content))):
        if segment is not None:
            yield segment["value"] if segment["type"] == "text" else segment


def texts(pieces: Iterable[Any]) -> list[str]:
    """Return those of some pieces that are texts."""
    return [each for each in pieces if isinstance(each, str)]


def blocks(content: Any) -> list[Any]:
    """Return a content as a list of blocks: a text stands for one, and no text for none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def mappings(value: Any) -> Iterator[Values]:
    """Yield the mappings of a list; nothing of another value."""
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def parsed(value: Any) -> Any:
    """Return a value; of a text in JSON, as programs log structures, what it says."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):
            return read_value(value)
    return value


def decoded(arguments: Any, key: str) -> Any:
    """Return arguments that are written as a JSON text; an empty one means none."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        value = read_value(arguments) if arguments.strip() else {}
    except ValueError as error:
        raise MultiturnError(f"{key} are not JSON, as a model may write them: {error}") from None
    if not isinstance(value, dict):
        raise MultiturnError(f"{key} are not a JSON object")
    return value
