"""What strangers say at a data port: scanners' words, and openings that were changed or made up.

And the same fed to the parsers alone, without a socket: ``fuzz_openings``.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from streamlink.transport.carriers import DataSession
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.opening import NotProven, receive_opening
from streamlink.transport.tcp.proof import Opening, Replays
from tests.support.hostile_frames import Mischief, Undocumented
from tests.support.told_socket import ToldSocket

__all__ = ["SCANNERS", "Strangers", "fuzz_openings"]


def client_hello() -> bytes:
    """Return the first flight of TLS, as a client of today sends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(into, out, server_hostname="server").do_handshake()
    return out.read()


SCANNERS = (
    b"GET / HTTP/1.1\r\nHost: server\r\nUser-Agent: scanner\r\n\r\n",
    b"OPTIONS / RTSP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)),
    b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.7\r\n",
    b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00",  # RDP
    b"\x00\x00\x00\xa4\xff\x53\x4d\x42\x72" + bytes(159),  # SMB
    b"*1\r\n$4\r\nINFO\r\n",
    b"\r\n\r\n",
    b"",
    client_hello(),
)
"""What a port scanner tries."""


class Strangers:
    """Makes up what connections say before they are proven.

    Args:
        mischief: all chance comes from it.
        session: whose openings are changed; the connections are numbered from 1.
    """

    def __init__(self, mischief: Mischief, session: DataSession) -> None:
        self._mischief, self._random = mischief, mischief.random
        self._session = session
        self._number = 0

    def opening(self, stream_id: int = 0, *, is_lane: bool = False) -> bytes:
        """Return an opening that is good, once."""
        self._number += 1
        session = self._session
        said = Opening(session.session_id, session.epoch, stream_id, self._number, is_lane)
        return said.encode(session.key)

    def says(self) -> bytes:
        """Return what the next one says: never an opening that is good."""
        return self._random.choice(self._ways())()

    def _ways(self) -> tuple[Callable[[], bytes], ...]:
        return (self._scanner, self._changed, self._changed, self._cut_off, self._forged, self._any)

    def _scanner(self) -> bytes:
        said = self._random.choice(SCANNERS)
        if self._random.random() < 0.5:
            return said
        # Padded: a port that waits for more bytes of an opening gets them.
        return said.ljust(self._random.randrange(1, 400), b"\0")

    def _changed(self) -> bytes:
        raw = self.opening(is_lane=self._random.random() < 0.5)
        changed = self._mischief.bytes_of(raw)
        # What follows an opening is not looked at before it is proven, so behind one there may be
        # no bytes that were only put behind it.
        return changed if not changed.startswith(raw) else changed[1:]

    def _cut_off(self) -> bytes:
        raw = self.opening()
        return raw[: self._random.randrange(len(raw))]

    def _forged(self) -> bytes:
        session, random = self._session, self._random
        names = random.choice((session.session_id, "0f" * 16, "", "x" * 90))
        epoch = random.choice((session.epoch, "", "y" * 90))
        number = self._mischief.number() & ((1 << 64) - 1)
        said = Opening(names, epoch, number, number, random.random() < 0.5)
        return said.encode(random.randbytes(32))

    def _any(self) -> bytes:
        return self._random.randbytes(self._random.randrange(0, 600))


def fuzz_openings(count: int, seed: int) -> Counter[str]:
    """Feed ``count`` made up openings to what reads and judges them; returns what became of them.

    Raises:
        Undocumented: one was taken for good, asked for more bytes than a stranger may send, or led
            to an error that is not promised.
    """
    mischief, outcomes = Mischief(seed), Counter[str]()
    session = DataSession("5e" * 16, "ab" * 8, mischief.random.randbytes(32))
    strangers, replays = Strangers(mischief, session), Replays()
    used = set[int]()
    for _ in range(count):
        raw = strangers.says()
        outcomes[_judged(raw, session)] += 1
        number = mischief.number(len(used))
        if replays.is_new(number) and number in used:
            raise Undocumented(f"number {number} was good twice")
        used.add(number)
    outcomes["openings"] = count
    return outcomes


def _judged(raw: bytes, session: DataSession) -> str:
    told = ToldSocket(raw)
    try:
        opening, whole = receive_opening(told)
    except EOFError:
        return "cut off"
    except NotProven:
        return "no opening"
    except Exception as error:
        raise Undocumented(f"{raw!r} led to {error!r}") from error
    finally:
        told.close()
        if told.asked > proof.MOST_BYTES:
            raise Undocumented(f"{raw!r} made it ask for {told.asked} bytes")
    if Opening.is_proven(whole, session.key) or proof.is_answer(whole, whole, session.key):
        raise Undocumented(f"{raw!r} was taken for proven: {opening}")
    return "not proven"
