"""The wire rules: each is met, repaired by its name, or refused before anything is sent."""

import json
import math
from typing import Any

import pytest

from loopback import Server
from multiturn import ProviderError, ProviderRequest
from vendors import (
    VENDORS,
    Connect,
    anthropic,
    ask,
    azure,
    chat,
    each_vendor,
    echo,
    gemini,
    openai,
    refusal,
)

Turn = tuple[str, str]
SYSTEM = ("system", "Be brief.")
HELLO = ("user", "Hello")
HI = ("assistant", "Hi")
LATE = ("system", "Late.")
KIND = ("system", "Be kind.")
TOOL = ("tool", "4")
BLANK = ("user", " \n\t")
ANYONE = ("user", "Anyone?")
YES = ("assistant", "Yes?")

each_strict_vendor = pytest.mark.parametrize(
    ("connect", "ids"),
    [
        pytest.param(anthropic, {"system": "A1", "blank": "A3", "runs": "A6"}, id="Anthropic"),
        pytest.param(gemini, {"system": "G1", "blank": "G5", "runs": "G3"}, id="Gemini"),
    ],
)


def laid_out(provider: Any, request: ProviderRequest) -> tuple[str | None, list[Turn], list[str]]:
    """Return the system message, the turns and the ids of the repairs, whatever the vendor."""
    wire = provider.wire(request)
    body = json.loads(wire.body)
    ids = [repair.partition(":")[0] for repair in wire.repairs]
    if wire.provider == "gemini":
        roles = {"model": "assistant", "user": "user"}
        turns = [(roles[turn["role"]], turn["parts"][0]["text"]) for turn in body["contents"]]
        system = body.get("systemInstruction")
        return system and system["parts"][0]["text"], turns, ids
    turns = [(message["role"], message["content"]) for message in body["messages"]]
    return body.get("system"), turns, ids


def turns_of(provider: Any, *messages: Turn) -> list[Turn]:
    return laid_out(provider, chat(*messages))[1]


def temperature_of(provider: Any, **given: Any) -> Any:
    body = json.loads(provider.wire(chat(HELLO, **given)).body)
    return body.get("generationConfig", body)["temperature"]


@pytest.mark.parametrize("connect", [*VENDORS.values(), echo])
def test_a_conversation_that_meets_all_rules_is_not_repaired(connect: Connect) -> None:
    assert connect().wire(chat(SYSTEM, HELLO, HI, ("user", "Help"))).repairs == ()


@each_strict_vendor
@pytest.mark.parametrize(
    ("messages", "system", "turns", "rules"),
    [
        pytest.param(
            *([SYSTEM, KIND, HELLO], "Be brief.\n\nBe kind.", [HELLO], ["system"]),
            id="system messages in front become one",
        ),
        pytest.param(
            *([("system", " \n"), HELLO], None, [HELLO], ["blank"]),
            id="an empty system message is left out",
        ),
        pytest.param(
            *([SYSTEM, HELLO, ("assistant", "")], "Be brief.", [HELLO], ["blank"]),
            id="an empty assistant message is left out",
        ),
        pytest.param(
            *([SYSTEM, HELLO, BLANK], "Be brief.", [HELLO], ["blank"]),
            id="a blank user message is left out",
        ),
        pytest.param(
            *([SYSTEM, HELLO, ("assistant", "\u00a0\u2003")], "Be brief.", [HELLO], ["blank"]),
            id="a message of odd spaces is left out",
        ),
        pytest.param(
            [SYSTEM, HELLO, ("assistant", " "), ANYONE],
            *("Be brief.", [("user", "Hello\n\nAnyone?")], ["blank", "runs"]),
            id="turns that an empty one parted are merged",
        ),
        pytest.param(
            [SYSTEM, HELLO, ANYONE, HI, YES, HELLO],
            "Be brief.",
            [("user", "Hello\n\nAnyone?"), ("assistant", "Hi\n\nYes?"), HELLO],
            ["runs", "runs"],
            id="neighbors of one role are merged",
        ),
    ],
)
def test_a_prompt_is_repaired(
    connect: Connect,
    ids: dict[str, str],
    messages: list[Turn],
    system: str | None,
    turns: list[Turn],
    rules: list[str],
) -> None:
    repairs = [ids[rule] for rule in rules]
    assert laid_out(connect(), chat(*messages)) == (system, turns, repairs)


