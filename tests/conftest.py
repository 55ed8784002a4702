"""Settings every test runs under; fixtures live beside the tests that use them."""

from hypothesis import HealthCheck, settings

# No deadline and no complaint about speed: a busy machine must not fail a right program.
settings.register_profile("streamlink", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("streamlink")
