"""YAML text to plain values and the place of each, in one pass over libyaml's events.

PyYAML's own loaders read YAML 1.1, to which ``yes``, ``12:30`` and ``2024-01-01`` are not text.
Suites are written by people for YAML 1.2 tools, so scalars are read by the 1.2 core schema
(https://yaml.org/spec/1.2.2/#103-core-schema), and nothing in a document can name a Python type.
"""

import json
import re
from collections.abc import Callable, Container, Iterator
from io import BytesIO
from itertools import islice
from typing import Any

import yaml
from msgspec import structs
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from multiturn.documents.node import MAX_DEPTH, MAX_VALUES, Mark, Node, Repeats, measure, place_of
from multiturn.errors import InputError, MultiturnError, Place, RepeatsError, cut, quoted

_NULL_OR_BOOL = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<based>0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_MAY_BE_NUMBER = frozenset("-+.0123456789")
_MAX_DIGITS = 1000


def read_plain(text: str) -> Any:
    """Return None, a boolean or a number where the schema sees one; else the very text.

    An integer of over a thousand digits is a ValueError.

    >>> [read_plain(text) for text in ("yes", "12:30", "true", "010", "0x1F", "1e3", "")]
    ['yes', '12:30', True, 10, 31, 1000.0, None]
    """
    if text in _NULL_OR_BOOL:
        return _NULL_OR_BOOL[text]
    if text[0] not in _MAY_BE_NUMBER or not (match := _NUMBER.fullmatch(text)):
        return text
    kind = match.lastgroup
    if kind in ("int", "based"):
        return read_integer(text, 10 if kind == "int" else 0)
    return float(text if kind else text.replace(".", ""))


def read_integer(text: str, base: int = 10) -> int:
    """Return an integer; one of over a thousand digits is a ValueError."""
    # Python reads and writes no integer of over 4,300 digits.
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of over {_MAX_DIGITS:,} digits; quote it")
    return int(text, base)


if not yaml.__with_libyaml__:
    raise ImportError(
        "multiturn needs PyYAML with libyaml, as its wheels have it:"
        " pip install --force-reinstall --only-binary pyyaml pyyaml"
    )