@each_strict_vendor
@pytest.mark.parametrize("messages", [(SYSTEM, HELLO, LATE, HELLO), (HELLO, LATE)])
def test_a_later_system_message_is_refused(
    connect: Connect, ids: dict[str, str], messages: list[Turn]
) -> None:
    error = refusal(connect(), chat(*messages))
    assert error.kind == "refused"
    assert f"{ids['system']}: " in str(error)
    assert "later_system: merge of consolidate_system" in str(error)
    keep = "; so does later_system: keep of the target, if the model takes one"
    assert (keep in str(error)) == (connect is anthropic)


@pytest.mark.parametrize(
    "messages", [[SYSTEM, HELLO, LATE, HELLO], [SYSTEM, HELLO, ANYONE, HI, YES]]
)
def test_azure_takes_later_system_messages_and_neighbors_of_one_role(messages: Any) -> None:
    assert laid_out(azure(), chat(*messages)) == (None, messages, [])


@pytest.mark.parametrize(("connect", "rule"), [(anthropic, "A2"), (gemini, "G2"), (azure, "C1")])
@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(chat(SYSTEM, KIND), id="system messages alone"),
        pytest.param(chat(SYSTEM, BLANK), id="an empty user message"),
        pytest.param(ProviderRequest(question=""), id="an empty question"),
    ],
)
def test_a_prompt_of_nothing_but_system_messages_is_refused(
    connect: Connect, rule: str, request_: ProviderRequest
) -> None:
    error = refusal(connect(), request_)
    assert error.kind == "refused"
    assert f"{rule}: " in str(error)
    assert "; add a user message; references_only: keep of filter_empty" in str(error)


@pytest.mark.parametrize("connect", [openai, echo])
def test_what_is_refused_is_not_sent(connect: Connect, server: Server) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(connect(server.url), chat(SYSTEM))
    assert (caught.value.kind, caught.value.retries, caught.value.wire) == ("refused", 0, b"")
    assert server.requests == []


def test_echo_needs_no_user_turn_at_the_end() -> None:
    assert laid_out(echo(), chat(SYSTEM, HELLO, HI))[2] == []


NEWER = "claude-opus-4-6 claude-sonnet-4-6 claude-opus-4-6-20260205 claude-opus-4.6 claude-opus-4-7"
NEWER += " claude-opus-4-10 claude-opus-5 claude-haiku-5-20270101 claude-sonnet-5-1"
NEWER += " anthropic/claude-opus-4.6 us.anthropic.claude-opus-4-6-v1:0 claude-opus-4-6@20260205"
NEWER += " gemini-3.6-flash gemini-3.6-pro-preview gemini-4-flash gemini-3.10-flash"
OLDER = "claude-sonnet-4-5 claude-sonnet-4-5-20250929 claude-haiku-4-5 claude-opus-4-1-20250805"
OLDER += " claude-opus-4-20250514 claude-sonnet-4@20250514 claude-opus-4-0 claude-2.1"
OLDER += " claude-3-5-sonnet-20241022 claude-3-haiku-20240307"
OLDER += " us.anthropic.claude-sonnet-4-5-20250929-v1:0 claude-instant-1.2"
OLDER += " gemini-2.5-flash gemini-3.5-flash gemini-3-pro-preview gemini-2.5-pro-001"
UNKNOWN = "claude-opus-latest claude-3-7-sonnet-latest of-my-gateway claude-preview"
UNKNOWN += " gemini-flash-latest gemini-of-my-gateway"


def rule_of(model: str) -> tuple[Connect, str]:
    return (gemini, "G4: ") if "gemini" in model else (anthropic, "A4: ")


@pytest.mark.parametrize("model", (f"{NEWER} {UNKNOWN}").split())
def test_a4_and_g4_newer_models_do_not_continue_the_assistant(model: str) -> None:
    connect, rule = rule_of(model)
    error = refusal(connect(model=model), chat(SYSTEM, HELLO, HI))
    assert error.kind == "refused"
    assert str(error).startswith(rule)
    assert "later_system: merge" in str(error)
    assert "references_only: keep" in str(error)
    assert str(error).endswith("; set prefill: true if the model takes one")
    unknown = f"the name {model!r} does not tell the version; "
    assert (unknown in str(error)) == (model in UNKNOWN.split())


