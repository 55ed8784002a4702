"""How both ends of a connection prove that they belong to one session, without I/O.

The client's *opening* is the first message of a connection. Its first bytes say whether the
connection takes the place of others of its stream, or carries beside them as a lane. It names the
session, the server's process (epoch), the stream (0: none, the client only tries its way) and the
number of this connection, and ends with an HMAC-SHA256 (RFC 2104) over all of it, under the key
that the session's welcome has brought. The server's *answer* is an HMAC over the opening and random
bytes of its own. The key itself never travels on the connection.

An opening is good once. Numbers grow with each connection of a session, and the server keeps the
highest it has seen and which of the ``_REMEMBERED`` below it, as IPsec does against replays
(RFC 4303, section 3.4.3): a few bytes for each session, however long it lasts.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import NamedTuple

__all__ = ["ANSWER_BYTES", "HEAD_BYTES", "MOST_BYTES", "Opening", "Replays", "answer", "is_answer"]

MOST_BYTES = 256
"""Of an opening: all that a connection may send before it is proven (bytes)."""

_MAGIC, _LANE_MAGIC = b"SLD1", b"SLL1"
_HEAD = struct.Struct("<4sBBQQ16s")  # magic, two lengths, stream, number, random
_MAC_BYTES = 32
_RANDOM_BYTES = 16
# What an HMAC is for stands in front, so that none can be passed off as one of another kind.
_CLIENT, _SERVER = b"streamlink data client\0", b"streamlink data server\0"

HEAD_BYTES = _HEAD.size
"""Of an opening, after which its length is known."""

ANSWER_BYTES = _RANDOM_BYTES + _MAC_BYTES

_REMEMBERED = 1024  # numbers below the highest; connections that race arrive out of order


class Opening(NamedTuple):
    """What a connection says first.

    Attributes:
        session_id: the session that it belongs to.
        epoch: names the server's process that welcomed it.
        stream_id: the stream that it carries; 0: none.
        number: of this connection in its session, from 1.
        is_lane: it carries beside the stream's other connections; else it takes their place.
    """

    session_id: str
    epoch: str
    stream_id: int
    number: int
    is_lane: bool = False

    def encode(self, key: bytes) -> bytes:
        """Return the opening as it is sent.

        Raises:
            ValueError: the session or the epoch has a name too long for it.
        """
        session, epoch = self.session_id.encode(), self.epoch.encode()
        if HEAD_BYTES + len(session) + len(epoch) + _MAC_BYTES > MOST_BYTES:
            raise ValueError("the server named its session or its epoch with too many bytes")
        head = _HEAD.pack(
            _LANE_MAGIC if self.is_lane else _MAGIC,
            len(session),
            len(epoch),
            self.stream_id,
            self.number,
            secrets.token_bytes(_RANDOM_BYTES),
        )
        said = head + session + epoch
        return said + _mac(key, _CLIENT, said)

    @staticmethod
    def rest_bytes(head: bytes) -> int:
        """Return how many bytes follow ``HEAD_BYTES`` of an opening.

        Raises:
            ValueError: it is no opening, or too long.
        """
        magic, session, epoch, *_ = _HEAD.unpack(head)
        if magic not in (_MAGIC, _LANE_MAGIC):
            raise ValueError("it does not begin as a connection of streamlink does")
        rest = int(session) + int(epoch) + _MAC_BYTES
        if HEAD_BYTES + rest > MOST_BYTES:
            raise ValueError(f"its opening would be longer than {MOST_BYTES} bytes")
        return rest

    @classmethod
    def decode(cls, raw: bytes) -> Opening:
        """Return what a whole opening says; nothing of it is proven yet.

        Raises:
            ValueError: it is none.
        """
        if len(raw) < HEAD_BYTES or len(raw) != HEAD_BYTES + cls.rest_bytes(raw[:HEAD_BYTES]):
            raise ValueError("its opening has not the length that it says")
        magic, session, _, stream_id, number, _ = _HEAD.unpack_from(raw)
        names = raw[HEAD_BYTES:-_MAC_BYTES]
        if not names.isascii():
            raise ValueError("its opening names no session")
        text = names.decode("ascii")
        is_lane = magic == _LANE_MAGIC
        return cls(text[:session], text[session:], stream_id, number, is_lane)

    @staticmethod
    def is_proven(raw: bytes, key: bytes) -> bool:
        """Return whether a whole opening was made by somebody who knows ``key``."""
        said, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        return hmac.compare_digest(mac, _mac(key, _CLIENT, said))


def answer(opening: bytes, key: bytes) -> bytes:
    """Return how the server proves to the sender of ``opening`` that it knows ``key``, too."""
    random = secrets.token_bytes(_RANDOM_BYTES)
    return random + _mac(key, _SERVER, opening + random)


def is_answer(raw: bytes, opening: bytes, key: bytes) -> bool:
    """Return whether ``raw`` is the answer to ``opening`` of somebody who knows ``key``."""
    random, mac = raw[:_RANDOM_BYTES], raw[_RANDOM_BYTES:]
    return hmac.compare_digest(mac, _mac(key, _SERVER, opening + random))


def _mac(key: bytes, purpose: bytes, said: bytes) -> bytes:
    return hmac.digest(key, purpose + said, "sha256")


class Replays:
    """Which numbers of one session's connections were used: each is good once."""

    def __init__(self) -> None:
        self._highest = 0
        self._used = 0  # bit n: the number n below the highest was used

    def is_new(self, number: int) -> bool:
        """Return whether ``number`` was not used before; it is used from now on.

        One that is too far below the highest counts as used.
        """
        ahead = number - self._highest
        if ahead > 0:
            # Not shifted by more than is kept: the number is the peer's, and may be enormous.
            kept = self._used << ahead if ahead < _REMEMBERED else 0
            self._highest, self._used = number, (kept | 1) & ((1 << _REMEMBERED) - 1)
            return True
        if number < 1 or -ahead >= _REMEMBERED or self._used >> -ahead & 1:
            return False
        self._used |= 1 << -ahead
        return True
