"""What goes out is what each vendor's own SDK would send for the same call.

Both ask one server. ``make test-tools`` runs this with the oldest and the newest SDKs. The SDKs
judge each endpoint that is used; what may differ is in ``MAY_DIFFER``, with the reason.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.parser import BytesParser
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import anthropic
import openai
import pytest
from google import genai

import commands
import vendors
from batch_server import GATEWAY, Batch, BatchServer, write_targets
from loopback import KEY, Request, Server
from multiturn import Case, MultiturnError, TestMessage, dry_run, run_batches
from running import run, write_suite
from vendors import HELLO, Connect, ask

# Headers that may differ, or may be in one of two requests only, and why.
MAY_DIFFER = {
    "user-agent": "each client has a name of its own",
    "x-goog-api-client": "likewise",
    "x-stainless-*": "the SDKs describe themselves, their machine and their retries in them",
    "x-server-timeout": "the SDK sends it only if it is told a timeout",
    "accept-encoding": "gzip alone, since whatever is unpacked must be bounded",
    "connection": "HTTP/1.1 keeps connections, whether that is said or not",
    "content-length": "the JSON of an SDK may have other spaces and another order of keys",
}
# Likewise, of the chunks of an upload to Gemini.
OF_CHUNKS = {
    "x-goog-api-key": "the SDK trusts the secret in the address; a gateway may want a key",
    "x-goog-upload-protocol": "the SDK repeats those of the first request; the protocol does not",
    "x-goog-upload-header-content-length": "likewise",
    "x-goog-upload-header-content-type": "likewise",
}
# Requests whose bodies are others, and why.
OTHER_BODIES = {
    "gemini upload": "the names are in camel case, as in Google's reference, which takes both; the"
    " size is in a header",
    "gemini count": "the SDK refuses to count system messages and tools; the API counts both in a"
    " generateContentRequest",
}
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")
MODELS = ("gpt-4o", "org/model", "a b", "llama3:8b", "\u00fc\u4e2d", "50%", "a%2Fb", "a+b;c,d=e@f")
CAMEL = {"display_name": "displayName", "mime_type": "mimeType"}
MESSAGE = {"role": "user", "content": "Hello"}


@pytest.fixture
def server(batch_server: BatchServer) -> BatchServer:
    return batch_server


def openai_sdk(url: str, **options: Any) -> openai.OpenAI:
    given = {"api_key": KEY, "base_url": f"{url}/v1", "max_retries": 0}
    return openai.OpenAI(**{**given, **options})


def azure_sdk(url: str, version: str = "2024-12-01-preview", **options: Any) -> Any:
    given: dict[str, Any] = {"api_key": KEY, "azure_endpoint": url, "api_version": version}
    return openai.AzureOpenAI(**{**given, "max_retries": 0, **options})


def anthropic_sdk(url: str, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**{"api_key": KEY, "base_url": url, "max_retries": 0, **options})


def gemini_sdk(url: str) -> genai.Client:
    options: Any = {"base_url": url, "api_version": "v1beta"}
    return genai.Client(api_key=KEY, http_options=options)


def body_of(request: Request) -> Any:
    """Return a body as what it means: JSON, the parts of a form, or bytes."""
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        message = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + request.body)
        assert message.is_multipart()
        return {
            part.get_param("name", header="content-disposition"): (
                part.get_filename(),
                dict(part.items()).get("Content-Type", "text/plain"),
                part.get_payload(decode=True),
            )
            for part in message.get_payload()
            if not isinstance(part, str)
        }
    with suppress(ValueError):
        body = json.loads(request.body)
        if "gemini upload" in OTHER_BODIES and "/upload/" in request.path:
            file = {CAMEL.get(name, name): text for name, text in body["file"].items()}
            file.pop("size_bytes", None)
            return {"file": file}
        return body
    return request.body


def query_of(request: Request) -> list[tuple[str, str]]:
    """Return the query, without the secret that the server made for one upload."""
    query = parse_qsl(urlsplit(request.path).query, keep_blank_values=True)
    return sorted((name, text) for name, text in query if name != "upload_id")


def compare(ours: Request, theirs: Request, *, path: bool = True, body: bool = True) -> None:
    """Fail where a request is not what the SDK sends."""
    assert ours.method == theirs.method
    if path:
        assert urlsplit(ours.path).path == urlsplit(theirs.path).path
    assert query_of(ours) == query_of(theirs)
    names = ours.headers.keys() | theirs.headers.keys()
    for name in sorted(names):
        told = ours.headers.get(name), theirs.headers.get(name)
        if any(fnmatchcase(name, pattern) for pattern in MAY_DIFFER):
            continue
        if name == "accept" and "*/*" in told:
            continue  # whoever takes anything takes what the other one wants
        if name in OF_CHUNKS and "upload_id" in ours.path:
            continue
        if name == "content-type":
            if not ours.body and not theirs.body:
                continue  # the SDKs name one even where there is no body
            # Each request has a boundary of its own.
            told = tuple(value and value.partition("; boundary=")[0] for value in told)  # type: ignore[assignment]
        assert told[0] == told[1], name
    if body:
        assert body_of(ours) == body_of(theirs)


def judged(server: Server, product: Callable[[], Any], sdk: Callable[[], Any]) -> Any:
    """Have both ask; return the last request of each."""
    product()
    ours = server.requests[-1]
    before = len(server.requests)
    sdk()
    assert len(server.requests) == before + 1
    return ours, server.requests[-1]


# One request, one answer


def sdk_call(vendor: str, url: str, body: dict[str, Any], **options: Any) -> Callable[[], Any]:
    """Return a function that asks with a body through the vendor's SDK."""
    if vendor in ("openai", "azure"):
        make = openai_sdk if vendor == "openai" else azure_sdk
        return lambda: make(url, **options).chat.completions.create(**body)
    if vendor == "responses":
        return lambda: openai_sdk(url, **options).responses.create(**body)
    if vendor == "azure responses":
        client = azure_sdk(url, "2025-04-01-preview", **options)
        return lambda: client.responses.create(**body)
    if vendor == "anthropic":
        return lambda: anthropic_sdk(url, **options).messages.create(**body)
    config: Any = {
        "system_instruction": body["systemInstruction"]["parts"][0]["text"],
        "max_output_tokens": body["generationConfig"]["maxOutputTokens"],
        "temperature": body["generationConfig"]["temperature"],
    }
    client = gemini_sdk(url)
    return lambda: client.models.generate_content(
        model=body["model"],
        contents=body["contents"],
        config=config,  # its types know no mapping
    )


