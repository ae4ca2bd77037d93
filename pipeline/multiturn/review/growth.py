"""By how much prompts grow: what a change costs with each run."""

from collections.abc import Iterable, Mapping, Sequence

from multiturn.engine.record import to_json
from multiturn.engine.spans import Message
from multiturn.text import number_of

_UNIT = "character"


def size_of(text: str) -> int:
    """Return the size of a text, in the unit of all numbers here: characters."""
    return len(text)


def prompt_growth(
    old: Sequence[Message], new: Sequence[Message], was: Mapping[str, str], files: Mapping[str, str]
) -> int | None:
    """Return by how much a prompt grows, but for the growth of the files that it attaches.

    Args:
        old: its messages. A snapshot names files; their texts are empty then.
        new: its messages now.
        was: the texts of attached files as they are in ``old``; others are empty.
        files: their texts now.

    Returns:
        The growth; None if the text of a file that was in the prompt is not known.
    """
    before = sum(map(_size_of_data, old))
    for span in (span for message in old for span in message.spans):
        text: str | None = span.text
        if span.path and span.stage is None and text == was.get(span.path, ""):
            text = files.get(span.path)
        if text is None:
            return None
        before += size_of(text)
    texts = (span.text for message in new for span in message.spans)
    return sum(map(size_of, texts)) + sum(map(_size_of_data, new)) - before


def _size_of_data(message: Message) -> int:
    """Return the size of the calls and the thinking of a message."""
    return size_of(to_json(message.data).decode().rstrip()) if message.data else 0


def occurrences(path: str, text: str, messages: Iterable[Message]) -> int:
    """Return how often messages have the text of an attached file in full."""
    spans = (span for message in messages for span in message.spans)
    return sum(span.path == path and span.stage is None and span.text == text for span in spans)


def total(growths: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one is not known."""
    known = list(growths)
    return None if None in known else sum(filter(None, known))


def growth_in_words(growth: int | None, cases: int) -> str:
    """Return by how much the prompts of some cases grow, or shrink; empty if it is not known.

    >>> growth_in_words(1240, 200), growth_in_words(-1, 1), growth_in_words(0, 3)
    ('+1,240 characters in 200 cases', '-1 character', 'same length')
    """
    if growth is None:
        return ""
    if not growth:
        return "same length"
    words = f"{'+' if growth > 0 else '-'}{number_of(abs(growth), _UNIT)}"
    return words if cases == 1 else f"{words} in {number_of(cases, 'case')}"
