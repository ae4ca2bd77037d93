"""Tokens of a request: those of its texts, counted or estimated, and what a vendor adds."""

import subprocess
import sys
from typing import Any

import pytest

from media_files import image
from multiturn import Call, Media, Thinking, Tool
from multiturn.model.request import PreparedRequest, part_of
from multiturn.model.settings import RequestSettings
from multiturn.model.tokens import Tokenizer, Tokens, estimated_tokens, sent_of
from multiturn.model.turns import Role, Turn
from vendors import anthropic, azure, chat, echo, gemini, openai, responses

OPENAI = {"base_url": "https://api.openai.com/v1"}


# The counts are those that OpenAI's cookbook prints ("How to count tokens with tiktoken").
@pytest.mark.parametrize(
    ("text", "cl100k", "o200k"),
    [
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 9, 8),
    ],
)
def test_texts_have_the_tokens_that_openai_says(text: str, cl100k: int, o200k: int) -> None:
    assert Tokenizer("cl100k_base").count(text) == cl100k
    assert Tokenizer("o200k_base").count(text) == o200k


def test_a_special_token_of_a_tokenizer_is_text() -> None:
    assert Tokenizer("o200k_base").count("<|endoftext|>") > 1


def test_half_of_a_surrogate_pair_is_counted_as_it_is_sent() -> None:
    assert Tokenizer("o200k_base").count("\ud83d") == Tokenizer("o200k_base").count("?")
    assert estimated_tokens("\ud83d") > 0


def test_messages_of_gpt_4o_are_counted_as_openai_counts_them() -> None:
    # 7 and 6 for the texts, 4 for each message with its role, and 3 for the beginning of the answer
    request = chat(("system", "2 + 2 = 4"), ("user", "tiktoken is great!"))
    provider = openai(**OPENAI)
    assert provider.tokens(provider.wire(request)) == Tokens(7 + 6 + 4 + 4 + 3)


@pytest.mark.parametrize(
    ("connect", "model"),
    [
        pytest.param(openai, "gpt-5.6", id="what GPT-5 adds to messages is not published"),
        pytest.param(openai, "gpt-99", id="an unknown model"),
        pytest.param(azure, "gpt-4o", id="a deployment of Azure, whatever its name"),
        pytest.param(anthropic, "claude-haiku-4-5", id="Anthropic"),
        pytest.param(gemini, "gemini-2.5-flash", id="Gemini"),
    ],
)
def test_other_counts_are_about_right(connect: Any, model: str) -> None:
    provider = connect(**(OPENAI if connect is openai else {}), model=model)
    request = chat(("system", "Be brief."), ("user", "What is the capital of France?"))
    tokens = provider.tokens(provider.wire(request))
    assert not tokens.is_exact
    assert 10 <= tokens.count <= 21  # 10 for the texts, and up to 11 for two messages


def test_a_gateway_counts_by_the_name_of_the_model() -> None:
    assert openai(model="openai/gpt-4o-2024-08-06").tokenizer == Tokenizer("o200k_base")
    assert openai(model="anthropic/claude-opus-4.8").tokenizer == Tokenizer(factor=1.45)


def test_newer_models_of_anthropic_make_more_tokens_of_a_text() -> None:
    text = "The same text, whoever reads it. " * 100
    older = anthropic(model="claude-sonnet-4-5").tokenizer.count(text)
    newer = anthropic(model="claude-opus-4-8").tokenizer.count(text)
    assert 1.25 <= newer / older <= 1.45


def test_a_custom_provider_or_echo_gets_an_estimate() -> None:
    provider = echo()
    wire = provider.wire(chat(("system", "Be brief."), ("user", "Hello")))
    assert provider.tokens(wire) == Tokens(14, is_exact=False)  # 134/64 and 75/64, 2 * 4, 3


def turn(role: Role, *pieces: str | Media, **more: Any) -> Turn:
    return Turn(role, tuple(map(part_of, pieces)), **more)


def test_tools_calls_and_thinking_are_read_in_the_order_of_the_vendors() -> None:
    call = Call("c1", "now", {"zone": "UTC"}, signature="EqoB" * 200)
    thought = Thinking("Hm.", "EqoB" * 200, "EqoB" * 200)
    turns = (
        turn("user", "When?"),
        turn("assistant", thinking=(thought,), calls=(call,)),
        turn("tool", "Noon.", answers="c1"),
        turn("system", "Be kind."),
    )
    tools = (Tool("now", "The time."),)
    sent = sent_of(
        PreparedRequest(
            messages=turns,
            system=turn("system", "Be brief."),
            tools=tools,
            settings=RequestSettings(max_output_tokens=20),
        )
    )
    assert [*zip(sent.roles, sent.texts, strict=True)] == [
        ("tools", '{"name":"now","description":"The time."}'),
        ("system", "Be brief."),
        ("user", "When?"),
        ("assistant", "Hm."),
        ("assistant", '{"name":"now","arguments":{"zone":"UTC"}}'),
        ("tool", "Noon."),
        ("system", "Be kind."),
    ]
    assert (sent.messages, sent.media, sent.has_data, sent.most_output) == (5, 0, True, 20)


def test_what_the_responses_api_adds_is_not_known() -> None:
    request = chat(("system", "2 + 2 = 4"), ("user", "tiktoken is great!"))
    provider = responses(**OPENAI, model="gpt-4o")
    assert provider.tokens(provider.wire(request)) == Tokens(24, is_exact=False)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_media_are_unknown(role: Role) -> None:
    sent = sent_of(PreparedRequest(messages=(turn(role, Media.of(image()), "Hi"),)))
    assert (sent.texts, sent.media) == (("Hi",), 1)


def test_no_prefix_is_longer_than_the_media_that_are_the_same() -> None:
    one, two = (
        sent_of(PreparedRequest(messages=(turn("user", Media.of(image(seed=seed)), "Hi"),)))
        for seed in (1, 2)
    )
    assert one.texts == two.texts
    assert one.roles != two.roles


def test_a_count_without_that_of_an_image_is_not_exact() -> None:
    provider = openai(**OPENAI)
    given = chat(("system", "2 + 2 = 4"), ("user", ("tiktoken is great!", Media.of(image()))))
    tokens = provider.tokens(provider.wire(given))
    assert tokens == Tokens(7 + 6 + 4 + 4 + 3, is_exact=False, media=1)


WITHOUT_PACKAGE = """
import sys
sys.modules["bpe_openai"] = None
from multiturn.model.tokens import Tokenizer, estimated_tokens
tokenizer = Tokenizer("o200k_base")
text = "Some text, then."
assert not tokenizer.is_exact
assert tokenizer.count(text) == round(estimated_tokens(text))
"""


def test_without_the_package_the_count_is_an_estimate() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_PACKAGE], check=False).returncode == 0
