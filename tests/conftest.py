"""What all tests share."""

from hypothesis import settings

pytest_plugins = ["multiturn.testing"]
collect_ignore = ["fuzz.py"]  # doctest would import it, and only make fuzz brings atheris

# A slow machine is no failing property.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
