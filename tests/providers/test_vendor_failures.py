"""What goes wrong at a vendor, and what becomes of it."""

from typing import Any

import pytest

from loopback import QUICK, TEXT, Server, completion
from vendors import HELLO, Connect, anthropic, ask, azure, each_vendor, failure, gemini

PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


@each_vendor
def test_429_is_tried_again(connect: Connect, server: Server) -> None:
    server.fail(429, "slow down")
    provider = connect(server.url, max_retries=2)
    answer = ask(provider)
    assert (answer.text, answer.retries) == (TEXT, 1)
    assert [request.body for request in server.requests] == [provider.wire(HELLO).body] * 2
    assert answer.wire == server.requests[0].body


@each_vendor
@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("status", [500, 503])
def test_errors_of_the_server_are_tried_again_until_the_retries_end(
    connect: Connect, server: Server, status: int, retries: int
) -> None:
    server.fail(status, "out of order", times=None)
    error = failure(connect(server.url, max_retries=retries))
    assert (error.kind, error.retries, len(server.requests)) == ("http", retries, retries + 1)
    assert str(status) in str(error)
    assert "out of order" in str(error)
    assert error.wire == server.requests[0].body


@each_vendor
def test_there_are_two_retries_without_a_setting(connect: Connect, server: Server) -> None:
    server.fail(500, "out of order", times=None)
    assert failure(connect(server.url)).retries == 2


@each_vendor
def test_429_to_the_end_is_a_rate_limit(connect: Connect, server: Server) -> None:
    server.fail(429, "slow down", times=None)
    error = failure(connect(server.url, max_retries=1))
    assert (error.kind, error.retries, len(server.requests)) == ("rate_limit", 1, 2)
    assert "slow down" in str(error)


each_place = pytest.mark.parametrize(
    "sent",
    [pytest.param(0, id="before the answer"), pytest.param(20, id="in the middle of the answer")],
)


@each_vendor
@each_place
def test_a_connection_is_cut(connect: Connect, server: Server, sent: int) -> None:
    server.cut(sent, times=None)
    provider = connect(server.url, max_retries=0)
    error = failure(provider)
    assert (error.kind, error.retries, len(server.requests)) == ("connection", 0, 1)
    assert error.wire == provider.wire(HELLO).body


@pytest.mark.parametrize(
    "connect",
    [pytest.param(azure, id="Azure OpenAI"), pytest.param(anthropic, id="Anthropic")],
)
def test_a_cut_connection_is_tried_again_where_the_sdk_does_so(
    connect: Connect, server: Server
) -> None:
    server.cut()
    answer = ask(connect(server.url, max_retries=1))
    assert (answer.text, answer.retries, len(server.requests)) == (TEXT, 1, 2)


@each_vendor
def test_nobody_listens(connect: Connect) -> None:
    with Server() as server:
        url = server.url
    assert failure(connect(url, max_retries=0)).kind == "connection"


@each_vendor
@each_place
def test_an_answer_stalls(connect: Connect, server: Server, sent: int) -> None:
    server.stall(sent, seconds=4, times=None)
    error = failure(connect(server.url, max_retries=0, timeout_seconds=0.3))
    assert (error.kind, error.retries, len(server.requests)) == ("timeout", 0, 1)
    assert "timeout_seconds" in str(error)
    assert error.wire == server.requests[0].body


@each_vendor
def test_a_stalled_answer_is_tried_again(connect: Connect, server: Server) -> None:
    server.stall(seconds=4, times=None)
    error = failure(connect(server.url, max_retries=1, timeout_seconds=0.3))
    assert (error.kind, error.retries, len(server.requests)) == ("timeout", 1, 2)


@each_vendor
@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"choices": [', id="JSON that breaks off"),
        pytest.param("", id="nothing"),
        pytest.param("Hello!", id="a text"),
        pytest.param(b"\xff\xfe{}", id="bytes that are no text"),
        pytest.param(PAGE, id="an HTML page"),
    ],
)
def test_an_answer_that_is_not_json_is_malformed(
    connect: Connect, server: Server, body: str | bytes
) -> None:
    server.answer(body=body, times=None)
    error = failure(connect(server.url))
    assert (error.kind, error.retries, len(server.requests)) == ("malformed", 0, 1)
    assert error.wire == server.requests[0].body


