"""What each provider would send of a case, and which of its texts come from which message."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from multiturn.errors import ProviderError
from multiturn.logs import warnings_to
from multiturn.model.request import ProviderRequest
from multiturn.model.turns import is_blank
from multiturn.providers.base import TargetProvider
from multiturn.providers.http import HttpProvider
from multiturn.providers.models import FEATURES
from multiturn.providers.targets import KINDS

# No suite can contain it, because nobody knows it before.
_TOKEN = os.urandom(8).hex()
_MOST_PATTERNS = 1_000
_MARK = re.compile(rf"{_TOKEN}-(\d+)-")

# The number of a message of the chat prompt, from 1, or 0 for the question, or another text.
Pieces = tuple[int | str, ...]
# The repairs, or why a case is refused, and the body: decoded JSON, a text, or None if refused.
Payload = tuple[tuple[str, ...], Any]
_Show = Callable[[Pieces], Any]


def sample_providers() -> dict[str, TargetProvider]:
    """Return a provider of each kind of payload, which sends nothing, by its name for people.

    Their payloads name the model ``MODEL``; model, limits and keys are the targets' affair.
    """
    given: dict[str, Any] = {"model": "MODEL", "api_key": "none", "endpoint": "https://none"}
    given["model_takes"] = dict.fromkeys(FEATURES, True)
    found: dict[str, TargetProvider] = {}
    for kind, (provider, settings) in KINDS.items():
        if provider.title and provider.title not in found:
            known = {key: given[key] for key in given.keys() & set(settings.__struct_fields__)}
            found[provider.title] = provider(settings(name="sample", provider=kind, **known))
    return found


class Payloads:
    """What providers would send of cases; ``show`` makes each text from its pieces."""

    def __init__(self, providers: Iterable[TargetProvider], show: _Show) -> None:
        self._providers = list(enumerate(providers))
        self._show = show
        self._patterns: dict[tuple[int, bytes], Any] = {}  # by the request

    def of(self, request: ProviderRequest, texts: Sequence[str]) -> Iterator[Payload]:
        """Yield what each provider would send; the texts are the question and the messages."""
        marked = _marked(request)
        key = msgspec.msgpack.encode(marked, enc_hook=repr)
        for number, provider in self._providers:
            try:
                repairs, body = _sent(provider, request)
                pattern = self._pattern(number, provider, marked, key, request)
            except ProviderError as error:
                yield (f"refused: {error.what}",), None
            else:
                yield repairs, _in_pieces(body, pattern, texts, self._show)

    def _pattern(
        self,
        number: int,
        provider: TargetProvider,
        marked: ProviderRequest,
        key: bytes,
        request: ProviderRequest,
    ) -> Any:
        """Return the pattern of a body; most cases have the roles of others, and so their body."""
        if not isinstance(provider, HttpProvider):  # an agent gets files, and the system message
            system = request.system if request.chat_prompt else marked.system
            whole = replace(marked, input_files=request.input_files, system=system)
            return _pattern_of(_sent(provider, whole)[1])
        if (number, key) not in self._patterns:
            if len(self._patterns) > _MOST_PATTERNS:
                self._patterns.clear()
            self._patterns[number, key] = _pattern_of(_sent(provider, marked)[1])
        return self._patterns[number, key]


def _sent(provider: TargetProvider, request: ProviderRequest) -> Payload:
    with warnings_to(lambda _: None):  # the target is of nobody
        wire = provider.wire(request)
    is_json = isinstance(provider, HttpProvider)
    return wire.repairs, msgspec.json.decode(wire.shown) if is_json else wire.shown.decode()


def _pattern_of(marked: Any) -> Any:
    """Return a body with marks, with its pieces in place of each text; none for one of no marks."""
    if isinstance(marked, str):
        split = _MARK.split(marked)
        pieces = (int(p) if at % 2 else p for at, p in enumerate(split) if at % 2 or p)
        return tuple(pieces) if len(split) > 1 else ()
    if isinstance(marked, list | tuple):
        return [_pattern_of(each) for each in marked]
    if isinstance(marked, dict):
        return {key: _pattern_of(value) for key, value in marked.items()}
    return None


def _in_pieces(body: Any, pattern: Any, texts: Sequence[str], show: _Show) -> Any:
    """Return a payload's body with its texts made from pieces."""
    if isinstance(body, str):
        shown = "".join([texts[piece] if isinstance(piece, int) else piece for piece in pattern])
        # The provider may have edited the text.
        return show(pattern if shown == body else (body,))
    if isinstance(body, list | tuple):
        return [_in_pieces(*pair, texts, show) for pair in zip(body, pattern, strict=True)]
    if isinstance(body, dict):
        return {
            key: value if key == "role" else _in_pieces(value, pattern[key], texts, show)
            for key, value in body.items()
        }
    return body


def _marked(request: ProviderRequest) -> ProviderRequest:
    """Return a request with a mark in place of each text, so that payloads show where it goes."""
    chat = request.chat_prompt and tuple(
        replace(message, content=_marked_text(number, message.content))
        if isinstance(message.content, str)
        else message
        for number, message in enumerate(request.chat_prompt, 1)
    )
    is_shown = not chat or any(message.role == "system" for message in chat)
    return replace(
        request,
        chat_prompt=chat,
        system=_marked_text(1, request.system or "") if is_shown else request.system,
        question=_marked_text(0, request.question),
        # Nothing that only names the case is sent, and files only by agents.
        input_files=(),
        eval_id="",
        suite="",
        conversation_id=None,
        outcome=None,
        expected_messages=None,
    )


def _marked_text(number: int, text: str) -> str:
    return text if is_blank(text) else f"{_TOKEN}-{number}-"
