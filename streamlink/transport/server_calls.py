"""How a server takes, reads and refuses a call, whatever carries it; see ``ServerCall``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from streamlink.clock import Clock
from streamlink.errors import RemoteProtocolError, StreamlinkError, TransportClosed
from streamlink.protocol.frames import Frame
from streamlink.timers import start_timer
from streamlink.transport.carriers import ServerCall
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.pump import Pump

__all__ = [
    "ANSWER_SECONDS",
    "LAST_WORDS_SECONDS",
    "CallReader",
    "HandshakeLimit",
    "cut_after",
    "end_call",
    "first_message",
    "only_answer",
]

logger = logging.getLogger("streamlink.server")

T = TypeVar("T")

ANSWER_SECONDS = 5.0
"""What a call that is refused may take to hear it (seconds)."""

LAST_WORDS_SECONDS = 1.0
"""What the end of a call that was given up may take to leave (seconds)."""


class HandshakeLimit:
    """Bounds the calls that have not said who they are; a newer one takes the oldest's place.

    An open call keeps a worker thread, and anybody can open one. A call that greets at once holds
    its place for a moment only; calls that stay silent push out each other, and nobody else.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[object, Callable[[], object]] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    @contextmanager
    def waiting(self, cut: Callable[[], object]) -> Iterator[None]:
        """Note a call for as long as it has sent nothing.

        Args:
            cut: ends it, should it be the oldest when there are too many.
        """
        place = object()
        with self._lock:
            self._waiting[place] = cut
            oldest = next(iter(self._waiting))
            # Dicts keep the order of insertion, so the first is the oldest.
            pushed_out = self._waiting.pop(oldest) if len(self._waiting) > self._most else None
        try:
            # Without the lock: a cut is the carrier's code, and other calls come in meanwhile.
            if pushed_out is not None:
                pushed_out()
            yield
        finally:
            with self._lock:
                self._waiting.pop(place, None)


def first_message(call: ServerCall, decode: Callable[[bytes], T]) -> T:
    """Return the first message of a call; ``Hub.handshake`` bounds the wait.

    Raises:
        DamagedFrame: it is not what was sent.
        StreamlinkError: the call ended without, or it is no frame.
    """
    try:
        return decode(next(call.raws))
    except StopIteration:
        raise RemoteProtocolError("a call ended before its first frame") from None
    except (StreamlinkError, DamagedFrame):
        raise
    except Exception as error:  # a carrier ends a broken call's messages with any exception
        raise TransportClosed("a call broke before its first frame") from error


def only_answer(raw: bytes, call: ServerCall, clock: Clock) -> Iterator[bytes]:
    """Yield the only message of a call; a peer that does not read it must not hold the worker."""
    with cut_after(clock, ANSWER_SECONDS, call.cut):
        yield raw


@contextmanager
def cut_after(clock: Clock, seconds: float, cut: Callable[[], object]) -> Iterator[None]:
    """Call ``cut`` if this lasts longer than ``seconds``."""
    timer = start_timer(clock, seconds, cut)
    try:
        yield
    finally:
        timer.cancel()


def end_call(call: ServerCall, pump: Pump[Any]) -> None:
    """Let a call end as ``ENDED`` only if what it carried has ended: else the client resumes."""
    if not pump.is_closed:
        call.break_off("another call took over, or this one was given up")


class CallReader(threading.Thread):
    """Feeds a pump from one call. Ends when the call does.

    Args:
        pump: what the call carries.
        number: the call's, at the pump.
        call: where messages arrive.
        decode: makes frames of them.
        first: the frames that were read from it before.
        then: called when the call has ended.
    """

    def __init__(
        self,
        pump: Pump[Any],
        number: int,
        call: ServerCall,
        decode: Callable[[bytes], Frame],
        *,
        first: tuple[Frame, ...] = (),
        then: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name=f"read-{number}", daemon=True)
        self._pump, self._number, self._call, self._decode = pump, number, call, decode
        self._first, self._then = first, then
        # A second way to ``detach``, since the reader may be blocked when the carrier ends the
        # call.
        if not call.on_over(self._over):  # it has ended already
            self._over()

    def run(self) -> None:
        """Read until the call ends."""
        try:
            self._pump.incoming(self._first, self._number)
            if self._pump.read(self._call.raws, self._number, self._decode):
                # Its writer, which would send the abort, may be stuck in a damaged connection.
                start_timer(self._pump.clock, LAST_WORDS_SECONDS, self._call.cut)
        except Exception as error:  # a carrier ends a broken call's messages with any exception
            logger.debug("call %d ended: %r", self._number, error)
        self._pump.detach(self._number)

    def _over(self) -> None:
        self._pump.detach(self._number)
        self._then()
