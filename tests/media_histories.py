"""Random conversations with images, documents and audio; a number always gives the same one."""

import random
from collections.abc import Callable

from msgspec.structs import replace

from histories import history
from media_files import image, mp3, pdf, wav
from multiturn import ChatMessage, Media, ProviderRequest

ADDRESS = "https://example.org/shots/{}.png"
MAKERS: dict[str, Callable[[int], bytes]] = {
    "png": lambda seed: image("PNG", seed),
    "jpg": lambda seed: image("JPEG", seed),
    "gif": lambda seed: image("GIF", seed),
    "webp": lambda seed: image("WEBP", seed),
    "pdf": pdf,
    "wav": wav,
    "mp3": mp3,
}
# What a vendor takes; its guides name these types.
TAKEN = {
    "openai": ("png", "jpg", "gif", "webp", "pdf", "wav", "mp3", "url"),
    "azure": ("png", "jpg", "gif", "webp", "pdf", "wav", "mp3", "url"),
    "responses": ("png", "jpg", "gif", "webp", "pdf", "url"),
    "anthropic": ("png", "jpg", "gif", "webp", "pdf", "url"),
    "gemini": ("png", "jpg", "webp", "pdf", "wav", "mp3", "url"),
}
TEXTS = ("What is this?", "  and that  ", "", " \n", "Grüße\n\U0001f600", "[image: a.png]")


def media_history(number: int, vendor: str) -> ProviderRequest:
    """Return a conversation with calls, with media that a vendor takes in messages and results."""
    return _Maker(number, vendor).request()


class _Maker:
    def __init__(self, number: int, vendor: str) -> None:
        self.chance = random.Random(f"media {number}")
        self.number, self.kinds = number, TAKEN[vendor]
        self.count = 0

    def request(self) -> ProviderRequest:
        request = history(self.number)
        messages = [self.message(each) for each in request.chat_prompt or ()]
        messages.append(ChatMessage("user", self.content(0)))  # so that none has no media
        return replace(request, chat_prompt=tuple(messages))

    def message(self, message: ChatMessage) -> ChatMessage:
        is_shown = self.chance.random() < (0.5 if message.role == "user" else 0.3)
        if message.role not in ("user", "tool") or not is_shown:
            return message
        return replace(message, content=(str(message.content), *self.content(1)))

    def content(self, texts: int) -> tuple[str | Media, ...]:
        """Return media among texts."""
        pieces: list[str | Media] = [self.media() for _ in range(self.chance.choice((1, 1, 2, 3)))]
        for _ in range(self.chance.randint(texts, 3)):
            pieces.insert(self.chance.randint(0, len(pieces)), self.chance.choice(TEXTS))
        return tuple(pieces)

    def media(self) -> Media:
        self.count += 1
        kind, seed = self.chance.choice(self.kinds), self.chance.randrange(50)
        if kind == "url":
            return Media("image", url=ADDRESS.format(seed))
        detail = self.chance.choice((None, None, "low")) if kind in ("png", "jpg") else None
        name = self.chance.choice((None, f"shots/{seed}.{kind}", f"..\\Bücher\\{seed}.dat"))
        return Media.of(MAKERS[kind](seed), name, detail=detail)
