"""The wire rules: each is met, repaired by its name, or refused before anything is sent."""

import json
import math
from typing import Any

import pytest

from loopback import Server
from multiturn import ProviderError, ProviderRequest
from multiturn.providers.rules import RULES
from vendors import (
    Connect,
    anthropic,
    ask,
    azure,
    chat,
    each_provider,
    each_vendor,
    gemini,
    openai,
    refusal,
)

SYSTEM = ("system", "Be brief.")
HELLO = ("user", "Hello")
HI = ("assistant", "Hi")
LATE = ("system", "Late.")

VENDOR_OF = {
    **dict.fromkeys((*(f"A{number}" for number in range(1, 11)),), "Anthropic"),
    **dict.fromkeys((*(f"G{number}" for number in range(1, 8)),), "Gemini"),
    **dict.fromkeys(("O1", "O2", "O3", "O7", "O8"), "OpenAI"),
    **dict.fromkeys(("O4", "O5"), "OpenAI-compatible"),
    **dict.fromkeys(("F1", "F2"), "command lines"),
    **dict.fromkeys(("F3", "F4", "F5"), "agents"),
    "R1": "GitHub",
    **dict.fromkeys(("C1", "C2", "C3"), "all"),
}

each_alternating_vendor = pytest.mark.parametrize(
    ("connect", "merging"),
    [pytest.param(anthropic, "A6", id="Anthropic"), pytest.param(gemini, "G3", id="Gemini")],
)
each_strict_vendor = pytest.mark.parametrize(
    ("connect", "apart", "empty"),
    [
        pytest.param(anthropic, "A1", "A3", id="Anthropic"),
        pytest.param(gemini, "G1", "G5", id="Gemini"),
    ],
)


def turns(connect: Connect, request: ProviderRequest, **settings: Any) -> list[tuple[str, str]]:
    """Return the turns of a body, whatever the vendor calls them."""
    wire = connect(**settings).wire(request)
    body = decoded(wire.body)
    if wire.provider == "gemini":
        return [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
    return [(message["role"], message["content"]) for message in body["messages"]]


def decoded(body: bytes) -> Any:
    return json.loads(body)


def repairs(connect: Connect, request: ProviderRequest, **settings: Any) -> list[str]:
    """Return the ids of the rules that a request was repaired for."""
    return [repair.partition(":")[0] for repair in connect(**settings).wire(request).repairs]


@pytest.mark.parametrize("rule", VENDOR_OF)
def test_the_table_has_the_rule_with_its_source(rule: str) -> None:
    assert RULES[rule].id == rule
    assert RULES[rule].vendor.startswith(VENDOR_OF[rule])
    assert RULES[rule].rule.strip()
    assert RULES[rule].source.strip()


def test_every_rule_stands_under_its_own_id() -> None:
    assert {id_: rule.id for id_, rule in RULES.items()} == {id_: id_ for id_ in RULES}


@each_provider
def test_a_conversation_that_meets_all_rules_is_not_repaired(connect: Connect) -> None:
    assert connect().wire(chat(SYSTEM, HELLO, HI, ("user", "Help"))).repairs == ()


@each_strict_vendor
def test_system_messages_in_front_become_one(connect: Connect, apart: str, empty: str) -> None:
    request = chat(SYSTEM, ("system", "Be kind."), HELLO)
    assert repairs(connect, request) == [apart]
    assert b'"Be brief.\\n\\nBe kind."' in connect().wire(request).body
    assert turns(connect, request) == [HELLO]


@each_strict_vendor
@pytest.mark.parametrize("messages", [(SYSTEM, HELLO, LATE, HELLO), (HELLO, LATE)])
def test_a_later_system_message_is_refused(
    connect: Connect, apart: str, empty: str, messages: Any
) -> None:
    error = refusal(connect(), chat(*messages))
    assert error.kind == "refused"
    assert apart in str(error)
    assert "later_system" in str(error)


def test_azure_takes_a_later_system_message() -> None:
    messages = [SYSTEM, HELLO, ("system", "Late."), HELLO]
    assert turns(azure, chat(*messages)) == messages
    assert repairs(azure, chat(*messages)) == []


@each_strict_vendor
def test_an_empty_system_message_is_left_out(connect: Connect, apart: str, empty: str) -> None:
    request = chat(("system", " \n"), HELLO)
    body = decoded(connect().wire(request).body)
    assert repairs(connect, request) == [empty]
    assert not body.get("system")
    assert body.get("system", "absent") == body.get("systemInstruction", "absent") == "absent"


@pytest.mark.parametrize(
    ("connect", "rule"),
    [pytest.param(anthropic, "A2", id="A2"), pytest.param(gemini, "G2", id="G2")],
)
@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(chat(SYSTEM), id="a system message alone"),
        pytest.param(chat(SYSTEM, ("user", "\n ")), id="an empty user message"),
        pytest.param(ProviderRequest(question=""), id="an empty question"),
    ],
)
def test_a_prompt_of_nothing_but_a_system_message_is_refused(
    connect: Connect, rule: str, request_: ProviderRequest
) -> None:
    error = refusal(connect(), request_)
    assert error.kind == "refused"
    assert rule in str(error)
    assert "references_only" in str(error)
    assert "filter_empty" in str(error)


