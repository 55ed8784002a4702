"""Congestion control of the raw sockets: on loopback Reno instead of BBR, as in streamlink."""

from __future__ import annotations

import socket

__all__ = ["avoid_pacing"]


def avoid_pacing(connected: socket.socket) -> None:
    """Select Reno on a loopback connection where BBR is the default: its pacing costs rate."""
    option = getattr(socket, "TCP_CONGESTION", None)
    if option is None or connected.getpeername()[0] != connected.getsockname()[0]:
        return
    if connected.getsockopt(socket.IPPROTO_TCP, option, 16).startswith(b"bbr"):
        connected.setsockopt(socket.IPPROTO_TCP, option, b"reno")
