"""The provider that needs no key and no network: it answers with what it would have sent."""

from typing import Any

import msgspec

from multiturn.model.request import ProviderRequest
from multiturn.providers.ax import ChatProvider
from multiturn.providers.base import ProviderResponse, Wire
from multiturn.providers.layout import Layout


class EchoProvider(ChatProvider):
    """Answers with the messages that an LLM API would get, as JSON; of media, with the digest."""

    kind = "echo"

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
        """Return the messages unchanged, and the tools."""
        layout.want_turns("C1")
        return {"messages": layout.plain(), "tools": request.tools or None}

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Answer with the body."""
        text = wire.body.decode()
        return ProviderResponse(text=text, raw=msgspec.json.decode(text), wire=wire.body)