@each_provider
def test_without_a_user_or_an_assistant_turn_nothing_is_sent(
    connect: Connect, server: Server
) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(connect(server.url), chat(SYSTEM, ("system", "And kind.")))
    assert caught.value.kind == "refused"
    assert (caught.value.retries, caught.value.wire) == (0, b"")
    assert server.requests == []


@each_strict_vendor
@pytest.mark.parametrize(
    "blank",
    [
        pytest.param(("assistant", ""), id="an empty assistant message"),
        pytest.param(("user", " \n\t"), id="a blank user message"),
        pytest.param(("assistant", "\u00a0\u2003"), id="a message of odd spaces"),
    ],
)
def test_an_empty_turn_is_left_out(
    connect: Connect, apart: str, empty: str, blank: tuple[str, str]
) -> None:
    request = chat(SYSTEM, HELLO, blank)
    assert turns(connect, request) == [HELLO]
    assert repairs(connect, request) == [empty]


@each_alternating_vendor
def test_turns_that_an_empty_one_parted_are_merged(connect: Connect, merging: str) -> None:
    request = chat(SYSTEM, HELLO, ("assistant", " "), ("user", "Anyone?"))
    assert turns(connect, request) == [("user", "Hello\n\nAnyone?")]
    assert repairs(connect, request) == ["A3" if merging == "A6" else "G5", merging]


@each_alternating_vendor
def test_neighbors_of_one_role_are_merged(connect: Connect, merging: str) -> None:
    request = chat(SYSTEM, HELLO, ("user", "Anyone?"), HI, ("assistant", "Yes?"), ("user", "Help"))
    assistant = "model" if merging == "G3" else "assistant"
    assert turns(connect, request) == [
        ("user", "Hello\n\nAnyone?"),
        (assistant, "Hi\n\nYes?"),
        ("user", "Help"),
    ]
    assert repairs(connect, request) == [merging, merging]


def test_azure_takes_neighbors_of_one_role() -> None:
    messages = [SYSTEM, HELLO, ("user", "Anyone?"), HI, ("assistant", "Yes?")]
    assert turns(azure, chat(*messages)) == messages
    assert repairs(azure, chat(*messages)) == []


NEWER = "claude-opus-4-6 claude-sonnet-4-6 claude-opus-4-6-20260205 claude-opus-4.6 claude-opus-4-7"
NEWER += " claude-opus-4-10 claude-opus-5 claude-haiku-5-20270101 claude-sonnet-5-1"
NEWER += " anthropic/claude-opus-4.6 us.anthropic.claude-opus-4-6-v1:0 claude-opus-4-6@20260205"
OLDER = "claude-sonnet-4-5 claude-sonnet-4-5-20250929 claude-haiku-4-5 claude-opus-4-1-20250805"
OLDER += " claude-opus-4-20250514 claude-sonnet-4@20250514 claude-opus-4-0 claude-2.1"
OLDER += " claude-3-5-sonnet-20241022 claude-3-haiku-20240307"
OLDER += " us.anthropic.claude-sonnet-4-5-20250929-v1:0 claude-instant-1.2"