@pytest.mark.parametrize("model", OLDER.split())
def test_a4_and_g4_older_models_do(model: str) -> None:
    connect, _ = rule_of(model)
    assert turns_of(connect(model=model), SYSTEM, HELLO, HI) == [HELLO, HI]


@pytest.mark.parametrize(
    "model", ["claude-opus-4-6", "claude-sonnet-4-5", "of-my-gateway", "gemini-4", "gemini-2.5-pro"]
)
def test_a4_and_g4_the_setting_knows_better_than_the_name(model: str) -> None:
    connect, rule = rule_of(model)
    assert turns_of(connect(model=model, prefill=True), SYSTEM, HELLO, HI) == [HELLO, HI]
    error = refusal(connect(model=model, prefill=False), chat(SYSTEM, HELLO, HI))
    assert str(error).startswith(rule)
    assert "does not tell" not in str(error)
    assert turns_of(connect(model=model, prefill=False), HELLO, HI, HELLO) == [HELLO, HI, HELLO]


def test_a4_an_empty_message_at_the_end_does_not_hide_the_assistants() -> None:
    request = chat(SYSTEM, HELLO, HI, ("user", " "))
    assert "A4" in str(refusal(anthropic(model="claude-opus-4-6"), request))


def test_a5_white_space_at_the_end_of_the_last_assistant_message_only_is_cut() -> None:
    messages = [("user", " Hello \n"), ("assistant", "Hi \n"), ("user", "1 + 1? \n")]
    last = ("assistant", "  1 + 1 = \n")
    assert laid_out(anthropic(), chat(SYSTEM, *messages))[1:] == (messages, [])
    assert laid_out(anthropic(), chat(SYSTEM, *messages, last))[1:] == (
        [*messages, ("assistant", "  1 + 1 =")],
        ["A5"],
    )


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([SYSTEM, HI, HELLO], id="the assistant begins"),
        pytest.param([SYSTEM, BLANK, HI, HELLO], id="an empty turn before the assistant's"),
        pytest.param([SYSTEM, HI], id="the assistant speaks alone"),
    ],
)
def test_g4_a_conversation_that_the_user_does_not_begin_is_refused(messages: Any) -> None:
    error = refusal(gemini(), chat(*messages))
    assert error.kind == "refused"
    assert str(error).startswith("G4: ")
    assert "begin with a user message; if this one was a system message, later_system: merge" in (
        str(error)
    )
    assert "references_only: keep" in str(error)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-5", "of-my-gateway"])
def test_a10_later_system_messages_are_kept_where_the_target_says_so(model: str) -> None:
    provider = anthropic(model=model, later_system="keep")
    assert laid_out(provider, chat(SYSTEM, KIND, HELLO, LATE)) == (
        *("Be brief.\n\nBe kind.", [HELLO, LATE]),
        ["A1"],
    )


def test_a10_they_are_refused_for_older_models_and_after_the_assistant() -> None:
    older = anthropic(model="claude-opus-4-7", later_system="keep")
    assert str(refusal(older, chat(SYSTEM, HELLO, LATE))) == (
        "A10: from 4.8 on, system may follow a user message (Anthropic); the model is older;"
        " later_system: merge of consolidate_system avoids it"
    )
    newer = anthropic(model="claude-opus-4-8", later_system="keep")
    error = refusal(newer, chat(SYSTEM, HELLO, HI, LATE, HELLO))
    assert "one follows a message of the assistant" in str(error)


@pytest.mark.parametrize(
    ("connect", "rule", "highest"), [(anthropic, "A9", 1), (gemini, "G7", 2), (azure, "O7", 2)]
)
def test_a_temperature_is_no_higher_than_the_vendor_takes(
    connect: Connect, rule: str, highest: float
) -> None:
    assert temperature_of(connect(), temperature=highest) == highest
    error = refusal(connect(), chat(HELLO, temperature=highest + 0.1))
    assert str(error).startswith(f"{rule}: a temperature must not exceed {highest}")
    assert str(error).endswith(f"; this one is {highest + 0.1}")


