"""Which way requests go: proxies, certificates, and the variables that change nothing.

Also the headers that a target adds, which are hidden like keys where they look like one,
or come from variables.
"""

import base64
import os
import select
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from loopback import KEY, TEXT, Request, Server
from multiturn import MultiturnError, load_target
from running import by_id, run, write_suite
from vendors import Connect, anthropic, ask, azure, each_vendor, failure, gemini, openai

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the proxies of the machine."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Proxy:
    """Passes requests, and tunnels, on to one server, whatever their address; notes each head."""

    def __init__(self, port: int, *, status: int = 200) -> None:
        self.port_of_server = port
        self.status = status  # other than 200: refuses all with it
        self.heads: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            head, _, rest = head.partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self.status != 200:
                client.sendall(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % self.status)
                return
            method, address, *_ = self.heads[-1].split(" ")
            with socket.create_connection(("127.0.0.1", self.port_of_server)) as server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    path = "/" + address.partition("://")[2].partition("/")[2]
                    line = head.replace(address.encode(), path.encode(), 1)
                    server.sendall(line + b"\r\n\r\n" + rest)
                both = [client, server]
                while True:
                    for end in select.select(both, [], [])[0]:
                        piece = end.recv(65536)
                        if not piece:
                            return
                        (server if end is client else client).sendall(piece)

    @property
    def lines(self) -> list[str]:
        """The first lines of all requests."""
        return [head.partition("\r\n")[0] for head in self.heads]

    def header(self, name: str) -> str | None:
        """Return a header of the first request."""
        for line in self.heads[0].splitlines()[1:]:
            key, _, text = line.partition(": ")
            if key.lower() == name:
                return text
        return None


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.server_port) as proxy:
        yield proxy


@each_vendor
@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_requests_go_through_a_proxy(
    connect: Connect, name: str, proxy: Proxy, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the proxy knows the address."""
    monkeypatch.setenv(name, proxy.url)
    answer = ask(connect("http://api.example.invalid:8080"))
    assert (answer.text, len(proxy.heads)) == (TEXT, 1)
    (request,) = server.requests
    assert proxy.lines[0].startswith("POST http://api.example.invalid:8080/")
    assert request.headers["host"] == "api.example.invalid:8080"
    assert proxy.header("proxy-authorization") is None


@pytest.mark.parametrize(
    ("excluded", "is_direct"),
    [
        ("127.0.0.1", True),
        ("example.com, 127.0.0.1", True),
        ("*", True),
        ("example.com", False),
        ("127.0.0.2", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_some_addresses_need_no_proxy(
    name: str,
    excluded: str,
    is_direct: bool,
    proxy: Proxy,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv(name, excluded)
    assert ask(openai(server.url)).text == TEXT
    assert len(proxy.heads) == (not is_direct)


@pytest.mark.parametrize("excluded", [".example.invalid", "example.invalid", "api.example.invalid"])
def test_a_domain_needs_no_proxy(
    excluded: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", excluded)
    error = failure(openai("http://api.example.invalid", max_retries=0))
    assert (error.kind, proxy.heads) == ("unreachable", [])
    assert ask(openai("http://other.invalid:1", max_retries=0)).text == TEXT


def test_the_proxy_of_https_does_not_get_http(
    proxy: Proxy, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    assert ask(openai(server.url)).text == TEXT
    assert proxy.heads == []


PASSWORD = "pass word/4711-of-the-proxy"


@pytest.mark.parametrize("connect", [openai, anthropic, gemini])
def test_a_proxy_gets_its_password(
    connect: Connect, proxy: Proxy, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = PASSWORD.replace(" ", "%20").replace("/", "%2F")
    monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", f"://me:{spelled}@"))
    assert ask(connect("http://api.example.invalid")).text == TEXT
    wanted = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert proxy.header("proxy-authorization") == f"Basic {wanted}"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("status", [407, 403, 502, 0])
def test_a_proxy_that_refuses_shows_no_password(
    scheme: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status 0 stands for a proxy that is not there."""
    spelled = PASSWORD.replace(" ", "%20").replace("/", "%2F")
    with Proxy(0, status=status) as proxy:
        port = proxy.port if status else 9
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://me:{spelled}@127.0.0.1:{port}")
        error = failure(openai(f"{scheme}://api.example.invalid", max_retries=0))
    shown = f"{error!r} {''.join(traceback.format_exception(error))}"
    for secret in (PASSWORD, spelled, "4711-of-the-proxy"):
        assert secret not in shown
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert basic[4:-4] not in shown
    assert error.kind in ("http", "unreachable", "connection", "access_denied")


# Certificates


class Authority:
    """Makes certificates that only its own file trusts."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority of tests")])
        self.certificate = self.sign(self.name, self._key.public_key(), [], is_authority=True)

    def sign(
        self, name: x509.Name, key: Any, names: list[x509.GeneralName], *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        usage = x509.KeyUsage(
            **dict.fromkeys(("content_commitment", "key_encipherment"), False),
            **dict.fromkeys(("data_encipherment", "key_agreement"), False),
            **dict.fromkeys(("encipher_only", "decipher_only"), False),
            digital_signature=True,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            alternative = x509.SubjectAlternativeName(names)
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def write(self, folder: Path) -> Path:
        """Write the file that trusts it."""
        path = folder / "authority.pem"
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def context(self, folder: Path, names: list[x509.GeneralName]) -> ssl.SSLContext:
        """Return what a server of some names needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server of tests")])
        signed = self.sign(name, key.public_key(), names, is_authority=False)
        path = folder / "server.pem"
        form = serialization.PrivateFormat.PKCS8
        pem, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
        secret = key.private_bytes(pem, form, no_password)
        path.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


NAMES: list[x509.GeneralName] = [
    x509.IPAddress(ip_address("127.0.0.1")),
    x509.DNSName("api.example.invalid"),
]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def secure(authority: Authority, tmp_path: Path) -> Iterator[Server]:
    """A server that speaks TLS."""
    with tls_server(authority.context(tmp_path, NAMES)) as server:
        yield server


def tls_server(context: ssl.SSLContext) -> Server:
    server = Server()
    # The handshake is the handler's, which has a thread of its own.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.url = server.url.replace("http:", "https:")
    return server


@each_vendor
def test_the_authority_of_a_variable_is_trusted(
    connect: Connect,
    authority: Authority,
    secure: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path)))
    assert ask(connect(secure.url)).text == TEXT


