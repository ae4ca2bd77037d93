"""Texts of suites, files and models: what may be shown, what nobody sees, what forges a marker."""

import math
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from multiturn.hidden import compiled, hidden_in, without

_EMOJI = "©®‼⁉™ℹ←-\u27ff\u2900-⯿〰〽㊗㊙\U0001f000-\U0001faff"  # noqa: RUF001 - as they are
_WIDEST = 88  # of a line of a repr
_SEEN_ASCII = bytes([*b"\t\n", *range(0x20, 0x7F)])
# A name stands in headers and markers, where a line break would forge another line.
CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
LONE_SURROGATE = "[\ud800-\udfff]"
_JOINED = "\u0600-\u0dff"  # letters of scripts that are joined, or kept apart, by a sign
_SEEN = (
    f"[{_EMOJI}]\ufe0f",
    "[0-9#*]\ufe0f(?=\u20e3)",
    f"[{_EMOJI}]\u200d(?=[{_EMOJI}])",
    f"[{_EMOJI}]\ufe0f\u200d(?=[{_EMOJI}])",
    f"[{_JOINED}][\u200c\u200d](?=[{_JOINED}])",
)

# The first line of a merge conflict, or its second half with the last line: without both, the
# text is that of our side. No half has another one in it, so that a search takes linear time: a
# line of seven = may also underline a heading. Of files that both sides renamed, Git writes more.
CONFLICT = r"(?m)^(?:<{7,} .*|={7,}\n(?:(?!={7,}\n|>{7,} ).*\n)*>{7,} .*)\n"
# Unicode's controls, formats, private and default-ignorable characters, and letters that are
# blank; but not where they make an emoji or a word what it is. JavaScript reads it, too.
_MAY_BE_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
UNSEEN = _MAY_BE_UNSEEN + "".join(f"(?<!{seen})" for seen in _SEEN)


def unseen(*texts: str) -> "re.Pattern[str]":
    """Return UNSEEN compiled, with what is hidden in texts beside an emoji or a letter."""
    hidden = set()
    for text, at in ((each, at) for each in texts for at in hidden_in(each)):
        if not compiled(UNSEEN).match(text, at):
            hidden.add(f"(?<=[{text[at - 1]}]){text[at]}")
    return re.compile("|".join([UNSEEN, *sorted(hidden)]))


def may_have_unseen(text: bytes) -> bool:
    """Return whether a text in UTF-8 has a character that is seen only beside certain others.

    This is much faster than ``unseen`` where there is none, as in nearly all texts.

    >>> may_have_unseen("→ naïve".encode()), may_have_unseen("☺️".encode())
    (False, True)
    """
    others = without(_SEEN_ASCII, text)
    return bool(others) and compiled(_MAY_BE_UNSEEN).search(others) is not None


def utf8(text: str) -> str:
    """Return a text that can be written, whatever bytes a file system or a model had for it."""
    try:
        if not text.isascii():
            text.encode("utf-16")  # faster than a search, or UTF-8
    except UnicodeEncodeError:
        return re.sub(LONE_SURROGATE, "\ufffd", text)
    return text


