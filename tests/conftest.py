"""What all tests share."""

from hypothesis import settings

# A slow machine is no failing property.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
