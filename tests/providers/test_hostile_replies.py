"""Whatever a server says, no key is shown, no number breaks anything, and the reason stays.

A key is hidden in every form from which it could be read again. What has no key reads as it did.
"""

import asyncio
import base64
import gzip
import html
import json
import random
import re
import socket
import string
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from html.entities import html5
from itertools import cycle
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote

import pytest

from batch_server import BatchServer, prompt_of, write_targets
from loopback import TEXT, Answer, Request, Server, Step, completion
from multiturn import ProviderError, ProviderResponse, dry_run
from multiturn.providers.secrets import hide
from running import by_id, run, write_suite
from vendors import (
    HELLO,
    Connect,
    anthropic,
    ask,
    chat,
    each_vendor,
    failure,
    gemini,
    openai,
    responses,
)

MIB = 2**20
# Keys with each kind of character that keys have; eight of them in a row are a leak.
KEYS = {
    "letters": "sk-proj-Zq7xW_v9Kt4mB2nR8sLp3Hd6Jf",
    "base64": "Ab/cD+eF9gH0iJ/kL1+mN2oP3qR4sT5uVw==",
    "marks": "t~K<9.w>Q&4_z-H\"8'x=M+7/r.Y~2<p>V&6",
    "escapes": "p%4Aq\\u0041r%2Fs\\/t&amp;u%25v\\\\w7Zk",
}
BEFORE, AFTER = "Quota refusal of", "is out of credit, zq_17"
SENTENCE = f"{BEFORE} %s {AFTER}"


def escaped(text: str, escape: Callable[[str], str], *, whole: bool = False) -> str:
    """Return a text with its characters, or with those that are no letter or digit, escaped."""
    return "".join(escape(each) if whole or not each.isalnum() else each for each in text)


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def named_entity(character: str) -> str:
    names = [name for name, text in html5.items() if text == character and name.endswith(";")]
    return f"&{min(names, key=len)}" if names else f"&#{ord(character)};"


def in_base64(key: str, shift: int) -> str:
    return base64.b64encode(b"Bearer:"[shift:] + key.encode() + b" (key)").decode()


# Each returns a key in the form in which it is inside a text.
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "URL": lambda key: quote(key, safe=""),
    "URL, small": lambda key: escaped(key, lambda each: f"%{ord(each):02x}"),
    "URL, all": lambda key: escaped(key, lambda each: f"%{ord(each):02X}", whole=True),
    "URL in a URL": lambda key: quote(quote(key, safe=""), safe=""),
    "HTML, names": lambda key: escaped(key, named_entity),
    "HTML, decimal": lambda key: escaped(key, lambda each: f"&#{ord(each)};", whole=True),
    "HTML, hex": lambda key: escaped(key, lambda each: f"&#x{ord(each):X};"),
    "base64": lambda key: in_base64(key, 0),
    "base64, shifted": lambda key: in_base64(key, 1),
    "base64, shifted twice": lambda key: in_base64(key, 2),
    "base64 for URLs": lambda key: in_base64(key, 1).replace("+", "-").replace("/", "_"),
}
# Each returns a key in the form in which it is inside a JSON string.
JSON_FORMS: dict[str, Callable[[str], str]] = {
    "PHP": lambda key: in_json(key).replace("/", "\\/"),
    ".NET": lambda key: escaped(key, lambda each: f"\\u{ord(each):04X}"),
    "Go": lambda key: escaped(key, lambda each: f"\\u{ord(each):04x}"),
    "all": lambda key: escaped(key, lambda each: f"\\u{ord(each):04x}", whole=True),
    "JSON in JSON": lambda key: in_json(escaped(key, lambda each: f"\\u{ord(each):04X}")),
}
# Each returns the body of an error of a text that JSON strings can have as it is.
SHAPES: dict[str, Callable[[str], str]] = {
    "message of an error": lambda text: f'{{"error":{{"message":"{text}","code":"zq_17"}}}}',
    "error": lambda text: f'{{"error": "{text}"}}',
    "message": lambda text: f'{{"message": "{text}", "code": 40017}}',
    "detail": lambda text: f'{{"detail": "{text}"}}',
    "details": lambda text: f'{{"detail": [{{"loc": ["body"], "msg": "{text}"}}]}}',
    "list": lambda text: f'[{{"error": {{"message": "{text}", "status": "NO"}}}}]',
    "errors": lambda text: f'{{"errors": [{{"message": "{text}"}}]}}',
    "page": lambda text: f"<html><head><title>No</title></head><body>{text}</body></html>",
    "text": lambda text: text,
}
IS_JSON = [*SHAPES][:-2]
TARGETS = ["openai", "azure", "responses", "anthropic", "gemini"]


def reply(prompt: str, key: str) -> str:
    """Return a body with the key in it, in the shape and the form that a prompt names."""
    shape, _, form = prompt.partition("/")
    return SHAPES[shape](sentence(form, key, shape in IS_JSON))


