"""How long tests wait for what must happen; a test that passes never waits that long."""

from __future__ import annotations

import os

__all__ = ["WAIT", "WAIT_SETTING"]

WAIT_SETTING = "STREAMLINK_TEST_WAIT"
"""Environment variable: seconds instead of 60, where many tests share a busy machine."""

WAIT = float(os.environ.get(WAIT_SETTING, "60"))
"""Seconds any test may wait for something that must happen."""
