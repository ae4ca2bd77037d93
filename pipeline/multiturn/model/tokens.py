"""How many tokens a text is to a model: by its published tokenizer, else an estimate.

The estimate gives each byte a weight by the kind of its character, so it needs no tables and takes
no time. docs/costs.md says how far it is off.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from multiturn.files.media import Media
from multiturn.model.request import PreparedRequest, pieces_of
from multiturn.model.turns import Call, Tool

PACKAGE = "bpe_openai"  # carries the tables of OpenAI's tokenizers

# What a byte adds to the estimate, in 64ths of a token. The weights were fitted to o200k_base with
# 2,600 texts in 26 languages, Python, C, JavaScript, YAML, JSON and Markdown (22 November 2026). A
# character that UTF-8 writes in several bytes counts by its first.
_LETTERS, _LETTER = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 15
_KINDS = (
    (range(0x80), 27),  # punctuation, unless another line says otherwise
    (b"0123456789", 63),
    (b" ", 2),
    (b"\n", 86),
    (range(0xC2, 0xCD), 83),  # Latin letters with accents
    (range(0xCD, 0xD0), 27),  # Greek
    (range(0xD0, 0xD5), 20),  # Cyrillic
    (range(0xD5, 0xE0), 26),  # Hebrew, Arabic
    (range(0xE0, 0xE1), 26),  # the scripts of India, Thai
    (range(0xE1, 0xE3), 14),
    (range(0xE3, 0xEE), 49),  # Chinese, Japanese, Korean
    (range(0xEE, 0xF8), 250),  # emoji
)
_WEIGHT_OF = {byte: weight for kind, weight in _KINDS for byte in kind}
_WEIGHTS = bytes(_WEIGHT_OF.get(byte, 0) for byte in range(256))


@cache
def _published(encoding: str) -> Any:
    """Return a tokenizer whose tables the package has; None without a name, or the package."""
    package = importlib.util.find_spec(PACKAGE) if encoding else None
    if package is None:
        return None
    # Not through the package's own __init__, which makes each table again, as dicts of Python:
    # that takes a second and 70 MB.
    spec: Any = PathFinder.find_spec("_bindings", package.submodule_search_locations)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tokenizer_for_encoding(encoding)


def estimated_tokens(text: str) -> float:
    """Return about how many tokens a text has with o200k_base.

    >>> round(estimated_tokens("How many tokens are these eight words, roughly?"))
    10
    """
    data = text.encode("utf-8", "surrogatepass")
    others = data.translate(_WEIGHTS, _LETTERS)  # most are letters, which are faster to count
    return (sum(others) + _LETTER * (len(data) - len(others))) / 64


class Tokenizer(Struct, frozen=True):
    """Counts the tokens of texts as one model does."""

    encoding: str = ""  # the model's published tokenizer, such as o200k_base; empty for none
    factor: float = 1  # without one, how many tokens it makes of each of o200k_base's

    @property
    def is_exact(self) -> bool:
        """Whether ``count`` is what the model's tokenizer gives, not an estimate."""
        return _published(self.encoding) is not None

    def count(self, text: str) -> int:
        """Return how many tokens a text has; see ``is_exact``.

        >>> Tokenizer().count("What is the capital of France?")
        6
        """
        published = _published(self.encoding)
        if published is None:
            return self.estimate(text)
        return int(published.count(text.encode("utf-8", "replace").decode()))

    def estimate(self, text: str) -> int:
        """Return about how many tokens a text has, without tables."""
        return round(estimated_tokens(text) * self.factor)


class Overhead(NamedTuple):
    """The tokens that a vendor adds to the texts of a request."""

    request: int = 3
    message: int = 4


class Tokens(Struct, frozen=True):
    """How many input tokens a request is.

    Attributes:
        count: their number, with what the vendor adds.
        is_exact: whether the vendor counts as many; else the count is about right.
        media: number of images and other media that are not in the count, as nobody knows theirs.
        most_output: the limit of the output; None if the request has none.
    """

    count: int = 0
    is_exact: bool = True
    media: int = 0
    most_output: int | None = None


class Sent(NamedTuple):
    """What a request has for the model to read."""

    texts: tuple[str, ...]  # in the order in which models do: tools, system message, messages
    # of each text: that of its message, or ``tools``; after media, with a number that differs for
    # other media, as no prefix of a request is longer than what is the same
    roles: tuple[str, ...]
    messages: int  # their number, with the system message
    media: tuple[Media, ...] = ()  # images and others
    has_data: bool = False  # whether some texts are JSON of tools or calls, which vendors render

    def size(self, count: Callable[[str], int], overhead: Overhead) -> int:
        """Return how many input tokens it is; ``count`` counts those of a text."""
        return sum(map(count, self.texts)) + overhead.request + overhead.message * self.messages


def sent_of(request: PreparedRequest) -> Sent:
    """Return what a request has for the model to read.

    >>> from multiturn.model.turns import Part, Turn
    >>> turns = (Turn("system", (Part("text", "Be brief."),)), Turn("user", (Part("text", "Hi"),)))
    >>> sent = sent_of(PreparedRequest(messages=turns))
    >>> sent.texts, sent.roles, sent.messages
    (('Be brief.', 'Hi'), ('system', 'user'), 2)
    """
    texts, roles = [_json(tool) for tool in request.tools], ["tools"] * len(request.tools)
    has_data = bool(texts)
    media: list[Media] = []
    above = 0  # a checksum of the media so far
    for turn in request.spoken:
        data = [*(block.text for block in turn.thinking if block.text), *map(_json, turn.calls)]
        has_data = has_data or bool(data)
        for piece in (*pieces_of(turn), *data):
            if isinstance(piece, Media):
                media.append(piece)
                above = crc32((piece.digest or piece.name).encode(), above)
            else:
                texts.append(piece)
                roles.append(f"{turn.role} {above}" if above else turn.role)
    return Sent(tuple(texts), tuple(roles), len(request.spoken), tuple(media), has_data)


def _json(written: Tool | Call) -> str:
    """Return about what the model reads of a tool or a call: each vendor has a way of its own."""
    names = ("name", "description", "parameters", "arguments")
    keys = {name: given for name in names if (given := getattr(written, name, None))}
    return msgspec.json.encode(keys).decode()
