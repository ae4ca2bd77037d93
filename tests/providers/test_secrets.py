"""Keys are in the request, and nowhere else."""

import json
import traceback

import pytest

from limits import limited
from loopback import KEY, Server
from multiturn import ProviderError
from multiturn.providers.base import LARGEST_ANSWER
from multiturn.providers.replies import error_of, receive
from vendors import HELLO, Connect, answer_of, ask, each_vendor, failure, openai


def everything(error: BaseException) -> str:
    """Return all that may be seen of an error."""
    lines = traceback.format_exception(error)
    return "\n".join([str(error), repr(error), repr(vars(error)), *lines])


@each_vendor
def test_no_repr_has_the_key(connect: Connect) -> None:
    provider = connect()
    assert KEY not in f"{provider!r} {provider.settings!r} {provider} {provider.wire(HELLO)!r}"


@each_vendor
def test_a_key_in_the_vendors_message_is_hidden(connect: Connect, server: Server) -> None:
    provider = connect(server.url)
    other = type(provider)(provider.settings, ["token-of-the-proxy"])
    server.fail(400, f"Incorrect key: {KEY}, token-of-the-proxy.")
    error = failure(other)
    assert "Incorrect key: ***, ***." in str(error)
    assert KEY not in everything(error)


def test_no_piece_of_a_key_is_left_where_a_long_message_is_cut() -> None:
    key = "sk-" + "0123456789abcdef" * 4
    error = error_of(403, f"<p>{'x' * 460}{key}</p>".encode(), [key])
    assert "0123456789" not in everything(error)


@each_vendor
def test_bytes_that_a_vendor_repeats_are_not_shown(connect: Connect, server: Server) -> None:
    repeated = "iVBORw0KGgo+/" * 90_000
    server.fail(400, f"bad image_url 'data:image/png;base64,{repeated}=' in messages[1]")
    assert str(failure(connect(server.url))).startswith(
        "HTTP 400: bad image_url '(base64)' in messages[1]"
    )


@pytest.mark.parametrize("piece", ["a" * 199 + "-", "data:" + "a" * 190, "data:a-;base64"])
def test_a_large_error_is_shown_in_little_time(piece: str) -> None:
    text = piece * (LARGEST_ANSWER // len(piece))
    with limited(seconds=3):
        assert error_of(400, text.encode(), [KEY]).what == f"HTTP 400: {text[:500]}"


@each_vendor
def test_a_key_in_the_answer_is_hidden_however_it_is_escaped(connect: Connect) -> None:
    provider = connect(api_key="key/with-1")
    body = json.dumps(answer_of(provider, "Yours is KEY!"))
    answer = provider.answer(body.replace("KEY", "key\\/with\\u002d1").encode())
    assert answer.text == "Yours is ***!"
    assert "key/with-1" not in repr(answer)


@each_vendor
@pytest.mark.parametrize("key", ["text", "content", "usage", "choices", "output", "candidates"])
def test_a_key_that_is_a_word_of_the_vendors_changes_no_reading(
    connect: Connect, server: Server, key: str
) -> None:
    """A server of one's own takes any word as its key."""
    provider = connect(server.url, api_key=key)
    server.answer(body=answer_of(provider, f"Fine, {key}."))
    answer = ask(provider)
    assert (answer.text, key in repr(answer.raw)) == ("Fine, ***.", False)


@each_vendor
def test_a_key_in_json_that_an_answer_quotes_is_hidden(connect: Connect) -> None:
    provider = connect(api_key='"sk-1\\2"')
    body = answer_of(provider, 'Headers: {"key": "\\"sk-1\\\\2\\""}')
    assert provider.answer(json.dumps(body).encode()).text == 'Headers: {"key": "***"}'


@each_vendor
def test_a_key_in_a_malformed_answer_is_hidden(connect: Connect) -> None:
    body = {"choices": {KEY: 1}, "content": [{KEY: 1}], "candidates": {KEY: 1}}
    with pytest.raises(ProviderError) as caught:
        connect().answer(json.dumps(body).encode())
    assert KEY not in everything(caught.value)


@each_vendor
@pytest.mark.parametrize("key", ["choices", "content", "candidates"])
def test_a_key_that_is_a_word_of_the_vendors_is_hidden_where_an_answer_lacks_it(
    connect: Connect, key: str
) -> None:
    with pytest.raises(ProviderError, match=r"it begins with '\{\}'") as caught:
        connect(api_key=key).answer(b"{}")
    assert key not in everything(caught.value)


@pytest.mark.parametrize("kind", [ValueError, KeyError, IndexError, TypeError, AttributeError])
def test_a_key_in_what_a_reader_says_of_a_reply_is_hidden(kind: type[Exception]) -> None:
    def read(reply: dict[str, str]) -> None:
        raise kind(reply["state"])

    with pytest.raises(ProviderError, match=rf"{kind.__name__}: .*no state is \*\*\*") as caught:
        receive(json.dumps({"state": f"no state is {KEY}"}).encode(), read, [KEY])
    assert KEY not in everything(caught.value)


def test_a_key_that_is_escaped_in_the_arguments_of_a_call_is_hidden_where_batches_read_it() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    function = {"name": "mail", "arguments": f'{{"{escaped}": ["{escaped}"]}}'}
    message = {"content": None, "tool_calls": [{"id": "c1", "function": function}]}
    answer = openai().answer(json.dumps({"choices": [{"message": message}]}).encode())
    assert answer.tool_calls[0].arguments == {"***": ["***"]}


@pytest.mark.parametrize("size", [2_400, 20_000])
def test_a_malformed_answer_is_shown_whatever_the_length_of_the_key(size: int) -> None:
    key = "sk-proj-" + "0123456789abcdef" * 10
    page = f"<p>The proxy is full; {key} waits.</p>" + "x " * (size // 2)
    with pytest.raises(ProviderError) as caught:
        openai(api_key=key).answer(page.encode())
    assert "it begins with '<p>The proxy is full; *** waits.</p>" in str(caught.value)
    assert "0123456789" not in everything(caught.value)


def test_no_piece_of_a_key_is_left_where_a_malformed_answer_is_cut() -> None:
    key = "sk-proj-" + "0123456789abcdef" * 10
    for start in range(1_900, 4_200, 50):
        page = "\x01" * start + key + "x" * 20_000
        with pytest.raises(ProviderError) as caught:
            openai(api_key=key).answer(page.encode())
        assert "0123456789" not in everything(caught.value)
