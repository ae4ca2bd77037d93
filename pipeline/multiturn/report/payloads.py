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
    kinds = [(provider.title, kind, "") for kind, (provider, _) in KINDS.items()]
    for title, kind, api in (*kinds, ("OpenAI Responses", "openai", "responses")):
        provider, settings = KINDS[kind]
        if title and title not in found:
            known = {key: given[key] for key in given.keys() & set(settings.__struct_fields__)}
            known |= {"api": api} if api else {}
            found[title] = provider(settings(name="sample", provider=kind, **known))
    return found


def payloads_of(
    request: ProviderRequest,
    providers: Iterable[TargetProvider],
    texts: Sequence[str],
    show: _Show,
) -> Iterator[Payload]:
    """Yield what each provider would send.

    Args:
        request: of a case.
        providers: of ``sample_providers``.
        texts: the question and the messages.
        show: makes each text of a body from its pieces.
    """
    marked = _marked(request)
    for provider in providers:
        try:
            (repairs, body), (_, pattern) = _sent(provider, request), _sent(provider, marked)
        except ProviderError as error:
            yield (f"refused: {error.what}",), None
        else:
            yield repairs, _in_pieces(body, pattern, texts, show)


def _sent(provider: TargetProvider, request: ProviderRequest) -> Payload:
    with warnings_to(lambda _: None):  # the target is of nobody
        wire = provider.wire(request)
    is_json = isinstance(provider, HttpProvider)
    return wire.repairs, msgspec.json.decode(wire.shown) if is_json else wire.shown.decode()


def _in_pieces(body: Any, marked: Any, texts: Sequence[str], show: _Show) -> Any:
    """Return a body with its texts made from pieces, by a body with marks in their place."""
    if isinstance(body, str):
        split = enumerate(_MARK.split(marked))
        pieces = tuple(int(p) if at % 2 else p for at, p in split if at % 2 or p)
        shown = "".join([texts[piece] if isinstance(piece, int) else piece for piece in pieces])
        # The provider may have edited the text.
        return show(pieces if shown == body else (body,))
    if isinstance(body, list | tuple):
        return [_in_pieces(*pair, texts, show) for pair in zip(body, marked, strict=True)]
    if isinstance(body, dict):
        return {
            key: value if key == "role" else _in_pieces(value, marked[key], texts, show)
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
    return replace(
        request,
        chat_prompt=chat,
        system=request.system if chat else _marked_text(1, request.system or ""),
        question=_marked_text(0, request.question),
    )


def _marked_text(number: int, text: str) -> str:
    return text if is_blank(text) else f"{_TOKEN}-{number}-"
