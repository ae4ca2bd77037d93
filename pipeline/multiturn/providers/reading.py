"""What the readers of the vendors' request bodies share.

A reader takes a decoded body, of ours or of another program's, and returns it as the request that
it was written of. What it does not know stays in ``settings.body``; of messages, nothing is lost
that has a place in ours.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from multiturn.documents.json_lines import read_value
from multiturn.errors import MultiturnError
from multiturn.files.media import is_data
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import Call, Part, Role, Thinking, Tool, Turn
from multiturn.providers.settings import Keys, Values

_TYPE = r"(?a)[\w.+-]+/[\w.+-]+"
Segment = dict[str, str]  # media as a suite has them: their type and value, a name and a detail
MediaReader = Callable[[Segment], Part | None]
_EMPTY: tuple[Any, ...] = (None, "", [], {})  # what says the same as nothing
Piece = str | Segment | Thinking | Call


class BodyForm(NamedTuple):
    """A form of request bodies, for whoever reads those of other programs.

    ``read`` raises a MultiturnError if a part of the body has no place in a request.
    """

    write: Callable[[PreparedRequest], Values]
    read: Callable[[Values, MediaReader], PreparedRequest]
    likeness: Callable[[Values], int]  # how surely a body is of this form; 0 for one that is not
    same: Callable[[Values], Values]  # a body in one of the spellings that the vendor takes
    settings: Callable[[PreparedRequest], Values]  # of a target that sends a request as such a body
    thoughts: Callable[[Values], Iterable[Thinking]] = lambda _: ()  # in a block of an answer
    keys: Keys = MappingProxyType({})  # where a body has each setting
    closed: Collection[str] = ()  # keys that we write, or of prompt that nobody has reviewed


def same_spelling(
    body: Values,
    *,
    contents: Collection[str] = (),
    types: Mapping[str, str] = {},
    defaults: Collection[tuple[str, Any]] = (),
    programs: Collection[str] = (),
) -> Values:
    """Return the body of any program in one of the spellings that mean the same.

    Args:
        contents: keys whose texts stand for a list with a text.
        types: other names of types.
        defaults: keys with values that say the same as nothing.
        programs: keys of what programs write, which stays as it is.
    """

    def spelled(value: Any, key: str) -> Any:
        match value:
            case str() | {"type": str()} if key in contents:
                return [spelled(each, "") for each in blocks(value)]
            case str() if key == "type":
                return types.get(value, value)
            case str() if key == "arguments":
                return decoded(value, key)
            case dict() if key not in programs:
                found = {name: spelled(child, name) for name, child in value.items()}
                return {
                    name: child
                    for name, child in found.items()
                    if child not in _EMPTY and (name, child) not in defaults
                }
            case list():
                return [spelled(each, "") for each in value]
        return value

    same: Values = spelled(body, "")
    return same


def turn(
    role: Role,
    pieces: Iterable[Piece],
    media: MediaReader,
    *,
    answers: Any = None,
    is_error: Any = False,
) -> Turn:
    """Return a turn of texts, media, thinking and calls; None of the media is left out."""
    given = [*pieces]
    said = (each for each in given if not isinstance(each, Thinking | Call))
    parts = [Part("text", each) if isinstance(each, str) else media(each) for each in said]
    return Turn(
        role,
        parts=tuple(each for each in parts if each is not None),
        thinking=tuple(each for each in given if isinstance(each, Thinking)),
        calls=tuple(each for each in given if isinstance(each, Call)),
        answers=answers or None,
        is_error=bool(is_error),
    )


def assistant_turns(pieces: Iterable[Piece], media: MediaReader) -> Iterator[Turn]:
    """Yield the turns of an assistant's message: it thinks, speaks and calls, in this order.

    Thinking after a text begins another turn; after a call, whose result is next, it does not.
    """
    found: list[Piece] = []
    for piece in pieces:
        is_spoken = any(not isinstance(each, Thinking) for each in found)
        is_calling = any(isinstance(each, Call) for each in found)
        if isinstance(piece, Thinking) and is_spoken and not is_calling:
            yield turn("assistant", found, media)
            found = []
        found.append(piece)
    yield turn("assistant", found, media)


def read_call(call_id: Any, name: Any, arguments: Any, signature: Any = None) -> Call:
    """Return a call of a tool, whatever its values are: a suite says what is wrong with them."""
    return Call(call_id, name, arguments, signature or "")


def thinking_of(vendor: str, text: Any = None, signature: Any = None, data: Any = None) -> Thinking:
    """Return a block of thinking."""
    return Thinking(text or "", signature or "", data or "", vendor)


def read_tool(given: Mapping[str, Any], schema: str = "parameters") -> Tool:
    """Return the definition of a tool; ``schema`` is the key of its parameters."""
    return Tool(
        given.get("name", ""),
        given.get("description") or "",
        given.get(schema) or {},
        given.get("strict"),
    )


def write_tool(tool: Tool, schema: str, parameters: Any) -> Values:
    """Return the definition of a tool as ``read_tool`` reads it, without what is empty."""
    found = {"name": tool.name, "description": tool.description, schema: parameters}
    found["strict"] = tool.strict
    return {key: each for key, each in found.items() if each not in _EMPTY}


def texts(pieces: Iterable[Any]) -> list[str]:
    """Return those of some pieces that are texts."""
    return [each for each in pieces if isinstance(each, str)]


def blocks(content: Any) -> list[Any]:
    """Return a content as a list of blocks: a text or a mapping stands for one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, dict):
        return [content]
    return content if isinstance(content, list) else []


def mappings(value: Any) -> Iterator[Values]:
    """Yield the mappings of a list; nothing of another value."""
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


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


def segment(kind: str, value: str, keys: Mapping[Any, Any] = {}) -> Segment:
    """Return text or media as a segment of ours, with the name and the detail that a block has."""
    given = {"detail": keys.get("detail"), "name": keys.get("filename")}
    more = {key: text for key, text in given.items() if isinstance(text, str) and text}
    return {"type": kind, "value": value, **more}


def data_uri(data: str, media_type: object = None) -> str:
    """Return bytes in base64 as a ``data:`` URI, with the type that is declared of them."""
    if is_data(data):
        return data
    declared = str(media_type).partition(";")[0].strip()
    return f"data:{declared if re.fullmatch(_TYPE, declared) else ''};base64,{data}"


def pieces_of_blocks(
    content: Any, read_segment: Callable[[Mapping[str, Any]], Segment | None]
) -> Iterator[Any]:
    """Yield the texts and the media of a content, whose blocks a vendor's function reads."""
    for found in map(read_segment, mappings(blocks(content))):
        if found is not None:
            yield found["value"] if found["type"] == "text" else found
