"""A stream of YAML that is read in pieces and can be read again from its start."""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import yaml

from multiturn.documents.node import place_of
from multiturn.documents.regular import read_at_most
from multiturn.errors import MultiturnError, Place

if not yaml.__with_libyaml__:
    raise ImportError(
        "multiturn needs PyYAML with libyaml, as its wheels have it:"
        " pip install --force-reinstall --only-binary pyyaml pyyaml"
    )

# libyaml reads YAML 1.1, to which these end a line; to YAML 1.2 they are ordinary characters. They
# are not only history: texts copied from web pages and office documents hold U+2028, JavaScript
# writes it into JSON unescaped, and libyaml would turn it into a space or a newline of the prompt.
_OLD_LINE_BREAKS = ("\x85", "\u2028", "\u2029")
_OLD_LINE_BREAK = re.compile("|".join(_OLD_LINE_BREAKS).encode())
# Only a key of a block mapping begins at the margin. A carriage return alone also ends a line, in
# YAML 1.2 too; such files are rare, so that here any character may follow it: the answer "perhaps"
# costs time, and the answer "no" would be wrong.
_MARGINS = (re.compile(rb"\n[^ \r\n#\-]"), re.compile(rb"\r(?!\n)"))
# These are compiled for the streams that need them: nearly all need none.
_PRIVATE = rb"\xf3[\xb0-\xbf][\x80-\xbf]{2}"
_SPELLED = rb"(?i)(?=(f[0-9a-f]{4}))"  # overlapping: the digits may begin anywhere
# JSON escapes a character beyond U+FFFF as two halves, which libyaml refuses.
_ESCAPED_PAIR = (
    rb"(?<!\\)((?:\\\\)*+)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_PAIR_SIZE = 12
_CHUNK = 2**16
MAX_PIPED = 2**30  # bytes that a pipe may bring
MAX_DIRECTIVES = 100
# What to do about problems, by libyaml's words for them.
_ADVICE = {
    "invalid Unicode character escape": (
        r"; \uD800 to \uDFFF are halves of a character: write both halves"
    ),
    "unknown escape": r"; in double quotes, write \\ for a backslash",
    "mapping values are not allowed": (
        '; quote a text that contains ": " or ends with ":", and begin all keys of a mapping in one'
        " column"
    ),
    "unexpected ':'": '; quote a text that contains ": " or ends with ":"',
    "expected ',' or": (
        '; close the bracket, or quote a text that contains ": ", a bracket or a quote'
    ),
    "cannot start any token": (
        "; indent with spaces, not tabs, and quote a text that begins with @, % or `"
    ),
    "expected key": "; begin all keys of a mapping in one column, and quote all of a text or none",
    "expected '-' indicator": "; begin all items of a list in one column, and the keys of one, too",
    "expected ':'": (
        '; write a colon and a space after a key, and "|" before a text of many lines, which are'
        " indented more than the key"
    ),
    "quoted scalar": "; close the quotes of line {line}",
    "expected alphabetic": "; quote a text that begins with * or &",
    "tab character that violates": "; indent with spaces, not tabs",
    # YAML 1.2 allows it where text begins with a tab; libyaml wants to be told.
    "tab character where an indentation": (
        "; indent with spaces; if the text itself begins with a tab, write how far it is indented:"
        ' "|2"'
    ),
}
_EDGE = 64  # bytes; everything that is searched for is shorter


@contextmanager
def open_rewindable(path: str, name: str) -> Iterator[BinaryIO]:
    """Open a file, or a copy of what comes through a pipe; ``-`` is standard input."""
    with ExitStack() as stack:
        try:
            if path == "-":
                file: BinaryIO = sys.stdin.buffer
            else:
                file = stack.enter_context(open(path, "rb"))
                kind = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
                    raise MultiturnError("this is not a regular file", where=name)
            if path == "-" or not file.seekable():
                file = stack.enter_context(_copied(file, name))
            yield file
        except OSError as error:
            raise MultiturnError(f"cannot read it: {error.strerror}", where=name) from None


def read_small(path: str, name: str, what: str, most: int) -> bytes:
    """Return what is in a file, ``what`` it may be, of at most so many bytes."""
    with open_rewindable(path, name) as file:
        return read_at_most(most, file, name, what)


@contextmanager
def _copied(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Copy what can be read only once."""
    import tempfile

    with tempfile.TemporaryFile() as copy:
        size = 0
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > MAX_PIPED:
                what = f"more than {MAX_PIPED:,} bytes through a pipe; write them to a file"
                raise MultiturnError(what, where=name)
            copy.write(chunk)
        yield copy


def check_path(path: str) -> None:
    """Refuse what can be no path: NUL, or what the file system cannot encode."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise MultiturnError("no path can have such a character", where=ascii(path))


class Source:
    r"""A stream of UTF-8 with a name.

    libyaml is the only fast parser that says where each value is, but it reads YAML 1.1, and two
    things of YAML 1.2 and JSON it reads wrongly: it takes U+0085, U+2028 and U+2029 for line ends,
    and it refuses a character that JSON escapes as two halves, such as ``\ud83d\ude00``. It has no
    option for either. So each old line break, and the backslash of each such half, is replaced
    before libyaml sees it, and put back into the texts that it returns (``original``).

    A stand-in must be a character that libyaml treats as an ordinary letter and that the stream
    itself does not contain, else a user's own character would be changed on the way back. Private
    use characters beyond U+FFFF have no meaning in any text, and there are 65,534 of them: those
    that the stream contains, also as an escape, are left out. The replacement does not move what
    follows: a stand-in is one character, as what it replaces is, so libyaml's columns stay true.
    A stream without such characters, as nearly all are, is passed on as it is.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = file
        file.seek(0)
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise MultiturnError("this is UTF-16; save the file as UTF-8", where=Place(name, 1, 1))
        # One pass over the whole stream, before libyaml sees any of it: which stand-ins are free is
        # known only at its end.
        found: set[bytes] = set()
        directives, has_pairs = 0, False
        for chunk in self._chunks():
            directives += chunk.count(b"\n%TAG") + chunk.count(b"\r%TAG")
            if directives > MAX_DIRECTIVES:  # libyaml compares each with all others
                raise MultiturnError(f"over {MAX_DIRECTIVES} %TAG directives", where=name)
            has_pairs = has_pairs or (b"\\u" in chunk and bool(re.search(_ESCAPED_PAIR, chunk)))
            # A substring test is much faster than the regex and almost always says no.
            if b"\xc2\x85" in chunk or b"\xe2\x80" in chunk:
                found.update(_OLD_LINE_BREAK.findall(chunk))
        self.has_stand_ins = has_pairs or bool(found)
        unused = self._unused() if self.has_stand_ins else iter(())
        self._stand_ins = {char: next(unused).encode() for char in found}
        self._restore = {ord(new.decode()): old.decode() for old, new in self._stand_ins.items()}
        self._backslash = next(unused) if has_pairs else ""
        self._pair = f"{self._backslash}u(.{{4}}){self._backslash}u(.{{4}})"
        file.seek(0)

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, about as many as wanted; none at the end."""
        data = self._file.read(size)
        # A replacement must not miss what a read cuts in two, so each read goes on to a safe end:
        # PyYAML keeps what is more than libyaml asked for.
        if self._backslash:  # never end within two escapes
            pieces = [data]
            while b"\\" in pieces[-1][-_PAIR_SIZE:]:
                pieces.append(self._file.read(_CHUNK))
            pair = rf"\1{self._backslash}u\2{self._backslash}u\3"
            data = re.sub(_ESCAPED_PAIR, pair.encode(), b"".join(pieces))
        if self._stand_ins:
            data += self._file.read(_missing(data))  # never end within a character
            data = _OLD_LINE_BREAK.sub(lambda match: self._stand_ins[match[0]], data)
        return data

    def original(self, event: Any) -> str:
        """Return the text of a scalar without stand-ins."""
        text: str = event.value
        if self._backslash:
            if event.style == '"':  # Only double quotes give escapes a meaning.
                text = re.sub(self._pair, lambda it: json.loads(rf'"\u{it[1]}\u{it[2]}"'), text)
            text = text.replace(self._backslash, "\\")
        return text.translate(self._restore)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Read from the start in a ``with`` block, which restores the position afterwards."""
        position = self._file.tell()
        self._file.seek(0)
        try:
            yield
        finally:
            self._file.seek(position)

    def has_keys_after(self, key: str) -> bool:
        """Return whether a line may begin at the margin after the first that holds a key."""
        is_after = False
        with self.again():
            for chunk in self._chunks():
                start = 0 if is_after else chunk.find(key.encode())
                is_after = start >= 0
                if is_after and any(margin.search(chunk, start) for margin in _MARGINS):
                    return True
        return False

    def place(self, position: int) -> Place:
        """Return ``name:line:column`` of a position in what has been read."""
        with self.again():
            line, rest = 1, b""
            while position > 0 and (data := self.read(min(position, _CHUNK))):
                data = data[:position]
                position -= len(data)
                line += data.count(b"\n")
                rest = data.rpartition(b"\n")[2] if b"\n" in data else rest + data
        column = len(rest.decode("utf-8-sig", "replace")) + 1
        return Place(self.name, line, column)

    def _chunks(self) -> Iterator[bytes]:
        """Yield the stream in pieces whose edges overlap."""
        self._file.seek(0)
        edge = b""
        while chunk := self._file.read(_CHUNK):
            yield edge + chunk
            if b"\0" in chunk:
                return  # libyaml stops here with an error, so what follows is never read.
            edge = (edge + chunk)[-_EDGE:]

    @property
    def has_conflict(self) -> bool:
        """Whether git could not merge the file."""
        return any(b"\n>>>>>>> " in chunk for chunk in self._chunks())

    def _unused(self) -> Iterator[str]:
        """Yield private-use characters that the stream neither holds nor spells as an escape."""
        used: set[str] = set()
        for chunk in self._chunks():
            used.update(char.decode() for char in set(re.findall(_PRIVATE, chunk)))
            used.update(chr(int(digits, 16)) for digits in set(re.findall(_SPELLED, chunk)))
        yield from (char for char in map(chr, range(0xF0000, 0xFFFFE)) if char not in used)
        raise MultiturnError("it uses every private character there is", where=self.name)


def _missing(data: bytes) -> int:
    """Return how many bytes of the last character of a text in UTF-8 are missing."""
    for back, byte in enumerate(reversed(data[-3:]), 1):
        if byte >= 0xC0:
            return max(0, (2 + (byte >= 0xE0) + (byte >= 0xF0)) - back)
    return 0


def placed(error: Any, source: Source) -> MultiturnError:
    """Return an error of libyaml with its place in the source, and with what to do about it."""
    if isinstance(error, yaml.reader.ReaderError):
        if "UTF-8" in error.reason or 0xD800 <= error.character <= 0xDFFF:
            what = "this is not UTF-8; save the file as UTF-8"
        else:
            what = (
                f"YAML does not allow the character U+{error.character:04X};"
                f' write it as an escape in double quotes: "\\u{error.character:04x}"'
            )
        return MultiturnError(what, where=source.place(error.position))
    what = " ".join(filter(None, ("not YAML:", error.problem, error.context)))
    advice = next((advice for problem, advice in _ADVICE.items() if problem in what), "")
    if error.context_mark:
        advice = advice.replace("{line}", str(error.context_mark.line + 1))
    what += advice
    if source.has_conflict:
        what = "it has a merge conflict; resolve it first"
    mark = error.problem_mark or error.context_mark
    where = place_of(source.name, mark) if mark else Place(source.name)
    return MultiturnError(what, where=where)
