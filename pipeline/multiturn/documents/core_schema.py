"""What a plain scalar means, by the core schema of YAML 1.2.

https://yaml.org/spec/1.2.2/#103-core-schema
"""

import re
from typing import Any

_NULL_OR_BOOL = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<oct>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<inf>[-+]?\.(?:inf|Inf|INF))|(?P<nan>\.(?:nan|NaN|NAN))"
)
_MAY_BE_NUMBER = frozenset("-+.0123456789")
_MAX_DIGITS = 1000


def read_plain(text: str) -> Any:
    """Return None, a boolean or a number where the schema sees one; else the very text.

    A number of over a thousand digits is a ValueError.

    >>> [read_plain(text) for text in ("yes", "12:30", "true", "010", "0x1F", "1e3", "")]
    ['yes', '12:30', True, 10, 31, 1000.0, None]
    """
    if text in _NULL_OR_BOOL:
        return _NULL_OR_BOOL[text]
    if text[0] not in _MAY_BE_NUMBER or not (match := _NUMBER.fullmatch(text)):
        return text
    _check_length(text)
    match match.lastgroup:
        case "int":
            return int(text)
        case "oct" | "hex":
            return int(text, 0)
        case "float":
            return float(text)
        case _:
            return float(text.replace(".", ""))


def read_integer(text: str) -> int:
    """Return the integer of a JSON number; one of over a thousand digits is a ValueError."""
    _check_length(text)
    return int(text)


def _check_length(number: str) -> None:
    # Python reads and writes no integer of over 4,300 digits.
    if len(number) > _MAX_DIGITS:
        raise ValueError(f"a number of over {_MAX_DIGITS:,} digits; quote it")
