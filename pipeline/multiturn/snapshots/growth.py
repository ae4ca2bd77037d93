"""By how much prompts grow: what a change costs with each run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from multiturn.engine.record import to_json
from multiturn.engine.spans import Message, Span
from multiturn.providers.tokens import estimated_tokens
from multiturn.snapshots.attached_files import Attached
from multiturn.text import number_of


def text_growth(old: str, new: str, times: int) -> float:
    """Return by how much prompts grow that have one text so many times in place of another.

    The unit of all numbers here is a token. Tokens are estimated, whatever the target: what a
    review says must not depend on the packages that are installed.
    """
    return times * (estimated_tokens(new) - estimated_tokens(old))


def prompt_growth(
    old: Sequence[Message],
    new: Sequence[Message],
    was: Mapping[str, Attached],
    files: Mapping[str, Attached],
) -> float | None:
    """Return by how much a prompt grows, but for the growth of the files that it attaches.

    Images, documents and audio are not counted.

    Args:
        old: its messages. A snapshot names files; their texts are empty then.
        new: its messages now.
        was: the texts of attached files as they are in ``old``; others are empty.
        files: their texts now.

    Returns:
        The growth; None if the text of a file that was in the prompt is not known.
    """
    before = sum(map(_size_of_data, old))
    for span in _texts(old):
        text: Attached | None = span.text
        if span.path and span.stage is None and text == was.get(span.path, ""):
            text = files.get(span.path)
        if not isinstance(text, str):
            return None
        before += estimated_tokens(text)
    texts = (span.text for span in _texts(new))
    return sum(map(estimated_tokens, texts)) + sum(map(_size_of_data, new)) - before


def _texts(messages: Iterable[Message]) -> Iterator[Span]:
    return (span for message in messages for span in message.spans if span.media is None)


def _size_of_data(message: Message) -> float:
    """Return the size of the calls and the thinking of a message."""
    return estimated_tokens(to_json(message.data).decode().rstrip()) if message.data else 0


def occurrences(path: str, text: str, messages: Iterable[Message]) -> int:
    """Return how often messages have the text of an attached file in full."""
    spans = (span for message in messages for span in message.spans)
    return sum(span.path == path and span.stage is None and span.text == text for span in spans)


def total(growths: Iterable[float | None]) -> float | None:
    """Return the sum, or None if one is not known."""
    known = list(growths)
    return None if None in known else sum(filter(None, known))


def total_in_words(growths: Iterable[float | None]) -> str:
    """Return by how much all prompts grow together; empty if they do not, or it is not known."""
    growth = total(growths)
    return growth_in_words(growth, 1) if growth and round(growth) else ""


def growth_in_words(growth: float | None, cases: int) -> str:
    """Return by how much the prompts of some cases grow, or shrink; empty if it is not known.

    >>> growth_in_words(1240, 200), growth_in_words(-1, 1), growth_in_words(0, 3)
    ('about +1,240 tokens in 200 cases', 'about -1 token', 'about the same length')
    """
    if growth is None:
        return ""
    tokens = round(growth)
    if not tokens:
        return "about the same length"
    words = f"about {'+' if tokens > 0 else '-'}{number_of(abs(tokens), 'token')}"
    return words if cases == 1 else f"{words} in {number_of(cases, 'case')}"
