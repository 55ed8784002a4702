"""A connected socket as the carrier uses it: all of some buffers out, all of a buffer in.

One thread reads and another writes, and any thread may end it: ``cut`` wakes both. The descriptor
is closed when both have let go of it, never before: the system gives a number that is free to the
next socket, and a thread that still writes would write to that.

``try_send`` and ``try_receive_into`` do what can be done without waiting, for a connection that
shares its threads with others (``served.py``).
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from streamlink.transport.x509_names import names_in

__all__ = ["PlainSocket", "Socket", "TlsSocket", "is_loopback", "keep_little_unsent"]

# Buffers that the kernel takes in one call (UIO_MAXIOV on Linux, IOV_MAX on macOS): a chunk may
# span more tensors than that.
_MOST_BUFFERS = 1024
_DRAINED_BYTES = 64 * 1024

_UNSENT_BYTES = 256 * 1024  # some milliseconds of a fast line: the next chunk comes in time
_UNSENT = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Linux and macOS

# A larger mark than the receive buffer has room for makes Linux clamp the window to the mark, for
# good (tcp_set_rcvlowat): on a long line that was 64 KiB for each round trip. How much of the
# buffer is room for payload depends on the packets; this leaves it what it needs to grow.
_BUFFERED_WAKES = 8

_SOON = struct.pack("ll", 0, 5000)  # a timeval: 5 ms for more of a payload that is coming
_SOON_TLS_MS, _MOST_WAITS = 1, 8  # the same with TLS, where each wait may end with a record

T = TypeVar("T")


def keep_little_unsent(connected: socket.socket) -> None:
    """Have whoever sends wait while the system keeps more than a little that has not left yet.

    Otherwise one lane of several has room for megabytes, and takes chunks which another could send
    at once.
    """
    if _UNSENT is not None:
        with suppress(OSError):  # it works without, with less even shares
            connected.setsockopt(socket.IPPROTO_TCP, _UNSENT, _UNSENT_BYTES)


def is_loopback(connected: socket.socket) -> bool:
    """Return whether both ends are on this machine; raises ``OSError``: the peer has gone."""
    peer, own = connected.getpeername()[0], connected.getsockname()[0]
    # 127.0.0.2 is reached from 127.0.0.1; and a name of this machine may stand for any address.
    address = ip_address(peer.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return peer == own or (mapped or address).is_loopback


class Socket:
    """What both kinds share: being ended by anyone, being closed by the last.

    Args:
        connected: a socket without a timeout; it is this object's from now on.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lock = threading.Lock()
        self._users = 1

    def handshake(self) -> None:
        """Do what has to come before the first byte: the handshake of TLS, where there is one.

        Raises:
            EOFError: the peer has closed the connection.
            OSError: the connection has ended, or a certificate is no good.
        """

    def x509_names(self) -> frozenset[str] | None:
        """Return the names in the peer's verified certificate; None: it has shown none."""
        return None

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send all of ``buffers``; waits while the peer does not read.

        Raises:
            OSError: the connection has ended.
        """
        raise NotImplementedError

    def receive_into(self, view: memoryview) -> None:
        """Fill ``view``; waits for the peer.

        Raises:
            EOFError: the peer has closed the connection.
            OSError: the connection has ended.
        """
        raise NotImplementedError

    def try_send(self, buffers: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Send what there is room for; returns what is left. Raises as ``send``."""
        raise NotImplementedError

    def try_receive_into(self, view: memoryview) -> int:
        """Read what is there into ``view``; returns how much (bytes), 0: nothing is there now.

        Raises as ``receive_into``.
        """
        raise NotImplementedError

    def receive_soon(self, view: memoryview) -> int:
        """Do as ``try_receive_into``, and wait some milliseconds for ``view`` to get full."""
        raise NotImplementedError

    @property
    def pending(self) -> int:
        """What was taken from the system already, and can be read at once (bytes)."""
        return 0

    @property
    def is_loopback(self) -> bool:
        """See the function; False for a connection that has ended."""
        with suppress(OSError):
            return is_loopback(self._socket)
        return False

    def fileno(self) -> int:
        """Return its descriptor, to wait for."""
        return self._socket.fileno()

    def wake_at(self, nbytes: int) -> None:
        """Have whoever waits for the descriptor woken once so much has come, or its end."""

    def receive(self, nbytes: int) -> bytes:
        """Return the next ``nbytes`` bytes; raises as ``receive_into``."""
        raw = bytearray(nbytes)
        self.receive_into(memoryview(raw))
        return bytes(raw)

    def wait_cut(self) -> None:
        """Wait until either end closes the connection; nothing is to come, and ends it, too."""
        with suppress(OSError, EOFError):
            self.receive(1)
        self.cut()

    def drain(self) -> None:
        """Send nothing more, and read what still comes until the peer closes.

        A connection that is closed with bytes unread is reset, and the peer may lose our last words
        with it (RFC 1122, section 4.2.2.13).
        """
        with suppress(OSError, EOFError):
            self._shut(socket.SHUT_WR)
            while True:
                self.receive_into(memoryview(bytearray(_DRAINED_BYTES)))

    def cut(self) -> None:
        """End the connection: whoever reads or writes is woken. Any thread may."""
        with self._lock:
            if self._users:
                with suppress(OSError):  # it was never connected, or the peer has reset it
                    self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        # Not the method of an ``SSLSocket``, which forgets its encryption there: a thread that
        # still reads or writes would go on in plain text.
        socket.socket.shutdown(self._socket, how)

    def share(self) -> None:
        """Note one more thread that uses it, and will ``close`` it."""
        with self._lock:
            self._users += 1

    def close(self) -> None:
        """Let go of it; the last one to do so closes it."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._socket.close()


class PlainSocket(Socket):
    """Without encryption. Neither way copies a payload in user space."""

    _wakes_at = 1
    _is_patient = False

    def try_send(self, buffers: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """See ``Socket``."""
        left = list(buffers)
        with suppress(BlockingIOError):
            self._send_from(left, socket.MSG_DONTWAIT)
        return left

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """See ``Socket``."""
        self._send_from(list(buffers), 0)

    def _send_from(self, left: list[bytes | memoryview], flags: int) -> None:
        """Send all of ``left``, and remove from it what was sent."""
        while left:
            front = left[:_MOST_BUFFERS]
            left[: len(front)] = _behind(front, self._socket.sendmsg(front, (), flags))

    def try_receive_into(self, view: memoryview) -> int:
        """See ``Socket``."""
        return self._receive_some(view, socket.MSG_DONTWAIT)

    def receive_soon(self, view: memoryview) -> int:
        """See ``Socket``."""
        if not self._is_patient:
            self._is_patient = True
            # For calls without MSG_DONTWAIT; they return what there is by then.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SOON)
        return self._receive_some(view, socket.MSG_WAITALL)

    def _receive_some(self, view: memoryview, flags: int) -> int:
        try:
            got = self._socket.recv_into(view, 0, flags)
        except BlockingIOError:
            return 0
        if not got:
            raise EOFError
        return got

    def wake_at(self, nbytes: int) -> None:
        """See ``Socket``."""
        if nbytes != self._wakes_at:
            self._wakes_at = nbytes
            with suppress(OSError):  # it works without, and wakes more often
                room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
                least = min(nbytes, max(1, room // _BUFFERED_WAKES))
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def receive_into(self, view: memoryview) -> None:
        """See ``Socket``."""
        while view.nbytes:
            # With MSG_WAITALL one call fills it, but for signals: a wake-up for each payload, not
            # for each segment.
            got = self._socket.recv_into(view, 0, socket.MSG_WAITALL)
            if not got:
                raise EOFError
            view = view[got:]


def _behind(buffers: list[bytes | memoryview], nbytes: int) -> list[bytes | memoryview]:
    """Return what follows the first ``nbytes`` of ``buffers``."""
    for at, each in enumerate(buffers):
        if nbytes < len(each):
            return [memoryview(each)[nbytes:], *buffers[at + 1 :]]
        nbytes -= len(each)
    return []


class TlsSocket(Socket):
    """With TLS. Records are of 16 KiB at most, and each is copied once by OpenSSL, both ways.

    OpenSSL's state of a connection is for one thread at a time, and not every Python guards it. So
    it is used without waiting and under a lock of ours; the waiting is done outside of that.

    Args:
        connected: a socket whose handshake was not begun.
    """

    def __init__(self, connected: ssl.SSLSocket) -> None:
        super().__init__(connected)
        connected.setblocking(False)
        self._tls = connected
        # Whoever wants the second lock next waits with the first one held: reader and writer take
        # turns. With one lock alone, the thread that has just let go of it mostly gets it again.
        self._turn, self._use = threading.Lock(), threading.Lock()

    def handshake(self) -> None:
        """See ``Socket``."""
        self._when_ready(self._tls.do_handshake)

    def x509_names(self) -> frozenset[str] | None:
        """See ``Socket``."""
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None:
            return None
        try:
            return names_in(ssl.DER_cert_to_PEM_cert(certificate).encode("ascii"))
        except ValueError:
            return frozenset()

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """See ``Socket``."""
        for each in buffers:
            view = memoryview(each)
            while view.nbytes:
                # After a wait OpenSSL wants the very same bytes again.
                view = view[self._when_ready(partial(self._tls.send, view)) :]

    def receive_into(self, view: memoryview) -> None:
        """See ``Socket``."""
        while view.nbytes:
            got = self._when_ready(partial(self._tls.recv_into, view))
            if not got:
                raise EOFError
            view = view[got:]

    def try_send(self, buffers: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """See ``Socket``."""
        left = list(buffers)
        # OpenSSL may have sent a part of a buffer that it refuses: it wants the same bytes again.
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while left:
                view = memoryview(left[0])
                left[:1] = _behind([view], self._in_turn(partial(self._tls.send, view)))
        return left

    def try_receive_into(self, view: memoryview) -> int:
        """See ``Socket``."""
        try:
            got = self._in_turn(partial(self._tls.recv_into, view))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except ssl.SSLEOFError:
            got = 0
        if not got:
            raise EOFError
        return got

    def receive_soon(self, view: memoryview) -> int:
        """See ``Socket``."""
        got, waits = 0, 0
        while got < view.nbytes:
            more = self.try_receive_into(view[got:])
            if not more:
                waits += 1
                if waits > _MOST_WAITS or not self._wait(select.POLLIN, _SOON_TLS_MS):
                    break
            got += more
        return got

    @property
    def pending(self) -> int:
        """See ``Socket``."""
        return self._in_turn(self._tls.pending)

    def _in_turn(self, act: Callable[[], T]) -> T:
        with self._turn:
            self._use.acquire()
        try:
            return act()
        finally:
            self._use.release()

    def _when_ready(self, act: Callable[[], T]) -> T:
        while True:
            try:
                return self._in_turn(act)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT)
            except ssl.SSLEOFError:
                raise EOFError from None  # closed without a farewell, as ``cut`` does

    def _wait(self, event: int, most_ms: int | None = None) -> bool:
        """Wait for ``event``; returns whether it has come within ``most_ms``."""
        poll = select.poll()
        poll.register(self._tls, event)
        # Without a limit for a thread of its own: the deadlines are the machines', and end it with
        # ``cut``.
        return bool(poll.poll(most_ms))
