"""How many tokens a prompt has, and which of its texts make it large."""

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from multiturn.engine.preview import preview_of
from multiturn.engine.spans import Span, definitions_of, in_spans
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import request_of
from multiturn.providers.base import TargetProvider
from multiturn.providers.tokens import Tokens


class Size(Struct, frozen=True):
    """The size of a prompt.

    Attributes:
        tokens: those of the whole request.
        parts: number of tokens by what has them, such as ``file notes.md``, the most first.
    """

    tokens: Tokens
    parts: dict[str, int]


def size_of(conversion: Conversion, provider: TargetProvider, count: Callable[[str], int]) -> Size:
    """Return the size of what a target would be sent; ``count`` counts the tokens of a text.

    Raises:
        ProviderError: the target would refuse it; with its place in the suite.
    """
    found: Counter[str] = Counter()
    for what, span in _spans(conversion, provider):
        found[what] += count(span.text)
    tokens = provider.tokens(provider.wire(request_of(conversion)))
    return Size(tokens, {what: number for what, number in found.most_common() if number})


def _spans(conversion: Conversion, provider: TargetProvider) -> Iterator[tuple[str, Span]]:
    """Yield each text of a prompt, and what it belongs to."""
    guidelines = {file.resolved_path for file in conversion.input_files if file.guideline}
    turns = preview_of(conversion, provider).messages
    for message in in_spans(conversion.sent if turns is None else turns, conversion.case):
        for span in (each for each in message.shown if each.media is None):
            kind = "guideline" if span.path in guidelines else "file"
            yield f"{kind} {span.path}" if span.path else f"{message.role} messages", span
    for definition in definitions_of(conversion):
        yield from (("tools", span) for span in definition.spans)
