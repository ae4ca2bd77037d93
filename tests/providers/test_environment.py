"""Only the target decides who gets a request, and with which headers: never the environment."""

import os
from collections.abc import Iterator, MutableMapping

import pytest

from loopback import KEY, Request, Server
from vendors import Connect, anthropic, ask, each_vendor, failure, gemini

# What SDKs are known to read; what else they read is found out by the test.
KNOWN = {
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    *("ANTHROPIC_CUSTOM_HEADERS", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"),
    *("AZURE_OPENAI_ENDPOINT", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_LOCATION"),
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_API_VERSION"),
    *("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_VERTEX_BASE_URL"),
    *("OPENAI_ADMIN_KEY", "OPENAI_API_KEY", "OPENAI_API_VERSION", "OPENAI_BASE_URL"),
    *("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
}
# Of the network, and of Python: they say how a request travels, and not to whom.
NETWORK = ("PROXY", "SSL_", "CERT", "HOME", "PATH", "PYTHON", "USER", "TMP", "TEMP", "LOG")


class Recording(MutableMapping[str, str]):
    """The environment, and the names that were read of it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.environ = os.environ

    def __getitem__(self, name: str) -> str:
        self.names.add(str(name))  # some look for bytes, too
        return self.environ[name]

    def __setitem__(self, name: str, value: str) -> None:
        self.environ[name] = value

    def __delitem__(self, name: str) -> None:
        del self.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)


def shown(request: Request) -> object:
    return request._replace(headers=dict(request.headers))


@each_vendor
def test_no_variable_changes_a_request(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording()
    monkeypatch.setattr(os, "environ", recording)
    ask(connect(server.url))
    names = {name for name in recording.names if not any(word in name.upper() for word in NETWORK)}
    for name in names | KNOWN:
        value = "http://127.0.0.1:9" if "URL" in name else "of-the-environment: of-the-environment"
        monkeypatch.setitem(recording, name, value)
    ask(connect(server.url))
    plain, other = server.requests
    assert shown(other) == shown(plain)
    assert "of-the-environment" not in repr(other)
    assert KEY in repr(other.headers)
    assert os.environ["OPENAI_ORG_ID"] == "of-the-environment: of-the-environment"


@pytest.mark.parametrize("connect", [anthropic, gemini])
def test_no_variable_is_the_address_where_the_target_has_none(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_NEXT_GEN_API_BASE_URL"):
        monkeypatch.setenv(name, server.url)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nobody outside is asked
    error = failure(connect(base_url=None, max_retries=0))
    assert (error.kind, server.requests) == ("connection", [])
