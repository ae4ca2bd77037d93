"""The provider that needs no key and no network: it answers with what it would have sent."""

import msgspec

from multiturn.model import ProviderRequest
from multiturn.providers.ax import ChatProvider, ChatSettings
from multiturn.providers.base import ProviderResponse, Wire
from multiturn.providers.rules import Layout


class EchoSettings(ChatSettings, frozen=True, kw_only=True):
    """The settings of an ``echo`` target."""


class EchoProvider(ChatProvider):
    """Answers with the messages that an LLM API would have got, as JSON."""

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the messages as they are."""
        layout = Layout(self.build_chat_prompt(request))
        layout.want_turns("C1")
        body = msgspec.json.encode({"messages": layout.messages})
        return Wire(provider="echo", model=self.settings.model, body=body, repairs=layout.done())

    async def send(self, wire: Wire) -> ProviderResponse:
        """Answer with the body."""
        text = wire.body.decode()
        return ProviderResponse(text=text, raw=msgspec.json.decode(text), wire=wire.body)
