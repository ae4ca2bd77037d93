"""What the tests of the providers share."""

import os

import pytest

_VENDORS = ("OPENAI_", "AZURE_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what SDKs take from the environment of whoever runs the tests."""
    for name in os.environ:
        if name.startswith(_VENDORS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _quick_retries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDKs wait less before they try again; one that renames these is only slower."""
    if "server" not in request.fixturenames:
        return  # importing the SDKs takes seconds
    for name in (
        "openai._base_client.INITIAL_RETRY_DELAY",
        "anthropic._base_client.INITIAL_RETRY_DELAY",
        "google.genai._api_client._RETRY_INITIAL_DELAY",
        "google.genai._api_client._RETRY_JITTER",
    ):
        monkeypatch.setattr(name, 0.01, raising=False)
