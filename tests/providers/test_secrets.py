"""Keys are in the request, and nowhere else."""

import json
import traceback

import pytest

from loopback import KEY, Server, completion
from multiturn import ProviderError
from multiturn.providers.limits import status_error
from vendors import FORMATS, HELLO, Connect, each_vendor, failure


def everything(error: BaseException) -> str:
    """Return all that may be seen of an error."""
    lines = traceback.format_exception(error)
    return "\n".join([str(error), repr(error), repr(vars(error)), *lines])


@each_vendor
def test_no_repr_has_the_key(connect: Connect) -> None:
    provider = connect()
    assert KEY not in f"{provider!r} {provider.settings!r} {provider.settings} {provider}"
    assert KEY not in repr(provider.wire(HELLO))


@each_vendor
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_in_the_vendors_message_is_hidden(
    connect: Connect, server: Server, status: int
) -> None:
    provider = connect(server.url, max_retries=0)
    other = type(provider)(provider.settings, ["token-of-the-proxy"])
    server.fail(status, f"Incorrect key: {KEY}, token-of-the-proxy.", times=None)
    error = failure(other)
    assert "Incorrect key: ***, ***." in str(error)
    assert KEY not in everything(error)


def test_no_piece_of_a_key_is_left_where_a_long_message_is_cut() -> None:
    key = "sk-" + "0123456789abcdef" * 4
    for length in (430, 460, 480, 490):
        error = status_error(403, f"<p>{'x' * length}{key}</p>", [key])
        assert "0123456789" not in everything(error)


@each_vendor
@pytest.mark.parametrize(
    ("key", "escaped"),
    [
        pytest.param(KEY, KEY, id="as it is"),
        pytest.param("key/with+/slash==", "key\\/with+\\/slash==", id="with escaped slashes"),
        pytest.param("key-123456", "key\\u002d123456", id="with an escaped character"),
    ],
)
def test_a_key_in_the_answer_is_hidden(connect: Connect, key: str, escaped: str) -> None:
    body = json.dumps(completion(FORMATS[connect], "Yours is KEY!")).replace("KEY", escaped)
    answer = connect(api_key=key).answer(body)
    assert answer.text == "Yours is ***!"
    assert key not in repr(answer)


@each_vendor
def test_a_key_in_a_malformed_answer_is_hidden(connect: Connect) -> None:
    body = {"choices": {KEY: 1}, "content": [{KEY: 1}], "candidates": {KEY: 1}}
    with pytest.raises(ProviderError) as caught:
        connect().answer(json.dumps(body))
    assert KEY not in everything(caught.value)
