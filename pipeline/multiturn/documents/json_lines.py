"""Suites in JSON Lines: one case a line, and a line that is wrong leaves the others alone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from multiturn.documents.node import MAX_DEPTH, MAX_VALUES, Mark, Node, is_deeper
from multiturn.documents.yaml_reader import read_integer
from multiturn.errors import InputError, Place, quoted
from multiturn.text import LONE_SURROGATE

# In bytes: a case of 10 million characters, whatever they are, and 50 MB of media in base64.
MAX_CASE_LINE = 110_000_000
# A string, or what stands before a value: a comma, or the beginning of what is not empty. In linear
# time: a string that does not end matches up to the end, and nothing backtracks.
_BEFORE_VALUE = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?$)|(,|\[(?!\s*\])|\{(?!\s*\}))'
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
# Half of a pair that JSON escapes; the group is a pair, or the escape of another character. The
# backslash is in front, as a search for it alone is seven times as fast.
_HALF = rb"(?i)\\(?:(ud[89ab]..\\ud[c-f]..|[^u])|ud[89a-f][0-9a-f]{2})"


class Lines(NamedTuple):
    """Some lines of a file."""

    start: int = 0  # position of their first byte
    end: int | None = None  # position after their last byte; None for the end of the file
    before: int = 0  # how many lines stand before them


def is_json_lines(path: str) -> bool:
    """Return whether a file has JSON Lines, by its name; case does not count."""
    return path.lower().endswith(".jsonl")


def split_lines(file: BinaryIO, size: int) -> Iterator[Lines]:
    """Yield the lines of a file in parts of about a size, in bytes."""
    start = before = 0
    while chunk := file.read(size):
        chunk += file.readline()
        yield Lines(start, start + len(chunk), before)
        start += len(chunk)
        before += chunk.count(b"\n")


def read_json_lines(
    file: BinaryIO,
    name: str,
    lines: Lines | None = None,
    read_at_once: Callable[[bytes, Mark], Any] = lambda line, mark: None,
) -> Iterator[Any]:
    """Yield the value of each line that is not blank, or what is wrong with it.

    Args:
        name: what errors call the file.
        lines: which of its lines; None for all.
        read_at_once: returns what is yielded of a line, or None for a ``Node`` or an error.
    """
    position, end, number = lines or Lines()
    file.seek(position)
    while (end is None or position < end) and (line := file.readline(MAX_CASE_LINE)):
        number += 1
        position += len(line)
        mark = Mark(number - 1)
        if (found := read_at_once(line, mark)) is not None:
            yield found
            continue
        where = Place(name, number)
        try:
            if len(line) == MAX_CASE_LINE and not line.endswith(b"\n"):
                # Read on to the end of the line, so that the next one begins where it begins.
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_CASE_LINE)
                    position += len(line)
                raise ValueError(f"a line of over {MAX_CASE_LINE:,} bytes")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                node = node_of(read_value(text), mark)
                line, text = b"", ""  # large ones need not be in memory while the value is used
                yield node
        except UnicodeDecodeError:
            yield InputError("this is not UTF-8; save the file as UTF-8", where=where)
        except json.JSONDecodeError as error:
            yield InputError(f"not JSON: {error.msg}", where=where._replace(column=error.colno))
        except ValueError as error:
            yield InputError(str(error), where=where)


def read_value(text: str) -> Any:
    """Return the value of a JSON text; what no case may have is a ValueError."""
    # json has no limit of its own: 40 MB of "[0,0,0" would take a gigabyte. It also keeps the last
    # of several equal keys in silence, and lets half of a character pass, which no file can hold.
    # A value has a comma after it, or ends a list or a mapping.
    if sum(map(text.count, ",[{")) >= MAX_VALUES and values_in_json(text) > MAX_VALUES:
        raise ValueError(f"over {MAX_VALUES:,} values in one case")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deeper(value, MAX_DEPTH):
        raise ValueError(TOO_DEEP)
    if "\\u" in text and (half := re.search(LONE_SURROGATE, json.dumps(value, ensure_ascii=False))):
        raise ValueError(f"\\u{ord(half[0]):x} is half of a character; write both halves")
    return value


def without_halves(data: bytes) -> bytes:
    r"""Return JSON with U+FFFD in place of each half of a character that it escapes.

    >>> print(without_halves(rb'"\ud83d\ude00 \ud83d"').decode())
    "\ud83d\ude00 \ufffd"
    """
    return re.sub(_HALF, lambda found: found[0] if found[1] else rb"\ufffd", data)


def values_in_json(text: str) -> int:
    """Return how many values a JSON text has, without reading them."""
    return 1 + sum(found.lastindex or 0 for found in re.finditer(_BEFORE_VALUE, text))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"duplicate key {quoted(name)}; keep one of them")
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_int=read_integer
)


def node_of(value: Any, mark: Mark) -> Node:
    """Return a value of JSON, all of it at one place."""
    if isinstance(value, dict):
        children = {name: node_of(child, mark) for name, child in value.items()}
        return Node(None, mark, None, children, mark)
    if isinstance(value, list | tuple):
        return Node(None, mark, None, [node_of(child, mark) for child in value])
    return Node(value, mark)


def node_of_given(value: Any) -> Node:
    """Return what a program has made, without a place; what no file can hold is a ValueError."""
    msgspec.json.encode(value)  # refuses half of a character
    if is_deeper(value, MAX_DEPTH):
        raise ValueError(TOO_DEEP)
    built = msgspec.to_builtins(value, str_keys=True, builtin_types=(bytes, bytearray))
    return node_of(built, Mark(-1, -1))
