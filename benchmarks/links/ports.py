"""Ports for programs that cannot be given 0, and whether somebody listens there.

Imported in the environments of the peers: the standard library only.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

__all__ = ["free_port", "wait_for_port"]

LOOK_SECONDS = 0.05


def free_port(host: str) -> int:
    """Return a port of this address that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wait_for_port(
    host: str, number: int, seconds: float, is_alive: Callable[[], bool] = lambda: True
) -> None:
    """Wait until somebody listens at a port.

    Raises:
        ConnectionError: nobody does in that time, or whoever was to has ended.
    """
    give_up_at = time.monotonic() + seconds
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((host, number)) == 0:
                return
        if time.monotonic() > give_up_at or not is_alive():
            raise ConnectionError(f"nobody listens at {host}:{number}")
        time.sleep(LOOK_SECONDS)
