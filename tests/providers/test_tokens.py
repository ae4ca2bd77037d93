"""Tokens of a request: those of its texts, counted or estimated, and what a vendor adds."""

import io
import subprocess
import sys
from typing import Any

import pytest
from PIL import Image

from media_files import image, pdf
from multiturn import Call, Media, Thinking, Tool
from multiturn.model.image_tokens import ImageRule
from multiturn.model.request import PreparedRequest, part_of
from multiturn.model.settings import RequestSettings
from multiturn.model.tokens import Tokenizer, Tokens, estimated_tokens, sent_of
from multiturn.model.turns import Role, Turn
from multiturn.providers.models import Abilities
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
    assert (sent.messages, sent.media, sent.has_data) == (5, (), True)


def test_what_the_responses_api_adds_is_not_known() -> None:
    request = chat(("system", "2 + 2 = 4"), ("user", "tiktoken is great!"))
    provider = responses(**OPENAI, model="gpt-4o")
    assert provider.tokens(provider.wire(request)) == Tokens(24, is_exact=False)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_media_are_apart_from_the_texts(role: Role) -> None:
    shot = Media.of(image())
    sent = sent_of(PreparedRequest(messages=(turn(role, shot, "Hi"),)))
    assert (sent.texts, sent.media) == (("Hi",), (shot,))


@pytest.mark.parametrize(
    ("vendor", "model", "detail", "size", "expected"),
    [
        # OpenAI's guide to images: its own examples, and those worked out by hand from its rules.
        pytest.param("openai", "gpt-4o", "high", (1024, 1024), 765, id="four tiles"),
        pytest.param("openai", "gpt-4o-2024-08-06", None, (2048, 4096), 1105, id="six tiles"),
        pytest.param("openai", "gpt-4o", "low", (4096, 8192), 85, id="low detail"),
        pytest.param("openai", "gpt-4o", "auto", (512, 512), 255, id="one tile, not enlarged"),
        pytest.param("openai", "gpt-5.1", None, (1920, 1080), 70 + 6 * 140, id="another base"),
        pytest.param("openai", "gpt-5.4", "high", (1024, 1024), 1229, id="1024 patches x 1.2"),
        pytest.param("openai", "gpt-5.4", None, (2048, 2048), 3000, id="2500 patches x 1.2"),
        pytest.param("openai", "gpt-5.5", "high", (1920, 1080), 2448, id="60 x 34 patches"),
        pytest.param("openai", "gpt-5.6-sol", None, (4000, 4000), 18750, id="125 x 125 patches"),
        pytest.param("openai", "gpt-4o", "original", (9, 9), None, id="a detail it does not have"),
        pytest.param("openai", "gpt-9", None, (9, 9), None, id="an unknown model"),
        # Anthropic's guide to images.
        pytest.param("anthropic", "claude-opus-4-7", None, (1000, 1000), 1296, id="36 x 36"),
        pytest.param("anthropic", "claude-opus-4-7", None, (1920, 1080), 2691, id="69 x 39"),
        pytest.param("anthropic", "claude-opus-5", None, (3840, 2160), 4784, id="92 x 52"),
        pytest.param("anthropic", "claude-sonnet-4-6", None, (3840, 2160), 1560, id="1456 x 819"),
        pytest.param("anthropic", "claude-sonnet-4-6", None, (1075, 1520), 1551, id="924 x 1307"),
        pytest.param("anthropic", "claude-sonnet-4-6", None, (1, 90000), 56, id="a line"),
        # Google's guides to images and to media resolution.
        pytest.param("gemini", "gemini-2.5-flash", None, (384, 384), 258, id="a small image"),
        pytest.param("gemini", "gemini-2.5-pro", None, (960, 540), 1548, id="six crops"),
        pytest.param("gemini", "gemini-3.1-pro-preview", None, (9, 9), 1120, id="always the same"),
    ],
)
def test_an_image_has_the_tokens_of_the_published_formula(
    vendor: str, model: str, detail: str | None, size: tuple[int, int], expected: int | None
) -> None:
    file = io.BytesIO()
    Image.new("1", size).save(file, "PNG")
    shot = Media.of(file.getvalue(), detail=detail)
    assert Abilities(vendor, model).image_tokens(shot) == expected


def test_a_smaller_image_has_whole_patches() -> None:
    """OpenAI's example of a budget of 1,536 patches: 1800 x 2400 becomes 1056 x 1408."""
    assert ImageRule(form="patches", each=1, most=1536).tokens(1800, 2400) == 33 * 44


def test_of_a_document_or_an_address_nothing_is_known() -> None:
    known = Abilities("openai", "gpt-4o")
    assert known.image_tokens(Media.of(pdf())) is None
    address = Media("image", path=None, url="https://example.org/a.png")
    assert known.image_tokens(address) is None
    assert known.image_tokens(Media.of(b"\x89PNG\r\n\x1a\n")) is None  # no size in its header


def test_no_prefix_is_longer_than_the_media_that_are_the_same() -> None:
    one, two = (
        sent_of(PreparedRequest(messages=(turn("user", Media.of(image(seed=seed)), "Hi"),)))
        for seed in (1, 2)
    )
    assert one.texts == two.texts
    assert one.roles != two.roles


def test_no_prefix_is_longer_though_the_last_media_are_the_same() -> None:
    one, two = (
        sent_of(PreparedRequest(messages=(turn("user", first, Media.of(image(seed=3)), "Hi"),)))
        for first in (Media.of(image(seed=1)), Media.of(image(seed=2)))
    )
    assert one.texts == two.texts == ("Hi",)
    assert one.roles != two.roles


def test_a_count_with_media_is_not_exact_and_has_those_that_are_known() -> None:
    provider = openai(**OPENAI)
    media = Media.of(image()), Media.of(pdf())
    given = chat(("system", "2 + 2 = 4"), ("user", ("tiktoken is great!", *media)))
    tokens = provider.tokens(provider.wire(given))
    assert tokens == Tokens(7 + 6 + 4 + 4 + 3 + 85 + 170, is_exact=False, media=1)


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