def azure_responses(url: str, **settings: Any) -> Any:
    return vendors.azure(url, api="responses", **settings)


def new_anthropic(url: str, **settings: Any) -> Any:
    """Return a target with the version that the SDK has, too."""
    return vendors.anthropic(url, **{"api_version": "2026-10-21", **settings})


TARGETS: dict[str, Connect] = {
    "openai": vendors.openai,
    "azure": vendors.azure,
    "responses": vendors.responses,
    "azure responses": azure_responses,
    "anthropic": new_anthropic,
    "gemini": vendors.gemini,
}
each_target = pytest.mark.parametrize("vendor", TARGETS)


def asked(
    vendor: str, server: Server, *, prefix: str = "", userinfo: str = "", **settings: Any
) -> tuple[Request, Request]:
    """Ask through the product and the SDK; return both requests."""
    temperature = {} if vendor == "anthropic" else {"temperature": 0.5}
    url = server.url.replace("://", f"://{userinfo}") + prefix
    provider = TARGETS[vendor](url, max_output_tokens=64, **temperature, **settings)
    body = {**json.loads(provider.wire(HELLO).body), "model": provider.settings.model}
    if vendor == "gemini":
        body["generationConfig"] = {"temperature": None, **body["generationConfig"]}
    ours, theirs = judged(server, lambda: ask(provider), sdk_call(vendor, url, body))
    assert ours.body == provider.wire(HELLO).body
    return ours, theirs


