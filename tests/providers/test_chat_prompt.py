"""What providers make of a request: the scenarios of the specification, and some more."""

import asyncio
import json
from pathlib import Path

import pytest

from loopback import TEXT, Server
from multiturn import (
    ChatMessage,
    InputFile,
    ProviderRequest,
    Result,
    load_pipeline,
    load_suite,
    run,
)
from multiturn.providers.anthropic import AnthropicProvider
from multiturn.providers.ax import AxProvider
from multiturn.providers.azure import AzureProvider
from multiturn.providers.gemini import GeminiProvider
from multiturn.providers.openai import OpenAIProvider
from multiturn.providers.vscode import VSCodeProvider, VSCodeSettings
from vendors import Connect, ask, azure, chat, each_provider, each_vendor, echo

DEFAULT = ("system", "You are a careful assistant.")
HELP = (("user", "Hello"), ("assistant", "Hi"), ("user", "Help me"))


def built(connect: Connect, request: ProviderRequest) -> list[tuple[str, str]]:
    """Return the messages that a provider makes of a request."""
    return [(m.role, m.content) for m in connect().build_chat_prompt(request)]


def received(server: Server) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the system message and the turns of the last request, whatever the vendor."""
    request = server.requests[-1]
    body = request.json
    if request.vendor == "gemini":
        (part,) = body["systemInstruction"]["parts"]
        turns = [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
        roles = {"user": "user", "model": "assistant"}
        return part["text"], [(roles[role], text) for role, text in turns]
    turns = [(message["role"], message["content"]) for message in body["messages"]]
    if request.vendor == "anthropic":
        return body["system"], turns
    assert turns[0][0] == "system"
    return turns[0][1], turns[1:]


@each_provider
def test_chat_prompt_provided_in_request(connect: Connect) -> None:
    request = chat(*HELP, question="[User]: Hello\n[Assistant]: Hi\n[User]: Help me")
    assert built(connect, request) == [DEFAULT, *HELP]


@each_vendor
def test_a_chat_prompt_is_what_the_vendor_gets(connect: Connect, server: Server) -> None:
    request = chat(*HELP, question="[User]: Hello\n[Assistant]: Hi\n[User]: Help me")
    assert ask(connect(server.url), request).text == TEXT
    assert received(server) == (DEFAULT[1], list(HELP))
    assert b"[User]" not in server.requests[0].body


@each_provider
def test_chat_prompt_not_provided_legacy(connect: Connect) -> None:
    request = ProviderRequest(
        question="What is the capital of France?",
        guidelines=(),
        chat_prompt=None,
        metadata={"system_prompt": "<system prompt>"},
    )
    assert built(connect, request) == [
        ("system", "<system prompt>"),
        ("user", "What is the capital of France?"),
    ]


@each_vendor
def test_a_question_alone_is_what_the_vendor_gets(connect: Connect, server: Server) -> None:
    ask(connect(server.url), ProviderRequest(question="What is the capital of France?"))
    assert received(server) == (DEFAULT[1], [("user", "What is the capital of France?")])


@each_provider
def test_system_message_in_chat_prompt(connect: Connect) -> None:
    system = "You are a code reviewer.\n\n[[ ## Guidelines ## ]]\nBe concise."
    messages = [("system", system), ("user", "Review this code")]
    assert built(connect, chat(*messages)) == messages


@each_vendor
def test_a_system_message_reaches_the_vendor_to_the_letter(
    connect: Connect, server: Server
) -> None:
    system = "You are a code reviewer.\n\n[[ ## Guidelines ## ]]\nBe concise."
    ask(connect(server.url), chat(("system", system), ("user", "Review this code")))
    assert received(server) == (system, [("user", "Review this code")])


@each_provider
def test_no_system_message_in_chat_prompt(connect: Connect) -> None:
    assert built(connect, chat(*HELP)) == [
        ("system", "You are a careful assistant."),
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "Help me"),
    ]


@each_provider
def test_both_chat_prompt_and_guidelines_provided(connect: Connect) -> None:
    messages = [("system", "System with guidelines already merged"), ("user", "Hello")]
    request = chat(*messages, guidelines=("Old guideline 1", "Old guideline 2"))
    assert built(connect, request) == messages


@each_vendor
def test_guidelines_beside_a_chat_prompt_never_go_out(connect: Connect, server: Server) -> None:
    old = ("Old guideline 1", "Old guideline 2")
    ask(connect(server.url), chat(("system", "Merged"), ("user", "Hello"), guidelines=old))
    ask(connect(server.url), chat(("user", "Hello"), guidelines=old))
    assert received(server) == (DEFAULT[1], [("user", "Hello")])
    assert not [request for request in server.requests if b"uideline" in request.body]


def test_azure_provider_inherits_fix(server: Server) -> None:
    ask(azure(server.url), chat(("user", "Hello"), ("assistant", "Hi")))
    assert server.requests[0].json["messages"] == [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(OpenAIProvider, id="OpenAI"),
        pytest.param(AzureProvider, id="Azure OpenAI"),
        pytest.param(AnthropicProvider, id="Anthropic"),
        pytest.param(GeminiProvider, id="Gemini"),
    ],
)
def test_every_vendor_has_the_chat_prompt_of_the_baseline(provider: type[AxProvider]) -> None:
    assert issubclass(provider, AxProvider)
    assert provider.build_chat_prompt is AxProvider.build_chat_prompt


def test_vs_code_with_multi_turn_eval() -> None:
    question = "[User]: Hello\n[Assistant]: Hi\n[User]: Help"
    turns = (("user", "Hello"), ("assistant", "Hi"), ("user", "Help"))
    provider = VSCodeProvider(VSCodeSettings(name="t", provider="vscode"))
    wire = provider.wire(chat(*turns, question=question))
    assert wire.body.decode().startswith(f"{question}\n")
    assert wire.body == provider.wire(ProviderRequest(question=question)).body
    assert not isinstance(provider, AxProvider)


SUITE = """\
evalcases:
  - id: one
    input_messages:
      - role: user
        content: Hello
      - role: assistant
        content: Hi there
