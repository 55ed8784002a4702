"""One call over MPI, as either end has it: what arrives for its reader, what its writer may send.

A message that arrives is at first only known, by its tag and size; MPI keeps it until it is told
where to put it. So the payload of a chunk stays there until its header was read, and then goes
straight to its place. That also bounds memory: what nobody asks for is not received, and its
sender, which learns when a message is taken, sends only so many ahead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from streamlink.clock import Clock
from streamlink.transport.carriers import CallEnd
from streamlink.transport.mpi.tags import Kind, Tag
from streamlink.transport.rank_messages import Arrival
from streamlink.transport.ranks import Ranks

__all__ = ["Arrived", "CallOver", "MpiCall"]

_MOST_UNTAKEN = 8  # messages of a call that its other end has not taken: four chunks
_MOST_AHEAD = 2 * _MOST_UNTAKEN  # that are received before the reader asks for them

# What the end of a call means: at once, or after what was sent before it.
_ENDED_BY = {Kind.CUT: CallEnd.CUT, Kind.LOST: CallEnd.BROKEN}
_ENDED_AFTER = {Kind.END: CallEnd.ENDED, Kind.BREAK: CallEnd.BROKEN}


class CallOver(Exception):
    """The call has ended at this end: nothing more is read or sent."""


@dataclass(slots=True, eq=False)
class Arrived:
    """A message that waits for the reader."""

    kind: Kind
    arrival: Arrival
    memory: memoryview | None = None
    """Where it is received; None: nobody has said where."""
    is_here: bool = False


class MpiCall:
    """One end of a call; the server's is a ``ServerCall``.

    Args:
        ranks: what messages go over.
        other: the rank of the other end.
        number: the call's, at its client.
        is_client: which end this is.
        most: the largest message that may arrive (bytes).
        forget: called when neither end sends any more of this call.
        clock: what its waits go by.
    """

    def __init__(
        self,
        ranks: Ranks,
        other: int,
        number: int,
        *,
        is_client: bool,
        most: int,
        forget: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._ranks, self._other, self.number = ranks, other, number
        self._is_client, self._most, self._forget = is_client, most, forget
        self.remote = f"rank {other}"
        self.raws = self._frames()
        self.end: CallEnd | None = None
        """How it ended, as its client sees it; None: it has not, here."""
        self._lock = threading.Lock()
        # For its reader, and for its writer.
        self._news, self._room = clock.condition(self._lock), clock.condition(self._lock)
        self._inbox: deque[Arrived] = deque()
        self._at_reader: Arrived | None = None
        self._untaken = 0
        self._has_said_end = self._has_heard_end = False
        self._is_broken = False
        self._then: list[Callable[[], None]] = []

    # --- the writer -----------------------------------------------------------------

    def send(self, kind: Kind, payload: bytes | memoryview) -> None:
        """Send a message; waits while too many were not taken.

        ``payload`` must not change until the other end has it, or the process leaves MPI: what was
        begun cannot be taken back.

        Raises:
            CallOver: the call has ended.
        """
        with self._lock:
            # Without a time limit, as in gRPC's flow control: the deadlines are the machines'. They
            # end the call, and that wakes this.
            self._room.wait_for(lambda: self.end or self._untaken < _MOST_UNTAKEN)
            if self.end or self._has_said_end:
                raise CallOver
            self._untaken += 1
            self._ranks.send(self._other, self._tag(kind), payload, self._taken)

    def finish(self, kind: Kind) -> None:
        """Say that nothing more is sent, and how it ended; only the first time counts."""
        with self._lock:
            if self._has_said_end:
                return
            self._has_said_end = True
            self._ranks.notify(self._other, self._tag(kind))
            is_over = self._has_heard_end
        if is_over:
            self._forget()

    def begin(self, kind: Kind) -> None:
        """Tell the server of this call, before anything else."""
        self._ranks.notify(self._other, self._tag(kind))

    def _taken(self) -> None:
        with self._lock:
            self._untaken -= 1
            self._room.notify()

    def _tag(self, kind: Kind) -> int:
        return Tag(self.number, self._is_client, kind).packed()

    # --- the reader -----------------------------------------------------------------

    def next(self) -> Arrived:
        """Return the next message; waits for it.

        Raises:
            CallOver: the call has ended.
        """
        with self._lock:
            self._news.wait_for(lambda: self.end or self._inbox)
            if self.end:
                raise CallOver
            each = self._at_reader = self._inbox.popleft()
        if self._is_client and each.kind in _ENDED_AFTER:
            self.end_as(_ENDED_AFTER[each.kind], Kind.END)
        return each

    def wait_answer(self, seconds: float) -> CallEnd | None:
        """Return how a call has ended that brings nothing else; None: it has not, so far."""
        with self._lock:
            self._news.wait_for(lambda: self.end or self._inbox, seconds)
            is_here = bool(self._inbox)
        if is_here:
            with suppress(CallOver):
                self.next()
        return self.end

    def content(self, of: Arrived, into: memoryview | None = None) -> memoryview:
        """Return what is in a message, received ``into`` that memory where it was not before.

        It waits until MPI does not write there any more, also where the call has ended meanwhile.

        Raises:
            CallOver: the call had ended before.
        """
        with self._lock:
            if of.memory is None:
                if self.end:
                    raise CallOver
                self._receive(of, into)
            self._news.wait_for(lambda: of.is_here)
            assert of.memory is not None
            return of.memory

    def _frames(self) -> Iterator[bytes]:
        """Yield what arrives of a session, or the first of a stream."""
        while (each := self.next()).kind is Kind.FRAME:
            yield bytes(self.content(each))

    # --- what arrives, in the thread that moves all messages -----------------------------

    def arrived(self, kind: Kind, arrival: Arrival) -> None:
        """Take in a message that is not the last of this call."""
        with self._lock:
            is_wanted, fits = self.end is None, arrival.nbytes <= self._most
            if is_wanted and fits:
                each = Arrived(kind, arrival)
                self._inbox.append(each)
                # A payload waits until its place is known; all else is small.
                if kind is not Kind.BODY and len(self._inbox) <= _MOST_AHEAD:
                    # Without memory it stays with MPI, and its reader asks for it once more.
                    with suppress(MemoryError):
                        self._receive(each, None)
                self._news.notify()
                return
        self._ranks.drop(arrival)
        # Without the lock, which a cut takes. It is too large, and no honest peer sends such a one.
        if is_wanted:
            self.cut()

    def heard_end(self, kind: Kind, arrival: Arrival) -> None:
        """Take in the last message."""
        self._ranks.drop(arrival)
        with self._lock:
            self._has_heard_end = True
            is_over = self._has_said_end
            if kind in _ENDED_AFTER and self.end is None:
                # In its turn: what came before it is to be read.
                self._inbox.append(Arrived(kind, arrival, memoryview(b""), is_here=True))
                self._news.notify()
        if kind in _ENDED_BY:
            self.end_as(_ENDED_BY[kind], Kind.LOST)
        if is_over:
            self._forget()

    def _receive(self, each: Arrived, into: memoryview | None) -> None:
        """Let MPI receive a message; the caller holds the lock."""
        nbytes = each.arrival.nbytes
        each.memory = memoryview(bytearray(nbytes)) if into is None else into

        def is_here() -> None:
            with self._lock:
                each.is_here = True
                self._news.notify()

        self._ranks.receive(each.arrival, each.memory, is_here)

    def _let_go(self, each: Arrived | None) -> None:
        """Drop a message that was not received: its sender waits for that. The lock is held."""
        if each is not None and each.memory is None:
            self._ranks.drop(each.arrival)

    # --- its end ------------------------------------------------------------------------

    def end_as(self, end: CallEnd, says: Kind) -> None:
        """End at once, unless it has ended, and say so to the other end."""
        with self._lock:
            if self.end is None:
                self.end = end
                for waiting in (self._at_reader, *self._inbox):
                    self._let_go(waiting)
                self._inbox.clear()
                self._news.notify_all()
                self._room.notify_all()
            then, self._then = self._then, []
        self.finish(says)
        for each in then:
            each()

    def send_frames(self, raws: Iterable[bytes]) -> None:
        """Send ``raws``, frames that are no chunks; stop early where the call ends."""
        with suppress(CallOver):
            for raw in raws:
                self.send(Kind.FRAME, raw)

    def lose(self) -> None:
        """End at once, as broken."""
        self.end_as(CallEnd.BROKEN, Kind.LOST)

    def end_served(self) -> None:
        """End, at the server, with what was sent: all of that arrives.

        The server's end is final, and what the client still sends is lost.
        """
        end = CallEnd.BROKEN if self._is_broken else CallEnd.ENDED
        self.end_as(end, Kind.BREAK if self._is_broken else Kind.END)

    # --- as the hub sees it; see ``ServerCall`` -----------------------------------------

    carrier = "mpi"

    def x509_names(self) -> frozenset[str] | None:
        """MPI has no certificates."""
        return None

    def vouch(self) -> None:
        """A process of the same job is no stranger."""

    def cut(self) -> None:
        """See ``Caller``."""
        self.end_as(CallEnd.CUT, Kind.CUT)

    def break_off(self, why: str) -> None:
        """See ``ServerCall``."""
        # The last message says so, behind all frames. ``why`` stays here: a tag holds no text.
        self._is_broken = True

    def on_over(self, then: Callable[[], None]) -> bool:
        """See ``ServerCall``."""
        with self._lock:
            if self.end is None:
                self._then.append(then)
                return True
        return False
