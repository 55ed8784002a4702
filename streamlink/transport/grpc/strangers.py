"""Connections that have not identified themselves: bounded in number, and in time.

gRPC reports neither new connections nor their TLS handshakes. But they are descriptors of this
process, which the system lists (``/proc/self/fd``, on Linux only; elsewhere gRPC's own bounds have
to do). A client that is admitted, or that resumes a session, is *known* from then on; the others
are strangers. Of too many strangers, those that have sent no byte are cut first, the oldest before
the others: a client sends at once, so its place is the last to be taken. Strangers that do send are
bounded in the same way; who may connect at all is for a firewall to decide.

A cut is ``shutdown``: gRPC takes it for the peer's end of the connection and closes the descriptor.

A look costs some system calls for each socket of the process, so with a thousand clients it takes
tens of milliseconds. No handshake and no call waits for one, and looks rest longer than they take.
"""

from __future__ import annotations

import ipaddress
import math
import os
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from streamlink.clock import Clock
from streamlink.protocol.limits import TokenBucket
from streamlink.transport.log import RateLimitedLog, noted

__all__ = ["Strangers", "address_of"]

_LIST = "/proc/self/fd"
_LOOK_SECONDS, _LOOK_UNDER_PRESSURE_SECONDS = 1.0, 0.05
_RESTS = 9.0  # before an announcement is looked for again, as a multiple of what the last look took
_HOSTS = 64  # of which a failed handshake is reported with one look
_ANNOUNCED_PER_SECOND, _ANNOUNCED_BURST = 20.0, 100.0

_BYTES_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received of Linux's tcp_info

Address = tuple[str, int]


@dataclass(slots=True)
class _Connection:
    address: Address
    since: float
    has_called: bool = False
    is_known: bool = False
    is_cut: bool = False

    @property
    def is_stranger(self) -> bool:
        """Whether it belongs to no admitted client, and has not been cut."""
        return not (self.is_known or self.is_cut)

    @property
    def is_silent(self) -> bool:
        """Whether it never came as far as a call, and not because we cut it."""
        return not (self.has_called or self.is_known or self.is_cut)


