"""A TCP relay between a client and a server, whose line can be shaped and broken at will.

It stands outside the program under test: what it forwards is counted here, and a fault is one of
the network. One thread owns all sockets and all state; a public method hands its work to that
thread and returns when it is done, so a fault holds from the moment the call returns. Times are
kept to about a millisecond.

What the relay holds is bounded per direction by ``Link.max_queued_bytes`` and one piece (256 KiB at
most) per connection; a line that is full is not read, which is how its sender learns of it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from benchmarks.closing import Closing
from benchmarks.lanes import UNSHAPED, Lane, Link
from benchmarks.pipes import NO_TAP, Connection, Direction, End, Side, Tap

__all__ = ["UNSHAPED", "Counts", "Direction", "Link", "Relay", "Script", "Step", "Tap", "Where"]

Where = Literal["up", "down", "both"]
T = TypeVar("T")

BACKLOG = 128
WAIT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What has passed so far. ``resets`` are the relay's own, not those it passed on.

    A bit counts as flipped when the piece that has it was offered to the other end.
    """

    up_bytes: int
    down_bytes: int
    swallowed_bytes: int
    connections: int
    open_connections: int
    resets: int
    flips: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to be done once: after so many more bytes in a direction, or after seconds.

    Both count from ``Relay.play``. A step of bytes is exact: not one more is forwarded before.
    """

    action: Callable[[Relay], object]
    after_bytes: int | None = None
    after_seconds: float | None = None
    direction: Direction = "down"

    def __post_init__(self) -> None:
        if (self.after_bytes is None) == (self.after_seconds is None):
            raise ValueError("a step needs after_bytes or after_seconds, and not both")


Script = Sequence[Step]


class Relay(Closing):
    """Listens on a free port and carries every connection to ``target_host:target_port``.

    Args:
        target_host: where the server is.
        target_port: its port.
        up: the line from client to server.
        down: the line from server to client.
        lifetime: seconds after which any connection is reset; None lets them live.
        script: what to do when; counts from now.
        with_data_port: the port above leads to the one above ``target_port``, over the same line:
            a server takes streams there. Otherwise nobody listens there, as behind a firewall.
        tap: sees all that passes, in the relay's thread, and may change it.
        listen: host and port; 0: a free one.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        *,
        up: Link = UNSHAPED,
        down: Link = UNSHAPED,
        lifetime: float | None = None,
        script: Script = (),
        with_data_port: bool = False,
        tap: Tap = NO_TAP,
        listen: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._tap = tap
        found = socket.getaddrinfo(target_host, target_port, type=socket.SOCK_STREAM)[0]
        self._family = found[0]
        self._target = (str(found[4][0]), int(found[4][1]))
        self._lanes: dict[Direction, Lane] = {"up": Lane(up), "down": Lane(down)}
        self._doors = _bound_pair(listen) if with_data_port else (_bound(listen),)
        self.port: int = self._doors[0].getsockname()[1]
        self._lifetime = lifetime
        self._source = ""
        self._connections: list[Connection] = []
        self._ends: dict[int, End] = {}
        self._seen = self._resets = 0
        self._timed: list[tuple[float, Callable[[Relay], object]]] = []
        self._watched: list[tuple[Callable[[Counts], bool], Future[None]]] = []
        self._failure: BaseException | None = None
        self._is_closing = self._is_over = self._is_listening = False
        self._calls_lock = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._listen()
        self._play(script)
        self._thread = threading.Thread(target=self._run, name=f"relay {self.port}", daemon=True)
        self._thread.start()

    # --- faults -----------------------------------------------------------------------

    def shape(self, where: Where, link: Link) -> None:
        """Give a direction another line."""

        def work() -> None:
            for lane in self._at(where):
                lane.shape(link)

        self._do(work)

    def stall(self, where: Where = "both") -> None:
        """Forward nothing and read nothing, until ``resume``; nothing is lost.

        Of a stall and a black hole in the same direction, the later one holds.
        """
        self._do(lambda: self._set(where, stalled=True))

    def black_hole(self, where: Where = "both") -> None:
        """Swallow what comes and what is under way, ends of streams too; nobody is told.

        One direction alone is the half of a connection that works. A connection that was used
        meanwhile has a hole in it when it is resumed.
        """
        self._do(lambda: self._set(where, swallowing=True))

    def resume(self, where: Where = "both") -> None:
        """End stalls and black holes; a connection whose other end has gone is reset then."""
        self._do(lambda: self._resume(where))

    def half_open(self, gone: Side) -> None:
        """Reset one end of every connection; the other is not told, and talks to nobody."""

        def work() -> None:
            for connection in self._connections:
                connection.lose(gone)

        self._do(work)

    def reset(self) -> None:
        """End every present connection with RST, at both ends."""

        def work() -> None:
            for connection in list(self._connections):
                self._reset(connection)

        self._do(work)

    def cut_after(self, nbytes: int, direction: Direction = "down") -> None:
        """Reset everything when ``nbytes`` more have been forwarded, and not one more."""
        self.play([Step(action=Relay.reset, after_bytes=nbytes, direction=direction)])

    def refuse(self) -> None:
        """Refuse new connections until ``allow``; those that stand are left alone.

        The port stays ours: nobody else can be given it meanwhile.
        """
        self._do(self._refuse)

    def allow(self) -> None:
        """Take new connections again."""
        self._do(self._listen)

    def flip(self, direction: Direction, n: int | None = None, *, at: Iterable[int] = ()) -> None:
        """Flip a bit in each of the next ``n`` pieces, or in chosen bytes.

        Args:
            direction: where.
            n: how many pieces, one bit each at a random place; 1 unless ``at`` is given.
            at: how many bytes are yet to pass, counted from now, before each damaged one.
        """
        places = list(at)
        pieces = (0 if places else 1) if n is None else n
        self._do(lambda: self._lanes[direction].flip(pieces, places))

    def limit_lifetime(self, seconds: float | None) -> None:
        """Reset any connection, present ones too, ``seconds`` after it came; None ends that."""
        self._do(lambda: setattr(self, "_lifetime", seconds))

    def redirect(self, host: str, port: int) -> None:
        """Connect those who come from now on to another server of the same address family."""

        def work() -> None:
            self._target = (host, port)

        self._do(work)

    def come_from(self, address: str) -> None:
        """Reach the server from this address of our machine from now on, as a client that moved."""
        self._do(lambda: setattr(self, "_source", address))

    def play(self, script: Script) -> None:
        """Do what ``script`` says, counting from now. A step that fails is raised by ``close``."""
        self._do(lambda: self._play(script))

    # --- what has passed --------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """What has passed; also after the end."""
        return self._do(self._count)

    def queued_bytes(self, direction: Direction) -> int:
        """How many bytes are on the line in that direction, or wait to be."""
        return self._lanes[direction].queued_bytes

    def wait_until(
        self, is_so: Callable[[Counts], bool], *, timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until ``is_so(counts)``, which the relay's thread asks and which must not raise.

        Raises:
            TimeoutError: it did not come to be.
        """
        done: Future[None] = Future()
        self._do(lambda: self._watched.append((is_so, done)))
        try:
            done.result(timeout_seconds)
        finally:
            self._do(lambda: self._unwatch(done))

    def close(self) -> None:
        """End every connection, the thread and the port. A failure of a step is raised here."""
        self._do(lambda: setattr(self, "_is_closing", True))
        self._thread.join(WAIT_SECONDS)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # --- the thread -------------------------------------------------------------------

    def _do(self, work: Callable[[], T]) -> T:
        """Have ``work`` done by the thread; itself, and what comes after its end, do it at once."""
        done: Future[T] = Future()
        with self._calls_lock:
            is_at_once = self._is_over or threading.current_thread() is self._thread
            if not is_at_once:
                self._calls.append(lambda: _settle(done, work))
                os.eventfd_write(self._wake, 1)
        return work() if is_at_once else done.result(WAIT_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._turn()
        except BaseException as error:
            self._failure = self._failure or error
        for connection in list(self._connections):
            self._forget(connection)
        for each in self._doors:
            each.close()
        self._epoll.close()
        with self._calls_lock:  # nobody asks the thread from here on, so nobody waits in vain
            self._is_over = True
            os.close(self._wake)
        self._make_calls()

    def _turn(self) -> None:
        events = dict(self._epoll.poll(self._seconds_to_wait(time.monotonic())))
        now = time.monotonic()
        # Whoever holds least of the line goes first, or one connection could keep it to itself.
        ready = [self._ends[fd] for fd in events if fd in self._ends]
        for end in sorted(ready, key=lambda end: end.sends.queued_bytes):
            end.heed(events[end.fd], now)
        for connection in self._connections:
            connection.flush(now)
        if self._wake in events:
            os.eventfd_read(self._wake)
            self._make_calls()
        self._act(now)
        self._tidy(now)
        # Behind all else: a new socket may get the number of one that was closed in this turn.
        for above, door in enumerate(self._doors):
            if door.fileno() in events:
                self._accept(door, above, now)
        for end in self._ends.values():
            end.register(self._epoll)
        self._tell()

    def _seconds_to_wait(self, now: float) -> float | None:
        dues = [at for one in self._connections if (at := one.due_at()) is not None]
        dues += [at for at, _ in self._timed]
        if self._lifetime is not None:
            dues += [one.since + self._lifetime for one in self._connections]
        return max(0.0, min(dues) - now) if dues else None

    def _make_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _act(self, now: float) -> None:
        """Do the steps that are due."""
        for lane in self._lanes.values():
            while (action := lane.reached()) is not None:
                self._try(action)
        due = [one for one in self._timed if one[0] <= now]
        self._timed = [one for one in self._timed if one[0] > now]
        for _, step in due:
            self._try(partial(step, self))

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self._failure = self._failure or error

    def _tell(self) -> None:
        """Wake those whose wait is over."""
        over = [done for is_so, done in self._watched if is_so(self._count())]
        self._watched = [one for one in self._watched if one[1] not in over]
        for done in over:
            done.set_result(None)

    def _tidy(self, now: float) -> None:
        for connection in list(self._connections):
            if connection.is_over:
                self._forget(connection)
            elif self._lifetime is not None and now >= connection.since + self._lifetime:
                self._reset(connection)

    def _accept(self, door: socket.socket, above: int, now: float) -> None:
        try:
            client, _ = door.accept()
        except OSError:  # gone before it was taken, or refused meanwhile
            return
        server = socket.socket(self._family, socket.SOCK_STREAM)
        server.setblocking(False)
        if self._source:
            server.bind((self._source, 0))
        host, port = self._target
        server.connect_ex((host, port + above))  # what comes of it shows when the socket is used
        self._seen += 1
        connection = Connection(client, server, self._lanes, now, self._seen, self._tap)
        self._connections.append(connection)
        self._ends |= {end.fd: end for end in connection.ends.values()}

    # --- what the thread does for the public methods ----------------------------------

    def _at(self, where: Where) -> list[Lane]:
        return [lane for name, lane in self._lanes.items() if where in (name, "both")]

    def _set(self, where: Where, *, stalled: bool = False, swallowing: bool = False) -> None:
        for lane in self._at(where):
            lane.is_stalled, lane.is_swallowing = stalled, swallowing
        for connection in self._connections:
            connection.swallow()

    def _resume(self, where: Where) -> None:
        self._set(where)
        for connection in list(self._connections):
            if connection.is_half_open:
                self._reset(connection)

    def _reset(self, connection: Connection) -> None:
        connection.abort()
        self._forget(connection)
        self._resets += 1

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._connections.remove(connection)
        self._tap.over(connection.number)
        for end in connection.ends.values():
            if self._ends.get(end.fd) is end:  # its number may be another's by now
                del self._ends[end.fd]

    def _unwatch(self, done: Future[None]) -> None:
        self._watched = [one for one in self._watched if one[1] is not done]

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            for each in self._doors:
                each.listen(BACKLOG)
                self._epoll.register(each.fileno(), select.EPOLLIN)

    def _refuse(self) -> None:
        if self._is_listening:
            self._is_listening = False
            for each in self._doors:
                self._epoll.unregister(each.fileno())
                each.shutdown(socket.SHUT_RDWR)

    def _play(self, script: Script) -> None:
        for step in script:
            if step.after_seconds is not None:
                self._timed.append((time.monotonic() + step.after_seconds, step.action))
            elif step.after_bytes is not None:
                self._lanes[step.direction].mark(step.after_bytes, partial(step.action, self))

    def _count(self) -> Counts:
        up, down = self._lanes["up"], self._lanes["down"]
        return Counts(
            up_bytes=up.forwarded_bytes,
            down_bytes=down.forwarded_bytes,
            swallowed_bytes=up.swallowed_bytes + down.swallowed_bytes,
            connections=self._seen,
            open_connections=len(self._connections),
            resets=self._resets,
            flips=up.flipped + down.flipped,
        )


def _bound_pair(listen: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """Return sockets as of ``_bound`` on two ports, one above the other."""
    host, port = listen
    while True:
        first = _bound(listen)
        try:
            return first, _bound((host, first.getsockname()[1] + 1))
        except OSError:  # somebody else has the one above
            first.close()
            if port:
                raise


def _bound(listen: tuple[str, int]) -> socket.socket:
    """Return a socket on a free port, which it keeps when it stops listening.

    The kernel takes back a port it chose itself as soon as listening ends, and may then give it to
    an outgoing connection, even to the very client that is refused. So it is asked for by number.
    """
    with socket.socket() as chooser:
        chooser.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        chooser.bind(listen)
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(chooser.getsockname())
    listening.setblocking(False)
    return listening


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
