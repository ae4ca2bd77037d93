"""What all tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from loopback import Server

pytest_plugins = ["multiturn.testing", "pytester"]
collect_ignore = ["fuzz.py"]  # doctest would import it, and only make fuzz brings atheris

# A slow machine is no failing property.
settings.register_profile(
    "unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server
