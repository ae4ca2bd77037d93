"""The provider that needs no key and no network: it answers with what it would have sent."""

from typing import Any

import msgspec

from multiturn.model.request import PreparedRequest, ProviderRequest, message_of
from multiturn.providers.base import ChatProvider, ProviderResponse, Wire
from multiturn.providers.layout import Layout


class EchoProvider(ChatProvider):
    """Answers with the messages that an LLM API would get, as JSON; of media, with the digest."""

    kind = "echo"

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the tools, and leave the messages unchanged."""
        layout.want_turns("C1")
        limit = request.max_output_tokens
        return PreparedRequest(messages=(), tools=request.tools, max_output_tokens=limit)

    def write(self, request: PreparedRequest) -> dict[str, Any]:
        """Return the messages and the tools in our own form."""
        messages = [message_of(message) for message in request.messages]
        return {"messages": messages, **({"tools": request.tools} if request.tools else {})}

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Answer with the body."""
        text = wire.body.decode()
        return ProviderResponse(text=text, raw=msgspec.json.decode(text), wire=wire.body)