@each_target
def test_a_request_is_what_the_sdk_sends(vendor: str, server: BatchServer) -> None:
    ours, theirs = asked(vendor, server)
    compare(ours, theirs)
    assert ours.headers["content-length"] == str(len(ours.body))


@each_target
@pytest.mark.parametrize("prefix", ["/", GATEWAY, f"{GATEWAY}/", "/a%2Fb"])
def test_the_address_may_have_a_path(vendor: str, prefix: str, server: BatchServer) -> None:
    """Of an openai target, the path is before /v1."""
    if vendor in ("openai", "responses"):
        prefix = prefix.rstrip("/")
    compare(*asked(vendor, server, prefix=prefix))


@pytest.mark.parametrize("vendor", ["openai", "responses"])
def test_the_address_of_openai_may_end_in_a_slash(vendor: str, server: BatchServer) -> None:
    provider = TARGETS[vendor](base_url=f"{server.url}/v1/")
    body = json.loads(provider.wire(HELLO).body)
    compare(*judged(server, lambda: ask(provider), sdk_call(vendor, server.url, body)))


@each_target
def test_a_password_in_the_address_goes_where_the_sdk_sends_it(
    vendor: str, server: BatchServer
) -> None:
    compare(*asked(vendor, server, userinfo="me:pa%20%2Fss@"))


@each_target
@pytest.mark.parametrize("model", MODELS)
def test_a_model_may_have_an_odd_name(vendor: str, model: str, server: BatchServer) -> None:
    """Where it is in the path, the SDKs leave escapes in it as they are, or escape them again."""
    ours, theirs = asked(vendor, server, model=model)
    compare(ours, theirs, path=False)
    path, wanted = (urlsplit(request.path).path for request in (ours, theirs))
    paths = {
        "azure": f"/openai/deployments/{model}/chat/completions",
        "gemini": f"/v1beta/models/{model}:generateContent",
    }
    assert unquote(path) in (unquote(wanted), unquote(unquote(wanted)), paths.get(vendor))
    assert path.isascii()
    assert not {" ", "?", "#"} & set(path)


@pytest.mark.parametrize("model", ["a?b", "a#b", "a?key=b#c"])
@pytest.mark.parametrize("vendor", ["azure", "gemini"])
def test_the_name_of_a_model_does_not_end_the_path(
    vendor: str, model: str, server: BatchServer
) -> None:
    provider = TARGETS[vendor](server.url, model=model)
    with suppress(MultiturnError):  # the SDK of Gemini refuses it
        ask(provider)
    for request in server.requests:
        assert model in unquote(urlsplit(request.path).path)
        assert {name for name, _ in query_of(request)} <= {"api-version"}


def test_a_version_of_the_api_goes_out_as_it_is_set(server: BatchServer) -> None:
    provider = vendors.azure(server.url, version="2025-01-01-preview")
    body = json.loads(provider.wire(HELLO).body)
    client = azure_sdk(server.url, "2025-01-01-preview")
    compare(*judged(server, lambda: ask(provider), lambda: client.chat.completions.create(**body)))
    old = vendors.anthropic(server.url, api_version="2023-06-01")
    body = json.loads(old.wire(HELLO).body)
    headers = {"anthropic-version": "2023-06-01"}
    then = anthropic_sdk(server.url, default_headers=headers)
    compare(*judged(server, lambda: ask(old), lambda: then.messages.create(**body)))


def test_the_older_header_of_anthropic_is_the_only_one_with_the_key(server: BatchServer) -> None:
    ask(new_anthropic(server.url, auth="x-api-key"))
    (request,) = server.requests
    assert (request.headers["x-api-key"], "authorization" in request.headers) == (KEY, False)


def test_a_token_of_azure_is_what_the_sdk_sends(server: BatchServer) -> None:
    provider = vendors.azure(server.url, auth="bearer")
    body = json.loads(provider.wire(HELLO).body)
    client = azure_sdk(server.url, api_key=None, azure_ad_token=KEY)
    ours, theirs = judged(
        server, lambda: ask(provider), lambda: client.chat.completions.create(**body)
    )
    compare(ours, theirs)
    assert (ours.headers["authorization"], "api-key" in ours.headers) == (f"Bearer {KEY}", False)


