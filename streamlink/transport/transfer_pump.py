"""``TransferPump``: what the pumps of both directions of a stream have in common."""

from __future__ import annotations

import logging
from typing import TypeVar

from streamlink.protocol.frames import Frame
from streamlink.protocol.machine import HANDSHAKE_FRAMES
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.transport.log import log_lag, log_silence
from streamlink.transport.pump import Pump

__all__ = ["TransferPump"]

logger = logging.getLogger("streamlink.transport")

S = TypeVar("S", SendStream, ReceiveStream)


class TransferPump(Pump[S]):
    """The pump of one end of a stream; ``SendPump`` and ``ReceivePump`` add their direction."""

    @property
    def stream(self) -> S:
        """The machine, for its facts and its snapshot ``stats``."""
        return self._machine

    def hold(self, reason: str, waiting_for: str) -> None:
        """Report to the peer that this end waits for a third party."""
        with self.locked() as (machine, now):
            machine.hold(reason, waiting_for, now=now)

    def _is_progress(self, frame: Frame) -> bool:
        # A handshake alone is none: calls that only shake hands would follow each other without a
        # pause (``reconnect``), and a data carrier that moves nothing would not be given up.
        return not isinstance(frame, HANDSHAKE_FRAMES)

    def _report_silence(self) -> None:
        log_silence(self._machine)

    def _report_lag(self) -> None:
        log_lag(self._machine)

    def _report_waiting(self) -> None:
        logger.info("%s waits for its connection", self._machine.name)
        if self.on_waiting is not None:
            self.on_waiting()