@pytest.mark.parametrize("model", NEWER.split())
def test_a4_from_4_6_on_a_final_assistant_message_is_refused(model: str) -> None:
    error = refusal(anthropic(model=model), chat(SYSTEM, HELLO, HI))
    assert error.kind == "refused"
    assert str(error).startswith("A4: ")
    assert "later_system: merge" in str(error)
    assert "references_only: keep" in str(error)
    assert str(error).endswith("; set prefill: true if the model takes one")


@pytest.mark.parametrize("model", OLDER.split())
def test_a4_older_models_take_a_final_assistant_message(model: str) -> None:
    assert turns(anthropic, chat(SYSTEM, HELLO, HI), model=model) == [HELLO, HI]


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-5", "of-my-gateway"])
def test_a4_the_setting_knows_better_than_the_name(model: str) -> None:
    request = chat(SYSTEM, HELLO, HI)
    assert turns(anthropic, request, model=model, prefill=True) == [HELLO, HI]
    assert "A4" in str(refusal(anthropic(model=model, prefill=False), request))


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-5"])
def test_a4_asks_nothing_of_a_conversation_that_the_user_ends(model: str) -> None:
    assert turns(anthropic, chat(SYSTEM, HELLO, HI, HELLO), model=model) == [HELLO, HI, HELLO]


def test_a4_an_empty_message_at_the_end_does_not_hide_the_assistants() -> None:
    request = chat(SYSTEM, HELLO, HI, ("user", " "))
    assert "A4" in str(refusal(anthropic(model="claude-opus-4-6"), request))


def test_a5_white_space_at_the_end_of_the_assistant_message_is_cut() -> None:
    request = chat(SYSTEM, HELLO, ("assistant", "  1 + 1 = \n"))
    assert turns(anthropic, request) == [HELLO, ("assistant", "  1 + 1 =")]
    assert repairs(anthropic, request) == ["A5"]


def test_a5_leaves_other_white_space_alone() -> None:
    messages = [("user", " Hello \n"), ("assistant", "Hi \n"), ("user", "Help \n")]
    assert turns(anthropic, chat(SYSTEM, *messages)) == messages
    assert repairs(anthropic, chat(SYSTEM, *messages)) == []


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([SYSTEM, HI, HELLO], id="the assistant begins"),
        pytest.param([SYSTEM, ("user", " "), HI, HELLO], id="an empty turn before the assistant's"),
        pytest.param([SYSTEM, HI], id="the assistant speaks alone"),
    ],
)
def test_g4_a_conversation_that_the_user_does_not_begin_is_refused(messages: Any) -> None:
    error = refusal(gemini(), chat(*messages))
    assert error.kind == "refused"
    assert "G4" in str(error)
    assert "later_system: merge" in str(error)
    assert "references_only: keep" in str(error)


@pytest.mark.parametrize(
    "model", ["gemini-3.6-flash", "gemini-3.6-pro-preview", "gemini-4-flash", "gemini-3.10-flash"]
)
def test_g4_from_3_6_on_a_final_assistant_message_is_refused(model: str) -> None:
    request = chat(SYSTEM, HELLO, HI)
    error = refusal(gemini(model=model), request)
    assert str(error).startswith("G4: ")
    assert "later_system: merge" in str(error)
    assert "references_only: keep" in str(error)
    assert str(error).endswith("; set prefill: true if the model takes one")
    assert turns(gemini, request, model=model, prefill=True)[-1] == ("model", "Hi")


