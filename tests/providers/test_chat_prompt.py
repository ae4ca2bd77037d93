"""What providers make of a request: the scenarios of the specification, and some more."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from layout import laid_out
from loopback import TEXT, Server
from multiturn import (
    Case,
    ChatMessage,
    Conversion,
    InputFile,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    Result,
    TestMessage,
    run,
)
from multiturn.pipelines.pipeline import request_of
from multiturn.providers.agents.vscode import VSCodeProvider, VSCodeSettings
from multiturn.providers.base import AxProvider
from vendors import PROVIDERS, Connect, ask, azure, chat, each_vendor, echo, openai, sent

Turns = tuple[tuple[str, str], ...]
DEFAULT = "You are a careful assistant."
HELP: Turns = (("user", "Hello"), ("assistant", "Hi"), ("user", "Help me"))
SYSTEM = "You are a code reviewer.\n\n[[ ## Guidelines ## ]]\nBe concise."
MERGED = (("system", "System with guidelines already merged"), ("user", "Hello"))
KIND = {"system_prompt": "Be kind."}
WHY: Turns = (("user", "Why?"),)


def why(**given: Any) -> ProviderRequest:
    return ProviderRequest(question="Why?", **given)


@pytest.mark.parametrize(
    ("request_", "system", "turns"),
    [
        pytest.param(
            chat(*HELP, question="[User]: Hello\n[Assistant]: Hi\n[User]: Help me"),
            *(DEFAULT, HELP),
            id="chat prompt provided in request",
        ),
        pytest.param(
            why(metadata={"system_prompt": "<prompt>"}),
            *("<prompt>", WHY),
            id="chat prompt not provided (legacy)",
        ),
        pytest.param(
            chat(("system", SYSTEM), ("user", "Review this code")),
            *(SYSTEM, (("user", "Review this code"),)),
            id="system message in chat prompt",
        ),
        pytest.param(
            chat(*MERGED, guidelines=("Old guideline 1", "Old guideline 2")),
            *(MERGED[0][1], MERGED[1:]),
            id="both chat prompt and guidelines provided",
        ),
        pytest.param(
            chat(*HELP, guidelines=("Old guideline",)),
            *(DEFAULT, HELP),
            id="guidelines beside a chat prompt without a system message",
        ),
        pytest.param(
            chat(*HELP, metadata=KIND), "Be kind.", HELP, id="a system prompt, but no message"
        ),
        pytest.param(
            chat(*HELP, metadata={"system_prompt": " \n"}), DEFAULT, HELP, id="a blank prompt"
        ),
        pytest.param(
            chat(*MERGED, metadata=KIND), MERGED[0][1], MERGED[1:], id="a prompt and a message"
        ),
        pytest.param(
            why(metadata={"system_prompt": " ", "systemPrompt": "Hi."}),
            *("Hi.", WHY),
            id="the prompt as suites spell it",
        ),
        pytest.param(
            why(metadata=KIND, guidelines=("Types.",)),
            *("Be kind.\n\n[[ ## Guidelines ## ]]\n\nTypes.", WHY),
            id="without a chat prompt, guidelines follow the prompt",
        ),
    ],
)
def test_the_messages_of_a_request(request_: ProviderRequest, system: str, turns: Turns) -> None:
    for connect in PROVIDERS.values():
        assert sent(connect().wire(request_)) == [("system", system), *turns]


@each_vendor
def test_an_empty_chat_prompt_is_refused_and_its_question_is_not_sent(connect: Connect) -> None:
    with pytest.raises(ProviderError, match="user"):
        connect().wire(why(chat_prompt=()))
    with pytest.raises(ProviderError, match="user"):
        connect(default_system="omit").wire(why(chat_prompt=()))


def test_a_provider_of_ones_own_gets_no_empty_chat_prompt() -> None:
    class Own(AxProvider):
        async def invoke(self, request: ProviderRequest) -> ProviderResponse:
            return ProviderResponse(text="")

    with pytest.raises(ProviderError, match="C1: a prompt must have a user or an assistant"):
        Own().build_chat_prompt(why(chat_prompt=()))


@each_vendor
def test_a_target_can_omit_the_default_system_message(connect: Connect) -> None:
    provider = connect(default_system="omit")
    for request in (chat(*WHY), why()):
        assert sent(provider.wire(request)) == [*WHY]
    said = (("system", DEFAULT), *WHY)  # by the suite
    assert sent(provider.wire(chat(*said))) == [*said]
    assert sent(provider.wire(chat(*WHY, system="Be kind."))) == [("system", "Be kind."), *WHY]


def test_what_is_shown_omits_the_default_system_message_too() -> None:
    conversion = laid_out()(Conversion(Case(id="a", input_messages=(TestMessage("user", "Why?"),))))
    for setting, shown in {"omit": ["Why?"], "send": [DEFAULT, "Why?"]}.items():
        provider = openai(default_system=setting)
        preview = provider.preview(request_of(conversion))
        assert [turn.content for turn in preview.messages or ()] == shown


FILES = (
    InputFile("./a.md", "a.md", guideline=True, text="One."),
    InputFile("code.py", "code.py", text="Two."),
    InputFile("b.md", "rules/b.md", guideline=True, text="Two."),
    InputFile("c.md", "rules/c.md", guideline=True, text="Two."),
)


@pytest.mark.parametrize(
    ("guidelines", "system"),
    [
        pytest.param(("One.",), "One.", id="one is bare"),
        pytest.param(
            ("Given.", "One.", "Two.", "Two."),
            "Given.\n\n=== ./a.md ===\nOne.\n\n=== b.md ===\nTwo.\n\n=== c.md ===\nTwo.",
            id="several have the paths of their files",
        ),
    ],
)
def test_guidelines_without_a_chat_prompt(guidelines: tuple[str, ...], system: str) -> None:
    messages = sent(echo().wire(why(guidelines=guidelines, input_files=FILES)))
    assert messages == [("system", f"{DEFAULT}\n\n[[ ## Guidelines ## ]]\n\n{system}"), *WHY]


def test_vs_code_with_multi_turn_eval() -> None:
    question = "[User]: Hello\n[Assistant]: Hi\n[User]: Help me"
    provider = VSCodeProvider(VSCodeSettings(name="t", provider="vscode"))
    wire = provider.wire(chat(*HELP, question=question))
    assert wire.body.decode().startswith(f"{question}\n")
    assert wire.body == provider.wire(ProviderRequest(question=question)).body
    assert not isinstance(provider, AxProvider)


def test_the_orchestrator_sends_the_chat_prompt_and_keeps_the_question(
    tmp_path: Path, server: Server
) -> None:
    turns: list[Any] = [("user", "Hello"), ("assistant", "Hi there")]
    messages = [{"role": role, "content": content} for role, content in turns]
    suite = tmp_path / "a.eval.yaml"
    suite.write_text(json.dumps({"id": "one", "input_messages": messages}))

    async def results() -> list[Result]:
        async with azure(server.url) as provider:
            return [result async for result in run(suite, laid_out(), provider)]

    (result,) = asyncio.run(results())
    (request,) = server.requests
    assert request.json["messages"] == [{"role": "system", "content": DEFAULT}, *messages]
    assert (result.response, result.error) == (TEXT, None)
    asked = result.raw_request
    assert asked is not None
    assert asked.question == "[User]: Hello\n[Assistant]: Hi there"
    assert asked.chat_prompt == tuple(ChatMessage(*turn) for turn in turns)
    assert asked.guidelines == ()


def test_echo_answers_with_the_messages_as_they_are() -> None:
    turns = (("system", " "), ("tool", "\u00fcber 4"))
    answer = ask(echo(), chat(*turns))
    messages = [{"role": role, "content": text} for role, text in turns]
    assert json.loads(answer.text) == answer.raw == {"messages": messages}
    assert answer.wire == answer.text.encode()
