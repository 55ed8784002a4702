"""The client's calls over connections: one, or several that carry the same stream at once.

``Bundle`` is one call of a stream as ``DataCarrier.carry`` sees it. It begins with a first
connection, opens and closes others beside it as ``LaneRule`` says, and ends with the last of them.
No connection has a part of its own: which chunk leaves on which, and what becomes of those that a
lost one carried, is the machine's work (``protocol/stream.py``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from streamlink.clock import Clock
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.lane_rule import SAMPLE_SECONDS, LaneRule
from streamlink.transport.tcp.opening import NotProven
from streamlink.transport.tcp.sockets import Socket
from streamlink.transport.tcp.stream import StreamCall
from streamlink.transport.traffic import WireCount
from streamlink.transport.transfer_pump import TransferPump
from streamlink.transport.wire import TransferWire

__all__ = ["RETIRE_SECONDS", "Bundle", "Dial", "carry_over"]

logger = logging.getLogger("streamlink.client")

# How the connections of one call have ended, and what that says of the call. The server ends one in
# order only where the stream has ended, and one that fell silent has cost the time that all had.
_ENDS = (CallEnd.BROKEN, CallEnd.CUT, CallEnd.ENDED)

RETIRE_SECONDS = 30.0
"""How long a lane that is closed may take for what it carries already (seconds). What has not
arrived then travels again."""

Dial = Callable[[], AbstractContextManager[Socket]]
"""Gives one more connection of the stream, proven to be a lane; raises as ``TcpCarrier`` does."""


def carry_over(
    call: ClientCall, connection: Socket, most: int, *, is_lane: bool = False
) -> CallEnd:
    """Carry a call over one connection until it ends.

    Args:
        call: of a stream.
        connection: proven; it is closed by whoever gave it.
        most: the longest frame that is let in (bytes).
        is_lane: other connections carry the same stream.

    Raises:
        RuntimeError: there is no thread to write; the call has ended.
        MemoryError: there is no memory for a payload; the call has ended.
    """
    wire, pump = call.wire, call.pump
    assert isinstance(wire, TransferWire), "a session's call over a carrier of streams"
    assert isinstance(pump, TransferPump)
    stream = StreamCall(connection, wire, WireCount(), most)
    number = call.attach(connection.cut, "tcp", is_lane=is_lane)
    connection.share()

    def write() -> None:
        try:
            stream.send(pump.outgoing(number))
            if pump.is_closed or pump.is_retiring(number):
                stream.end()
        finally:
            connection.close()

    try:
        # It is not joined: it may be reading from a slow source. It ends by itself, as its call
        # carries nothing any more.
        if not _start(write, "tcp-write"):
            connection.close()
            raise RuntimeError("can't start a thread to write")
        was_damaged = stream.read(pump, number)
        has_ended = stream.has_ended and not was_damaged
        return call.detach(number, CallEnd.ENDED if has_ended else CallEnd.BROKEN)
    finally:
        connection.cut()
        pump.detach(number)


class Bundle:
    """Carries one call over a first connection, and over others beside it.

    Args:
        call: of a stream.
        stream_id: its number.
        dial: gives one connection more.
        rule: says how many there should be.
        most: the longest frame that is let in (bytes).
        clock: what its waits go by.
    """

    def __init__(
        self,
        call: ClientCall,
        stream_id: int,
        dial: Dial,
        rule: LaneRule,
        *,
        most: int,
        clock: Clock,
    ) -> None:
        assert isinstance(call.pump, TransferPump), "a session's call over a carrier of streams"
        self._call, self._pump = call, call.pump
        self._stream_id, self._dial, self._rule = stream_id, dial, rule
        self._most, self._clock = most, clock
        self._changed = clock.condition()
        self._carrying: dict[Socket, ClientCall] = {}  # the oldest first
        self._unwanted: dict[Socket, float] = {}  # until when each may take to come to its end
        self._is_dialing = self._is_over = False
        self._end = CallEnd.BROKEN
        self._failure: Exception | None = None  # of the connection that ended last

    def carry(self, first: Socket) -> CallEnd:
        """Carry until no connection is left; returns how that ended.

        Raises:
            RuntimeError: there was no thread for the last of them.
            MemoryError: or no memory.
        """
        _start(self._keep, "tcp-lanes")
        self._carry_over(first, self._call)
        with self._changed:
            # Without a limit: each of them ends by the deadlines of the machine.
            self._changed.wait_for(lambda: not self._carrying)
            self._is_over = True
            self._changed.notify_all()
            # It says nothing about the data port, as a broken call does: the next call tries there.
            if self._failure is not None and self._end is CallEnd.BROKEN:
                raise self._failure
            return self._end

    def _carry_over(self, connection: Socket, call: ClientCall, *, is_lane: bool = False) -> None:
        with self._changed:
            if self._is_over:
                return  # it was dialed for too long; the stream may be carried by another bundle
            self._is_dialing = self._is_dialing and not is_lane
            self._carrying[connection] = call
        end, failure = CallEnd.BROKEN, None
        try:
            end = carry_over(call, connection, self._most, is_lane=is_lane)
        except (RuntimeError, MemoryError) as error:
            logger.warning("a connection of a stream ends: %s", error)
            failure = error.with_traceback(None)  # which would keep a payload
        finally:  # whatever comes of it: ``carry`` waits for it
            self._note_over(connection, end, failure)

    def _note_over(self, connection: Socket, end: CallEnd, failure: Exception | None) -> None:
        with self._changed:
            self._failure = failure
            del self._carrying[connection]
            self._end = max(self._end, end, key=_ENDS.index)
            self._note_end(connection)
            self._changed.notify_all()
            # One may be dead, and would be waited for. And those that only bring to its end what
            # they carry cannot carry the stream: it resumes.
            is_useless = self._is_done() or not self._lasting()
            useless = list(self._carrying) if is_useless else []
        for each in useless:
            each.cut()

    def _is_done(self) -> bool:
        """Whether both ends know how the stream has ended: nothing more is to be carried."""
        return self._end is CallEnd.ENDED and self._pump.is_closed

    def _note_end(self, connection: Socket) -> None:
        if connection in self._unwanted:
            del self._unwanted[connection]
        else:
            self._rule.lost(now=self._clock())

    # --- more and less ------------------------------------------------------------------

    def _keep(self) -> None:
        """Have as many connections as the rule says, until the call is over."""
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_over, SAMPLE_SECONDS):
                    return
                received, lanes = self._pump.stream.received, len(self._lasting())
                wanted = self._rule.wanted(received, lanes=lanes, now=self._clock())
                # In the same look: else the one that is dialed might be neither here nor there.
                # Nor while one is on its way out: the server counts that, too.
                is_busy = self._is_dialing or bool(self._unwanted)
            if self._pump.is_closed:
                return
            self._cut_late()
            if lanes > wanted:
                self._close_one()
            elif lanes < wanted and not is_busy:
                self._open_one()

    def _close_one(self) -> None:
        """Close one lane, without loss: what it carries arrives, and need not be sent again."""
        with self._changed:
            # The youngest: the oldest have shown that they last.
            closed = next(reversed(self._lasting()), None)
            # It cannot retire while it carries alone: no other has completed its handshake.
            if closed is not None and self._pump.retire(self._carrying[closed].number):
                self._unwanted[closed] = self._clock() + RETIRE_SECONDS

    def _cut_late(self) -> None:
        with self._changed:
            late = [each for each, until in self._unwanted.items() if until <= self._clock()]
        for each in late:
            each.cut()

    def _lasting(self) -> list[Socket]:
        return [each for each in self._carrying if each not in self._unwanted]

    def _open_one(self) -> None:
        self._is_dialing = True
        if not _start(self._lane, "tcp-lane"):
            self._give_up_dialing()

    def _lane(self) -> None:
        call = ClientCall(self._pump, TransferWire(self._stream_id))
        try:
            with self._dial() as connection:
                self._carry_over(connection, call, is_lane=True)
        # The last two: no thread to limit its time, or no memory.
        except (OSError, EOFError, NotProven, RuntimeError, MemoryError) as error:
            logger.debug("no further connection for %s: %s", self._pump.stream.name, error)
            self._give_up_dialing()

    def _give_up_dialing(self) -> None:
        with self._changed:
            self._is_dialing = False
            self._rule.lost(now=self._clock())


def _start(run: Callable[[], None], name: str) -> bool:
    """Run it in a thread; returns whether there is one."""
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:  # no more threads here; later there may be
        return False
    return True
