"""What a request body says, in the form of a suite."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from multiturn.documents.json_lines import mark_of, node_of, read_json
from multiturn.documents.node import MAX_DEPTH
from multiturn.errors import MultiturnError
from multiturn.files.media import kind_of_type

Values = dict[str, Any]
_TEXTS = ("text", "input_text", "output_text")  # the last two of OpenAI's Responses API


class Trace(Struct, kw_only=True):
    """What a request body says, in the form of a suite.

    Attributes:
        form: which kind of body it is.
        provider: the kind of target that sends such bodies.
        messages: as ``input_messages`` has them.
        tools: as ``tools`` has them.
        execution: the settings, those that no target sends under their own names.
        target: the settings of a target that sends the body as it was.
    """

    form: str
    provider: str
    messages: list[Values]
    tools: list[Values] = []
    execution: Values = {}
    target: Values = {}


def message(role: str, pieces: Iterable[Any], **more: Any) -> Values:
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
    calls = {"tool_calls": given.pop("tool_calls")} if "tool_calls" in given else {}
    said = {} if calls and not content else {"content": content}
    return {"role": role, **given, **said, **calls}


def call(call_id: Any, name: Any, arguments: Any, signature: Any = None) -> Values:
    """Return a call of a tool; nothing is left out of it that a suite would want."""
    written = {"id": call_id, "name": name, "arguments": arguments}
    if signature:
        written["thought_signature"] = signature
    return written


def read_value(text: str) -> Any:
    """Return the value of a JSON text; what no suite can have is a ValueError."""
    try:
        value = read_json(text)
        node_of(value, mark_of(1, 0))  # refuses too many levels
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
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


def tool(given: Values, schema: str) -> Values:
    """Return the definition of a tool; ``schema`` is the key of its parameters."""
    found = {"name": given.get("name"), "description": given.get("description")}
    found |= {"parameters": given.get(schema), "strict": given.get("strict")}
    return {key: value for key, value in found.items() if value is not None}


def settings(body: Values, used: Iterable[str]) -> Values:
    """Return the keys of a body that are not used otherwise."""
    return {key: value for key, value in body.items() if key not in used and value is not None}


def blocks(content: Any) -> list[Any]:
    """Return a content as a list of blocks: a text stands for one, and no text for none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def texts(content: Any) -> Iterator[str]:
    """Yield the texts of a content of OpenAI's or Anthropic's."""
    for block in mappings(blocks(content)):
        if block.get("type") in _TEXTS and isinstance(block.get("text"), str):
            yield block["text"]


def media(kind: str, value: Any, **more: Any) -> Values:
    """Return the piece of a content that an image, a document, audio or a file is."""
    said = {key: text for key, text in more.items() if isinstance(text, str) and text}
    return {"type": kind, "value": value, **said}


def kind_of(media_type: Any) -> str:
    """Return the kind of media that a type is; their bytes tell, but an address has none."""
    return kind_of_type(str(media_type))


def data_uri(media_type: Any, data: str) -> str:
    """Return bytes in base64 as a ``data:`` URI."""
    return f"data:{media_type or ''};base64,{data}"


def mappings(value: Any) -> Iterator[Values]:
    """Yield the mappings of a list; nothing of another value."""
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def each_of(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a list with each item changed; another value as it is."""
    return [change(each) for each in value] if isinstance(value, list) else value


def renamed(given: Values, names: Mapping[str, str]) -> Values:
    """Return settings by our names; of two for one setting, the first of ``names`` counts."""
    found: Values = {}
    for theirs, ours in names.items():
        if given.get(theirs) is not None:
            found.setdefault(ours, given[theirs])
    return found