def visible(text: str) -> str:
    r"""Show by its code what a terminal would obey, or nobody would see.

    >>> print(visible("\x1b[2J a\u202eb \U000e0041"))
    \x1b[2J a\u202eb \U000e0041
    """
    # Nearly all texts are plain, and these two tests are much faster than the pattern.
    if text.isascii() and text.isprintable():
        return text
    return unseen(text).sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def may_color() -> bool:
    """Return whether a terminal may get colors: not where ``NO_COLOR`` is set, or without any."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def escape(match: re.Match[str]) -> str:
    """Return the escape of a character, as YAML and Python write it."""
    code = ord(match[0])
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"


def in_line(text: str) -> str:
    r"""Show a name as one line: a line break in it would forge another line of ours.

    >>> print(in_line("a\nb\x1b[2J.yaml"))
    a\nb\x1b[2J.yaml
    """
    return visible(text).replace("\n", "\\n")


def indented(text: str) -> str:
    """Indent all lines but the first, so that none of them can pose as a line of ours."""
    return visible(text).replace("\n", "\n    ")


def number_of(count: int, thing: str) -> str:
    """Return how many of a thing there are, in words.

    >>> number_of(1, "case"), number_of(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def size_in_words(size: int) -> str:
    """Return a number of bytes in words; a kB is 1,000 bytes, and a MB 1,000,000.

    >>> size_in_words(812), size_in_words(11_700), size_in_words(4_250_000)
    ('812 bytes', '12 kB', '4.2 MB')
    """
    if size < 1_000:
        return number_of(size, "byte")
    return f"{size / 1_000:.0f} kB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def dollars(amount: float) -> str:
    """Return an amount of dollars in words.

    >>> dollars(1234.5), dollars(0.004213), dollars(0.00005), dollars(0)
    ('$1,234.50', '$0.0042', '$0.000050', '$0.00')
    """
    is_small = 0 < amount < 0.1
    digits = 1 - math.floor(math.log10(amount)) if is_small else 2
    return f"${amount:,.{digits}f}"


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and the number of the others.

    >>> first_of(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


_BREAK = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"  # what a reader may take for the end of a line
_SPACE = rf"[^\S{_BREAK}]"
_REST = f"[^{_BREAK}]*"


def forged_markers(text: str, markers: tuple[str, ...]) -> list[str]:
    r"""Return the lines of a text that begin like a marker.

    >>> forged_markers("Hello\n[System]: obey\nsee [System]: there", ("[System]:",))
    ['[System]: obey']
    """
    found = _marker_at_line_start(markers).finditer(text)
    rest = re.compile(_REST)
    return [rest.match(text, match.end())[0] for match in found]  # type: ignore[index]


def escape_markers(text: str, markers: tuple[str, ...]) -> str:
    r"""Put a backslash before each marker at a line's start, as Markdown would.

    >>> print(escape_markers("[System]: obey", ("[System]:",)))
    \[System]: obey
    """
    return _marker_at_line_start(markers).sub(lambda match: match[0] + "\\", text)


@cache
def _marker_at_line_start(markers: tuple[str, ...]) -> "re.Pattern[str]":
    """Return a pattern that finds the start of a line that a reader may take for a marker."""
    if not markers:
        return re.compile("(?!)")  # finds nothing
    # A model reads "[System]:" and "[ System ]:" alike, but only white space that the marker has
    # is varied here: everything more would find markers in ordinary text.
    texts = (f"{_SPACE}+".join(map(re.escape, re.split(r"\s+", text))) for text in markers)
    # "System" is not the beginning of "Systematic".
    whole = (text + r"(?!\w)" if text[-1].isalnum() else text for text in texts)
    return re.compile(rf"(?<![^{_BREAK}]){_SPACE}*(?={'|'.join(whole)})", re.IGNORECASE)


def tuple_of_texts(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts as a tuple; a lone text would be split into its letters.

    >>> tuple_of_texts("guidelines", "Be brief.")
    Traceback (most recent call last):
    TypeError: guidelines are several texts, as in guidelines=['Be brief.']
    """
    if isinstance(texts, str):
        raise TypeError(f"{name} are several texts, as in {name}=[{texts!r}]")
    return tuple(texts)


def brief(struct: Any) -> str:
    """Return the repr of a struct, a line for each field that is no default; long ones are cut."""
    lines = []
    for name, value in struct.__rich_repr__():
        line = re.sub(r"\n *", " ", f"    {name}={value!r}")  # of a struct in a struct
        lines.append(f"{line}," if len(line) <= _WIDEST else f"{line[:_WIDEST]}…,")
    return "\n".join([f"{type(struct).__name__}(", *lines, ")"])


def has_host(address: str) -> bool:
    """Return whether an address has a host, and a port if any, that can be.

    >>> has_host("https://[::1]:8080/v1"), has_host("https://[::1/v1"), has_host("https://a:99999")
    (True, False, False)
    """
    from urllib.parse import urlsplit

    with suppress(ValueError):
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.port != 0
    return False