def test_without_a_key_none_is_sent(server: BatchServer) -> None:
    ask(vendors.openai(server.url, api_key=None))
    assert "authorization" not in server.requests[0].headers


# Counting


def count(provider: Any, tmp_path: Path) -> None:
    write_suite(tmp_path, ["Hello"])
    list(dry_run(tmp_path / "a.eval.yaml", "spec", provider, count_tokens=True))


def test_a_count_is_what_the_sdk_of_openai_asks_for(server: BatchServer, tmp_path: Path) -> None:
    server.answer(body={"object": "response.input_tokens", "input_tokens": 7}, times=None)
    provider = vendors.openai(server.url)
    compare(
        *judged(
            server,
            lambda: count(provider, tmp_path),
            lambda: openai_sdk(server.url).responses.input_tokens.count(**server.requests[-1].json),
        )
    )
    assert server.requests[0].json["input"][-1] == MESSAGE


def test_a_count_is_what_the_sdk_of_anthropic_asks_for(server: BatchServer, tmp_path: Path) -> None:
    server.answer(body={"input_tokens": 7}, times=None)
    provider = new_anthropic(server.url)
    client = anthropic_sdk(server.url)
    compare(
        *judged(
            server,
            lambda: count(provider, tmp_path),
            lambda: client.messages.count_tokens(**server.requests[-1].json),
        )
    )
    assert server.requests[0].json["messages"] == [MESSAGE]


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "tunedModels/m", "models/m"])
def test_a_count_is_what_the_sdk_of_gemini_asks_for(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.answer(body={"totalTokens": 7}, times=None)
    provider = vendors.gemini(server.url, model=model)
    contents: Any = [{"role": "user", "parts": [{"text": "Hello"}]}]
    client = gemini_sdk(server.url)
    ours, theirs = judged(
        server,
        lambda: count(provider, tmp_path),
        lambda: client.models.count_tokens(model=model, contents=contents),
    )
    compare(ours, theirs, body="gemini count" not in OTHER_BODIES)
    whole = ours.json["generateContentRequest"]
    assert (whole["model"], whole["contents"]) == (
        model if "/" in model else f"models/{model}",
        theirs.json["contents"],
    )


# Batches


def write_suite_and_targets(folder: Path, server: BatchServer, **more: Any) -> None:
    write_suite(folder, ["one", "two", "three"])
    write_targets(folder, server, **more)


def sent(server: BatchServer) -> dict[str, list[Request]]:
    """Return the requests by what they ask for."""
    found: dict[str, list[Request]] = {}
    for operation, request in zip(server.operations, server.requests, strict=True):
        found.setdefault(operation, []).append(request)
    return found


def all_operations(
    vendor: str, folder: Path, server: BatchServer, *, prefix: str = "", **more: Any
) -> dict[str, list[Request]]:
    """Lose a batch, find it on the second page of the list and get its results; cancel another."""
    kind = {"responses": "openai", "azure responses": "azure"}.get(vendor, vendor)
    owner = "openai" if kind == "azure" else kind

    def strangers(operation: str, acted: bool) -> None:
        if (operation, acted) == ("create", True):
            for _ in range(3):
                server.stranger(owner, 3)

    write_suite_and_targets(folder, server, **more)
    if prefix:
        targets = folder / "targets.yaml"
        targets.write_text(targets.read_text().replace(server.url, server.url + prefix))
    server.page, server.lag, server.watch = 2, 2, strangers
    server.unprocessed = int(kind == "azure")
    server.trouble("create", 500, acted=True)
    arguments = ("a.eval.yaml", "--target", vendor, "--batch", "--poll", "0.001", "--output")
    done = run(*arguments, "out.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    found = sent(server)
    server.watch, server.lag = lambda operation, acted: None, 1_000_000
    done = run(*arguments, "b.jsonl", "--no-wait", folder=folder)
    assert done.returncode == 0, done.stderr
    env = {"NO_PROXY": "127.0.0.1"}
    done = commands.run("batch", "cancel", "b.jsonl", folder=folder, env=env)
    assert done.returncode == 0, done.stderr
    found["cancel"] = sent(server)["cancel"]
    server.batches.popitem()  # the lists of the SDK shall be those of the first run
    assert {"create", "list", "look", "cancel", "results"} <= found.keys()
    return found


def first_batch(server: BatchServer) -> str:
    return next(iter(server.batches))


def canceled(ours: dict[str, list[Request]]) -> str:
    """Return the id of the batch that was canceled."""
    last = ours["cancel"][-1].path.partition("?")[0].removesuffix("/cancel").removesuffix(":cancel")
    return last[last.index("batches/") + len("batches/") :]


class Judge:
    """Has an SDK do what the product did, and compares the requests."""

    def __init__(self, server: BatchServer, ours: dict[str, list[Request]]) -> None:
        self.server = server
        self.ours = ours

    def __call__(self, operation: str, call: Callable[[], Any], at: int = 0) -> None:
        """Compare the requests for an operation, from one on, with those of a call."""
        before = len(self.server.requests)
        with suppress(Exception):  # such as HTTP 409: the batch has ended by now
            call()
        theirs = [
            request
            for name, request in [
                *zip(self.server.operations, self.server.requests, strict=True),
            ][before:]
            if name == operation
        ]
        ours = self.ours[operation][at:]
        assert theirs
        for own, other in zip(ours, theirs, strict=False):
            compare(own, other)


@pytest.mark.parametrize("prefix", ["", GATEWAY])
@pytest.mark.parametrize("vendor", ["openai", "responses", "azure", "azure responses"])
def test_a_batch_is_what_the_sdk_of_openai_sends(
    vendor: str, prefix: str, tmp_path: Path, server: BatchServer
) -> None:
    ours = all_operations(vendor, tmp_path, server, prefix=prefix)
    url = server.url + prefix
    version = "2025-04-01-preview" if "responses" in vendor else "2024-12-01-preview"
    client = azure_sdk(url, version) if "azure" in vendor else openai_sdk(url)
    judge, name = Judge(server, ours), first_batch(server)
    source, results = server.batches[name].source, server.batches[name].files[0] or ""
    judge("list", lambda: list(client.batches.list(limit=100)))
    assert len(ours["list"]) > 1
    judge("look", lambda: client.batches.retrieve(name))
    judge("cancel", lambda: client.batches.cancel(canceled(ours)))
    judge("results", lambda: client.files.content(results))
    if "azure" in vendor:
        judge("file", lambda: client.files.retrieve(source))
    (upload,) = ours["upload"]
    form = body_of(upload)
    filename, kind, content = form["file"]
    assert (form["purpose"][2], content) == (b"batch", server.files[source])
    judge("upload", lambda: client.files.create(file=(filename, content, kind), purpose="batch"))
    given = ours["create"][0].json
    paths = {
        "openai": "/v1/chat/completions",
        "responses": "/v1/responses",
        "azure": "/chat/completions",
        "azure responses": "/chat/completions",
    }
    options: Any = {"endpoint": paths[vendor], "completion_window": "24h"}
    metadata = given["metadata"]
    judge(
        "create",
        lambda: client.batches.create(input_file_id=source, metadata=metadata, **options),
    )
    for line in content.splitlines():
        assert json.loads(line).keys() == {"custom_id", "method", "url", "body"}


@pytest.mark.parametrize("prefix", ["", GATEWAY])
def test_a_batch_is_what_the_sdk_of_anthropic_sends(
    prefix: str, tmp_path: Path, server: BatchServer
) -> None:
    ours = all_operations("anthropic", tmp_path, server, prefix=prefix)
    batches = anthropic_sdk(server.url + prefix).messages.batches
    judge, name = Judge(server, ours), ours["look"][-1].path.rpartition("/")[2]
    newest, *_ = ours["list"]
    assert query_of(newest) == [("limit", "1")]
    judge("list", lambda: list(batches.list(limit=100)), at=1)
    assert len(ours["list"]) > 2
    judge("look", lambda: batches.retrieve(name))
    judge("cancel", lambda: batches.cancel(canceled(ours)))
    if not prefix:  # the SDK asks for the results where the server says
        judge("results", lambda: batches.results(name), at=-1)
    requests = ours["create"][0].json["requests"]
    judge("create", lambda: batches.create(requests=requests))


@pytest.mark.parametrize("prefix", ["", GATEWAY])
def test_a_batch_is_what_the_sdk_of_gemini_sends(
    prefix: str, tmp_path: Path, server: BatchServer
) -> None:
    ours = all_operations("gemini", tmp_path, server, prefix=prefix)
    client = gemini_sdk(server.url + prefix)
    judge, name = Judge(server, ours), first_batch(server)
    source, results = server.batches[name].source, server.batches[name].files[0] or ""
    judge("list", lambda: list(client.batches.list(config={"page_size": 100})))
    assert len(ours["list"]) > 1
    judge("look", lambda: client.batches.get(name=name))
    judge("cancel", lambda: client.batches.cancel(name=f"batches/{canceled(ours)}"))
    judge("results", lambda: client.files.download(file=results))
    file, title = server.files[source], server.batches[name].given
    judge("upload", lambda: gemini_upload(client, server.url + prefix, file, title))
    named: Any = {"display_name": title}
    judge("create", lambda: client.batches.create(model="gemini-x", src=source, config=named))


def gemini_upload(client: genai.Client, url: str, content: bytes, title: str) -> None:
    # Without an address here, too, the SDK would upload to its own.
    named = {"display_name": title, "mime_type": "application/jsonl"}
    config: Any = {**named, "http_options": {"base_url": url, "api_version": "v1beta"}}
    client.files.upload(file=io.BytesIO(content), config=config)


def test_a_large_file_goes_to_gemini_in_the_chunks_of_the_sdk(
    tmp_path: Path, server: BatchServer
) -> None:
    cases = [
        Case(id=f"c{number}", input_messages=(TestMessage("user", letter * 4 * 2**20),))
        for number, letter in enumerate("abcde")
    ]
    provider = vendors.gemini(server.url)
    results = run_batches(cases, "spec", provider, tmp_path / "out.jsonl", poll=0.001)
    assert len(list(results)) == 5
    ours = sent(server)
    assert [int(request.headers["content-length"]) for request in ours["upload"][1:]] == [
        *(2**23, 2**23, len(next(iter(server.files.values()))) - 2**24),
    ]
    (name,) = server.batches
    judge = Judge(server, ours)
    file = server.files[server.batches[name].source]
    judge(
        "upload",
        lambda: gemini_upload(gemini_sdk(server.url), server.url, file, server.batches[name].given),
    )
    assert len(sent(server)["upload"]) == 2 * len(ours["upload"])


# Addresses that a server gives


class Elsewhere(BatchServer):
    """Gives addresses of another server, in any spelling."""

    def __init__(self, spell: Callable[[str, str], str]) -> None:
        super().__init__()
        self.spell = spell
        self.other = Server()

    def __enter__(self) -> "Elsewhere":
        self.other.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        self.other.__exit__(*given)

    def address(self, path: str) -> str:
        return self.spell(self.url, self.other.url) + path

    def _anthropic_state(self, batch: Batch) -> Any:
        state = super()._anthropic_state(batch)
        path = f"/v1/messages/batches/{batch.id}/results"
        return {**state, "results_url": state["results_url"] and self.address(path)}

    def _upload_headers(self, request: Request) -> Any:
        headers = dict(super()._upload_headers(request))
        url = headers.get("x-goog-upload-url", "")
        moved = {"x-goog-upload-url": self.address(url.removeprefix(self.url))} if url else {}
        return {**headers, **moved}


SPELLINGS: dict[str, Callable[[str, str], str]] = {
    "another port": lambda ours, other: other,
    "another name": lambda ours, other: other.replace("127.0.0.1", "localhost"),
    "ours as a user": lambda ours, other: other.replace("://", "://127.0.0.1:80@"),
    "without a scheme": lambda ours, other: other.removeprefix("http:"),
    "in capitals": lambda ours, other: other.replace("http", "HTTP"),
    "a backslash": lambda ours, other: other.replace("://", ":\\\\"),
    "blanks before it": lambda ours, other: f" \t{other}",
    "ours before it": lambda ours, other: f"{ours}@{other.partition('://')[2]}",
    "another scheme": lambda ours, other: ours.replace("http:", "https:"),
    "a file": lambda ours, other: "file:///etc/hostname?",
    "no address": lambda ours, other: "http://[::1",
    "no port": lambda ours, other: "http://127.0.0.1:x",
    "ours, and blanks in the path": lambda ours, other: f"{ours}/a b",
    "ours, and other characters": lambda ours, other: f"{ours}/\u00fc\u4e2d",
    "ours, and a lone percent": lambda ours, other: f"{ours}/%zz%",
}


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("NO_PROXY", "*")
    with Elsewhere(request.param) as server:
        yield server
        assert server.other.requests == []
        assert server.other.accepted == 0


@pytest.mark.parametrize("elsewhere", SPELLINGS.values(), ids=SPELLINGS, indirect=True)
@pytest.mark.parametrize("vendor", ["anthropic", "gemini"])
def test_an_address_of_another_origin_is_not_asked(
    vendor: str, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    write_suite_and_targets(tmp_path, elsewhere, max_retries=0)
    arguments = ("--batch", "--output", "out.jsonl", "--poll", "0.001")
    done = run("a.eval.yaml", "--target", vendor, *arguments, folder=tmp_path)
    assert "Traceback" not in done.stderr
    assert KEY not in done.stdout + done.stderr


@each_target
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_leads_nowhere(vendor: str, status: int, server: BatchServer) -> None:
    with Server() as other:
        server.answer(status=status, headers={"location": f"{other.url}/v1/x"}, body="")
        provider = TARGETS[vendor](server.url, max_retries=0)
        error = vendors.failure(provider)
        assert (other.requests, len(server.requests)) == ([], 1)
    assert (error.kind, error.status) == ("http", status)


REDIRECTED = [
    (vendor, operation)
    for vendor in ("openai", "azure", "anthropic", "gemini")
    for operation in ("upload", "create", "list", "look", "cancel", "results")
    if (vendor, operation) != ("anthropic", "upload")
]


@pytest.mark.parametrize(("vendor", "operation"), REDIRECTED)
def test_a_redirect_of_a_batch_leads_nowhere(
    vendor: str, operation: str, tmp_path: Path, server: BatchServer
) -> None:
    with Server() as other:
        take = server.take

        def redirect(request: Request) -> Any:
            step = take(request)
            if server.operations[-1] != operation:
                return step
            location = {"location": f"{other.url}/v1/x"}
            return step._replace(make=lambda _: (307, ""), headers=location)

        server.take = redirect  # type: ignore[method-assign]
        write_suite_and_targets(tmp_path, server, max_retries=0)
        arguments = ("--target", vendor, "--batch", "--output", "out.jsonl", "--poll", "0.001")
        if operation == "cancel":
            server.lag = 1_000_000
            run("a.eval.yaml", *arguments, "--no-wait", folder=tmp_path)
            env = {"NO_PROXY": "127.0.0.1"}
            done = commands.run("batch", "cancel", "out.jsonl", folder=tmp_path, env=env)
        else:
            if operation == "list":
                server.trouble("create", 500, acted=True)
            done = run("a.eval.yaml", *arguments, folder=tmp_path)
        assert (other.accepted, operation in server.operations) == (0, True)
        assert "307" in done.stderr
        assert "Traceback" not in done.stderr