"""


@pytest.mark.parametrize("pipeline", ["spec", "design", "shipped", "agentv"])
def test_orchestrator_populates_chat_prompt(tmp_path: Path, pipeline: str) -> None:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (case,) = load_suite(tmp_path / "a.eval.yaml", root=tmp_path)
    request = load_pipeline(pipeline).request(case)
    assert request.question == "[User]: Hello\n[Assistant]: Hi there"
    assert request.chat_prompt == (
        ChatMessage("user", "Hello"),
        ChatMessage("assistant", "Hi there"),
    )
    assert request.guidelines == ()


def test_the_orchestrator_sends_the_chat_prompt_and_keeps_the_question(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    cases = load_suite(tmp_path / "a.eval.yaml", root=tmp_path)

    async def results() -> list[Result]:
        async with azure(server.url) as provider:
            return [result async for result in run(cases, load_pipeline("spec"), provider)]

    (result,) = asyncio.run(results())
    turns = [("user", "Hello"), ("assistant", "Hi there")]
    assert received(server) == (DEFAULT[1], turns)
    assert (result.response, result.error) == (TEXT, None)
    assert result.raw_request is not None
    assert result.raw_request.question == "[User]: Hello\n[Assistant]: Hi there"


@each_provider
@pytest.mark.parametrize(
    ("given", "system"),
    [
        pytest.param({}, "You are a careful assistant.", id="the default"),
        pytest.param({"system_prompt": "Be kind."}, "Be kind.", id="the system prompt"),
        pytest.param({"system_prompt": " \n"}, "You are a careful assistant.", id="a blank one"),
    ],
)
def test_where_a_chat_prompt_has_no_system_message_one_is_prepended(
    connect: Connect, given: dict[str, str], system: str
) -> None:
    request = chat(("user", "Hello"), metadata=given)
    assert built(connect, request) == [("system", system), ("user", "Hello")]


@each_provider
def test_the_system_prompt_does_not_touch_a_system_message(connect: Connect) -> None:
    messages = [("system", "Mine."), ("user", "Hello")]
    assert built(connect, chat(*messages, metadata={"system_prompt": "Other."})) == messages


@each_provider
def test_a_system_message_after_the_first_turn_counts_as_one(connect: Connect) -> None:
    messages = [("user", "Hello"), ("system", "Late."), ("user", "Help")]
    assert built(connect, chat(*messages)) == messages


@each_provider
@pytest.mark.parametrize(
    "prompt", [pytest.param(None, id="no chat prompt"), pytest.param((), id="an empty list")]
)
@pytest.mark.parametrize(
    ("metadata", "guidelines", "system"),
    [
        pytest.param({}, (), "You are a careful assistant.", id="of nothing"),
        pytest.param({"system_prompt": "Be kind."}, (), "Be kind.", id="of a system prompt"),
        pytest.param({"systemPrompt": "Be kind."}, (), "Be kind.", id="as suites spell it"),
        pytest.param(
            {"system_prompt": " ", "systemPrompt": "Be kind."}, (), "Be kind.", id="beside a blank"
        ),
        pytest.param(
            {"system_prompt": "Be kind."},
            ("Use type hints.",),
            "Be kind.\n\n[[ ## Guidelines ## ]]\n\nUse type hints.",
            id="of a system prompt and a guideline",
        ),
        pytest.param(
            {},
            ("One.", "Two."),
            "You are a careful assistant.\n\n[[ ## Guidelines ## ]]\n\nOne.\n\nTwo.",
            id="of two guidelines",
        ),
    ],
)
def test_without_messages_the_question_follows_a_system_message(
    connect: Connect,
    prompt: tuple[ChatMessage, ...] | None,
    metadata: dict[str, str],
    guidelines: tuple[str, ...],
    system: str,
) -> None:
    request = ProviderRequest(
        question="Why?", chat_prompt=prompt, metadata=metadata, guidelines=guidelines
    )
    assert built(connect, request) == [("system", system), ("user", "Why?")]


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
        pytest.param(
            ("Other.", "One."), "Other.\n\n=== ./a.md ===\nOne.", id="a given one has none"
        ),
    ],
)
def test_guidelines_without_a_chat_prompt_keep_their_paths(
    guidelines: tuple[str, ...], system: str
) -> None:
    request = ProviderRequest(question="Why?", guidelines=guidelines, input_files=FILES)
    messages = echo().build_chat_prompt(request)
    default = "You are a careful assistant.\n\n[[ ## Guidelines ## ]]\n\n"
    assert [message.content for message in messages] == [default + system, "Why?"]


def test_echo_answers_with_the_messages_as_they_are() -> None:
    messages = [("system", "Be brief."), ("user", "2 + 2?"), ("tool", "4"), ("tool", "\u00fcber 4")]
    answer = ask(echo(), chat(*messages))
    expected = {"messages": [{"role": role, "content": text} for role, text in messages]}
    assert json.loads(answer.text) == answer.raw == expected
    assert answer.wire == answer.text.encode()
    assert answer.retries == 0


def test_echo_needs_no_user_turn_at_the_end() -> None:
    wire = echo().wire(chat(("system", "Be brief."), ("user", "Hi"), ("assistant", "Ho ")))
    assert wire.repairs == ()
