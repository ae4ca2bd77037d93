"""Keys are in the request, and nowhere else."""

import traceback

import pytest

from loopback import KEY, Server, completion
from vendors import HELLO, Connect, ask, each_vendor, failure


def everything(error: BaseException) -> str:
    """Return all that may be seen of an error."""
    lines = traceback.format_exception(error)
    return "\n".join([str(error), repr(error), repr(vars(error)), *lines])


@each_vendor
def test_no_repr_has_the_key(connect: Connect) -> None:
    provider = connect()
    assert KEY not in repr(provider) + str(provider)
    assert KEY not in repr(provider.settings) + str(provider.settings)
    assert KEY not in repr(provider.wire(HELLO))


@each_vendor
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_in_the_vendors_message_is_hidden(
    connect: Connect, server: Server, status: int
) -> None:
    server.fail(status, f"Incorrect key: {KEY}.", times=None)
    error = failure(connect(server.url, max_retries=0))
    assert "Incorrect key: ***." in str(error)
    assert KEY not in everything(error)


@each_vendor
def test_a_key_in_a_page_is_hidden(connect: Connect, server: Server) -> None:
    server.answer(body=f"<p>x-api-key: {KEY}</p>", status=403)
    error = failure(connect(server.url))
    assert "<p>x-api-key: ***</p>" in str(error)
    assert KEY not in everything(error)


@each_vendor
def test_no_piece_of_a_key_is_left_where_a_long_message_is_cut(
    connect: Connect, server: Server
) -> None:
    key = "sk-" + "0123456789abcdef" * 4
    for length in (430, 460, 480, 490):
        server.fail(401, "x" * length + key)
        assert "0123456789" not in everything(failure(connect(server.url, api_key=key)))


@each_vendor
@pytest.mark.parametrize(
    ("key", "escaped"),
    [
        pytest.param(KEY, KEY, id="as it is"),
        pytest.param("key/with+/slash==", "key\\/with+\\/slash==", id="with escaped slashes"),
        pytest.param("key-123456", "key\\u002d123456", id="with an escaped character"),
    ],
)
def test_a_key_in_the_answer_is_hidden(
    connect: Connect, server: Server, key: str, escaped: str
) -> None:
    provider = connect(server.url, api_key=key)
    ask(provider)
    body = repr(completion(server.requests[0].vendor, "Yours is KEY!")).replace("'", '"')
    body = body.replace("None", "null").replace("KEY", escaped)
    server.answer(body=body)
    answer = ask(provider)
    assert answer.text == "Yours is ***!"
    assert key not in repr(answer)


@each_vendor
def test_a_key_in_a_malformed_answer_is_hidden(connect: Connect, server: Server) -> None:
    server.answer(body={"choices": {KEY: 1}, "content": [{KEY: 1}], "candidates": {KEY: 1}})
    assert KEY not in everything(failure(connect(server.url)))


@each_vendor
def test_further_secrets_are_hidden_as_well(connect: Connect, server: Server) -> None:
    provider = connect(server.url, max_retries=0)
    other = type(provider)(provider.settings, ["token-of-the-proxy"])
    server.fail(403, f"{KEY} and token-of-the-proxy")
    assert "*** and ***" in str(failure(other))
