"""Messages that a client posts, each in a call of its own, for a call that only the server writes.

gRPC for Python keeps a thread for whoever waits for the next message of a call. With a thousand
sessions that is a thousand threads that nearly always wait. So a client that finds ``SAYS`` in the
server's initial metadata sends all but its first message by ``Say``: the key that it made up for
its session call says which one a message belongs to, and a number says in which order. Calls may
overtake each other; what comes too early waits here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from streamlink.clock import Clock
from streamlink.errors import RemoteProtocolError
from streamlink.transport.framing import check_size

__all__ = [
    "KEY",
    "KEY_LENGTH",
    "MOST_AHEAD",
    "NUMBER",
    "SAYS",
    "SERVICE",
    "Inbox",
    "Inboxes",
    "address_of_post",
]

SERVICE = "streamlink.v1.Streamlink"
KEY, NUMBER, SAYS = "streamlink-key", "streamlink-number", "streamlink-says"
KEY_LENGTH = 32
"""Of a key in hexadecimal: 128 random bits, which nobody else can guess (characters)."""

MOST_AHEAD = 16
"""How many messages a client may have on the way; the server keeps as many that came too early."""


class Inbox:
    """The further messages of one session call, in order.

    Args:
        cut: ends the call; used where a client is too far ahead, or does not count.
        clock: what posts that bring nothing go by.
        seconds: how long one may take (seconds).
    """

    def __init__(self, cut: Callable[[], None], clock: Clock, seconds: float) -> None:
        self._cut: Callable[[], None] = cut
        self._clock, self._seconds = clock, seconds
        self._lock = threading.Lock()
        self._early: dict[int, bytes] = {}
        self._next = 0
        self._take: Callable[[bytes], None] | None = None
        self._under_way: set[_Post] = set()
        self._is_over = False

    def on_message(self, take: Callable[[bytes], None]) -> None:
        """Have ``take`` called with each message; before this there are none."""
        with self._lock:
            if not self._is_over:
                self._take = take

    def close(self) -> None:
        """Take no more: the session call has ended. Posts that have brought nothing are cut."""
        with self._lock:
            self._is_over = True
            self._take, self._cut = None, _nothing  # what they keep alive goes with the call
            self._early.clear()
            # Not those that are answered: what they have brought may be what ended the call.
            mute = [each.cut for each in self._under_way if each.is_mute]
        for cut in mute:
            cut()

    @contextmanager
    def coming(self, cut: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """Bound the posts that are under way, in number and in time: each keeps a thread.

        Gives what is to be called when the message is here.

        Args:
            cut: ends this post.

        Raises:
            RemoteProtocolError: nobody takes messages yet, or any more; or there are too many,
                then the session's call is cut.
        """
        post = _Post(self._clock(), cut)
        with self._lock:
            if self._take is None:
                raise RemoteProtocolError("this session takes no messages now")
            is_one_too_many = len(self._under_way) >= MOST_AHEAD
            if not is_one_too_many:
                self._under_way.add(post)
        if is_one_too_many:
            self._cut()
            raise RemoteProtocolError(f"more than {MOST_AHEAD} messages of a session at once")
        try:
            yield post.arrived
        finally:
            with self._lock:
                self._under_way.discard(post)

    def put(self, number: int, raw: bytes) -> None:
        """Take in message ``number``, counted from 0.

        Raises:
            FrameTooLarge: it is larger than any message of a session.
            RemoteProtocolError: no such message can come now; the session's call is cut.
        """
        check_size(raw)  # before it is kept
        with self._lock:
            if number in range(self._next, self._next + MOST_AHEAD) and number not in self._early:
                self._early[number] = raw
                self._drain()
                return
            due = self._next
        # Without the lock: a cut may bring the end of a message that is being taken in.
        self._cut()
        raise RemoteProtocolError(f"message {number} of a session where {due} is due")

    def _drain(self) -> None:
        # With the lock: two threads could otherwise change the order. To take in a message of a
        # session is to feed its machine, which waits for nothing.
        while self._take is not None and (raw := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._take(raw)

    # --- as the ticker sees it ----------------------------------------------------------------

    def tick(self) -> None:
        """Cut posts that take too long."""
        with self._lock:
            since = self._clock() - self._seconds
            late = [each.cut for each in self._under_way if each.began_at < since]
        for cut in late:
            cut()

    @property
    def is_over(self) -> bool:
        """Whether no post is under way, and none will ever come."""
        with self._lock:
            return self._is_over and not self._under_way


class _Post:
    """One message under way: since when, and how to end it."""

    def __init__(self, began_at: float, cut: Callable[[], None]) -> None:
        self.began_at, self.cut = began_at, cut
        self.is_mute = True

    def arrived(self) -> None:
        """Note that the message is here."""
        self.is_mute = False


def _nothing() -> None:
    """Cut nothing: the call has ended."""


class Inboxes:
    """Those of all session calls, by key, ``most`` at once. Any thread may ask."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_key: dict[str, tuple[Inbox, frozenset[str] | None]] = {}

    def open(self, key: str, inbox: Inbox, names: frozenset[str] | None) -> None:
        """Let messages with ``key`` come in, from whoever shows a certificate of these names.

        Raises:
            RemoteProtocolError: the key is none, or another call has it; or there are too many.
        """
        if len(key) != KEY_LENGTH:
            raise RemoteProtocolError(f"a key of {len(key)} characters; it has {KEY_LENGTH}")
        with self._lock:
            if key in self._by_key:
                raise RemoteProtocolError("another call has that key")
            if len(self._by_key) >= self._most:
                raise RemoteProtocolError(f"{self._most} calls of sessions are open here")
            self._by_key[key] = inbox, names

    def close(self, key: str) -> None:
        """Take no more with ``key``."""
        with self._lock:
            self._by_key.pop(key, None)

    def find(self, key: str, names: frozenset[str] | None) -> Inbox:
        """Return where a message belongs.

        Raises:
            RemoteProtocolError: there is no such call, or it is another client's.
        """
        with self._lock:
            inbox, owner = self._by_key.get(key, (None, None))
        # A key that was read on the way is of no use without the client's certificate.
        if inbox is None or owner != names:
            raise RemoteProtocolError("no call of a session here has that key")
        return inbox


def address_of_post(metadata: Mapping[str, str | bytes]) -> tuple[str, int]:
    """Return key and number of a post.

    Raises:
        RemoteProtocolError: they are missing, or no such.
    """
    key, number = str(metadata.get(KEY, "")), str(metadata.get(NUMBER, ""))
    with suppress(ValueError):
        if key and len(number) <= 20:
            return key, int(number)
    raise RemoteProtocolError(f"a message without {KEY} and {NUMBER}")
