"""One connection of a relay: two sockets, and a queue for each direction between them.

A ``Pipe`` reads from the one end what its lane has room for, and gives the other what is due. An
``End`` is a socket that may go before its connection does. ``relay.py`` says when to look at them.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Protocol

from benchmarks.lanes import Lane

__all__ = ["NO_TAP", "Connection", "Direction", "End", "Side", "Tap"]

Direction = Literal["up", "down"]
"""``up`` is from the client to the server."""
Side = Literal["client", "server"]

SHAPED_SOCKET_BYTES = 256 << 10  # else the kernel adds megabytes to a line of stated length
RST_ON_CLOSE = struct.pack("ii", 1, 0)  # linger on, for no time
FIN = memoryview(b"")


class Tap(Protocol):
    """Who sees all that is read, in order, before it is queued, and may change it on the way."""

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        """Return what goes on in place of ``piece``, of the same length."""

    def over(self, connection: int) -> None:
        """Hear that a connection has ended; they are numbered from 1."""


class NoTap:
    """Lets all pass."""

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        """See ``Tap``."""
        return piece

    def over(self, connection: int) -> None:
        """See ``Tap``."""


NO_TAP = NoTap()


class End:
    """A socket of a connection, what it ``sends`` and what it ``gets``."""

    sends: Pipe
    gets: Pipe

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.is_gone = False
        self._interest = 0
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def shorten(self, option: int) -> None:
        """Keep the kernel's buffer small, that the line's length may be the stated one."""
        self.sock.setsockopt(socket.SOL_SOCKET, option, SHAPED_SOCKET_BYTES)

    def register(self, epoll: select.epoll) -> None:
        """Tell ``epoll`` what is of interest now.

        An end of no interest is taken out: a hang-up would be told again and again.
        """
        if self.is_gone:
            return
        interest = select.EPOLLIN if self.sends.wants_more else 0
        interest |= select.EPOLLOUT if self.gets.is_stuck else 0
        if interest == self._interest:
            return
        if not interest:
            epoll.unregister(self.fd)
        elif not self._interest:
            epoll.register(self.fd, interest)
        else:
            epoll.modify(self.fd, interest)
        self._interest = interest

    def heed(self, events: int, now: float) -> None:
        """Act on what ``epoll`` told."""
        if events & ~select.EPOLLIN:  # room, or an error that the next send will name
            self.gets.is_blocked = False
        if self.sends.wants_more and not self.is_gone:
            self.sends.read(now)

    def abort(self) -> None:
        """Close with RST."""
        if not self.is_gone:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
            self.close()

    def close(self) -> None:
        """Close; harmless twice."""
        self.is_gone = True
        self.sock.close()


class Pipe:
    """What goes from ``source`` to ``sink``, in order; ``None`` in the queue is an RST."""

    def __init__(
        self, lane: Lane, source: End, sink: End, tapped: Callable[[bytes], bytes]
    ) -> None:
        self.lane, self.source, self.sink = lane, source, sink
        self._tapped = tapped
        self.is_blocked = self.is_ended = self.is_cut = False
        self.queued_bytes = 0
        self._queue: deque[tuple[float, memoryview | None]] = deque()
        self._is_fresh = True

    @property
    def is_over(self) -> bool:
        """Whether the source has ended and the sink knows all of it."""
        return self.is_ended and not self._queue

    @property
    def is_stuck(self) -> bool:
        """Whether the sink has to take something before anything can move."""
        return self.is_blocked and bool(self._queue) and not self.lane.is_stalled

    @property
    def wants_more(self) -> bool:
        """Whether to read. A pipe that holds nothing may always, or a full line would starve it."""
        if self.is_ended or self.lane.is_stalled:
            return False
        return not self._queue or self.lane.queued_bytes < self.lane.max_queued_bytes

    def due_at(self) -> float | None:
        """When the next piece should go; None when time is not what it waits for."""
        if not self._queue or self.is_blocked or self.lane.is_stalled:
            return None
        return self._queue[0][0]

    def read(self, now: float) -> None:
        """Take a piece from the source, or its end."""
        try:
            data = self.source.sock.recv(self.lane.piece_bytes)
        except BlockingIOError:
            return
        except OSError:
            self.source_failed(now)
            return
        self.is_ended = not data
        if self.sink.is_gone or self.lane.is_swallowing:
            self.lane.swallowed_bytes += len(data)
        else:
            self._append(memoryview(self._tapped(data) if data else data), now)

    def flush(self, now: float) -> None:
        """Give the sink what is due."""
        while (due_at := self.due_at()) is not None and due_at <= now:
            piece = self._queue[0][1]
            if piece is None:
                self.is_cut = True
                self._queue.clear()
            elif not piece:
                self._queue.popleft()
                self._end_sink()
            elif not self._send(piece, now):
                return

    def source_failed(self, now: float) -> None:
        """The source was reset: the sink will hear of it, behind all that was sent before."""
        self.is_ended = True
        self.source.close()
        if not self.sink.is_gone and not self.lane.is_swallowing:
            self._append(None, now)

    def drop(self) -> None:
        """Swallow what is under way."""
        self.lane.swallowed_bytes += self.queued_bytes
        self.lane.queued_bytes -= self.queued_bytes
        self.queued_bytes = 0
        self._queue.clear()
        self.is_blocked, self._is_fresh = False, True

    def _append(self, piece: memoryview | None, now: float) -> None:
        nbytes = len(piece or b"")
        self._queue.append((self.lane.due_at(nbytes, now=now), piece))
        self._count(nbytes)

    def _count(self, nbytes: int) -> None:
        self.queued_bytes += nbytes
        self.lane.queued_bytes += nbytes

    def _send(self, piece: memoryview, now: float) -> bool:
        """Offer the oldest piece to the sink; returns whether it took any of it."""
        room = self.lane.room()
        if not room:
            return False
        piece = self.lane.damage(piece, is_fresh=self._is_fresh)
        try:
            sent = self.sink.sock.send(piece[:room] if room < len(piece) else piece)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.drop()
            self.sink.sends.source_failed(now)
            return False
        self._keep(piece, sent)
        return sent > 0

    def _keep(self, piece: memoryview, sent: int) -> None:
        """Note that ``sent`` bytes of the oldest piece have gone; what has not stays in front."""
        self._count(-sent)
        self.lane.forwarded_bytes += sent
        self._is_fresh = sent == len(piece)
        self.is_blocked = not sent
        due_at, _ = self._queue.popleft()
        if sent < len(piece):
            self._queue.appendleft((due_at, piece[sent:]))

    def _end_sink(self) -> None:
        try:
            self.sink.sock.shutdown(socket.SHUT_WR)
        except OSError:  # it has gone; reading from it says so
            return


class Connection:
    """The two ends and the two pipes between them."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        lanes: Mapping[Direction, Lane],
        since: float,
        number: int = 0,
        tap: Tap = NO_TAP,
    ) -> None:
        self.since, self.number = since, number
        self.ends: dict[Side, End] = {"client": End(client), "server": End(server)}
        client_end, server_end = self.ends["client"], self.ends["server"]
        up = Pipe(lanes["up"], client_end, server_end, partial(tap.passing, number, "up"))
        down = Pipe(lanes["down"], server_end, client_end, partial(tap.passing, number, "down"))
        self._pipes = (up, down)
        for pipe in self._pipes:
            pipe.source.sends = pipe.sink.gets = pipe
            if pipe.lane.link.is_timed:
                pipe.source.shorten(socket.SO_RCVBUF)
                pipe.sink.shorten(socket.SO_SNDBUF)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to carry."""
        return all(pipe.is_over for pipe in self._pipes)

    @property
    def is_half_open(self) -> bool:
        """Whether one end has gone and the other will never hear of it."""
        return any(end.is_gone and end.sends.is_over for end in self.ends.values())

    def flush(self, now: float) -> None:
        """Give both ends what is due."""
        for pipe in self._pipes:
            pipe.flush(now)
        if any(pipe.is_cut for pipe in self._pipes):
            self.abort()

    def due_at(self) -> float | None:
        """When something should go next; None when time is not what it waits for."""
        return min((at for pipe in self._pipes if (at := pipe.due_at()) is not None), default=None)

    def swallow(self) -> None:
        """Drop what is under way where a lane swallows."""
        for pipe in self._pipes:
            if pipe.lane.is_swallowing:
                pipe.drop()

    def lose(self, side: Side) -> None:
        """Reset one end without the other's knowledge."""
        end = self.ends[side]
        end.abort()
        end.sends.is_ended = True
        end.sends.drop()
        end.gets.drop()

    def abort(self) -> None:
        """Reset both ends."""
        for side in self.ends:
            self.lose(side)

    def close(self) -> None:
        """Close both ends as a process that exits does."""
        for end in self.ends.values():
            end.sends.drop()
            end.close()
