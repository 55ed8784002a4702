"""``ReceivePump``: a receiving stream as its owner sees it: events in order, and credit back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.errors import StreamlinkError, TransportClosed, to_raise
from streamlink.protocol.events import Delivered, Event, Failed
from streamlink.protocol.frames import PLAIN, Chunk, Frame, Open, Payload
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.lending import LendingPump
from streamlink.transport.log import log_repair, log_resume
from streamlink.transport.pump import RECHECK_SECONDS

__all__ = ["Decode", "ReceivePump", "Take"]

logger = logging.getLogger("streamlink.transport")

Take = Callable[[Chunk], object]
"""``take(chunk)`` puts its bytes where they belong, or notes that they are there."""

Decode = Callable[[int, int, int, Payload, tuple[str, ...]], Payload | None]
"""``decode(number, offset, nbytes, payload, agreed)`` gives the ``nbytes`` plain bytes of a chunk
in that encoding among those agreed on, or raises where the payload is no such encoding. None: the
base that it is a difference from cannot be read; then it is asked for again, without one."""


class ReceivePump(LendingPump):
    """The owner's view of a receiving stream: events in order, and credit back.

    An owner whose sink never blocks hands over ``take``, and the carrier's reader calls it,
    which saves a thread's hand-over for each chunk. Any other sink has to be filled by its owner: a
    reader that waits for a disk would read no word of the sender's meanwhile.
    """

    _take: Take | None = None
    _take_error: BaseException | None = None
    _taker = 0  # the thread that calls ``take`` now; 0: no thread does

    def __init__(
        self, machine: ReceiveStream, *, clock: Clock, decode: Decode | None = None
    ) -> None:
        """See ``Pump``; ``decode`` is called without the lock, by one thread at a time."""
        super().__init__(machine, clock=clock)
        self._decode = decode

    def fill(self, take: Take) -> Event:
        """Let the reader ``take`` each piece, in order; returns the first event of another kind.

        After it has returned or raised, no thread calls ``take`` any more.

        Raises:
            StreamlinkError: the stream has failed.
            Exception: whatever ``take`` raised.
        """
        try:
            with self._lock:
                self._take = take
            self._take_chunks()  # those that came before
            return self._wait_news()
        finally:
            with self._lock:
                self._take = None
                # This very thread takes no more, even where an interrupt kept it from saying so.
                while self._taker not in (0, threading.get_ident()):
                    self._to_own.wait(RECHECK_SECONDS)
                self._taker, self._take_error = 0, None

    def next(self, seconds: float = RECHECK_SECONDS) -> Event | None:
        """Return the next event, waiting up to ``seconds``; None: there was no event.

        Raises:
            StreamlinkError: the stream has failed.
        """
        event = self.poll(seconds)
        if isinstance(event, Failed):
            raise to_raise(event.error)
        if isinstance(event, Delivered):
            self._settle(event.chunk)
            if event.chunk.encoding != PLAIN:
                chunk = self._decoded(event.chunk)
                return None if chunk is None else Delivered(chunk)
        # ``Failed`` comes once: an owner that asks again must not take its absence for silence.
        if event is None and self._machine.is_closed and self._machine.error is not None:
            raise to_raise(self._machine.error)
        return event

    def _wait_news(self) -> Event:
        machine = self._machine
        while True:
            with self._lock:
                while not (self._owner_has_work() or machine.is_closed):
                    self._to_own.wait(RECHECK_SECONDS)
                if self._take_error is not None:
                    raise self._take_error
                # Pieces are left to the taker: one that the owner took would be out of order.
                event = None if machine.has_chunk else machine.next_event()
            if isinstance(event, Failed):
                raise to_raise(event.error)
            if event is not None:
                return event
            if machine.is_closed:
                raise _why_closed(machine)

    def _take_chunks(self) -> None:
        # Without the lock, since most streams have no ``take``. One that is set just now misses
        # nothing: ``fill`` takes what came before.
        if self._take is None:
            return
        while (taken := self._next_chunk()) is not None:
            take, event = taken
            try:
                chunk: Chunk | None = event.chunk
                self._settle(event.chunk)
                if event.chunk.encoding != PLAIN:
                    chunk = self._decoded(event.chunk)
                if chunk is not None:
                    take(chunk)
                    self.release(chunk.nbytes)
            except BaseException as error:
                # Kept for the owner in ``fill``: ``_next_chunk`` wakes it, and ends this loop.
                with self._lock:
                    self._take_error = error

    def _decoded(self, chunk: Chunk) -> Chunk | None:
        """Return an encoded chunk as a plain one: the layers above see plain chunks only.

        None: it comes again, with all that follows it.
        """
        assert self._decode is not None, "no encoding was agreed on"
        plain = self._decode(
            chunk.encoding, chunk.offset, chunk.nbytes, chunk.payload, self._machine.encodings
        )
        if plain is None:
            self._drop_base(chunk.offset)
            return None
        return Chunk(chunk.sequence, chunk.offset, plain)

    def _drop_base(self, offset: int) -> None:
        with self.locked() as (machine, now):
            machine.drop_base(offset, now=now)
            # Not left to the ticker, which would take the closed calls for silent ones.
            cuts = [self._lose_call(call, now) for call in list(self._calls)]
        text = "%s: from byte %d on it is asked for again, without the version it was based on"
        logger.warning(text, machine.name, offset)
        for cut in cuts:
            cut()

    def _next_chunk(self) -> tuple[Take, Delivered] | None:
        me = threading.get_ident()
        with self._lock:
            if self._taker not in (0, me):
                return None  # the reader of the previous call also takes what this call brings
            # Until no chunk is left, not for each: a second taker in between would break the order.
            self._taker = me
            if self._take is not None and self._take_error is None and self._machine.has_chunk:
                event = self._machine.next_event()
                assert isinstance(event, Delivered)
                return self._take, event
            self._taker = 0
            if self._take is None or self._owner_has_work():
                self._to_own.notify_all()
            return None

    def _owner_has_work(self) -> bool:
        if self._take is None:
            return self._machine.has_events
        is_news = self._machine.has_events and not self._machine.has_chunk
        return is_news or self._take_error is not None

    def accept(self, *, wants_spec: bool) -> None:
        """Let the sender begin."""
        self._do(lambda machine, now: machine.accept(wants_spec=wants_spec, now=now))

    def release(self, nbytes: int) -> None:
        """Give back credit for bytes the sink has."""
        with self._lock:  # as ``_do`` does, at a third of its cost: once for each chunk
            machine = self._machine
            if not machine.is_closed:
                machine.release(nbytes, now=self._clock())
                self._wake()
                return
        raise _why_closed(machine)

    def committing(self) -> None:
        """Report to the sender that the commit makes progress."""
        self._do(lambda machine, now: machine.committing(now=now))

    def commit(self, digest: str) -> None:
        """Confirm to the sender that the model is whole: success."""
        self._do(lambda machine, _: machine.commit(digest))

    def _note(self, frame: Frame, call: int) -> None:
        super()._note(frame, call)
        if isinstance(frame, Open) and self._machine.resumes:
            log_resume(self._machine, self._machine.received)
        elif isinstance(frame, Chunk) and not frame.is_intact:
            log_repair(self._machine, self._machine.stats.repairs, "arrived damaged")

    def _peer_knows_end(self) -> bool:
        return False  # the commit may have been on its way when the call broke

    def _do(self, act: Callable[[ReceiveStream, float], None]) -> None:
        with self.locked() as (machine, now):
            if not machine.is_closed:
                act(machine, now)
                return
        raise _why_closed(machine)


def _why_closed(machine: ReceiveStream) -> StreamlinkError:
    if machine.error is not None:
        return to_raise(machine.error)
    return TransportClosed(f"{machine.name} is already done")