# libyaml reads YAML 1.1, to which these end a line; to YAML 1.2 they are ordinary characters. They
# are not only history: texts copied from web pages and office documents hold U+2028, JavaScript
# writes it into JSON unescaped, and libyaml would turn it into a space or a newline of the prompt.
_OLD_LINE_BREAKS = ("\x85", "\u2028", "\u2029")
# Only a key of a block mapping begins at the margin. A carriage return alone also ends a line, in
# YAML 1.2 too; such files are rare, so that here any character may follow it: the answer "perhaps"
# costs time, and the answer "no" would be wrong.
_MARGINS = ((b"\n", re.compile(rb"\n[^ \r\n#\-]")), (b"\r", re.compile(rb"\r(?!\n)")))
# These are compiled for the streams that need them: nearly all need none.
_PRIVATE = rb"\xf3[\xb0-\xbf][\x80-\xbf]{2}"
_SPELLED = rb"(?i)(?=(f[0-9a-f]{4}))"  # overlapping: the digits may begin anywhere
# JSON escapes a character beyond U+FFFF as two halves, which libyaml refuses.
_ESCAPED_PAIR = (
    rb"(?<!\\)((?:\\\\)*+)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
MAX_DIRECTIVES = 100
_COLUMNS = (
    '; write "key: text", all keys of a mapping and all items of a list in one column, and quote a'
    ' text that has ": " in it or ends with ":"'
)
_QUOTES = (
    '; indent with spaces, close brackets, and quote a text that has a bracket, a quote or ": " in'
    " it, or begins with @, %, `, * or &"
)
# What to do about problems, by libyaml's words for them; the first that fits counts.
_ADVICE = {
    "invalid Unicode": r"; \uD800 to \uDFFF are halves of a character: write both halves",
    "unknown escape": r"; in double quotes, write \\ for a backslash",
    "quoted scalar": "; close the quotes of line {line}",
    # YAML 1.2 allows it where text begins with a tab; libyaml wants to be told.
    "tab character": '; indent with spaces; write "|2" before a text that begins with a tab',
    **dict.fromkeys(("mapping values", "expected key", "':'", "'-'"), _COLUMNS),
    **dict.fromkeys(("','", "cannot start any token", "expected alphabetic"), _QUOTES),
}


def _has(data: bytes, wanted: bytes) -> bool:
    """Return whether data has some bytes; a search for the first one alone is much faster."""
    return wanted[:1] in data and wanted in data


class Source:
    r"""A stream of UTF-8 with a name.

    libyaml is the only fast parser that says where each value is, but it reads YAML 1.1: it takes
    U+0085, U+2028 and U+2029 for line ends, and it refuses a character that JSON escapes as two
    halves, such as ``\ud83d\ude00``. So each old line break, and the backslash of each such half,
    is replaced before libyaml sees it, and put back into the texts that it returns (``original``).

    A stand-in is a private use character beyond U+FFFF, of which there are 65,534, that the stream
    contains neither as it is nor as an escape. It is one character, as what it replaces is, so
    libyaml's columns stay true.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError("this is UTF-16; save the file as UTF-8", where=Place(name, 1, 1))
        # libyaml compares each directive with all others.
        if _has(data, b"%TAG") and data.count(b"\n%TAG") + data.count(b"\r%TAG") > MAX_DIRECTIVES:
            raise InputError(f"over {MAX_DIRECTIVES} %TAG directives", where=name)
        has_pairs = _has(data, b"\\u") and re.search(_ESCAPED_PAIR, data) is not None
        found = [char for char in _OLD_LINE_BREAKS if _has(data, char.encode())]
        self.has_stand_ins = has_pairs or bool(found)
        unused = self._unused(data) if self.has_stand_ins else iter(())
        self._restore = {ord(stand_in): char for char, stand_in in zip(found, unused, strict=False)}
        for stand_in, char in self._restore.items():
            data = data.replace(char.encode(), chr(stand_in).encode())
        self._backslash = next(unused) if has_pairs else ""
        self._pair = f"{self._backslash}u(.{{4}}){self._backslash}u(.{{4}})"
        if has_pairs:
            new = rf"\1{self._backslash}u\2{self._backslash}u\3"
            data = re.sub(_ESCAPED_PAIR, new.encode(), data)
        self.data = data

    def original(self, event: Any) -> str:
        """Return the text of a scalar without stand-ins."""
        text: str = event.value
        if self._backslash:
            if event.style == '"':  # Only double quotes give escapes a meaning.
                text = re.sub(self._pair, lambda it: json.loads(rf'"\u{it[1]}\u{it[2]}"'), text)
            text = text.replace(self._backslash, "\\")
        return text.translate(self._restore)

    def has_keys_after(self, key: str) -> bool:
        """Return whether a line may begin at the margin after the first that holds a key."""
        start = self.data.find(key.encode())
        return any(end in self.data and margin.search(self.data, start) for end, margin in _MARGINS)

    def place(self, position: int) -> Place:
        """Return ``name:line:column`` of a position."""
        before = self.data[:position]
        line = before.rpartition(b"\n")[2].decode("utf-8-sig", "replace")
        return Place(self.name, before.count(b"\n") + 1, len(line) + 1)

    def _unused(self, data: bytes) -> Iterator[str]:
        """Yield private-use characters that the stream neither holds nor spells as an escape."""
        used = {char.decode() for char in re.findall(_PRIVATE, data)}
        used |= {chr(int(digits, 16)) for digits in re.findall(_SPELLED, data)}
        yield from (char for char in map(chr, range(0xF0000, 0xFFFFE)) if char not in used)
        raise InputError("it uses every private character there is", where=self.name)


def yaml_error(error: Any, source: Source) -> MultiturnError:
    """Return an error of libyaml with its place in the source, and with what to do about it."""
    if isinstance(error, yaml.reader.ReaderError):
        if "UTF-8" in error.reason or 0xD800 <= error.character <= 0xDFFF:
            what = "this is not UTF-8; save the file as UTF-8"
        else:
            what = (
                f"YAML does not allow the character U+{error.character:04X};"
                f' write it as an escape in double quotes: "\\u{error.character:04x}"'
            )
        return InputError(what, where=source.place(error.position))
    what = " ".join(filter(None, ("not YAML:", error.problem, error.context)))
    advice = next((advice for problem, advice in _ADVICE.items() if problem in what), "")
    if error.context_mark:
        advice = advice.replace("{line}", str(error.context_mark.line + 1))
    what += advice
    if b"\n>>>>>>> " in source.data:
        what = "it has a merge conflict; resolve it first"
    mark = error.problem_mark or error.context_mark
    if "cannot start any token" in what:
        line = next(islice(BytesIO(source.data), mark.line, None), b"")
        if line[: mark.column + 1].lstrip(b" ") == b"\t":
            what = "not YAML: a tab; indent with spaces"
    if "not find expected ':'" in what:  # it is the key above that has none
        mark = error.context_mark or mark
    where = place_of(source.name, mark) if mark else Place(source.name)
    return InputError(what, where=where)


# What aliases may add to a document, in characters: ten thousand uses of two pages of text.
MAX_ALIASED = 100_000_000

_TAG = "tag:yaml.org,2002:"
MERGE = "".join(("<", "<"))  # compared by identity: a quoted "<<" is a key like any other


def read_documents(
    source: str | bytes, name: str, most_values: int = MAX_VALUES, repeats: Repeats | None = None
) -> Iterator[Node]:
    r"""Yield each document of a YAML stream; LF and CRLF line ends are the same.

    Args:
        name: what errors call the stream.
        most_values: of a document, with its aliases expanded.
        repeats: counts what aliases repeat, if several streams are one document.

    >>> [node.value for node in read_documents("at: 12:30\nok: [yes, 010, ~]", "x")]
    [{'at': '12:30', 'ok': ['yes', 10, None]}]
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    reader = Reader(Source(data, name), most_values, repeats)
    for event in reader.roots():
        yield reader.value(event)


class Reader:
    """One stream on its way from events to nodes."""

    def __init__(
        self, source: Source, most_values: int = MAX_VALUES, repeats: Repeats | None = None
    ) -> None:
        self.source = source
        self.most_values = most_values
        self.next_event: Callable[[], Any] = yaml.CSafeLoader(source.data).get_event
        self.original = source.original if source.has_stand_ins else None
        self.anchors: dict[str, Node] = {}
        self.depth = 0
        self.aliased = 0  # characters
        self.values = 0  # that are kept: those of a case go with it
        self.repeats = repeats or Repeats(len(source.data))

    def error(self, what: str, mark: Mark) -> MultiturnError:
        """Return an error at a place of the stream."""
        return InputError(what, where=place_of(self.source.name, mark))

    def roots(self) -> Iterator[Any]:
        """Yield the event with which the value of each document begins."""
        while (event := self.event()).__class__ is not yaml.StreamEndEvent:
            if event.__class__ is yaml.DocumentStartEvent:
                self.anchors.clear()
                self.values = 0
                yield self.event()

    def event(self) -> Any:
        """Return the next event; an error of libyaml has its place."""
        try:
            return self.next_event()
        except yaml.YAMLError as error:
            raise yaml_error(error, self.source) from None

    def value(self, event: Any) -> Node:
        """Build the value that begins with an event; an error of libyaml has its place."""
        try:
            return self.node(event)
        except yaml.YAMLError as error:
            raise yaml_error(error, self.source) from None

    def node(self, event: Any) -> Node:
        """Build the value that begins with an event."""
        # This runs for each value of a suite. Events have no subclasses, so comparing the class is
        # as right as isinstance, and faster.
        kind = event.__class__
        if kind is AliasEvent:
            return self.alias(event)
        self.values += 1
        if self.values > self.most_values:
            raise self.too_many(event)
        if kind is ScalarEvent:  # by the core schema
            value = text = event.value if self.original is None else self.original(event)
            if event.tag is not None:
                self.check_tag(event, "str")
            elif event.implicit[0]:
                try:
                    value = read_plain(text)
                except ValueError as error:
                    raise self.error(str(error), event.start_mark) from None
            node = Node(value, event.start_mark, None if value is text else text)
        else:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.too_deep(event)
            node = self.mapping(event) if kind is MappingStartEvent else self.sequence(event)
            self.depth -= 1
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def too_many(self, event: Any) -> MultiturnError:
        """Return the error for a case, or what is around the cases, that is too large."""
        what = f"over {self.most_values:,} values in one case, with its aliases expanded"
        return self.error(what, event.start_mark)

    def too_deep(self, event: Any) -> MultiturnError:
        """Return the error for a value in too many others."""
        return self.error(f"nested deeper than {MAX_DEPTH} levels", event.start_mark)

    def alias(self, event: Any) -> Node:
        """Return the value that an alias stands for."""
        node = self.anchors.get(event.anchor)
        name = cut(event.anchor)
        if node is None:
            raise self.error(
                f"the alias *{name} has no finished anchor before it;"
                f" write &{name} in front of a value above",
                event.start_mark,
            )
        # What an alias repeats is counted again each time, which takes no longer than its limits.
        values, size, levels = measure(node)
        if self.depth + levels > MAX_DEPTH:
            raise self.too_deep(event)
        self.values += values
        if self.values > self.most_values:
            raise self.too_many(event)
        self.aliased += size
        if self.repeats.add(values) or self.aliased > MAX_ALIASED:
            raise RepeatsError(
                f"with the alias *{name}, this document repeats too many values or characters;"
                f" write less below &{name}",
                where=place_of(self.source.name, event.start_mark),
            )
        return structs.replace(node, mark=event.start_mark, key_mark=None)

    def sequence(self, event: Any) -> Node:
        """Build a list."""
        if event.tag is not None:
            self.check_tag(event, "seq")
        next_event, read = self.next_event, self.node
        children = []
        while (item := next_event()).__class__ is not SequenceEndEvent:
            children.append(read(item))
        return Node(None, event.start_mark, None, children)

    def mapping(self, event: Any) -> Node:
        """Build a mapping with text keys, each there once."""
        if event.tag is not None:
            self.check_tag(event, "map")
        next_event, read, original = self.next_event, self.node, self.original
        children: dict[str, Node] = {}
        merged: list[Node] = []
        while (key := next_event()).__class__ is not MappingEndEvent:
            is_plain = (
                key.__class__ is ScalarEvent
                and key.anchor is None
                and key.tag is None
                and original is None
                and key.value != MERGE
                and key.value not in children
            )  # as nearly all keys are
            name = key.value if is_plain else self.new_key(key, children)
            child = read(next_event())
            if name is MERGE:
                merged += self.mappings(child)
                continue
            children[name] = child
            child.key_mark = key.start_mark
        node = Node(None, event.start_mark, None, children)
        if merged:
            node.merge(merged)
        return node

    def mappings(self, node: Node) -> list[Node]:
        """Return the mappings that a merge key brings: it has one, or a list of them."""
        nodes: list[Node] = node.children if isinstance(node.children, list) else [node]
        if not all(isinstance(each.children, dict) for each in nodes):
            raise self.error("the merge key << takes a mapping, or a list of mappings", node.mark)
        return nodes

    def new_key(self, event: Any, known: Container[str]) -> str:
        """Return a key as it was written: in JSON, every key is text. A known one is an error."""
        name: str | None = None
        if event.__class__ is ScalarEvent and event.anchor is None and event.tag is None:
            name = event.value if self.original is None else self.original(event)
        elif event.__class__ in (ScalarEvent, AliasEvent):
            node = self.node(event)
            name = node.value if node.source is None else node.source
        if not isinstance(name, str):
            what = "a key must be text, not a list or a mapping; quote a text that begins with {"
            raise self.error(what, event.start_mark)
        if name == MERGE and event.__class__ is ScalarEvent and event.implicit[0]:
            name = MERGE
        if name in known:
            raise self.error(f"duplicate key {quoted(name)}; keep one of them", event.start_mark)
        return name

    def check_tag(self, event: Any, own: str) -> None:
        """Refuse a tag that is not the value's own."""
        if event.tag not in ("!", _TAG + own):
            raise self.error(
                f"the tag {quoted(event.tag.replace(_TAG, '!!'))} is refused;"
                " values are plain text, numbers, lists and mappings",
                event.start_mark,
            )
