"""What streamlink does to its connections within one machine, for the raw sockets beside it."""

from __future__ import annotations

import socket

__all__ = ["avoid_pacing"]


def avoid_pacing(connected: socket.socket) -> None:
    """Use Reno within this machine, if the system's choice is BBR: else the bound would be low."""
    option = getattr(socket, "TCP_CONGESTION", None)
    if option is None or connected.getpeername()[0] != connected.getsockname()[0]:
        return
    if connected.getsockopt(socket.IPPROTO_TCP, option, 16).startswith(b"bbr"):
        connected.setsockopt(socket.IPPROTO_TCP, option, b"reno")
