"""Gemini, through the google-genai SDK: system_instruction, and the roles user and model."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta

from multiturn.model.calls import Call
from multiturn.model.request import ProviderRequest
from multiturn.providers.ax import UpTo2
from multiturn.providers.base import ProviderError, ProviderResponse, Wire
from multiturn.providers.client import http_client
from multiturn.providers.http import HttpProvider, HttpSettings
from multiturn.providers.layout import Layout
from multiturn.providers.tokens import Overhead
from multiturn.providers.usage import counts

# Reasons to stop that are filters' (types.FinishReason of the SDK).
_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
_ROLES = {"user": "user", "assistant": "model"}


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of a ``gemini`` target."""

    base_url: Annotated[str | None, Meta(description="of a gateway; null for Google's own.")] = None
    version: Annotated[str, Meta(description="of the API (G6).")] = "v1beta"
    temperature: UpTo2 = None


class GeminiProvider(HttpProvider):
    """Sends the chat prompt to the Gemini API."""

    kind = "gemini"
    title = "Gemini"
    sdk = "google.genai"
    address_settings = ("base_url", "version")
    # Google's guide: countTokens gives 10 for a chat of "Hi my name is Bob" and "Hi Bob!".
    overhead = Overhead(request=0, message=1)
    settings: GeminiSettings

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
        """Return the messages as contents, the system messages apart, and the parameters."""
        system = layout.take_system("G1", blank="G5")
        layout.drop_blank("G5")
        layout.tools_as_user("G3")
        layout.want_turns("G2")
        layout.merge_runs("G3")
        layout.want_user_first("G4")
        layout.want_user_last(self.abilities)
        temperature, limit = self.sampling(layout, request, ("G7", 2))
        config = {
            "temperature": None if temperature is None else float(temperature),
            "maxOutputTokens": limit,
        }
        return {
            "contents": [
                {"parts": [{"text": message.content}], "role": _ROLES.get(message.role)}
                for message in layout.messages
            ],
            "systemInstruction": system and {"parts": [{"text": system}], "role": "user"},
            "generationConfig": {key: value for key, value in config.items() if value is not None},
        }

    def encode(self, body: dict[str, Any]) -> bytes:
        """Return the body as the SDK writes it."""
        return json.dumps(body).encode()

    def connect(self) -> Any:
        """Return the asynchronous half of a google-genai client."""
        import httpx2
        from google import genai
        from google.genai import types

        self.http = http_client(httpx2.AsyncClient, limits=httpx2.Limits(max_connections=1000))
        return genai.Client(
            vertexai=False,  # overrides the environment
            api_key=self.settings.api_key,
            http_options=types.HttpOptions(
                base_url=self.settings.base_url,
                api_version=self.settings.version,
                timeout=int(self.settings.timeout_seconds * 1000),
                retry_options=types.HttpRetryOptions(attempts=self.settings.max_retries + 1),
                httpx_async_client=self.http,
            ),
        ).aio

    async def post(self, client: Any, wire: Wire) -> str:
        """Return the text of the vendor's answer; the SDK takes no bytes, and encodes the same."""
        body = json.loads(wire.body)
        response = await client.models.generate_content(
            model=wire.model,
            contents=body["contents"],
            config={
                **body["generationConfig"],
                "system_instruction": body.get("systemInstruction"),
                "should_return_http_response": True,
            },
        )
        return str(response.sdk_http_response.body)

    def read(self, answer: Any) -> ProviderResponse:
        """Return the text of the first candidate, its calls, and apart from them its thoughts."""
        blocked = (answer.get("promptFeedback") or {}).get("blockReason")
        if blocked and not answer.get("candidates"):
            raise ProviderError(f"the prompt was blocked: {blocked}", kind="content_filter")
        candidate = answer["candidates"][0]
        parts = candidate.get("content", {}).get("parts", ())
        return ProviderResponse(
            text="".join(part.get("text", "") for part in parts if not part.get("thought")),
            tool_calls=tuple(_calls(parts)),
            thinking=[part for part in parts if part.get("thought")],
            usage=counts(
                answer.get("usageMetadata"),
                input_tokens="promptTokenCount",
                output_tokens="candidatesTokenCount+thoughtsTokenCount",
                cached_tokens="cachedContentTokenCount",
            ),
            finish_reason=candidate.get("finishReason"),
            is_refusal=candidate.get("finishReason") in _BLOCKED,
        )


def _calls(parts: Iterable[Mapping[str, Any]]) -> Iterator[Call]:
    """Yield the calls among the parts of an answer; one without an id gets its number."""
    called = [part for part in parts if "functionCall" in part]
    for at, part in enumerate(called, 1):
        call, signature = part["functionCall"], part.get("thoughtSignature", "")
        yield Call(call.get("id") or f"call_{at}", call["name"], call.get("args") or {}, signature)