def test_o7_is_for_openais_own_server_only() -> None:
    own = openai(base_url="https://api.openai.com/v1/")
    assert str(refusal(own, chat(HELLO, temperature=2.5))).startswith("O7: ")
    assert temperature_of(openai(), temperature=2.5) == 2.5


@each_vendor
@pytest.mark.parametrize("temperature", [math.nan, math.inf, -math.inf, -0.1])
def test_c2_a_temperature_is_finite_and_not_negative(connect: Connect, temperature: float) -> None:
    error = refusal(connect(), chat(HELLO, temperature=temperature))
    assert str(error) == (
        f"C2: a temperature must be finite and not negative; this one is {temperature:g}"
    )


A7 = "A7: from 4.8 on, temperature must not be set (Anthropic); set temperature: omit in the target"
O8 = (
    "O8: o1, o3, o4 and gpt-5 take no temperature but 1 (OpenAI);"
    " set temperature: omit in the target"
)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-4-8-20260701", "claude-opus-5"])
def test_a7_newer_models_take_no_temperature(model: str) -> None:
    assert str(refusal(anthropic(model=model), chat(HELLO, temperature=0))) == A7
    assert str(refusal(anthropic(model=model, temperature=0), chat(HELLO))) == A7
    assert anthropic(model=model).wire(chat(SYSTEM, HELLO)).repairs == ()


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-mini", "gpt-5-mini-2025-08-07", "o1", "o4-mini"])
def test_o8_models_that_reason_take_no_temperature_but_1(model: str) -> None:
    own = openai(base_url="https://api.openai.com/v1", model=model)
    for provider in (azure(model=model), own):
        assert str(refusal(provider, chat(HELLO, temperature=0))) == O8
    assert temperature_of(azure(model=model), temperature=1) == 1
    assert b"temperature" not in azure(model=model).wire(chat(HELLO)).body
    assert temperature_of(openai(model=model), temperature=0) == 0  # another server


@pytest.mark.parametrize(
    ("connect", "model"),
    [
        *((anthropic, f"claude-{of}") for of in ("opus-4-7", "sonnet-4-5", "opus-latest")),
        *((azure, model) for model in ("gpt-5-chat-latest", "gpt-5.1", "gpt-4o", "my-o1")),
    ],
)
def test_a7_and_o8_other_models_take_a_temperature(connect: Connect, model: str) -> None:
    assert temperature_of(connect(model=model), temperature=0.5) == 0.5


@each_vendor
def test_c3_a_target_may_omit_the_temperature(connect: Connect) -> None:
    provider = connect(temperature="omit", model="claude-opus-4-8")
    wire = provider.wire(chat(SYSTEM, HELLO, temperature=0.5))
    assert wire.repairs == ("C3: left out the temperature 0.5",)
    assert b"temperature" not in wire.body
    assert provider.wire(chat(SYSTEM, HELLO)).repairs == ()


@pytest.mark.parametrize(
    ("connect", "rules", "turns"),
    [
        pytest.param(
            *(azure, ["O1", "O1"]),
            [SYSTEM, HELLO, ("user", "[Tool]: 4"), ("user", "[Tool]: 4")],
            id="Azure OpenAI",
        ),
        pytest.param(
            *(anthropic, ["A1", "A1", "A6"], [("user", "Hello\n\n[Tool]: 4\n\n[Tool]: 4")]),
            id="Anthropic",
        ),
        pytest.param(
            *(gemini, ["G3", "G3", "G3"], [("user", "Hello\n\n[Tool]: 4\n\n[Tool]: 4")]),
            id="Gemini",
        ),
    ],
)
def test_a_tool_turn_is_sent_as_a_user_turn_that_says_so(
    connect: Connect, rules: list[str], turns: list[Turn]
) -> None:
    assert laid_out(connect(), chat(SYSTEM, HELLO, TOOL, TOOL))[1:] == (turns, rules)


@pytest.mark.parametrize(
    ("settings", "role"),
    [
        pytest.param({}, "system", id="by default"),
        pytest.param({"system_role": "developer"}, "developer", id="where the target says so"),
    ],
)
def test_o2_the_role_of_the_system_message_is(settings: dict[str, str], role: str) -> None:
    messages = turns_of(azure(**settings), SYSTEM, HELLO, LATE)
    assert messages == [(role, "Be brief."), HELLO, (role, "Late.")]
