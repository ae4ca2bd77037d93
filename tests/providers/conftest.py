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
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less before what failed is sent again."""
    monkeypatch.setattr("multiturn.providers.client._SHORTEST_DELAY", 0.01)
