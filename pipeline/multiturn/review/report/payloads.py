"""What each provider would send of a case, and which of its texts come from which message."""

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from multiturn.model import ProviderRequest
from multiturn.prompts.provenance import text_of
from multiturn.providers.anthropic import AnthropicProvider, AnthropicSettings
from multiturn.providers.azure import AzureProvider, AzureSettings
from multiturn.providers.base import ProviderError, TargetProvider
from multiturn.providers.codex import CodexProvider, CodexSettings
from multiturn.providers.gemini import GeminiProvider, GeminiSettings
from multiturn.providers.http import HttpProvider
from multiturn.providers.vscode import VSCodeProvider, VSCodeSettings
from multiturn.review.report.side import Reviewed
from multiturn.turns import is_blank

# What no suite can contain, because nobody knows it before.
_TOKEN = os.urandom(8).hex()
_MARK = re.compile(rf"{_TOKEN}-(\d+)-")

# The number of a message of the chat prompt, from 1, or 0 for the question, or another text.
Pieces = tuple[int | str, ...]


class Payload(Struct, frozen=True):
    """What a provider would send."""

    body: Any  # decoded JSON, or a text; None if the provider refuses the case
    notes: tuple[str, ...] = ()  # the repairs, or why it is refused


def sample_providers() -> dict[str, TargetProvider]:
    """Return a provider of each kind of payload, which sends nothing, by its name for people.

    Their payloads name the model ``MODEL``; model, limits and keys are the targets' affair.
    """
    model: dict[str, Any] = {"name": "sample", "model": "MODEL", "api_key": "none"}
    continuing = {**model, "prefill": True}
    azure = AzureSettings(provider="azure", endpoint="", **model)
    return {
        "OpenAI, Azure": AzureProvider(azure),
        "Anthropic": AnthropicProvider(AnthropicSettings(provider="anthropic", **continuing)),
        "Gemini": GeminiProvider(GeminiSettings(provider="gemini", **continuing)),
        "Codex": CodexProvider(CodexSettings(name="sample", provider="codex")),
        "VS Code": VSCodeProvider(VSCodeSettings(name="sample", provider="vscode")),
    }


class Payloads:
    """Makes payloads, and keeps where texts go: it is the same in many cases.

    Args:
        text: makes each text of a payload from its pieces.
    """

    def __init__(self, text: Callable[[Pieces], Any]) -> None:
        self.providers = sample_providers()
        self.text = text
        self._marked: ProviderRequest | None = None
        self._patterns: dict[str, Any] = {}

    def of(self, case: Reviewed) -> Iterator[Payload]:
        """Yield what each provider would send of a case."""
        request, marked = case.request, _marked(case.request)
        if marked != self._marked:
            self._marked, self._patterns = marked, {}
        texts = [text_of(spans) for spans in case.texts]
        for name, provider in self.providers.items():
            decoded = json.loads if isinstance(provider, HttpProvider) else bytes.decode
            try:
                wire = provider.wire(request)
                if name not in self._patterns:
                    self._patterns[name] = decoded(provider.wire(marked).body)
            except ProviderError as error:
                yield Payload(None, (f"refused: {error.what}",))
                continue
            body = self._in_pieces(decoded(wire.body), self._patterns[name], texts)
            yield Payload(body, wire.repairs)

    def _in_pieces(self, body: Any, marked: Any, texts: list[str]) -> Any:
        """Return a payload's body with its texts made from pieces."""
        if isinstance(body, str):
            split = _MARK.split(marked)
            pieces = tuple(int(p) if at % 2 else p for at, p in enumerate(split) if at % 2 or p)
            shown = "".join(texts[piece] if isinstance(piece, int) else piece for piece in pieces)
            return self.text(pieces if shown == body else (body,))  # the provider edited it
        if isinstance(body, list):
            return [self._in_pieces(*pair, texts) for pair in zip(body, marked, strict=True)]
        if isinstance(body, dict):
            return {
                key: value if key == "role" else self._in_pieces(value, marked[key], texts)
                for key, value in body.items()
            }
        return body


def _marked(request: ProviderRequest) -> ProviderRequest:
    """Return a request with a mark in place of each text, so that payloads show where it goes."""
    chat = request.chat_prompt and tuple(
        replace(message, content=_marked_text(number, message.content))
        for number, message in enumerate(request.chat_prompt, 1)
    )
    question = _marked_text(0, request.question)
    marked = replace(request, chat_prompt=chat, question=question, eval_id="")
    return replace(marked, outcome=None, expected_messages=None, execution=None)


def _marked_text(number: int, text: str) -> str:
    return text if is_blank(text) else f"{_TOKEN}-{number}-"