@each_vendor
@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="an empty object"),
        pytest.param([], id="a list"),
        pytest.param("null", id="null"),
        pytest.param("7", id="a number"),
        pytest.param('"Hello!"', id="a string"),
        pytest.param({"choices": [], "content": None, "candidates": []}, id="no answer at all"),
        pytest.param({"error": {"message": "no"}}, id="an error that says 200"),
        pytest.param(
            {"choices": [{"message": None}], "content": [None], "candidates": [None]}, id="nulls"
        ),
        pytest.param(
            {"choices": [7], "content": 7, "candidates": [{"content": {"parts": 7}}]}, id="numbers"
        ),
        pytest.param(
            {
                "choices": [{"message": {"content": ["Hi"]}}],
                "content": [{"type": "text", "text": ["Hi"]}],
                "candidates": [{"content": {"parts": [{"text": ["Hi"]}]}}],
            },
            id="a list where the text should be",
        ),
        pytest.param(
            {
                "choices": [{"message": {"content": 7}}],
                "content": [{"type": "text", "text": None}],
                "candidates": [{"content": {"parts": [{"text": 7}]}}],
            },
            id="a number where the text should be",
        ),
    ],
)
def test_json_in_another_format_is_malformed(connect: Connect, server: Server, body: Any) -> None:
    server.answer(body=body, times=None)
    error = failure(connect(server.url))
    assert (error.kind, error.retries, len(server.requests)) == ("malformed", 0, 1)
    assert "format" in str(error)


@each_vendor
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "http"), (401, "access_denied"), (403, "access_denied"), (404, "http"), (422, "http")],
)
def test_the_vendors_message_is_in_the_error(
    connect: Connect, server: Server, status: int, kind: str
) -> None:
    server.fail(status, "The model \u00abx\u00bb does not exist.", times=None)
    error = failure(connect(server.url))
    assert (error.kind, error.retries, len(server.requests)) == (kind, 0, 1)
    assert str(status) in str(error)
    assert "The model \u00abx\u00bb does not exist." in str(error)
    assert "{" not in str(error)


@each_vendor
def test_the_page_of_a_proxy_is_in_the_error(connect: Connect, server: Server) -> None:
    headers = {**QUICK, "content-type": "text/html"}
    server.answer(body=PAGE, status=502, headers=headers, times=None)
    error = failure(connect(server.url, max_retries=1))
    assert (error.kind, error.retries, len(server.requests)) == ("http", 1, 2)
    assert "502 Bad Gateway" in str(error)


@each_vendor
def test_of_a_long_page_the_error_has_only_a_piece(connect: Connect, server: Server) -> None:
    server.answer(body=f"{PAGE}{'x' * 100_000}", status=404, times=None)
    assert len(str(failure(connect(server.url)))) < 2000


@each_vendor
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="nothing"),
        pytest.param("null", id="null"),
        pytest.param({"error": "no"}, id="an error without a message"),
        pytest.param({"error": {"message": None, "code": 7}}, id="a message of null"),
        pytest.param([{"error": {"message": "no"}}], id="a list"),
        pytest.param(b"\xff\xfe", id="bytes that are no text"),
    ],
)
def test_an_error_in_another_format_is_one_of_http(
    connect: Connect, server: Server, body: Any
) -> None:
    server.answer(body=body, status=404, times=None)
    error = failure(connect(server.url))
    assert (error.kind, len(server.requests)) == ("http", 1)
    assert "404" in str(error)


@pytest.mark.parametrize(
    ("connect", "shape"),
    [
        pytest.param(anthropic, {"type": "error", "error": {"type": "x"}}, id="Anthropic"),
        pytest.param(gemini, {"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, id="Gemini"),
        pytest.param(azure, {"error": {"code": None}}, id="Azure OpenAI"),
    ],
)
def test_another_400_is_no_content_filter(connect: Connect, shape: Any, server: Server) -> None:
    shape["error"]["message"] = "content_filter"
    server.answer(body=shape, status=400)
    assert failure(connect(server.url)).kind == "http"


@each_vendor
def test_after_a_failure_the_provider_goes_on(connect: Connect, server: Server) -> None:
    provider = connect(server.url, max_retries=0)
    server.fail(500, "out of order")
    assert failure(provider).kind == "http"
    answer = ask(provider)
    assert (answer.text, answer.retries) == (TEXT, 0)
    assert answer.raw == completion(server.requests[-1].vendor, TEXT)
