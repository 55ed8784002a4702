"""``TransferPump``: what the pumps of both directions of a stream have in common."""

from __future__ import annotations

import logging
from typing import Any, Protocol, TypeVar

from streamlink.protocol.frames import Frame
from streamlink.protocol.machine import HANDSHAKE_FRAMES
from streamlink.protocol.pacing import UNLIMITED, Portion
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.transport.log import log_lag, log_silence
from streamlink.transport.long_windows import long_windows
from streamlink.transport.process_memory import Share
from streamlink.transport.pump import Pump

__all__ = ["PacedDirection", "TransferPump"]

logger = logging.getLogger("streamlink.transport")

S = TypeVar("S", SendStream, ReceiveStream)


class PacedDirection(Protocol):
    """One direction of this process under its bandwidth limit."""

    def ask(self, pump: Any, wanted: int, uncharged: int) -> None:
        """Note what a stream wants to move, and what it has moved unasked (bytes)."""

    def leave(self, pump: Any) -> None:
        """Note that a stream has ended."""


class TransferPump(Pump[S]):
    """The pump of one end of a stream; ``SendPump`` and ``ReceivePump`` add their direction."""

    _share: Share | None = None  # None: its window is its own
    _dealt = 0
    _extra = 0  # of ``long_windows``
    _direction: PacedDirection | None = None  # None: no bandwidth limit is in force

    @property
    def stream(self) -> S:
        """The machine, for its facts and its snapshot ``stats``."""
        return self._machine

    def share(self, share: Share) -> None:
        """Keep within a share of the memory of this process from now on, until the stream ends."""
        with self.locked():  # which deals at its end
            self._share = share

    def leave_memory(self) -> None:
        """Return its share; harmless where it has none. Nothing may carry the stream any more."""
        with self._lock:
            share, self._share = self._share, None
            self._return_extra()
        if share is not None:
            share.leave()

    # --- a bandwidth limit ------------------------------------------------------------

    @property
    def is_sending(self) -> bool:
        """Whether this end sends the model."""
        return isinstance(self._machine, SendStream)

    def pace(self, direction: PacedDirection | None, portion: Portion) -> None:
        """Move only what ``direction`` permits from now on; None: whatever the link carries."""
        with self.locked() as (machine, _):
            self._direction = direction
            machine.pace(*(portion if direction is not None else UNLIMITED))

    def allow(self, nbytes: int, portion: Portion) -> None:
        """Move ``nbytes`` more; its direction was asked for them."""
        with self.locked() as (machine, _):
            if self._direction is not None:
                machine.pace(*portion)
                machine.allow(nbytes)

    def _ask(self, direction: PacedDirection) -> None:
        machine = self._machine
        if machine.is_closed:
            self._direction = None
            direction.leave(self)
        else:
            direction.ask(self, machine.wanted_bytes, machine.take_uncharged())

    def retire(self, call: int) -> bool:
        """Have a call carry nothing more, and end when it is through; False: no other carries."""
        with self.locked() as (machine, _):
            is_retiring = call in self._calls and machine.retire(call)
            self._wake_writers()
        return is_retiring

    def is_retiring(self, call: int) -> bool:
        """Whether a call was retired, and has not ended."""
        with self._lock:
            return self._machine.is_retiring(call)

    def _is_through(self, call: int) -> bool:
        return self._machine.is_through(call)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Report to the peer that this end waits for a third party."""
        with self.locked() as (machine, now):
            machine.hold(reason, waiting_for, now=now)

    def _is_progress(self, frame: Frame) -> bool:
        # A handshake alone is none: calls that only shake hands would follow each other without a
        # pause (``reconnect``), and a data carrier that moves nothing would not be given up.
        return not isinstance(frame, HANDSHAKE_FRAMES)

    def _is_quiet(self, now: float) -> bool:
        # Shares of memory and of a bandwidth limit are dealt by the clock, too.
        return self._share is None and self._direction is None and super()._is_quiet(now)

    def _note(self, frame: Frame, call: int) -> None:
        super()._note(frame, call)
        if self._share is None:
            self._stretch()

    def _wake(self) -> None:
        # Each frame, each release, and each look at clocks that are not quiet ends here.
        if self._share is not None:
            self._deal(self._share)
        elif self._extra and (self._machine.is_closed or self._machine.has_moved_all):
            self._return_extra()
        if self._direction is not None:
            self._ask(self._direction)
        super()._wake()

    def _deal(self, share: Share) -> None:
        machine = self._machine
        if machine.is_closed:
            self._share = None
            share.leave()
            return
        nbytes = share.settle(machine.memory_need(now=self._clock()))
        if nbytes != self._dealt:
            self._dealt = nbytes
            self._use(nbytes)

    def _stretch(self) -> None:
        """Have a larger window where a long line needs it, and there is memory for it."""
        # With each frame: both ends in turn have to grow, several times. Where each waited for the
        # ticker, a line of 200 ms took two round trips more until it was full. Not with each
        # release: the next frame asks soon enough.
        machine = self._machine
        if machine.is_closed or machine.has_moved_all:
            return
        if (wanted := machine.extra_wanted(now=self._clock())) > self._extra:
            most = machine.config.stream.long_bytes
            extra = long_windows.deal(self, wanted, most)
            if extra != self._extra:
                self._extra = extra
                machine.use_extra(extra)

    def _return_extra(self) -> None:
        if self._extra:
            self._extra = 0
            long_windows.leave(self)

    def _use(self, nbytes: int) -> None:
        self._machine.use_memory(nbytes)

    def _report_silence(self) -> None:
        log_silence(self._machine)

    def _report_lag(self) -> None:
        log_lag(self._machine)

    def _report_waiting(self) -> None:
        logger.info("%s waits for its connection", self._machine.name)
        if self.on_waiting is not None:
            self.on_waiting()