def sentence(form: str, key: str, is_json: bool = True) -> str:
    """Return the sentence with the key, as it is in a JSON string or in a text."""
    if form in JSON_FORMS:
        return SENTENCE % JSON_FORMS[form](key)
    text = SENTENCE % FORMS[form](key)
    return in_json(text) if is_json else text


PROMPTS = [f"{shape}/{form}" for shape in SHAPES for form in (*FORMS, *JSON_FORMS)]


def share_of_prompts(key: str, vendor: str, of: int = 4, shift: int = 0) -> list[str]:
    """Return every second, fourth or eighth prompt: others with each key, and with each vendor.

    So each form meets each key, each shape and each vendor, though not all in one prompt, as what
    hides a key knows neither. Of errors each prompt meets each key, and of answers each form.
    """
    first = [*KEYS.values()].index(key) + TARGETS.index(vendor) + shift
    return PROMPTS[first % of :: of]


# Each shape and each form at least once.
SOME = [
    f"{shape}/{form}" for shape, form in zip(cycle(SHAPES), (*FORMS, *JSON_FORMS), strict=False)
]


def decodings(text: str) -> Iterator[str]:
    """Yield what somebody could read in a text."""
    yield re.sub(r"\\u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), text)
    yield re.sub(r'\\([\\/"])', r"\1", text)
    yield unquote(text, errors="replace")
    yield html.unescape(text)
    runs = re.findall(r"[A-Za-z0-9+/_-]{11,}", text)
    spelled = [run.replace("-", "+").replace("_", "/")[at:] for run in runs for at in range(4)]
    decoded = [base64.b64decode(run[: len(run) // 4 * 4]).decode("latin-1") for run in spelled]
    yield "\n".join(decoded)


@cache
def any_part(key: str) -> re.Pattern[str]:
    """Return what finds eight characters of a key."""
    return re.compile("|".join(re.escape(key[at : at + 8]) for at in range(len(key) - 7)))


def leaked(text: str, key: str) -> str:
    """Return eight or more characters of a key that can be read in a text; empty if there are none.

    >>> leaked("a%2Db%2dc&#45;d%252De-f", "a-b-c-d-e-f")
    'a-b-c-d-'
    """
    part_of_key = any_part(key)
    seen, now = {text}, {text}
    for _ in range(4):
        for each in now:
            if found := part_of_key.search(each):
                return found[0]
        now = {new for each in now for new in decodings(each)} - seen
        seen |= now
    return ""


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_each_form_of_a_key_can_be_read_again(key: str) -> None:
    """Else the tests below would find nothing."""
    for prompt in PROMPTS:
        assert leaked(reply(prompt, key), key), prompt
    assert not leaked(SENTENCE, key)


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_each_alphabet_of_base64_is_known(encode: Callable[[bytes], bytes], before: int) -> None:
    """The keys above, which have characters that keys have, need no more than letters for most."""
    key = ">>>???~~~;;;kkk???"
    text = encode(b"a" * before + key.encode() + b"a").decode()
    assert len(set(text) & {*"+/-_"}) == 2
    assert re.fullmatch(r"\w{0,4}\*\*\*\w{0,4}=*", hide(text, [key]))


each_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
each_target = pytest.mark.parametrize("vendor", TARGETS)


class Hostile(BatchServer):
    """Has the key in the results of batches, in the shape and form that each prompt names."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.line: Callable[[str, str, str], str] = failed_line

    def _answer(self, vendor: str, operation: str, id_: str, request: Request) -> Any:
        if operation != "results":
            return super()._answer(vendor, operation, id_, request)
        (batch,) = self.batches.values()
        lines = (
            self.line(vendor, id_, reply(prompt_of(body), self.key))
            for id_, body in batch.requests.items()
        )
        return "\n".join(lines)


@pytest.fixture
def hostile(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Hostile(key) as server:
        write_targets(tmp_path, server, api_key=key, max_retries=0)
        yield server


def shown(done: Any, folder: Path, key: str, prompts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the results by their prompts; nothing that is shown or kept leads to the key."""
    out = folder / "out.jsonl"
    kept = out.read_text() if out.exists() else ""
    for line in (*done.stdout.splitlines(), *done.stderr.splitlines(), *kept.split("\n")):
        assert not leaked(line, key), line
    assert "Traceback" not in done.stderr
    found = by_id(out) if kept else {}
    return {prompt: found[f"c{at}"] for at, prompt in enumerate(prompts) if f"c{at}" in found}


OUTPUT = ("--output", "out.jsonl")
BATCH = ("--batch", *OUTPUT, "--poll", "0.001")


@each_key
@each_target
def test_an_error_says_why_and_shows_no_key(
    vendor: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    prompts = share_of_prompts(key, vendor, of=2)
    write_suite(tmp_path, prompts)
    hostile.then(Step(lambda request: (400, reply(prompt_of(request.json), key))), None)
    arguments = ("--target", vendor, *OUTPUT, "--record-wire")
    done = run("a.eval.yaml", *arguments, folder=tmp_path)
    results = shown(done, tmp_path, key, prompts)
    assert len(results) == len(prompts)
    for prompt, line in results.items():
        assert line["error"]["type"] == "http", prompt
        for words in ("HTTP 400: ", BEFORE, AFTER):
            assert words in line["error"]["message"], prompt


@each_key
@each_target
def test_an_answer_in_no_format_shows_no_key(
    vendor: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    prompts = share_of_prompts(key, vendor)
    write_suite(tmp_path, prompts)
    hostile.then(Step(lambda request: (200, reply(prompt_of(request.json), key))), None)
    done = run("a.eval.yaml", "--target", vendor, *OUTPUT, "--record-wire", folder=tmp_path)
    results = shown(done, tmp_path, key, prompts)
    assert len(results) == len(prompts)
    assert {line["response"] for line in results.values()} == {None}


@each_key
@each_target
def test_an_answer_that_quotes_the_key_does_not_show_it(
    vendor: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    def answer(request: Request) -> Answer:
        told = sentence(prompt_of(request.json), key)
        return 200, json.dumps(completion(request.vendor, "@")).replace("@", told)

    forms = [*FORMS, *JSON_FORMS]
    write_suite(tmp_path, forms)
    hostile.then(Step(answer), None)
    done = run("a.eval.yaml", "--target", vendor, *OUTPUT, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    results = shown(done, tmp_path, key, forms)
    assert len(results) == len(forms)
    for form, line in results.items():
        assert line["response"].startswith(BEFORE), form
        assert line["response"].endswith(AFTER), form


@each_key
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
def test_a_count_shows_no_key(
    vendor: str, status: int, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    def answer(request: Request) -> Answer:
        body = request.json
        return status, reply(prompt_of(body.get("generateContentRequest", body)), key)

    hostile.then(Step(answer), None)
    prompts = share_of_prompts(key, vendor, of=8, shift=status // 100)
    write_suite(tmp_path, prompts)
    arguments = ("--target", vendor, "--dry-run", "--count-tokens")
    done = run("a.eval.yaml", *arguments, folder=tmp_path)
    shown(done, tmp_path, key)
    lines = [line for line in done.stderr.splitlines() if line.startswith("a.eval.yaml:1: case")]
    assert len(lines) == len(prompts)
    if status == 400:
        assert all("HTTP 400: " in line and BEFORE in line and AFTER in line for line in lines)


def failed_line(vendor: str, id_: str, body: str) -> str:
    """Return a line with an error."""
    body = body if body.startswith(("{", "[")) else json.dumps(body)
    if vendor == "openai":
        response = f'{{"status_code": 400, "request_id": "r", "body": {body}}}'
        return f'{{"id": "r", "custom_id": "{id_}", "response": {response}, "error": null}}'
    if vendor == "anthropic":
        error = f'{{"type": "errored", "error": {body}}}'
        return f'{{"custom_id": "{id_}", "result": {error}}}'
    rest = body[1:] if body.startswith("{") else f'"error": {body}}}'
    return f'{{"key": "{id_}", {rest}'


def answered_line(vendor: str, id_: str, body: str) -> str:
    """Return a line with an answer that is none."""
    body = body if body.startswith(("{", "[")) else json.dumps(body)
    if vendor == "openai":
        response = f'{{"status_code": 200, "request_id": "r", "body": {body}}}'
        return f'{{"id": "r", "custom_id": "{id_}", "response": {response}, "error": null}}'
    if vendor == "anthropic":
        return f'{{"custom_id": "{id_}", "result": {{"type": "succeeded", "message": {body}}}}}'
    return f'{{"key": "{id_}", "response": {body}}}'


def beside_line(vendor: str, id_: str, body: str) -> str:
    """Return a line with an error beside the response, or in another place than is usual."""
    body = body if body.startswith(("{", "[")) else json.dumps(body)
    if vendor == "openai":
        error = body if body.startswith("{") else f'{{"code": "zq_17", "message": {body}}}'
        return f'{{"custom_id": "{id_}", "response": null, "error": {error}}}'
    name = "custom_id" if vendor == "anthropic" else "key"
    return f'{{"{name}": "{id_}", "error": {body}, "result": {body}}}'


@each_key
@pytest.mark.parametrize("line", [failed_line, answered_line, beside_line])
@each_target
def test_the_results_of_a_batch_show_no_key(
    vendor: str, line: Any, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    prompts = share_of_prompts(key, vendor, of=8)
    write_suite(tmp_path, prompts)
    hostile.line = line
    done = run("a.eval.yaml", "--target", vendor, *BATCH, "--record-wire", folder=tmp_path)
    results = shown(done, tmp_path, key, prompts)
    assert len(results) == len(prompts)
    assert {result["response"] for result in results.values()} == {None}
    if line is failed_line:
        for prompt, result in results.items():
            if vendor in ("openai", "azure", "responses") or prompt.startswith("message of"):
                assert BEFORE in result["error"]["message"], prompt
                assert AFTER in result["error"]["message"], prompt


@pytest.mark.parametrize("key", [KEYS["letters"]], ids=["letters"])
@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
def test_a_key_at_the_end_of_what_is_shown_of_a_result_is_not_cut(
    vendor: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    """What is shown has 500 characters; the keys begin at most 26 before."""
    sizes = cycle(range(237, 251))

    def line(vendor: str, id_: str, _: str) -> str:
        said = f"{'x ' * next(sizes)}{key}"
        return failed_line(vendor, id_, SHAPES["message of an error"](said))

    hostile.line = line
    prompts = PROMPTS[:14]
    write_suite(tmp_path, prompts)
    done = run("a.eval.yaml", "--target", vendor, *BATCH, folder=tmp_path)
    results = shown(done, tmp_path, key, prompts).values()
    messages = [result["error"]["message"] for result in results]
    assert any(message.endswith("x ***") for message in messages)
    assert not any("sk-" in message for message in messages)


@each_key
@pytest.mark.parametrize("operation", ["upload", "create", "list", "look", "results"])
@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
def test_a_batch_that_is_refused_shows_no_key(
    vendor: str, operation: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    if (vendor, operation) == ("anthropic", "upload"):
        pytest.skip("Anthropic's batches are one request")
    write_suite(tmp_path, ["one"])
    take = hostile.take

    def refuse(request: Request) -> Step:
        step = take(request)
        if hostile.operations[-1] != operation:
            return step
        return Step(lambda _: (400, reply(prompt, key)))

    hostile.take = refuse  # type: ignore[method-assign]
    # Each of them with one key; all forms of all keys are in the tests of errors above, by the same
    # rule, and here a place is found that does not use it.
    for at, prompt in enumerate(SOME[[*KEYS.values()].index(key) :: len(KEYS)]):
        hostile.operations.clear()
        if operation == "list":
            hostile.trouble("create", 500)
        target = ("--target", vendor, *BATCH[:1], "--output", f"{at}.jsonl", *BATCH[3:])
        done = run("a.eval.yaml", *target, folder=tmp_path)
        shown(done, tmp_path, key)
        assert done.returncode == 2, prompt
        assert all(words in done.stderr for words in ("HTTP 400", BEFORE, AFTER)), prompt
        for path in tmp_path.glob(f"{at}.jsonl*"):
            assert not leaked(path.read_text(), key)
            path.unlink()


@each_key
@pytest.mark.parametrize(
    ("form", "vendor"), [*zip((*FORMS, *JSON_FORMS), cycle(["openai", "gemini"]), strict=False)]
)
def test_a_batch_that_fails_as_a_whole_shows_no_key(
    vendor: str, form: str, key: str, hostile: Hostile, tmp_path: Path
) -> None:
    write_suite(tmp_path, ["one"])
    hostile.end = "failed"
    act = hostile.act

    def told(request: Request) -> Answer:
        status, body = act(request)
        said = f"it failed ({key})"
        return status, json.dumps(body).replace(in_json(said), sentence(form, key))

    hostile.act = told  # type: ignore[method-assign]
    done = run("a.eval.yaml", "--target", vendor, *BATCH, folder=tmp_path)
    shown(done, tmp_path, key)
    assert BEFORE in done.stderr
    assert AFTER in done.stderr


# What is no answer of HTTP, and what is cut


class Raw:
    """Answers with bytes, whatever is asked."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, suppress(OSError):
                    client.settimeout(5)
                    asked = b""
                    while b"\r\n\r\n" not in asked:
                        asked += client.recv(65536)
                    client.sendall(self.reply)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass


OK = b"HTTP/1.1 200 OK\r\n"
HEADS: dict[str, Callable[[bytes], bytes]] = {
    "a status line": lambda key: b"HTTP/1.1 Bearer %s\r\n\r\n" % key,
    "no HTTP": lambda key: b"Bearer %s\r\n\r\n" % key,
    "no HTTP, many times": lambda key: b"%s \r\n\r\n" % (key * 300),
    "a reason": lambda key: b"HTTP/1.1 400 %s\r\ncontent-length: 0\r\n\r\n" % key,
    "a header without a name": lambda key: OK + b"a b %s\r\n\r\n" % key,
    "a header with zeros": lambda key: OK + b"a\0: %s\r\n\r\n" % (key * 50),
    "a long header": lambda key: OK + b"x-key: %s\r\n\r\n" % (key * 2000),
    "a long header after blanks": lambda key: OK + b"x:%80s %s\r\n\r\n" % (b"", key * 2000),
    "a long name": lambda key: OK + b"%s: a\r\n\r\n" % (key * 2000),
    "a chunk": lambda key: OK + b"transfer-encoding: chunked\r\n\r\n%s\r\n\r\n" % (key * 9),
    "a length": lambda key: OK + b"content-length: %s\r\n\r\n" % key,
    "an encoding": lambda key: OK + b"content-encoding: %s\r\ncontent-length: 0\r\n\r\n" % key,
    "an address": lambda key: b"HTTP/1.1 302 No\r\nlocation: /%s\r\n\r\n" % key,
    "a body that is cut": lambda key: OK + b"content-length: 999\r\n\r\n%s" % key,
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("connect", [openai, anthropic, gemini])
def test_what_is_no_http_shows_no_key(connect: Connect, head: Any) -> None:
    for key in (KEYS["letters"], KEYS["letters"].lower(), KEYS["base64"]):
        with Raw(head(key.encode())) as server:
            error = failure(connect(server.url, api_key=key, max_retries=0))
        assert not leaked(f"{error} {error!r}", key)


@each_key
@pytest.mark.parametrize("status", [200, 400])
def test_a_key_that_is_cut_in_the_middle_is_not_shown(
    status: int, key: str, server: Server
) -> None:
    """What is shown is hidden before it is cut, and no part of a key is left at an end."""
    forms = [FORMS["raw"], FORMS["URL, all"], JSON_FORMS["all"], FORMS["base64"]]
    replies = [
        f"{'x' * before}{form(key) * times}"
        for form in forms
        for before in (0, 7, 480, 1980, 16370)
        for times in (1, 20, 500)
    ]
    provider = openai(server.url, api_key=key, max_retries=0)

    async def main() -> None:
        async with provider:  # one client for all: to make one takes longer than to ask
            for reply in replies:
                said = in_json(reply)
                for text in (reply, f'{{"a": "{said}"}}', f'{{"error": "{said}"}}'):
                    server.answer(body=text, status=status)
                    with pytest.raises(ProviderError) as caught:
                        await provider.invoke(HELLO)
                    assert not leaked(str(caught.value), key), (reply[:20], len(reply))

    asyncio.run(main())


@each_key
@pytest.mark.parametrize("form", [*FORMS, *JSON_FORMS])
def test_an_error_object_has_no_key_in_it(form: str, key: str, server: Server) -> None:
    """Also not where only a debugger, or pytest, looks."""
    said = f'{{"error": {{"code": "zq", "message": "{sentence(form, key)}"}}}}'
    for connect in (openai, responses, anthropic, gemini):
        for status in (200, 400):
            server.answer(body=said, status=status)
            error = failure(connect(server.url, api_key=key, max_retries=0))
            parts = (error, error.args, error.what, error.__cause__, error.__context__)
            assert not leaked(f"{parts!r}", key)


@pytest.mark.parametrize("status", [200, 400])
@each_vendor
def test_a_prompt_that_quotes_the_key_is_recorded_without_it(
    connect: Connect, status: int, server: Server
) -> None:
    key = KEYS["base64"]
    server.answer(status=status)
    provider = connect(server.url, api_key=key, max_retries=0)
    request = chat(("user", f"Is {key} a key?"))
    done = (ask if status == 200 else failure)(provider, request)
    assert key in server.requests[-1].body.decode()
    assert b"Is *** a key?" in done.wire


@each_vendor
def test_an_address_with_the_key_that_does_not_answer_is_shown_without_it(connect: Connect) -> None:
    error = failure(connect("http://localhost:1", api_key="localhost", max_retries=0))
    assert "Cannot connect to host ***:1" in error.what
    assert "localhost" not in str(error)


# What has no key in it


def today(status: int, body: bytes) -> tuple[str, str]:
    """Return the kind and the words of an error, by the rule for all vendors.

    Of an object with an ``error`` that has a ``message``, that message is shown, else the whole
    text; of both the first 500 characters, after the long runs of base64 are replaced.
    """
    text = body.decode("utf-8", "replace")
    shown, code, wrong_key = text.strip(), None, False
    try:
        error = json.loads(text)["error"]
        shown, code = error["message"], error.get("code")
        details = error.get("details") or ()
        wrong_key = any(detail.get("reason") == "API_KEY_INVALID" for detail in details)
    except (LookupError, TypeError, AttributeError, ValueError):
        pass
    base = r"(?<![A-Za-z0-9+/])(?:data:[\w/.+-]*;base64,)?[A-Za-z0-9+/]{200,}={0,2}"
    shown = re.sub(base, "(base64)", str(shown))[:500] or "without a reason"
    if code == "content_filter":
        return "content_filter", f"O3: {shown}"
    kind = {401: "access_denied", 403: "access_denied", 429: "rate_limit"}.get(status, "http")
    kind = "access_denied" if wrong_key else kind
    advice = "; check the api_key of the target 't'" if kind == "access_denied" else ""
    advice += "; check the model and the address of the target 't'" if status == 404 else ""
    return kind, f"HTTP {status}: {shown}{advice}"


ATOMS = (
    *("\\", "\\\\", "\\/", "\\u0041", "\\u002", "\\n", "%", "%%", "%2F", "%zz", "%u0041", "100 %"),
    *("&", "&amp;", "&#43;", "&#x2b;", "&nosuch;", "&#", "+", "/", "=", '"', "'", "<b>", "{", "}"),
    *(
        "sk-",
        "Bearer",
        "YWJjZGVmZ2hpamtsbW5vcA==",
        "\u00fc\u4e2d\u2028",
        "\U0001f600",
        "\n\n",
        "\t",
    ),
    *("0123456789abcdef0123", "no such model", "the prompt", "***", "(base64)", "iVBORw0KGgo" * 30),
)


def random_error(number: int) -> tuple[int, bytes]:
    rng = random.Random(number)
    words = [
        rng.choice([*ATOMS, *string.ascii_letters, " ", " "]) for _ in range(rng.randrange(40))
    ]
    text = "".join(words) * rng.choice([1, 1, 1, 30])
    message = rng.choice([text] * 8 + [None, 7, ["a", text], {"b": text}, True, "", 0.5])
    error: Any = {"message": message, "code": rng.choice(["x", None, 7, "content_filter"])}
    if rng.random() < 0.2:
        error["details"] = rng.choice([[{"reason": "API_KEY_INVALID"}], [{}, {"a": 1}], "no", [7]])
    made: list[Any] = [{"error": error}] * 6
    made += [{"error": text}, {"message": text}, {"detail": text}, {"detail": [{"msg": text}]}]
    made += [[{"error": error}], {"errors": [error]}, {"error": None}, {"error": [error]}, text]
    value = rng.choice(made)
    body = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    body = rng.choice([body] * 6 + [text, f"<html>{text}</html>", f" {body}\n", body[:-1]])
    status = rng.choice([400, 400, 401, 403, 404, 413, 422, 429, 500, 503])
    end = rng.choice([b""] * 9 + [b"\xff"])
    return status, body.encode() + end


@pytest.mark.parametrize("connect", [openai, anthropic, gemini])
def test_errors_without_a_key_read_as_they_always_have(connect: Connect, server: Server) -> None:
    server.then(Step(lambda request: random_error(int(prompt_of(request.json)))), None)
    provider = connect(server.url, max_retries=0)

    first = 400 * [openai, anthropic, gemini].index(connect)  # others with each vendor
    numbers = range(first, first + 400)

    async def main() -> list[ProviderError]:
        found = []
        async with provider:
            for number in numbers:
                with pytest.raises(ProviderError) as caught:
                    await provider.invoke(chat(("user", str(number))))
                found.append(caught.value)
        return found

    for number, error in zip(numbers, asyncio.run(main()), strict=True):
        status, body = random_error(number)
        kind, words = today(status, body)
        assert (error.kind, error.what) == (kind, words), (number, body)


PLAIN = (
    "100 % of C:\\new\\u0041\\/x at %2Fa%2fb &amp; &#43; &lt;b&gt; YWJjZGVmZ2hpamtsbW5vcA== "
    '{\\"a\\": \\"\\\\u0041\\"} 50%25 \\\\\\ &&&; sk-pro Zq7x W_v9Kt4 mB2nR8'
)


@each_vendor
def test_an_answer_without_the_key_stays_as_it_is(connect: Connect, server: Server) -> None:
    server.answer(PLAIN)
    assert ask(connect(server.url, api_key=KEYS["letters"])).text == PLAIN


@pytest.mark.parametrize(
    "unit",
    [
        "\\",
        "%",
        "&",
        "\\u00",
        "%2",
        "&#",
        "&amp",
        "Ab/cD+",
        "A",
        "\\u0041",
        "%41",
        "%25",
        '"',
        "\x00",
    ],
)
@pytest.mark.parametrize("status", [200, 400])
@each_key
def test_a_large_answer_takes_the_time_that_its_size_needs(
    key: str, unit: str, status: int, server: Server
) -> None:
    """Smaller ones are tried first, so that what takes for ever ends soon."""
    is_whole = key == KEYS["base64"] and unit == "\\"
    for size in (MIB // 16, MIB // 2, 15 * MIB)[: 3 if is_whole else 2]:
        text = unit * (size // len(in_json(unit)))
        body = json.dumps(completion("openai", "@")).replace("@", in_json(text)).encode()
        server.answer(body=body, status=status)
        provider = openai(server.url, api_key=key, max_retries=0)
        start = time.process_time()
        if status == 200:
            assert ask(provider).text == text
        else:
            with pytest.raises(ProviderError):
                ask(provider)
        assert time.process_time() - start < 0.5 + size / MIB, size


# Numbers and forms that nobody expects

ODD_COUNTS: dict[str, str] = {
    "400 digits": "1" * 400,
    "20 digits": "1" * 20,
    "400 digits below zero": "-" + "1" * 400,
    "below zero": "-5",
    "a fraction": "1.5",
    "beyond any float": "1e400",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "text": '"many"',
    "digits in a text": '"7"',
    "true": "true",
    "null": "null",
    "a list": "[7]",
    "an object": '{"total": 7}',
    "lists in lists": "[" * 200_000,
    "lists in lists that end": "[" * 200_000 + "]" * 200_000,
    "objects in objects": '{"a":' * 200_000,
    "missing": "",
}
NAMES = {"openai": "input_tokens", "anthropic": "input_tokens", "gemini": "totalTokens"}
CONNECTS = {"openai": openai, "anthropic": anthropic, "gemini": gemini}


@pytest.mark.parametrize("odd", ODD_COUNTS.values(), ids=ODD_COUNTS)
@pytest.mark.parametrize("vendor", NAMES)
def test_a_count_that_is_none_is_malformed(
    vendor: str, odd: str, server: Server, tmp_path: Path
) -> None:
    write_suite(tmp_path, ["Hello", "Bye"])
    name = NAMES[vendor]
    told = f'{{"{name}": {odd}}}' if odd else '{"object": "count"}'
    server.answer(body=lambda asked: told if b"Hello" in asked.body else {name: 7}, times=None)
    target = CONNECTS[vendor](server.url)
    first, second = dry_run(tmp_path / "a.eval.yaml", "spec", target, count_tokens=True)
    error = first.result.error
    assert error is not None
    assert error.type == "malformed"
    assert len(error.message) < 700
    assert second.tokens is not None
    assert second.tokens.count == 7
    if len(odd) < 30:
        said = odd.strip('"[]')
        assert name in error.message or (said and said in error.message), error.message


def answer_or_malformed(provider: Any) -> ProviderResponse | None:
    """Return the answer; None if it is malformed, and what the error says is not too long."""
    try:
        return ask(provider)
    except ProviderError as error:
        kind, size = error.kind, len(str(error))
    assert (kind, size < 700) == ("malformed", True)
    return None


def with_usage(vendor: str | None, odd: str) -> str:
    """Return an answer whose counts are all odd."""
    body = completion(vendor, TEXT)
    name = "usageMetadata" if vendor == "gemini" else "usage"
    body[name] = dict.fromkeys(body[name], "@")
    return json.dumps(body).replace('"@"', odd or "null")


@pytest.mark.parametrize("odd", ODD_COUNTS.values(), ids=ODD_COUNTS)
@each_vendor
def test_a_usage_that_is_none_tears_nothing(connect: Connect, odd: str, server: Server) -> None:
    server.answer(body=lambda request: with_usage(request.vendor, odd))
    answer = answer_or_malformed(connect(server.url))
    if answer is not None:
        assert answer.text == TEXT
        counts = answer.usage.values()
        assert all(type(each) is int and 0 <= each <= 2**53 for each in counts)


@pytest.mark.parametrize("odd", ["7", '"all"', "[]", "null", "[" * 200_000, "{"])
@each_vendor
def test_usage_itself_may_be_anything(connect: Connect, odd: str, server: Server) -> None:
    def answer(request: Request) -> str:
        body = completion(request.vendor, TEXT)
        body["usageMetadata" if request.vendor == "gemini" else "usage"] = "@"
        return json.dumps(body).replace('"@"', odd)

    server.answer(body=answer)
    said = answer_or_malformed(connect(server.url))
    assert said is None or said.text == TEXT


@pytest.mark.parametrize("text", ["[" * 200_000, '{"error":' * 100_000, '{"error":{"message":'])
@each_vendor
def test_an_error_may_be_anything(connect: Connect, text: str, server: Server) -> None:
    server.answer(body=text, status=400)
    with pytest.raises(ProviderError) as caught:
        ask(connect(server.url))
    assert (caught.value.kind, caught.value.what[:20]) == ("http", f"HTTP 400: {text}"[:20])


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800", "\\u0000", "\x7f"])
@each_vendor
def test_half_a_character_tears_nothing(connect: Connect, text: str, server: Server) -> None:
    server.answer(
        body=lambda request: json.dumps(completion(request.vendor, "@")).replace("@", text)
    )
    said = answer_or_malformed(connect(server.url))
    assert said is None or said.text.encode()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"Hi \ud83d", "Hi \ufffd"),
        (r"\uDE00, \ud83d\ude00, \ud83d", "\ufffd, \U0001f600, \ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ud83d\u0041 \\ud83d \\\ud83d", "\ufffdA \\ud83d \\\ufffd"),
    ],
)
@each_vendor
def test_half_a_character_of_an_answer_is_replaced(
    connect: Connect, written: str, text: str, server: Server
) -> None:
    """As where a limit cuts an emoji: the answer was paid for."""
    server.answer(
        body=lambda request: json.dumps(completion(request.vendor, "@")).replace("@", written)
    )
    assert ask(connect(server.url)).text == text


@each_vendor
def test_half_a_character_in_what_is_no_json_is_not_replaced(
    connect: Connect, server: Server
) -> None:
    server.answer(body=r'{"a": "\ud83d", NaN}')
    error = failure(connect(server.url))
    assert "DecodeError: JSON is malformed: " in error.what
    assert error.what.endswith("(byte 16); it begins with " + repr(r'{"a": "\ud83d", NaN}'))


# Responses

STATUSES = {
    "completed": True,
    "incomplete": True,
    None: True,
    "cancelled": False,
    "in_progress": False,
    "queued": False,
    "failed": False,
    "moonwalking": False,
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_response_is_an_answer_only_when_it_is_done(status: str | None, server: Server) -> None:
    whole = completion("responses", TEXT)
    if status is None:
        del whole["status"]
    else:
        whole["status"] = status
    if STATUSES[status]:
        server.answer(body=whole)
        assert ask(responses(server.url)).text == TEXT
        return
    outputs: list[dict[str, Any]] = [{"output": []}, {"output": None}, {}]
    for output in outputs:
        body = {name: value for name, value in whole.items() if name != "output"}
        server.answer(body={**body, **output})
        with pytest.raises(ProviderError) as caught:
            ask(responses(server.url, max_retries=0))
        assert caught.value.kind in ("http", "malformed")
        assert str(status) in str(caught.value) or caught.value.kind == "malformed"


def test_a_response_without_a_status_and_output_is_malformed(server: Server) -> None:
    body = completion("responses", TEXT)
    server.answer(body={name: body[name] for name in body if name not in ("status", "output")})
    with pytest.raises(ProviderError) as caught:
        ask(responses(server.url))
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("status", ["cancelled", "in_progress", "queued", "failed"])
def test_a_response_in_a_batch_is_an_answer_only_when_it_is_done(
    status: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    write_suite(tmp_path, ["one"])
    write_targets(tmp_path, batch_server)
    act = batch_server.act

    def told(request: Request) -> Answer:
        code, body = act(request)
        if request.path.endswith("/content"):
            line = json.loads(body)
            line["response"]["body"] |= {"status": status, "output": []}
            body = json.dumps(line)
        return code, body

    batch_server.act = told  # type: ignore[method-assign]
    done = run("a.eval.yaml", "--target", "responses", *BATCH, folder=tmp_path)
    (line,) = by_id(tmp_path / "out.jsonl").values()
    assert (done.returncode, line["response"]) == (1, None)
    assert line["error"]["type"] in ("http", "batch", "malformed")


# Sizes


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * (200 * MIB))


@each_vendor
@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_above_16_mib_is_said_to_be_too_large(
    connect: Connect, status: int, server: Server
) -> None:
    server.answer(body=b"0" * (16 * MIB + 1), status=status)
    server.answer(body=bomb(), status=status, headers={"content-encoding": "gzip"})
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            ask(connect(server.url, max_retries=0))
        error = caught.value
        assert "larger than 16 MiB" in error.what
        assert error.kind == "malformed"


@pytest.mark.parametrize("vendor", ["openai", "azure", "responses", "anthropic", "gemini"])
def test_an_answer_above_16_mib_in_a_batch_is_said_to_be_too_large(
    vendor: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    write_suite(tmp_path, ["one", "two", "three"])
    write_targets(tmp_path, batch_server)
    act = batch_server.act

    def told(request: Request) -> Answer:
        code, body = act(request)
        if isinstance(body, bytes):
            return code, body.replace(b"TWO", b"2" * (17 * MIB))
        return code, body

    batch_server.act = told  # type: ignore[method-assign]
    done = run("a.eval.yaml", "--target", vendor, *BATCH, folder=tmp_path)
    results = by_id(tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert results["c1"]["error"]["type"] == "malformed"
    assert "larger than 16 MiB" in results["c1"]["error"]["message"]
    assert all(results[name]["error"] is None for name in ("c0", "c2"))


@each_vendor
@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "x-nothing"])
def test_an_encoding_that_nobody_asked_for_is_malformed(
    connect: Connect, encoding: str, server: Server
) -> None:
    server.answer(body=b"\x28\xb5\x2f\xfd\x00", headers={"content-encoding": encoding})
    with pytest.raises(ProviderError) as caught:
        ask(connect(server.url, max_retries=0))
    assert caught.value.kind == "malformed"
    assert encoding in caught.value.what


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
def test_packed_results_in_several_pieces_lose_no_line(
    vendor: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A file of gzip may have several members, one after another (RFC 1952)."""
    write_suite(tmp_path, ["one", "two", "three"])
    write_targets(tmp_path, batch_server)
    take = batch_server.take

    def packed(request: Request) -> Step:
        step = take(request)
        if batch_server.operations[-1] != "results":
            return step

        def make(request: Request) -> Answer:
            status, body = step.make(request)
            return status, b"".join(map(gzip.compress, body.splitlines(keepends=True)))

        return step._replace(make=make, headers={"content-encoding": "gzip"})

    batch_server.take = packed  # type: ignore[method-assign]
    done = run("a.eval.yaml", "--target", vendor, *BATCH, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@each_vendor
def test_a_packed_answer_that_is_cut_is_no_answer(connect: Connect, server: Server) -> None:
    def cut(request: Request) -> bytes:
        return gzip.compress(json.dumps(completion(request.vendor, TEXT)).encode())[:-9]

    server.answer(body=cut, headers={"content-encoding": "gzip"}, times=None)
    with pytest.raises(ProviderError) as caught:
        ask(connect(server.url, max_retries=0))
    assert caught.value.kind in ("malformed", "connection")
