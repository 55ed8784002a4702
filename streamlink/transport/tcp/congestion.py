"""``Congestion``: asks the system for another congestion control than its own choice."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress

from streamlink.transport.log import noted
from streamlink.transport.tcp.sockets import is_loopback

__all__ = ["Congestion"]

_OPTION = getattr(socket, "TCP_CONGESTION", None)  # Linux and FreeBSD
_NAME_BYTES = 16  # TCP_CA_NAME_MAX
_PACED = b"bbr"  # and what begins so: bbr2, bbr3
_UNPACED = b"reno"  # every Linux has it, and lets any process use it


class Congestion:
    """Asks for ``name`` on each connection; where that cannot be had, it says so once.

    Args:
        name: such as ``bbr``; "": the system's default, but on loopback Reno instead of BBR.
        logger: of this end.
    """

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self._name, self._logger = name, logger

    def ask(self, connected: socket.socket) -> None:
        """Ask for it on this connection, which works in any case."""
        if not self._name:
            _avoid_pacing(connected)
            return
        try:
            if _OPTION is None:
                raise OSError("this system offers no choice")
            connected.setsockopt(socket.IPPROTO_TCP, _OPTION, self._name.encode())
        except OSError as error:
            name, self._name = self._name, ""  # what it offers seldom changes: asked once
            text = "stream.congestion_control: %s cannot be had here: %s; see docs/operations.md"
            extra = noted("congestion control failed", name=name, reason=str(error))
            self._logger.warning(text, name, error, extra=extra)


def _avoid_pacing(connected: socket.socket) -> None:
    """Select Reno on a loopback connection where BBR is the default.

    BBR paces: it sets a timer for every few segments, to keep the bottleneck's queue short.
    Loopback has no bottleneck, and the timers take a large share of a sender's processor time.
    """
    if _OPTION is None:
        return
    with suppress(OSError):  # such as: the peer has reset it already
        chosen = connected.getsockopt(socket.IPPROTO_TCP, _OPTION, _NAME_BYTES)
        if is_loopback(connected) and chosen.startswith(_PACED):
            connected.setsockopt(socket.IPPROTO_TCP, _OPTION, _UNPACED)
