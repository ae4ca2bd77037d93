"""YAML for people and for diffs: each line of a text is a line of the document.

PyYAML folds a text that holds a tab, or a space at a line's end, into one long quoted line, and
quotes by YAML 1.1. Prompts are full of both, and reviewers read them line by line.
"""

import json
import re
from functools import lru_cache
from typing import Any

from multiturn.text import escape, may_have_unseen, unseen

# Text that reads as text without quotes, in YAML 1.1 as in 1.2; and no digest, for some begin with
# a digit, and a new digest should be all that a diff shows.
_PLAIN = re.compile(
    r"(?!(?i:y|n|yes|no|on|off|true|false|null|[0-9a-f]{64})$)[A-Za-z][\w .,/()-]*(?<! )", re.A
)


class UnindentedList(list[Any]):
    """A list whose dashes stand below the key: a text in it is indented as one in its place."""


def dump(value: Any) -> str:
    r"""Render None, numbers, texts, lists and dicts as YAML; the same value gives the same text.

    >>> print(dump({"id": "a", "content": "one:\n  two", "files": [{"path": "x"}]}), end="")
    ---
    id: a
    content: |-
      one:
        two
    files:
      - path: x
    """
    return "---" + _after(value, "")


def _after(value: Any, indent: str) -> str:
    """Return what stands after a key's colon or a dash, to the end of its last line."""
    if isinstance(value, dict) and value:
        return "\n" + _mapping(value, indent)
    if isinstance(value, UnindentedList):
        indent = indent[2:]
    if isinstance(value, list | tuple) and value:
        return "\n" + "".join(f"{indent}-{_item(item, indent + '  ')}" for item in value)
    if isinstance(value, str) and "\n" in value.strip("\n"):
        data = value.encode("utf-8", "surrogatepass")
        has_unseen = may_have_unseen(data) and unseen(value).search(value)
        return f" {_lines(value, indent)}\n" if has_unseen else _block(value, indent)
    return f" {_scalar(value)}\n"


def _mapping(value: dict[str, Any], indent: str) -> str:
    return "".join(
        f"{indent}{_key(k, indent)}:{_after(v, indent + '  ')}" for k, v in value.items()
    )


@lru_cache(1000)
def _key(key: str, indent: str) -> str:
    scalar = _scalar(key)
    # YAML looks no further than 1,024 characters for the colon of a key without a question mark.
    return scalar if len(scalar) < 1000 else f"? {scalar}\n{indent}"


def _item(value: Any, indent: str) -> str:
    """Like ``_after``, but a mapping's first key stands beside the dash."""
    if isinstance(value, dict) and value:
        return " " + _mapping(value, indent).removeprefix(indent)
    return _after(value, indent)


def _block(text: str, indent: str) -> str:
    body = text.rstrip("\n")
    ending = "-" if body == text else "" if len(text) == len(body) + 1 else "+"
    # YAML takes the indentation from the first line, which must then not begin with white space.
    hint = "2" if text[0] in " \t\n" else ""
    return f" |{hint}{ending}\n{indented_block(text if body == text else text[:-1], indent)}\n"


def indented_block(text: str, indent: str) -> str:
    """Return a text with each line indented, unless it is empty."""
    lines = indent + text.replace("\n", f"\n{indent}")
    if f"\n{indent}\n" not in f"\n{lines}\n":
        return lines
    return re.sub(f"^{indent}$", "", lines, flags=re.MULTILINE)


def _lines(text: str, indent: str) -> str:
    """Return a text in quotes, where a block would show raw what nobody sees; a line for each."""
    first, *rest = map(_escaped, text.split("\n"))
    # A backslash before a line's end hides the break, one before a blank keeps the blank.
    rest = [f"\\{line}" if line.startswith(" ") else line for line in rest]
    return '"' + f"\\n\\\n{indent}".join([first, *rest]) + '"'


def _escaped(text: str) -> str:
    """Return a text as it stands between quotes."""
    return unseen(line := json.dumps(text, ensure_ascii=False)[1:-1]).sub(escape, line)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else f'"{_escaped(value)}"'
    # JSON is YAML, except for the names of these three numbers.
    return {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}.get(
        text := json.dumps(value), text
    )