class Strangers:
    """Watches the connections to one port of this process, in a thread of its own.

    Args:
        most: strangers at once (count).
        seconds: how long one may stay that opens no call (seconds).
        has_tls: whether the port takes TLS only; then one that leaves without a call is logged.
        log: for what strangers cause.
        clock: what their time goes by.
    """

    def __init__(
        self, *, most: int, seconds: float, has_tls: bool, log: RateLimitedLog, clock: Clock
    ) -> None:
        self._clock = clock
        self._most, self._seconds = most, seconds
        self._has_tls = has_tls
        self._log = log
        self._port = 0
        self._is_watching = False
        self._lock = threading.Lock()  # held for moments: around what others note, and ``_failed``
        self._looking = threading.Lock()  # for as long as a look takes; around all that follows
        self._took = 0.0
        self._looked_at = -math.inf
        self._early: dict[Address, bool] = {}  # taken from ``_called``
        self._found: dict[str, _Connection] = {}
        self._others: set[str] = set()  # sockets that are no connections of ours
        self._announced = TokenBucket(_ANNOUNCED_PER_SECOND, burst=_ANNOUNCED_BURST)
        self._failed: dict[str, tuple[int, int]] = {}  # how often since the last look, last port
        self._called: dict[Address, bool] = {}  # not found yet; True: known
        self._is_over = clock.event()
        self._thread = threading.Thread(target=self._watch, name="strangers", daemon=True)

    def start(self, port: int) -> None:
        """Begin to watch; harmless where nothing can be watched (``port`` 0: a Unix socket)."""
        self._port = port
        self._is_watching = bool(port) and os.path.isdir(_LIST)
        if self._is_watching:
            self._thread.start()

    def close(self) -> None:
        """End the thread, after a last look."""
        self._is_over.set()
        if self._is_watching:
            self._clock.join(self._thread)

    def announce(self) -> None:
        """Look at once: somebody has connected, and may be gone before the next look."""
        # gRPC calls this within a handshake, so it must not block. When handshakes waited for each
        # other's looks, a thousand clients that connected at once timed out, again and again.
        if not self._is_watching or not self._looking.acquire(blocking=False):
            return
        try:
            # At a bounded rate: whoever connects in a loop must not make us look in a loop.
            now = self._clock()
            is_rested = now - self._looked_at >= _RESTS * self._took
            if is_rested and self._announced.take_token(now=now):
                with suppress(OSError):  # no descriptor to look with
                    self._look()
        finally:
            self._looking.release()

    def called(self, peer: str) -> None:
        """Note that ``peer``, as gRPC writes it, has opened a call: it is through TLS."""
        self._note(peer, is_known=False)

    def vouch(self, peer: str) -> None:
        """Note that ``peer``, as gRPC writes it, is a client that was let in."""
        self._note(peer, is_known=True)

    def look(self) -> bool:
        """Look at every connection, and cut those that are too many or too old.

        Returns:
            Whether there are so many strangers that it should be looked again soon.
        """
        with self._looking:
            return self._look()

    # --- what is there: all of it while ``_looking`` --------------------------------------

    def _look(self) -> bool:
        began = self._clock()
        with self._lock:
            called, self._called = self._called, {}
        for address, is_known in called.items():
            self._early[address] = is_known or self._early.get(address, False)
        files = dict(_sockets())
        gone = self._compare(files)
        # A connection that was cut does not count: gRPC closes it, if not always at once.
        strangers = [item for item in self._found.items() if item[1].is_stranger]
        victims = self._still_silent(self._victims(strangers, files))
        for name in victims:
            self._found[name].is_cut = _cut(files[name], name)
        if self._has_tls:
            self._note_failed(gone)
        self._report(len(strangers), len(victims))
        self._looked_at = self._clock()
        self._took = self._looked_at - began
        return len(strangers) > self._most // 2

    def _watch(self) -> None:
        pause, is_over = _LOOK_SECONDS, False
        while not is_over:
            is_over = self._is_over.wait(pause)
            is_pressed = False
            with suppress(OSError):  # no descriptor to look with: the next look may have one
                is_pressed = self.look()
            pause = max(self._took, _LOOK_UNDER_PRESSURE_SECONDS if is_pressed else _LOOK_SECONDS)
            if is_over or not is_pressed:
                self._report_failed()

    def _note(self, peer: str, *, is_known: bool) -> None:
        address = address_of(peer) if self._is_watching else None
        if address is not None:
            with self._lock:
                self._called[address] = is_known or self._called.get(address, False)

    def _compare(self, files: dict[str, int]) -> list[_Connection]:
        """Bring what is known of connections up to date; returns those that have ended.

        Args:
            files: descriptors by the names of their sockets. They were listed after the calls in
                ``_early`` were noted: a connection with one of them is listed, or has ended.
        """
        now = self._clock()
        self._others &= files.keys()
        for name in files.keys() - self._found.keys() - self._others:
            address = _peer_of(files[name], name, self._port)
            if address is None:
                self._others.add(name)
            else:
                self._found[name] = _Connection(address, since=now)
        for each in self._found.values():
            if each.address in self._early:
                each.has_called = True
                each.is_known = each.is_known or self._early[each.address]
        self._early.clear()
        ended = self._found.keys() - files.keys()
        return [self._found.pop(name) for name in ended]

    def _victims(
        self, strangers: list[tuple[str, _Connection]], files: dict[str, int]
    ) -> list[str]:
        until = self._clock() - self._seconds
        late = [name for name, each in strangers if not each.has_called and each.since <= until]
        if len(strangers) <= self._most // 2:
            return late
        # Down to a quarter, so that those who come until the next look find room.
        ranked = sorted(strangers, key=lambda pair: _rank(pair[1], files[pair[0]], pair[0]))
        surplus = len(strangers) - self._most // 4
        return [*{*late, *(name for name, _ in ranked[:surplus])}]

    def _still_silent(self, victims: Iterable[str]) -> list[str]:
        """Return those that have called nobody since the look began: some were let in meanwhile."""
        with self._lock:
            return [name for name in victims if self._found[name].address not in self._called]

    def _report(self, strangers: int, cut: int) -> None:
        if cut:
            self._log.warning(
                "closed %d connections that had not identified themselves: %d were open, and "
                "limits.max_unknown_connections permits %d, for timeouts.open_timeout (%g s) each",
                *(cut, strangers, self._most, self._seconds),
                extra=noted("connections cut", cut=cut, strangers=strangers),
            )

    def _note_failed(self, gone: Iterable[_Connection]) -> None:
        """Count the handshakes that failed, by host: who fails tries again and again."""
        with self._lock:
            for each in gone:
                host, port = each.address
                if each.is_silent and (host in self._failed or len(self._failed) < _HOSTS):
                    count, _ = self._failed.get(host, (0, 0))
                    self._failed[host] = count + 1, port

    def _report_failed(self) -> None:
        with self._lock:
            failed, self._failed = self._failed, {}
        for host, (count, port) in failed.items():
            self._log.warning(
                "%s port %d was not let in: its TLS handshake failed or was given up (%d times "
                "since the last look); does it speak TLS, is its certificate from security.ca, and "
                "does it trust ours?",
                *(host, port, count),
                extra=noted("handshake failed", peer=host, port=port, count=count),
            )


