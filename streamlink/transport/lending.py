"""``LendingPump``: payloads that a carrier reads straight into memory that the sink lends.

A carrier that reads a chunk's header and its payload apart asks for the ``place`` in between. Who
reads into lent memory is noted here, by call, beside what the machine has reserved: a reservation
ends with the loss of its call, while that call's reader may still be at work on the memory.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink.clock import Clock
from streamlink.protocol.frames import PLAIN, Chunk, ChunkHeader, Frame
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.buffers import Buffers
from streamlink.transport.pump import RECHECK_SECONDS
from streamlink.transport.transfer_pump import TransferPump

__all__ = ["Lend", "LendingPump"]

logger = logging.getLogger("streamlink.transport")

Lend = Callable[[int, int], memoryview | None]
"""``lend(offset, nbytes)`` gives the memory of that range, as ``lend`` of a sink does."""


class LendingPump(TransferPump[ReceiveStream]):
    """A receiving stream whose sink may lend its memory to the carriers' readers."""

    def __init__(self, machine: ReceiveStream, *, clock: Clock) -> None:
        super().__init__(machine, clock=clock)
        self._lend: Lend | None = None
        self.buffers = Buffers()
        """For payloads that are read elsewhere, whichever call brings them."""
        self._loans: dict[int, tuple[int, int]] = {}  # by call: start and end
        self._reclaiming = 0  # how many threads wait until a reader has stopped

    def place(self, header: ChunkHeader, call: int) -> memoryview | None:
        """Return the memory that a chunk's payload may be read into; None: it is read elsewhere.

        The carrier knows that the header is as it was sent, reads all of the payload or ends the
        call, and brings the chunk with ``is_in_place``. The memory is its own until then, or until
        ``detach(call)``, which it calls after its last access, also where the call was cut.
        """
        with self._lock:
            machine = self._machine
            if call not in self._calls:
                return None
            if not machine.admit(header, now=self._clock(), channel=call):
                self._wake()  # it may have ended the stream; one that is admitted wakes nobody
                return None
            is_plain = header.encoding == PLAIN and header.wire_bytes == header.nbytes
            # An encoded payload has to be decoded from elsewhere. And the machine has forgotten a
            # lost call whose reader may still write to this range.
            if self._lend is None or not is_plain or self._readers(header.offset, header.end):
                return None
            view = self._lent(self._lend, header)
            if view is not None:
                self._loans[call] = header.offset, header.end
            return view

    @property
    def is_lending(self) -> bool:
        """Whether there is memory to lend; a chunk that arrives earlier is not read into place."""
        return self._lend is not None

    @contextmanager
    def lending(self, lend: Lend) -> Iterator[None]:
        """Let readers have the memory that ``lend`` gives, while this lasts.

        At its end a call that is in the middle of a payload is cut, so that no thread writes to
        that memory any more.
        """
        with self._lock:
            self._lend = lend
        try:
            yield
        finally:
            with self._lock:
                self._lend = None
            # After ``_lend`` is gone: no call can get a place behind our back.
            self._reclaim(0, sys.maxsize)

    def detach(self, call: int) -> bool:
        """Note that call number ``call`` has ended, and that its reader has stopped."""
        is_here = super().detach(call)
        with self._lock:
            self._give_back(call)
        return is_here

    def _use(self, nbytes: int) -> None:
        super()._use(nbytes)
        # What a share has beyond its window is for chunks on their way.
        self.buffers.keep(nbytes - self._machine.config.stream.window_within(nbytes))

    def _wake(self) -> None:
        if self._machine.is_closed:
            self.buffers.close()  # the pump may be kept for what it knows
        super()._wake()

    def _lent(self, lend: Lend, header: ChunkHeader) -> memoryview | None:
        try:
            return lend(header.offset, header.nbytes)
        except Exception as error:  # ``write`` raises it again where the owner hears of it
            logger.debug("%s: its sink lends nothing: %s", self._machine.name, error)
            return None

    def _readers(self, start: int, end: int) -> list[int]:
        """Return the calls that read into any of a range."""
        return [call for call, loan in self._loans.items() if loan[0] < end and loan[1] > start]

    def _reclaim(self, start: int, end: int) -> None:
        """Cut the calls that read into any part of a range, and wait until they have stopped.

        A sender may give a call up before this end does, and send over another what it carried. The
        reader of the old call must not write to bytes that were verified since.
        """
        with self._lock:
            # Calls that were lost before were cut then: of these only the reader has to stop.
            late = [call for call in self._readers(start, end) if call in self._calls]
            cuts = [self._lose_call(call, self._clock()) for call in late]
        for cut in cuts:
            cut()
        with self._lock:
            # Without a deadline: to go on beside a reader that still writes would corrupt the
            # model.
            self._reclaiming += 1
            try:
                while self._readers(start, end):
                    self._to_own.wait(RECHECK_SECONDS)
            finally:
                self._reclaiming -= 1

    def _give_back(self, call: int) -> None:
        # A place is given back with each chunk, and the owner has no work then: it is not woken.
        if self._loans.pop(call, None) is not None and self._reclaiming:
            self._to_own.notify_all()

    def _settle(self, chunk: Chunk) -> None:
        """Make sure that no reader still writes where ``chunk`` belongs."""
        # Without the lock, once for each chunk; gRPC never has loans. None can begin for this range
        # now: the machine has received it, and admits no other reader.
        if self._loans:
            self._reclaim(chunk.offset, chunk.end)

    def _note(self, frame: Frame, call: int) -> None:
        super()._note(frame, call)
        # A frame has arrived behind the payload, or with it: its reader has let go of the place.
        if self._loans:
            self._give_back(call)
