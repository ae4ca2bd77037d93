"""Random conversations with calls, as requests; the same number gives the same conversation."""

import base64
import random
from typing import Any

from msgspec.structs import replace

from multiturn import Case, ChatMessage, Conversion, ProviderRequest, TestMessage
from multiturn.model.request import turn_of
from multiturn.model.settings import RequestSettings
from multiturn.model.turns import Call, Thinking, Tool, Turn
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.filter_empty import filter_empty
from multiturn_stages.render_question import render_question

NAMES = ("weather", "search_web", "read-file", "f")
TEXTS = ("Hello", "Grüße \U0001f600", "a\n\nb", "  Hi  ", '{"a": 1}', "Let me look.")
RESULTS = ("18 °C, rain", "", " \n", '{"ok": true}', "no such city", "\U0001f469\u200d\U0001f4bb")
ID_LETTERS = "abcXYZ019_-"
VALUES: tuple[Any, ...] = (
    "Paris",
    "",
    "ü\u2028",
    0,
    -1.5,
    10**20,
    True,
    None,
    [],
    {},
    ["x", {"k": None}],
)


def history(number: int) -> ProviderRequest:
    """Return a conversation of 1 to 8 calls, which is well-formed but rarely as a vendor wants."""
    return _History(random.Random(number)).request()


def conversion_of(request: ProviderRequest) -> Conversion:
    """Return a conversation with a chat and a question, as if a suite had it."""
    turns, messages = [], []
    for at, message in enumerate(request.chat_prompt or ()):
        turns.append(_placed(turn_of(message), at))
        messages.append(
            TestMessage(
                message.role,
                message.text,
                calls=message.tool_calls,
                answers=message.tool_call_id,
                is_error=message.is_error,
                thinking=message.thinking,
            )
        )
    case = Case(
        id="x", input_messages=tuple(messages), tools=request.tools, settings=request.settings
    )
    given = Conversion(case, turns=tuple(turns), tools=request.tools)
    return render_question(filter_empty(consolidate_system(given)))


def _placed(turn: Turn, at: int) -> Turn:
    parts = (replace(part, message=at, content=number) for number, part in enumerate(turn.parts))
    return replace(turn, message=at, parts=tuple(parts))


class _History:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.messages: list[ChatMessage] = []
        self.ids: set[str] = set()
        self.left = chance.randint(1, 8)  # number of calls

    def request(self) -> ProviderRequest:
        chance = self.chance
        if chance.random() < 0.5:
            self.messages.append(ChatMessage("system", "Be brief."))
        self.messages.append(ChatMessage("user", chance.choice(TEXTS)))
        while self.left:
            self.step()
            if chance.random() < 0.3:
                self.messages.append(ChatMessage("user", chance.choice((*TEXTS, ""))))
        if chance.random() < 0.3:
            self.messages.append(ChatMessage("assistant", "It rains.", thinking=self.thinking()))
            self.messages.append(ChatMessage("user", chance.choice(TEXTS)))
        tools = tuple(self.tool(name) for name in NAMES)
        choices = (None, "auto", "none", "required", {"name": chance.choice(NAMES)})
        return ProviderRequest(
            question="(for logs only)",
            chat_prompt=tuple(self.messages),
            tools=tools if chance.random() < 0.8 else (),
            settings=RequestSettings(
                tool_choice=chance.choice(choices) if chance.random() < 0.3 else None
            ),
        )

    def step(self) -> None:
        """Add a message with calls, and their results, with or without something in between."""
        chance = self.chance
        if chance.random() < 0.15:
            self.messages.append(ChatMessage("assistant", "Well.", thinking=self.thinking()))
        count = min(self.left, chance.choice((1, 1, 1, 2, 3)))
        self.left -= count
        calls = tuple(self.call() for _ in range(count))
        text = chance.choice((*TEXTS, "", "", "", " \n"))
        self.messages.append(ChatMessage("assistant", text, calls, thinking=self.thinking()))
        results = [self.result(call) for call in calls]
        if chance.random() < 0.2:
            chance.shuffle(results)
        if chance.random() < 0.2:
            between = ChatMessage(chance.choice(("user", "assistant")), chance.choice(TEXTS))
            results.insert(chance.randrange(len(results)), between)
        self.messages += results

    def call(self) -> Call:
        chance = self.chance
        letters = ID_LETTERS if chance.random() < 0.8 else "aß:/ .\U0001f600"
        while True:
            length = chance.choice((1, 2, 9, 24, 40, 41, 64))
            name = "".join(chance.choices(letters, k=length))
            if name not in self.ids:
                break
        self.ids.add(name)
        keys = chance.sample(
            ("city", "größe", "a b", "fooBar", "snake_case", ""), chance.randint(0, 4)
        )
        arguments = {key: chance.choice(VALUES) for key in keys}
        signature = self.signature() if chance.random() < 0.5 else ""
        return Call(name, chance.choice(NAMES), arguments, signature)

    def result(self, call: Call) -> ChatMessage:
        is_error = self.chance.random() < 0.2
        text = self.chance.choice(RESULTS)
        return ChatMessage("tool", text, tool_call_id=call.id, is_error=is_error)

    def thinking(self) -> tuple[Thinking, ...]:
        if self.chance.random() < 0.6:
            return ()
        return tuple(self.block() for _ in range(self.chance.randint(1, 2)))

    def block(self) -> Thinking:
        vendor = self.chance.choice(("anthropic", "anthropic", "gemini", "openai"))
        if vendor == "anthropic" and self.chance.random() < 0.2:
            return Thinking(data=self.signature())
        signature = self.signature() if self.chance.random() < 0.7 else ""
        if vendor == "openai":
            data = self.signature() if self.chance.random() < 0.8 else ""
            text = self.chance.choice(("", "They want\nthe weather."))
            return Thinking(text, signature and f"rs_{signature}", data, vendor)
        return Thinking("They want\nthe weather.", signature, vendor=vendor)

    def signature(self) -> str:
        return base64.b64encode(self.chance.randbytes(9)).decode()

    def tool(self, name: str) -> Tool:
        city = {"type": "string", "description": "Größe"}
        schema: dict[str, Any] = {"type": "object", "properties": {"city": city}}
        schema["required"] = ["city"]
        strict = self.chance.choice((None, None, True, False))
        schemas: tuple[dict[str, Any], ...] = ({}, schema, {"properties": {"city": city}})
        if strict:  # OpenAI takes no other (T13)
            schemas = ({}, schema | {"additionalProperties": False}, {"type": "object"})
        described = self.chance.choice(("", "The weather."))
        return Tool(name, described, self.chance.choice(schemas), strict)
