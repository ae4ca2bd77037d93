"""The settings of a request: what vendors get of each, and whose word counts."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopback import Server
from multiturn import ProviderError, ProviderRequest
from multiturn.model.settings import SETTINGS, JsonSchema, RequestSettings
from multiturn.model.turns import Tool
from running import run, write_target
from vendors import HELLO, PROVIDERS, Connect, each_vendor, echo, entries

NOW = (Tool("now"),)
TAKEN = {"model_takes": dict.fromkeys((name for name in SETTINGS if name != "body"), True)}


def connected(vendor: str, **settings: Any) -> Any:
    """Return a provider whose model takes every setting."""
    return PROVIDERS[vendor](**TAKEN, **settings)


def saying(*, tools: tuple[Tool, ...] = (), **settings: Any) -> ProviderRequest:
    said = msgspec.convert(settings, RequestSettings)
    return msgspec.structs.replace(HELLO, settings=said, tools=tools)


def body_of(provider: Any, request: ProviderRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(provider.wire(request).body)
    return body


def refusal(provider: Any, **settings: Any) -> str:
    """Return why a request is refused."""
    with pytest.raises(ProviderError) as caught:
        provider.wire(saying(**settings))
    assert caught.value.kind == "refused"
    return str(caught.value)


@pytest.mark.parametrize(("vendor", "entry"), entries("settings.yaml"))
def test_a_vendor_gets(vendor: str, entry: dict[str, Any]) -> None:
    provider, tools = connected(vendor), NOW if "tools" in entry else ()
    expected = entry[vendor]
    if isinstance(expected, str):
        assert refusal(provider, tools=tools, **entry["setting"]) == expected
        return
    request = saying(tools=tools, **entry["setting"])
    others = body_of(provider, saying(tools=tools))
    assert body_of(provider, request) == {**others, **expected}
    assert provider.wire(request).repairs == tuple(entry.get("repairs", ()))


# Each has two values that all vendors take who have the setting.
VALUES: dict[str, tuple[Any, Any]] = {
    "temperature": (0, 0.5),
    "top_p": (0.25, 1),
    "top_k": (1, 40),
    "max_output_tokens": (100, 16),
    "stop": (("END",), ("a", "b")),
    "seed": (7, 0),
    "frequency_penalty": (0, -2),
    "presence_penalty": (0.5, 0),
    "reasoning_effort": ("low", "high"),
    "reasoning_tokens": (1024, 2048),
    "response_format": (JsonSchema(schema={}), JsonSchema(schema={"type": "array"})),
    "tool_choice": ("auto", {"name": "now"}),
    "parallel_tool_calls": (False, True),
    "verbosity": ("low", "high"),
    "service_tier": ("auto", "flex"),
    "body": ({"own": 1}, {"own": 2}),
}


def test_each_setting_has_two_values() -> None:
    assert tuple(VALUES) == SETTINGS


@pytest.mark.parametrize(
    ("vendor", "name"),
    [
        (vendor, name)
        for vendor in PROVIDERS
        for name in VALUES
        if vendor != "echo" and name in (*PROVIDERS[vendor]().form.keys, "body")
    ],
)
def test_the_word_of_a_case_counts_and_else_that_of_the_target(vendor: str, name: str) -> None:
    first, second = ({name: value} for value in VALUES[name])

    def wire(target: dict[str, Any], case: dict[str, Any]) -> Any:
        said = RequestSettings(**case)
        request = msgspec.structs.replace(HELLO, settings=said, tools=NOW)
        return connected(vendor, **target).wire(request)

    assert wire(first, {}).body == wire({}, first).body
    assert wire(first, second).body == wire({}, second).body
    assert wire(second, first).body == wire({}, first).body
    assert len({wire({}, case).digest() for case in ({}, first, second)}) == 3


@each_vendor
def test_the_bodies_of_a_target_and_a_case_are_merged_deeply(connect: Connect) -> None:
    of_target = {"own": {"a": 1, "b": [1, 2], "c": {"d": 1, "e": 1}}, "more": 1, "less": {"x": 1}}
    of_case = {"own": {"b": [3], "c": {"e": 2}, "f": None}, "less": 0}
    body = body_of(connect(body=of_target), saying(body=of_case))
    assert body["own"] == {"a": 1, "b": [3], "c": {"d": 1, "e": 2}, "f": None}
    assert (body["more"], body["less"]) == (1, 0)
    assert of_target["own"] == {"a": 1, "b": [1, 2], "c": {"d": 1, "e": 1}}


# C11

RULE = "C11: body adds only what is neither prompt nor a setting nor how a request is sent; "
SENT = "leave out {}, which says how a request is sent"
PROMPT = "leave out {}, which would be prompt that nobody has reviewed"
SETTING = "{} is a setting; write it as {}"
PROMPTS = {  # what a model reads, and what brings it to read more
    "openai": (
        *("messages", "tools", "functions", "function_call", "audio", "modalities", "prediction"),
        "web_search_options",
    ),
    "azure": ("messages", "tools", "functions", "function_call"),
    "responses": (
        *("input", "instructions", "tools", "prompt", "previous_response_id", "conversation"),
        "truncation",
    ),
    "anthropic": (
        *("messages", "system", "tools", "mcp_servers", "container", "context_management"),
    ),
    "gemini": (
        *("contents", "systemInstruction", "tools", "cachedContent"),
        *("system_instruction", "cached_content"),  # the API takes both spellings
    ),
}
KEYS: dict[str, dict[str, tuple[str, Any]]] = {  # where they have settings, with a value
    "openai": {
        "temperature": ("temperature", 0),
        "top_p": ("top_p", 0.5),
        "max_output_tokens": ("max_completion_tokens", 5),
        "stop": ("stop", ["END"]),
        "reasoning_effort": ("reasoning_effort", "low"),
        "response_format": ("response_format", {"type": "json_object"}),
        "tool_choice": ("tool_choice", "none"),
        "verbosity": ("verbosity", "low"),
    },
    "responses": {
        "max_output_tokens": ("max_output_tokens", 5),
        "reasoning_effort": ("reasoning.effort", "low"),
        "response_format": ("text.format", {"type": "text"}),
        "verbosity": ("text.verbosity", "low"),
    },
    "anthropic": {
        "max_output_tokens": ("max_tokens", 5),
        "top_k": ("top_k", 5),
        "stop": ("stop_sequences", ["END"]),
        "reasoning_effort": ("output_config.effort", "low"),
        "reasoning_tokens": ("thinking", {"type": "enabled", "budget_tokens": 1024}),
        "tool_choice": ("tool_choice", {"type": "none"}),
    },
    "gemini": {
        "temperature": ("generationConfig.temperature", 0),
        "max_output_tokens": ("generationConfig.maxOutputTokens", 5),
        "reasoning_tokens": ("generationConfig.thinkingConfig.thinkingBudget", 0),
        "tool_choice": ("toolConfig.functionCallingConfig", {"mode": "NONE"}),
        "service_tier": ("serviceTier", "flex"),
    },
}


@pytest.mark.parametrize("key", ["model", "stream", "n", "store", "user", "metadata"])
@each_vendor
def test_body_does_not_say_how_a_request_is_sent(connect: Connect, key: str) -> None:
    assert RULE + SENT.format(key) in refusal(connect(), body={key: "x"})
    assert RULE + SENT.format(key) in refusal(connect(body={key: "x"}))


@pytest.mark.parametrize(
    ("vendor", "key"), [(vendor, key) for vendor, keys in PROMPTS.items() for key in keys]
)
def test_body_has_no_prompt_that_nobody_has_reviewed(vendor: str, key: str) -> None:
    provider = PROVIDERS[vendor]()
    assert refusal(provider, body={key: ["x"]}) == RULE + PROMPT.format(key)
    assert refusal(PROVIDERS[vendor](body={key: None})) == RULE + PROMPT.format(key)


@pytest.mark.parametrize(
    ("vendor", "name"), [(vendor, name) for vendor, keys in KEYS.items() for name in keys]
)
def test_body_has_no_setting(vendor: str, name: str) -> None:
    path, value = KEYS[vendor][name]
    for body in (value, None):  # null would take the setting's value away
        for key in reversed(path.split(".")):
            body = {key: body}
        assert SETTING.format(path, name) in refusal(connected(vendor), body=body)


def test_each_wrong_key_of_body_is_named() -> None:
    said = refusal(PROVIDERS["anthropic"](), body={"system": "x", "top_p": 0, "stream": True})
    assert said.startswith("C11: ")
    for each in (SETTING.format("top_p", "top_p"), SENT.format("stream"), PROMPT.format("system")):
        assert each in said


# From files

SUITE = """\
execution: {top_p: 0.25, seed: 1, stop: [END], body: {own: {a: 1, b: 1}}}
evalcases:
- id: one
  execution: {seed: 2, body: {own: {b: 2}}}
  input_messages: [{role: system, content: Be brief.}, {role: user, content: Hi}]
- id: two
  input_messages: [{role: system, content: Be brief.}, {role: user, content: Ho}]
"""


def test_a_case_is_laid_over_its_suite_and_that_over_the_target(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    of_target = {"top_p": 1, "temperature": 0, "seed": 3, "verbosity": "low"}
    write_target(tmp_path, server, **of_target, body={"more": "x"}, **TAKEN)
    options = ("a.eval.yaml", "--target", "az", "--output", "out.jsonl", "--concurrency", "1")
    assert run(*options, folder=tmp_path).returncode == 0
    one, two = (request.json for request in server.requests)
    shared = {"temperature": 0, "top_p": 0.25, "stop": ["END"], "verbosity": "low"}
    for body, seed, own in ((one, 2, {"a": 1, "b": 2}), (two, 1, {"a": 1, "b": 1})):
        others = {key: body[key] for key in body.keys() - {"messages", "model"}}
        assert others == {**shared, "seed": seed, "own": own, "more": "x"}


def test_echo_takes_every_setting() -> None:
    for name, (value, _) in VALUES.items():
        said = RequestSettings(**{name: value})
        assert echo().wire(msgspec.structs.replace(HELLO, settings=said)).repairs == ()
