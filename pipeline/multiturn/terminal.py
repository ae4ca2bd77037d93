"""What a terminal may be shown: texts of suites, files and models must not reach it raw."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Show the characters that a terminal would obey."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def indented(text: str) -> str:
    """Indent all lines but the first, so that none of them can pose as a line of ours."""
    return visible(text).replace("\n", "\n    ")


def number_of(count: int, thing: str) -> str:
    """Return how many of a thing there are, in words.

    >>> number_of(1, "case"), number_of(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