def address_of(peer: str) -> Address | None:
    """Return host and port of a peer as gRPC writes it; None: it has none.

    ``ipv4:127.0.0.1:4711`` and ``ipv6:%5B::1%5D:4711`` are such.
    """
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return an IP address as text, the same for each way to write it."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


# --- descriptors --------------------------------------------------------------------------


def _sockets() -> Iterator[tuple[str, int]]:
    """Yield name and descriptor of each socket of this process; a name is never used again."""
    for number in os.listdir(_LIST):
        with suppress(OSError):  # it was closed meanwhile
            name = os.readlink(f"{_LIST}/{number}")
            if name.startswith("socket:"):
                yield name, int(number)


def _opened(number: int, name: str) -> socket.socket | None:
    """Return a descriptor of our own for a socket; None: ``number`` is another file by now."""
    try:
        # Duplicated first, compared then: the number may be another file's since it was listed.
        ours = os.dup(number)
    except OSError:
        return None
    try:
        if os.readlink(f"{_LIST}/{ours}") == name:
            return socket.socket(fileno=ours)
    except OSError:
        pass
    os.close(ours)
    return None


def _peer_of(number: int, name: str, port: int) -> Address | None:
    """Return who is at the other end of a connection to ``port``; None: it is no such one."""
    if (line := _opened(number, name)) is None:
        return None
    with line:
        if line.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        try:
            own, their = line.getsockname(), line.getpeername()
        except OSError:  # it listens, or is broken already
            return None
        return (_plain(their[0]), their[1]) if own[1] == port else None


def _rank(each: _Connection, number: int, name: str) -> tuple[bool, float]:
    """Return what strangers are sorted by: those at the front are cut first."""
    return each.has_called or _has_sent(number, name), each.since


def _has_sent(number: int, name: str) -> bool:
    """Whether a single byte has come over a connection."""
    if (line := _opened(number, name)) is None:
        return False
    with line:
        try:
            raw = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        except OSError:
            return False
    return len(raw) == _BYTES_RECEIVED.size and _BYTES_RECEIVED.unpack(raw)[0] > 0


def _cut(number: int, name: str) -> bool:
    line = _opened(number, name)
    if line is not None:
        with line, suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
    return True