@each_vendor
def test_an_authority_that_nobody_knows_is_refused(connect: Connect, secure: Server) -> None:
    error = failure(connect(secure.url, max_retries=2))
    assert (error.kind, secure.requests) == ("unreachable", [])
    assert "certificate" in error.what.lower()


def test_certificates_are_checked_by_default_too(
    secure: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    error = failure(openai(secure.url, max_retries=0))
    assert (error.kind, secure.requests) == ("unreachable", [])


def test_the_certificate_of_another_name_is_refused(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path)))
    with tls_server(authority.context(tmp_path, NAMES[1:])) as server:
        error = failure(openai(server.url, max_retries=0))
        assert (error.kind, server.requests) == ("unreachable", [])


def test_a_file_of_authorities_that_is_missing_is_said(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    error = failure(openai("https://127.0.0.1:9", max_retries=0))
    assert "Traceback" not in str(error)
    assert error.kind in ("unreachable", "connection", "provider", "refused")


@each_vendor
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_tunnels_what_is_encrypted(
    connect: Connect,
    name: str,
    authority: Authority,
    secure: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy sees the address and its own password, and no key."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path)))
    with Proxy(secure.server_port) as proxy:
        monkeypatch.setenv(name, proxy.url.replace("://", "://me:secret-4711@"))
        assert ask(connect("https://api.example.invalid")).text == TEXT
        assert proxy.lines == ["CONNECT api.example.invalid:443 HTTP/1.1"]
        assert KEY not in proxy.heads[0]
        wanted = base64.b64encode(b"me:secret-4711").decode()
        assert proxy.header("proxy-authorization") == f"Basic {wanted}"
    assert "proxy-authorization" not in secure.requests[0].headers


# What changes nothing

VARIABLES = {
    name: "http://127.0.0.1:9/elsewhere" if "URL" in name or "ENDPOINT" in name else "not-ours"
    for name in (
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
        *("OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET", "OPENAI_API_VERSION", "OPENAI_API_TYPE"),
        *("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"),
        *("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_GEMINI_BASE_URL", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_LOCATION"),
    )
} | {
    "OPENAI_CUSTOM_HEADERS": "x-not: ours",
    "ANTHROPIC_CUSTOM_HEADERS": "x-not: ours",
    "GOOGLE_GENAI_REPLAYS_DIRECTORY": "/nowhere",
}


def sent(connect: Connect, server: Server, **settings: Any) -> Request:
    ask(connect(server.url, **settings))
    request = server.requests[-1]
    changing = ("x-request-id", "traceparent")
    headers = {name: text for name, text in request.headers.items() if name not in changing}
    return request._replace(headers=headers)


@each_vendor
def test_no_variable_of_a_vendor_changes_a_request(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sent(connect, server)
    for name, text in VARIABLES.items():
        monkeypatch.setenv(name, text)
    assert sent(connect, server) == before
    assert {name: os.environ[name] for name in VARIABLES} == VARIABLES


@pytest.mark.parametrize("key", [KEY, None])
@pytest.mark.parametrize("connect", [openai, azure, anthropic, gemini])
def test_a_netrc_changes_nothing(
    connect: Connect,
    key: str | None,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if key is None and connect is not openai:
        pytest.skip("only servers with OpenAI's API need no key")
    before = sent(connect, server, api_key=key)
    for name in (".netrc", "_netrc"):
        (tmp_path / name).write_text("default login me password not-ours\n")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    assert sent(connect, server, api_key=key) == before


def test_a_cookie_is_not_kept(server: Server) -> None:
    server.fail(503, "not now")
    server.answer(headers={"set-cookie": "tracked=yes; path=/"}, times=None)
    ask(openai(server.url))
    assert all("cookie" not in request.headers for request in server.requests)


# Headers of a target


def write(folder: Path, server_url: str, headers: str, *, provider: str = "openai") -> None:
    address = "endpoint" if provider == "azure" else "base_url"
    path = "/v1" if provider == "openai" else ""
    (folder / "targets.yaml").write_text(
        f"targets:\n- name: t\n  provider: {provider}\n  model: gpt-4o\n  api_key: {KEY}\n"
        f"  {address}: {server_url}{path}\n  headers: {headers}\n"
    )


def target() -> Any:
    return load_target("t")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GATEWAY", "of-the-gateway-4711")
    write_suite(tmp_path, ["Hello"])
    return tmp_path


each_provider = pytest.mark.parametrize("provider", ["openai", "azure", "anthropic", "gemini"])


@each_provider
def test_a_target_adds_headers(provider: str, folder: Path, server: Server) -> None:
    given = "{X-Team: evals, cf-aig-authorization: 'Bearer ${{ GATEWAY }}', X-Number: '7'}"
    write(folder, server.url, given, provider=provider)
    assert ask(target()).text == TEXT
    headers = server.requests[0].headers
    assert (headers["x-team"], headers["x-number"]) == ("evals", "7")
    assert headers["cf-aig-authorization"] == "Bearer of-the-gateway-4711"
    assert KEY in "".join(headers.values())


@each_provider
def test_what_a_header_takes_from_a_variable_is_hidden(
    provider: str, folder: Path, server: Server
) -> None:
    write(
        folder, server.url, "{X-Token: 'Bearer ${{ GATEWAY }}', X-Team: evals}", provider=provider
    )
    spelled = "Bearer of%2Dthe%2Dgateway%2D4711"
    server.fail(400, f"no of-the-gateway-4711, {spelled}, evals", times=None)
    made = target()
    assert "4711" not in f"{made} {made!r} {made.settings!r}".replace(KEY, "")
    done = run("a.eval.yaml", "--target", "t", "--output", "out.jsonl", folder=folder)
    (line,) = by_id(folder / "out.jsonl").values()
    for shown in (done.stdout, done.stderr, line["error"]["message"]):
        assert "gateway" not in shown
    assert "evals" in line["error"]["message"]
    server.steps.clear()
    server.answer("It is of-the-gateway-4711.")
    assert ask(target()).text.startswith("It is ***")


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("helicone-auth: Bearer pk-77777777", "pk-77777777"),
        ("X-Portkey-Api-Key: pk-77777777", "pk-77777777"),
        ("Cookie: a=b; session=77777777", "a=b; session=77777777"),
        ("x-gateway: 9f86d081884c7d659a2feaa0c55ad015", "9f86d081884c7d659a2feaa0c55ad015"),
    ],
)
@each_provider
def test_what_looks_like_a_key_in_a_header_is_hidden(
    provider: str, header: str, secret: str, folder: Path, server: Server
) -> None:
    write(folder, server.url, f"{{{header}}}", provider=provider)
    value = header.partition(": ")[2]
    server.fail(400, f"no account {value}, none of {secret}", times=None)
    done = run("a.eval.yaml", "--target", "t", "--output", "out.jsonl", folder=folder)
    assert "no account ***, none of ***" in done.stderr
    assert secret not in done.stdout + done.stderr + (folder / "out.jsonl").read_text()


@pytest.mark.parametrize(
    "header",
    ["X-Region: eu-west-1", "X-Model: gpt-4o", "X-Author: Jane Doe", "X-Auth-Provider: google"],
)
def test_other_headers_hide_no_words_of_answers(header: str, folder: Path, server: Server) -> None:
    write(folder, server.url, f"{{{header}}}")
    value = header.partition(": ")[2]
    server.answer(f"Yours is {value}.")
    assert ask(target()).text == f"Yours is {value}."


OWN = {
    "openai": ["authorization", "Authorization", "AUTHORIZATION"],
    "azure": ["api-key", "Api-Key"],
    "anthropic": ["authorization", "anthropic-version", "Anthropic-Version"],
    "gemini": ["x-goog-api-key", "X-Goog-Api-Key"],
}
ALWAYS = ("Content-Type", "content-length", "Host", "accept-encoding", "Transfer-Encoding")


@pytest.mark.parametrize(
    ("provider", "name"),
    [(provider, name) for provider in OWN for name in (*OWN[provider], *ALWAYS)],
)
def test_what_is_sent_anyway_cannot_be_replaced(
    provider: str, name: str, folder: Path, server: Server
) -> None:
    write(folder, server.url, f"{{X-Team: evals, {name}: mine}}", provider=provider)
    with pytest.raises(MultiturnError) as caught:
        load_target("t")
    assert str(caught.value).startswith("targets.yaml:2:3: target 't': headers cannot have")
    assert name.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(r'{X-Team: "a\r\nx-other: b"}', id="a line break in a value"),
        pytest.param(r'{X-Team: "a\nb"}', id="a line feed"),
        pytest.param(r'{X-Team: "a\0b"}', id="a zero"),
        pytest.param("{X-Team: \u4e2d}", id="a character that headers do not have"),
        pytest.param("{'X Team': a}", id="a space in a name"),
        pytest.param("{'X-Team: b': a}", id="a colon in a name"),
        pytest.param('{"X\\r\\nTeam": a}', id="a line break in a name"),
        pytest.param("{'': a}", id="no name"),
        pytest.param("{X-Team: [a]}", id="a list"),
        pytest.param("{X-Team: a, x-team: b}", id="a name twice"),
        pytest.param("[X-Team]", id="no mapping"),
        pytest.param("{X-Team: '${{ NO_SUCH_VARIABLE }}'}", id="a variable that is missing"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_with_their_place(
    headers: str, folder: Path, server: Server
) -> None:
    write(folder, server.url, headers)
    with pytest.raises(MultiturnError, match=r"targets\.yaml:\d+:\d+: "):
        load_target("t")


def test_headers_do_not_change_what_a_request_is(folder: Path, server: Server) -> None:
    """A key of a gateway may be another one tomorrow."""
    digests = set()
    for headers in ("{}", "{X-Token: '${{ GATEWAY }}'}"):
        write(folder, server.url, headers)
        run("a.eval.yaml", "--target", "t", "--output", "out.jsonl", folder=folder)
        digests.add(by_id(folder / "out.jsonl")["c0"]["digest"])
        (folder / "out.jsonl").unlink()
    assert len(digests) == 1


# Azure's tokens


def test_a_token_that_is_refused_ends_the_run(folder: Path, server: Server) -> None:
    write_suite(folder, ["one", "two", "three"])
    write(folder, server.url, "{}", provider="azure")
    targets, key = folder / "targets.yaml", "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjF9.c2lnbmF0dXJlLTQ3MTE"
    targets.write_text(targets.read_text().replace(KEY, key) + "  auth: bearer\n")
    server.fail(401, "Unauthorized.", times=None)
    arguments = ("--target", "t", "--output", "out.jsonl", "--concurrency", "1")
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert "api-key" not in server.requests[0].headers
    assert "check the api_key of the target 't'" in done.stderr
    assert "no more cases are sent" in done.stderr
    assert key not in done.stderr


def test_another_word_for_the_header_is_refused(folder: Path, server: Server) -> None:
    write(folder, server.url, "{}", provider="azure")
    targets = folder / "targets.yaml"
    targets.write_text(targets.read_text() + "  auth: basic\n")
    with pytest.raises(MultiturnError, match=r"targets\.yaml:8:\d+: .*auth"):
        load_target("t")
