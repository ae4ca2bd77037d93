"""OpenAI, servers with its API, and Azure: what goes out, to whom, and what is read."""

import json
from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from multiturn import MultiturnError
from vendors import HELLO, Connect, ask, azure, chat, failure, openai

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
each_of_openai = pytest.mark.parametrize(
    "connect", [pytest.param(openai, id="OpenAI"), pytest.param(azure, id="Azure OpenAI")]
)
LATE = chat(("system", "Be brief."), ("user", "Hello"), ("system", "Be kind."), ("user", "Help"))
SAMPLING = {"temperature": 0.5, "max_output_tokens": 100}


def test_the_server_gets_the_messages_and_the_model(server: Server) -> None:
    answer = ask(openai(server.url, **SAMPLING))
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "messages": MESSAGES,
        "model": "gpt-4o",
        "max_completion_tokens": 100,
        "temperature": 0.5,
    }
    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, USAGE, "stop")
    assert (answer.raw, answer.retries) == (completion("azure", TEXT), 0)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({}, "gpt-4o/chat/completions?api-version=2024-12-01-preview"),
        (
            {"model": "mine", "version": "2025-03-01"},
            "mine/chat/completions?api-version=2025-03-01",
        ),
    ],
)
def test_azures_deployment_gets_them(server: Server, settings: Any, path: str) -> None:
    assert ask(azure(f"{server.url}/", **settings)).text == TEXT
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", f"/openai/deployments/{path}")
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.json["messages"] == MESSAGES


def test_azure_and_openai_send_the_same_body() -> None:
    given: dict[str, Any] = {**SAMPLING, "later_system": "merge"}
    assert openai(**given).wire(LATE).body == azure(**given).wire(LATE).body


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        pytest.param("/v1", "/v1/chat/completions", id="as servers document it"),
        pytest.param("/openai/v1/", "/openai/v1/chat/completions", id="Azure's, with a slash"),
    ],
)
def test_the_path_is_below_the_base_url(server: Server, base_url: str, path: str) -> None:
    ask(openai(base_url=server.url + base_url))
    assert server.requests[0].path == path


def test_a_server_of_ones_own_gets_no_key_unless_the_target_has_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    answer = ask(openai(server.url, api_key=None))
    assert answer.text == TEXT
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "https://api.openai.com/v1/"])
def test_openai_itself_wants_a_key(url: str) -> None:
    with pytest.raises(MultiturnError) as caught:
        openai(base_url=url, api_key=None)
    assert str(caught.value) == (
        "the target 't' has no api_key; add it, or the base_url of a server that needs none"
    )


def test_without_a_base_url_it_is_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/of-the-environment")
    settings = openai().settings
    provider = type(openai())(type(settings)(name="t", provider="openai", api_key=KEY, model="m"))
    assert provider.address() == ("https://api.openai.com/v1",)
    assert str(provider.connect().base_url) == "https://api.openai.com/v1/"


@each_of_openai
def test_o4_the_limit_may_have_its_old_name(connect: Connect) -> None:
    wire = connect(max_output_tokens=100, max_tokens_field="max_tokens").wire(HELLO)
    assert json.loads(wire.body)["max_tokens"] == 100
    assert b"max_completion_tokens" not in wire.body


@pytest.mark.parametrize(
    ("messages", "sent", "repairs"),
    [
        pytest.param(
            [("user", "Hello"), ("system", "Be kind."), ("user", "Help")],
            [("system", "Be kind."), ("user", "Hello"), ("user", "Help")],
            ("O5: sent a system message as the first message",),
            id="one that stands later is moved",
        ),
        pytest.param(
            [("system", "Be brief."), ("user", "Hello"), ("system", "Be kind."), ("user", "Help")],
            [("system", "Be brief.\n\nBe kind."), ("user", "Hello"), ("user", "Help")],
            ("O5: sent 2 system messages as the first message",),
            id="a later one joins the first",
        ),
        pytest.param(
            [("system", "Be brief."), ("system", "Be kind."), ("user", "Hello")],
            [("system", "Be brief.\n\nBe kind."), ("user", "Hello")],
            ("O5: sent 2 system messages as the first message",),
            id="neighbors become one",
        ),
        pytest.param(
            [("system", "Be brief."), ("user", "Hello"), ("user", "Help")],
            [("system", "Be brief."), ("user", "Hello"), ("user", "Help")],
            (),
            id="a single one in front is left alone",
        ),
    ],
)
def test_o5_later_system_merge_sends_one_system_message_in_front(
    messages: list[tuple[str, str]], sent: list[tuple[str, str]], repairs: tuple[str, ...]
) -> None:
    provider = openai(later_system="merge", system_role="developer")
    wire = provider.wire(chat(*messages))
    roles = {"system": "developer"}
    assert json.loads(wire.body)["messages"] == [
        {"role": roles.get(role, role), "content": text} for role, text in sent
    ]
    assert wire.repairs == repairs


def test_a_slash_at_the_end_of_the_address_does_not_change_the_digest() -> None:
    first, second = openai(base_url="http://a/v1"), openai(base_url="http://a/v1/")
    assert first.wire(HELLO).digest() == second.wire(HELLO).digest()


def test_o3_a_filtered_prompt_is_told_apart(server: Server) -> None:
    server.fail(400, "The response was filtered.", code="content_filter", times=None)
    error = failure(azure(server.url))
    assert (error.kind, error.retries, len(server.requests)) == ("content_filter", 0, 1)
    assert str(error) == "O3: The response was filtered."


def choice(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "stop", "message": message, **more}


def said(text: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [choice({"role": "assistant", "content": text}, **more)]}


COUNTED = completion("azure", "Hi")["usage"]
CACHED = {"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        pytest.param(
            {"choices": [choice({"content": None, "refusal": "I will not."})]},
            {"text": "I will not."},
            id="a refusal",
        ),
        pytest.param(said(None), {"text": ""}, id="no content"),
        pytest.param(said(""), {"text": ""}, id="an empty content"),
        pytest.param(said(" \u00fc\U0001f600\n"), {"text": " \u00fc\U0001f600\n"}, id="any text"),
        pytest.param(
            {"choices": said("first")["choices"] + said("second")["choices"]},
            {"text": "first"},
            id="the first of several",
        ),
        pytest.param(
            said("Once upon a", finish_reason="content_filter"),
            {"text": "Once upon a", "finish_reason": "content_filter"},
            id="that it was filtered",
        ),
        pytest.param({"usage": None}, {"usage": {}}, id="no usage where nothing is counted"),
        pytest.param(
            {"usage": {**COUNTED, **CACHED}},
            {"usage": {**USAGE, "cached_tokens": 4}},
            id="the tokens of the cache",
        ),
    ],
)
def test_of_an_answer_is_read(changes: dict[str, Any], read: dict[str, Any]) -> None:
    answer = openai().answer(json.dumps({**completion("azure", "Hi"), **changes}))
    assert {name: getattr(answer, name) for name in read} == read
