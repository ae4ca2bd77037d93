"""Only the target decides who gets a request, and with which headers: never the environment."""

import os
from typing import Any

import pytest

from loopback import KEY, Request, Server
from vendors import Connect, anthropic, ask, each_vendor, failure, gemini

# Of the network, and of Python: they say how a request travels, and not to whom.
NETWORK = ("PROXY", "SSL_", "CERT", "HOME", "PATH", "PYTHON", "USER", "TMP", "TEMP", "LOG")


class Recording(dict[Any, str]):
    """The environment, and the names that were read of it."""

    def __init__(self) -> None:
        super().__init__(os.environ)
        self.names = {"OPENAI_ORG_ID"}

    def get(self, name: Any, default: Any = None) -> Any:
        self.names.add(str(name))  # some look for bytes, too
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def shown(request: Request) -> object:
    return request._replace(headers=dict(request.headers))


@each_vendor
def test_no_variable_changes_a_request(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording()
    monkeypatch.setattr(os, "environ", recording)
    ask(connect(server.url))
    for name in recording.names:
        if not any(word in name.upper() for word in NETWORK):
            url = "http://127.0.0.1:9" if "URL" in name else "of-the-environment: x"
            recording[name] = url
    ask(connect(server.url))
    plain, other = server.requests
    assert shown(other) == shown(plain)
    assert "of-the-environment" not in repr(other)
    assert KEY in repr(other.headers)
    assert os.environ["OPENAI_ORG_ID"] == "of-the-environment: x"


@pytest.mark.parametrize("connect", [anthropic, gemini])
def test_no_variable_is_the_address_where_the_target_has_none(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_NEXT_GEN_API_BASE_URL"):
        monkeypatch.setenv(name, server.url)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nobody outside is asked
    error = failure(connect(base_url=None, max_retries=0))
    assert (error.kind, server.requests) == ("unreachable", [])
