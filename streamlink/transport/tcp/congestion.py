"""``Congestion``: asks the system for another congestion control than its own choice."""

from __future__ import annotations

import logging
import socket

from streamlink.transport.log import noted

__all__ = ["Congestion"]

_OPTION = getattr(socket, "TCP_CONGESTION", None)  # Linux and FreeBSD


class Congestion:
    """Asks for ``name`` on each connection; where that cannot be had, it says so once.

    Args:
        name: such as ``bbr``; "": whatever the system chooses.
        logger: of this end.
    """

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self._name, self._logger = name, logger

    def ask(self, connected: socket.socket) -> None:
        """Ask for it on this connection, which works in any case."""
        if not self._name:
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
