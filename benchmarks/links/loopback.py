"""A loopback that nobody else uses: a network namespace, whose device counts its bytes."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
from contextlib import AbstractContextManager
from typing import Any, Self

from benchmarks.closing import Closing
from benchmarks.links.lines import Passed
from benchmarks.longline.namespace import device_counts, inside, new_namespace

__all__ = ["Loopback", "why_no_loopback"]

# linux/sockios.h and linux/if.h
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40


class Loopback(Closing):
    """The namespace; both ends are in it."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._namespace = -1

    def __enter__(self) -> Self:
        self._namespace = new_namespace()
        try:
            with (
                inside(self._namespace),
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
            ):
                flags = struct.pack("16sh22x", b"lo", _IFF_UP | _IFF_RUNNING)
                fcntl.ioctl(control, _SIOCSIFFLAGS, flags)
        except BaseException:
            self.close()
            raise
        return self

    def near(self) -> AbstractContextManager[None]:
        """Start the process that dials inside this block."""
        return inside(self._namespace)

    def far(self) -> AbstractContextManager[None]:
        """Start the process that listens inside this block."""
        return inside(self._namespace)

    def reach(self, number: int, *, has_data_port: bool = False) -> tuple[str, int]:
        """Return host and port by which the near end reaches a port of the far end."""
        return self.host, number

    def passed(self) -> Passed:
        """Return the bytes of all IP packets so far."""
        return Passed(device_counts(self._namespace, "lo").received_bytes)

    def finish(self) -> dict[str, Any]:
        """There is nothing to say: it loses nothing."""
        return {}

    def close(self) -> None:
        """Let go of the namespace; it ends with the processes in it."""
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1


def why_no_loopback() -> str:
    """Return why there is none on this machine, as a sentence; empty: there is."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_try()), name="trying")
    thread.start()
    thread.join()
    return found[0]


def _try() -> str:
    try:
        with Loopback():
            return ""
    except OSError as error:
        return f"a loopback of its own needs root and network namespaces; here: {error}"