@pytest.mark.parametrize(
    "model", ["gemini-2.5-flash", "gemini-3.5-flash", "gemini-3-pro-preview", "gemini-2.5-pro-001"]
)
def test_g4_older_models_take_a_final_assistant_message(model: str) -> None:
    request = chat(SYSTEM, HELLO, HI)
    assert turns(gemini, request, model=model) == [HELLO, ("model", "Hi")]
    assert "G4" in str(refusal(gemini(model=model, prefill=False), request))


@pytest.mark.parametrize(
    ("connect", "rule", "model"),
    [
        (anthropic, "A4", "claude-opus-latest"),
        (anthropic, "A4", "claude-3-7-sonnet-latest"),
        (anthropic, "A4", "of-my-gateway"),
        (anthropic, "A4", "claude-preview"),
        (gemini, "G4", "gemini-flash-latest"),
        (gemini, "G4", "of-my-gateway"),
    ],
)
def test_a_name_that_does_not_tell_the_version_asks_for_prefill(
    connect: Connect, rule: str, model: str
) -> None:
    request = chat(SYSTEM, HELLO, HI)
    error = str(refusal(connect(model=model), request))
    assert error.startswith(f"{rule}: ")
    assert f"the name {model!r} does not tell the version; " in error
    assert error.endswith("; set prefill: true if the model takes one")
    assert len(turns(connect, request, model=model, prefill=True)) == 2
    assert "does not tell" not in str(refusal(connect(model=model, prefill=False), request))


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-5", "of-my-gateway"])
def test_a10_later_system_messages_are_kept_where_the_target_says_so(model: str) -> None:
    request = chat(SYSTEM, ("system", "Be kind."), HELLO, LATE)
    settings = {"model": model, "later_system": "keep"}
    assert turns(anthropic, request, **settings) == [HELLO, LATE]
    assert decoded(anthropic(**settings).wire(request).body)["system"] == "Be brief.\n\nBe kind."
    assert repairs(anthropic, request, **settings) == ["A1"]


def test_a10_they_are_refused_for_older_models_and_after_the_assistant() -> None:
    older = anthropic(model="claude-opus-4-7", later_system="keep")
    assert str(refusal(older, chat(SYSTEM, HELLO, LATE))) == (
        "A10: from 4.8 on, system may follow a user message (Anthropic); the model is older;"
        " later_system: merge of consolidate_system avoids it"
    )
    newer = anthropic(model="claude-opus-4-8", later_system="keep")
    error = refusal(newer, chat(SYSTEM, HELLO, HI, LATE, HELLO))
    assert "one follows a message of the assistant" in str(error)


def test_a1_says_that_a_target_may_keep_later_system_messages() -> None:
    assert "later_system: keep of the target" in str(refusal(anthropic(), chat(HELLO, LATE)))


HIGHEST: dict[Any, tuple[str, float]] = {
    anthropic: ("A9", 1),
    gemini: ("G7", 2),
    azure: ("O7", 2),
}


@pytest.mark.parametrize("connect", HIGHEST)
def test_a_temperature_is_no_higher_than_the_vendor_takes(connect: Connect) -> None:
    rule, highest = HIGHEST[connect]
    connect().wire(chat(HELLO, temperature=highest))
    error = refusal(connect(), chat(HELLO, temperature=highest + 0.1))
    assert str(error).startswith(f"{rule}: a temperature must not exceed {highest}")
    assert str(error).endswith(f"; this one is {highest + 0.1}")


def test_o7_is_for_openais_own_server_only() -> None:
    request = chat(HELLO, temperature=2.5)
    own = openai(base_url="https://api.openai.com/v1/")
    assert str(refusal(own, request)).startswith("O7: ")
    assert decoded(openai().wire(request).body)["temperature"] == 2.5


