"""What providers make of a request: the scenarios of the specification, and some more."""

import asyncio
import json
from pathlib import Path
from typing import Any

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
from multiturn.providers.ax import AxProvider
from multiturn.providers.vscode import VSCodeProvider, VSCodeSettings
from vendors import VENDORS, ask, azure, chat, echo

Turns = tuple[tuple[str, str], ...]
DEFAULT = "You are a careful assistant."
HELP: Turns = (("user", "Hello"), ("assistant", "Hi"), ("user", "Help me"))


def built(request: ProviderRequest) -> list[tuple[str, str]]:
    """Return the messages that every provider makes of a request."""
    return [(m.role, m.content) for m in echo().build_chat_prompt(request)]


def received(vendor: str, sent: bytes) -> tuple[str, list[tuple[str, str]]]:
    """Return the system message and the turns of a body."""
    body = json.loads(sent)
    if vendor == "Gemini":
        (part,) = body["systemInstruction"]["parts"]
        turns = [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
        roles = {"user": "user", "model": "assistant"}
        return part["text"], [(roles[role], text) for role, text in turns]
    turns = [(message["role"], message["content"]) for message in body["messages"]]
    if vendor == "Anthropic":
        return body["system"], turns
    assert turns[0][0] == "system"
    return turns[0][1], turns[1:]


SYSTEM = "You are a code reviewer.\n\n[[ ## Guidelines ## ]]\nBe concise."
PROMPT = {"system_prompt": "Be kind."}
MERGED = (("system", "System with guidelines already merged"), ("user", "Hello"))


def question(text: str = "Why?", **given: Any) -> ProviderRequest:
    return ProviderRequest(question=text, **given)


@pytest.mark.parametrize(
    ("request_", "system", "turns"),
    [
        pytest.param(
            chat(*HELP, question="[User]: Hello\n[Assistant]: Hi\n[User]: Help me"),
            *(DEFAULT, HELP),
            id="chat prompt provided in request",
        ),
        pytest.param(
            question("What is the capital of France?", metadata={"system_prompt": "<prompt>"}),
            *("<prompt>", (("user", "What is the capital of France?"),)),
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
            chat(*HELP, metadata=PROMPT), "Be kind.", HELP, id="no system message, but a prompt"
        ),
        pytest.param(
            chat(*HELP, metadata={"system_prompt": " \n"}), DEFAULT, HELP, id="a blank prompt"
        ),
        pytest.param(
            chat(*MERGED, metadata=PROMPT), MERGED[0][1], MERGED[1:], id="a prompt and a message"
        ),
        *(
            pytest.param(
                question(chat_prompt=prompt, metadata=metadata, guidelines=guidelines),
                *(system, (("user", "Why?"),)),
                id=f"{of}, {without}",
            )
            for without, prompt in (("without a chat prompt", None), ("with an empty one", ()))
            for of, metadata, guidelines, system in (
                ("of nothing", {}, (), DEFAULT),
                ("of a system prompt", PROMPT, (), "Be kind."),
                ("as suites spell it", {"systemPrompt": "Be kind."}, (), "Be kind."),
                ("beside a blank", {"system_prompt": " ", "systemPrompt": "Hi."}, (), "Hi."),
                (
                    *("of a prompt and a guideline", PROMPT, ("Types.",)),
                    "Be kind.\n\n[[ ## Guidelines ## ]]\n\nTypes.",
                ),
                (
                    *("of two guidelines", {}, ("One.", "Two.")),
                    f"{DEFAULT}\n\n[[ ## Guidelines ## ]]\n\nOne.\n\nTwo.",
                ),
            )
        ),
    ],
)
def test_the_messages_of_a_request(request_: ProviderRequest, system: str, turns: Turns) -> None:
    assert built(request_) == [("system", system), *turns]
    for name, connect in VENDORS.items():
        assert received(name, connect().wire(request_).body) == (system, [*turns])


def test_a_system_message_after_the_first_turn_counts_as_one() -> None:
    late = (("user", "Hello"), ("system", "Late."), ("user", "Help"))
    assert built(chat(*late)) == [*late]


def test_vs_code_with_multi_turn_eval() -> None:
    question = "[User]: Hello\n[Assistant]: Hi\n[User]: Help"
    turns = (("user", "Hello"), ("assistant", "Hi"), ("user", "Help"))
    provider = VSCodeProvider(VSCodeSettings(name="t", provider="vscode"))
    wire = provider.wire(chat(*turns, question=question))
    assert wire.body.decode().startswith(f"{question}\n")
    assert wire.body == provider.wire(ProviderRequest(question=question)).body
    assert not isinstance(provider, AxProvider)


@pytest.mark.parametrize("pipeline", ["spec", "design", "shipped", "agentv"])
def test_the_orchestrator_sends_the_chat_prompt_and_keeps_the_question(
    tmp_path: Path, server: Server, pipeline: str
) -> None:
    turns: list[Any] = [("user", "Hello"), ("assistant", "Hi there")]
    messages = [{"role": role, "content": content} for role, content in turns]
    suite = tmp_path / "a.eval.yaml"
    suite.write_text(json.dumps({"evalcases": [{"id": "one", "input_messages": messages}]}))

    async def results() -> list[Result]:
        cases = load_suite(suite, root=tmp_path)
        async with azure(server.url) as provider:
            return [result async for result in run(cases, load_pipeline(pipeline), provider)]

    (result,) = asyncio.run(results())
    assert received("Azure OpenAI", server.requests[-1].body) == (DEFAULT, turns)
    assert (result.response, result.error) == (TEXT, None)
    asked = result.raw_request
    assert asked is not None
    assert asked.question == "[User]: Hello\n[Assistant]: Hi there"
    assert asked.chat_prompt == tuple(ChatMessage(*turn) for turn in turns)
    assert asked.guidelines == ()


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
    head = f"{DEFAULT}\n\n[[ ## Guidelines ## ]]\n\n"
    assert built(request) == [("system", head + system), ("user", "Why?")]


def test_echo_answers_with_the_messages_as_they_are() -> None:
    messages = [
        ("system", "Be brief."),
        ("user", "2?"),
        ("tool", "\u00fcber 4"),
        ("assistant", " "),
    ]
    answer = ask(echo(), chat(*messages))
    expected = {"messages": [{"role": role, "content": text} for role, text in messages]}
    assert json.loads(answer.text) == answer.raw == expected
    assert answer.wire == answer.text.encode()
    assert answer.retries == 0
