"""Settings every test runs under; fixtures live beside the tests that use them."""

import os

from hypothesis import HealthCheck, settings

# No deadline and no complaint about speed: a busy machine must not fail a right program. On a
# developer's machine every run looks at other examples; where changes are judged, at the same ones.
settings.register_profile(
    "streamlink",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("streamlink")
