"""Settings every test runs under; fixtures live beside the tests that use them."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
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

# A shell without job control lets its background jobs ignore Ctrl-C, and so would every process of
# a suite that runs there; the tests interrupt themselves and each other.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_log_outlives_its_test() -> Iterator[None]:
    """Take away what a command has set up: a late line would go to a stream that is closed."""
    logger = logging.getLogger("streamlink")
    before = logger.handlers[:]
    yield
    logger.handlers[:] = before