@each_vendor
@pytest.mark.parametrize("temperature", [math.nan, math.inf, -math.inf, -0.1])
def test_c2_a_temperature_is_finite_and_not_negative(connect: Connect, temperature: float) -> None:
    error = refusal(connect(), chat(HELLO, temperature=temperature))
    assert str(error) == (
        f"C2: a temperature must be finite and not negative; this one is {temperature:g}"
    )


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-4-8-20260701", "claude-opus-5"])
def test_a7_newer_models_take_no_temperature(model: str) -> None:
    error = str(refusal(anthropic(model=model), chat(HELLO, temperature=0)))
    assert error == (
        "A7: from 4.8 on, temperature must not be set (Anthropic);"
        " set temperature: omit in the target"
    )
    assert "A7" in str(refusal(anthropic(model=model, temperature=0), chat(HELLO)))
    assert anthropic(model=model).wire(chat(SYSTEM, HELLO)).repairs == ()


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-4-5", "claude-opus-latest"])
def test_a7_other_models_take_a_temperature(model: str) -> None:
    body = anthropic(model=model).wire(chat(HELLO, temperature=0.5)).body
    assert decoded(body)["temperature"] == 0.5


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-mini", "gpt-5-mini-2025-08-07", "o1", "o4-mini"])
def test_o8_models_that_reason_take_no_temperature_but_1(model: str) -> None:
    error = refusal(azure(model=model), chat(HELLO, temperature=0))
    assert str(error) == (
        "O8: o1, o3, o4 and gpt-5 take no temperature but 1 (OpenAI);"
        " set temperature: omit in the target"
    )
    own = openai(base_url="https://api.openai.com/v1", model=model)
    assert "O8" in str(refusal(own, chat(HELLO, temperature=0)))
    azure(model=model).wire(chat(HELLO, temperature=1))
    azure(model=model).wire(chat(HELLO))
    openai(model=model).wire(chat(HELLO, temperature=0))  # another server


@pytest.mark.parametrize("model", ["gpt-5-chat-latest", "gpt-5.1", "gpt-4o", "my-o1"])
def test_o8_other_models_take_a_temperature(model: str) -> None:
    assert decoded(azure(model=model).wire(chat(HELLO, temperature=0)).body)["temperature"] == 0


@each_vendor
def test_c3_a_target_may_omit_the_temperature(connect: Connect) -> None:
    provider = connect(temperature="omit", model="claude-opus-4-8")
    wire = provider.wire(chat(SYSTEM, HELLO, temperature=0.5))
    assert wire.repairs == ("C3: left out the temperature 0.5",)
    assert b"temperature" not in wire.body
    assert provider.wire(chat(SYSTEM, HELLO)).repairs == ()


@pytest.mark.parametrize(
    ("connect", "rule"),
    [
        pytest.param(azure, "O1", id="Azure OpenAI"),
        pytest.param(anthropic, "A1", id="Anthropic"),
        pytest.param(gemini, "G3", id="Gemini"),
    ],
)
def test_a_tool_turn_is_sent_as_a_user_turn_that_says_so(connect: Connect, rule: str) -> None:
    request = chat(SYSTEM, HELLO, HI, ("tool", "4"))
    assert turns(connect, request)[-1] == ("user", "[Tool]: 4")
    assert repairs(connect, request) == [rule]


@each_alternating_vendor
def test_a_tool_turn_is_merged_with_the_users(connect: Connect, merging: str) -> None:
    request = chat(SYSTEM, HELLO, ("tool", "4"), ("tool", "5"))
    assert turns(connect, request) == [("user", "Hello\n\n[Tool]: 4\n\n[Tool]: 5")]
    assert repairs(connect, request).count(merging) >= 1


@pytest.mark.parametrize(
    ("settings", "role"),
    [
        pytest.param({}, "system", id="by default"),
        pytest.param({"system_role": "developer"}, "developer", id="where the target says so"),
    ],
)
def test_o2_the_role_of_the_system_message_is(settings: dict[str, str], role: str) -> None:
    messages = turns(azure, chat(SYSTEM, HELLO, ("system", "Late.")), **settings)
    assert messages == [(role, "Be brief."), HELLO, (role, "Late.")]
