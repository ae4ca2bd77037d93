"""Gemini, through the google-genai SDK: system_instruction, and the roles user and model."""

import json
from typing import Annotated, Any

from msgspec import Meta

from multiturn.model import ProviderRequest
from multiturn.providers.base import ProviderError, ProviderResponse, Wire, counts
from multiturn.providers.http import HOOKS, HttpProvider, HttpSettings
from multiturn.providers.rules import Layout

_ROLES = {"user": "user", "assistant": "model"}


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of a ``gemini`` target."""

    base_url: Annotated[str | None, Meta(description="of a gateway; null for Google's own.")] = None


class GeminiProvider(HttpProvider):
    """Sends the chat prompt to the Gemini API."""

    sdk = "google.genai"
    extra = "gemini"
    settings: GeminiSettings

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the messages as contents.

        Raises:
            ProviderError: there is nothing to answer (G2), the conversation does not begin and
                end with the user (G4), or a system message stands among the others (G1).
        """
        layout = Layout(self.build_chat_prompt(request))
        system = layout.take_system("G1", blank="G5")
        layout.drop_blank("G5")
        layout.tools_as_user("G3")
        layout.want_turns("G2")
        layout.merge_runs("G3")
        layout.want_user("G4", at=0)
        layout.want_user("G4", at=-1)
        body: dict[str, Any] = {
            "contents": [
                {"parts": [{"text": message.content}], "role": _ROLES[message.role]}
                for message in layout.messages
            ]
        }
        if system is not None:
            body["systemInstruction"] = {"parts": [{"text": system}], "role": "user"}
        temperature, limit = self.sampling(request)
        given = {
            "temperature": None if temperature is None else float(temperature),
            "maxOutputTokens": limit,
        }
        body["generationConfig"] = {
            name: value for name, value in given.items() if value is not None
        }
        return Wire(
            provider="gemini",
            model=self.settings.model,
            parameters=(self.settings.base_url or "",),
            body=json.dumps(body).encode(),  # as the SDK writes it
            repairs=layout.done(),
        )

    def connect(self) -> Any:
        """Return a google-genai client, its asynchronous half."""
        import httpx2
        from google import genai
        from google.genai import types

        self._http = httpx2.AsyncClient(
            event_hooks=HOOKS, limits=httpx2.Limits(max_connections=1000)
        )
        return genai.Client(
            vertexai=False,  # whatever the environment says
            api_key=self.settings.api_key,
            http_options=types.HttpOptions(
                base_url=self.settings.base_url,
                timeout=int(self.settings.timeout_seconds * 1000),
                retry_options=types.HttpRetryOptions(attempts=self.settings.max_retries + 1),
                httpx_async_client=self._http,
            ),
        ).aio

    async def ask(self, client: Any, wire: Wire) -> str:
        """Hand the SDK the parts that it makes the very same body of."""
        body = json.loads(wire.body)
        sampling = body["generationConfig"]
        response = await client.models.generate_content(
            model=wire.model,
            contents=body["contents"],
            config={
                "system_instruction": body.get("systemInstruction"),
                "temperature": sampling.get("temperature"),
                "max_output_tokens": sampling.get("maxOutputTokens"),
                "should_return_http_response": True,
            },
        )
        return str(response.sdk_http_response.body)

    def read(self, answer: Any) -> ProviderResponse:
        """Return the text of the first candidate, without its thoughts.

        Raises:
            ProviderError: the prompt was blocked.
        """
        blocked = (answer.get("promptFeedback") or {}).get("blockReason")
        if blocked and not answer.get("candidates"):
            raise ProviderError(f"the prompt was blocked: {blocked}", kind="content_filter")
        candidate = answer["candidates"][0]
        parts = candidate.get("content", {}).get("parts", ())
        return ProviderResponse(
            text="".join(part.get("text", "") for part in parts if not part.get("thought")),
            usage=counts(
                answer.get("usageMetadata"),
                input_tokens="promptTokenCount",
                output_tokens="candidatesTokenCount",
            ),
            finish_reason=candidate.get("finishReason"),
        )

    async def close(self, client: Any) -> None:
        """Close the connections, which the SDK leaves open."""
        await client.aclose()
        await self._http.aclose()
