"""What a carrier has to do: the specification for gRPC, the in-memory one, and any other.

A *call* is an ordered stream of messages both ways, opened by a client. It carries one machine: a
session, or a stream of it. Calls may break at any time, and whole: what was sent and not delivered
is lost, and nothing is delivered behind a gap. Frames have checks of their own, so a carrier need
not detect damage. It must neither join nor split messages. It must take messages of every size up
to ``largest_message``, and may end a call that announces a larger one.

Security is the carrier's own work: nobody above it encrypts, or proves who is at the other end. The
refusal of plain text beyond loopback holds for carriers that ask for it (``require_loopback``), and
for carriers of streams alone without ``SECURED_BY``. Where ``security.ca`` is set, the hub
compares a client's name with ``Caller.x509_names``, and refuses None; where it is not, whoever
reads a session's id on the way can take over its streams.

The client's end has two small interfaces, since sessions and bulk bytes may travel differently:

- ``ControlCarrier`` carries sessions. It can also say whether the server is there, and why not.
- ``DataCarrier`` carries streams, several at once.

The server's end accepts calls. It wraps each in a ``ServerCall``, gives that to the ``Hub``, and
sends what the hub yields. It decides nothing: greeting, admission and looking up streams are the
hub's work. ``tests/support/carrier_contract.py`` holds both ends of a carrier to this text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from streamlink.cancel import CancelToken
from streamlink.config import StreamConfig
from streamlink.protocol.frames import Frame
from streamlink.protocol.limits import MAX_PAGE_BYTES, PAGE_OVERHEAD_BYTES
from streamlink.transport.chunks import CHUNK_HEADER_BYTES
from streamlink.transport.pump import Pump
from streamlink.transport.wire import Wire

__all__ = [
    "CallEnd",
    "Caller",
    "ClientCall",
    "ControlCarrier",
    "DataCarrier",
    "DataSession",
    "Listener",
    "ProvableCarrier",
    "Readiness",
    "ServerCall",
    "largest_message",
]


def largest_message(stream: StreamConfig) -> int:
    """Return how large an honest message may be at an end with these settings (bytes).

    It is a chunk, its header and ``chunk_bytes`` of payload, or a page of a model's description.
    Both ends agree on the smaller ``chunk_bytes``, so that one's own settings bound what arrives.
    """
    page = MAX_PAGE_BYTES + PAGE_OVERHEAD_BYTES
    return max(CHUNK_HEADER_BYTES + stream.chunk_bytes, page)


# --- the client's end -------------------------------------------------------


class CallEnd(Enum):
    """How a call ended, as the client's carrier sees it."""

    ENDED = auto()
    """The server ended it in order: everything that it had to send has arrived."""

    CUT = auto()
    """It was cancelled at either end, because it was silent or took too long."""

    BROKEN = auto()
    """The connection was lost or could not be made, or the server asks for another call."""

    UNIMPLEMENTED = auto()
    """The other end has answered that it has no such method: it is another service."""


class Readiness(Enum):
    """What became of waiting for a connection."""

    READY = auto()
    NOT_YET = auto()
    REFUSED = auto()
    """It failed, and was not to be tried again."""


class ClientCall:
    """What one call has to carry.

    Attributes:
        pump: the machine. The carrier sends what ``outgoing`` yields, and feeds ``read``.
        wire: the encoding of this call's frames; ``buffers`` gives them without a copy.
        first: frames to send before those of the pump.
    """

    def __init__(
        self,
        pump: Pump[Any],
        wire: Wire,
        *,
        first: tuple[Frame, ...] = (),
        attached: Callable[[Pump[Any]], object] = lambda pump: None,
    ) -> None:
        self.pump, self.wire, self.first = pump, wire, first
        self.number = 0
        """The newest call's, at the pump."""
        self._attached = attached

    def attach(self, cut: Callable[[], None], carrier: str = "", *, is_lane: bool = False) -> int:
        """Let the new call carry the pump; returns the call's number there.

        Args:
            carrier: the carrier's name, for reports.
            cut: ends the call at once, from any thread; ``carry`` returns then. It is called
                without a lock.
            is_lane: it carries beside the calls that do already; else it takes their place.
        """
        self.number = number = self.pump.attach(cut, carrier=carrier, is_lane=is_lane)
        self._attached(self.pump)
        return number

    def detach(self, number: int, end: CallEnd) -> CallEnd:
        """Note that call ``number`` has ended as ``end``; returns how it ended for its client."""
        # Whoever gives a call up takes it from the pump, and cuts it then. In between its reader
        # and its writer may end by themselves, and it looks broken.
        was_given_up = not self.pump.detach(number)
        return CallEnd.CUT if was_given_up and end is not CallEnd.ENDED else end

    def outgoing(self, number: int) -> Iterator[bytes]:
        """Yield every message to send on call ``number``, joined; ends when nothing more will."""
        yield from map(self.wire.encode, self.first)
        # Lazily, frame by frame: a list of encoded chunks would be a second window of memory.
        yield from map(self.wire.encode, self.pump.outgoing(number))

    def read(self, raws: Iterable[bytes], number: int) -> bool:
        """Take in the messages of call ``number``; returns whether it is to be cut for damage."""
        return self.pump.read(raws, number, self.wire.decode)


class DataCarrier(Protocol):
    """The client's end for streams. Any number of threads may ``carry`` at once."""

    def carry(self, call: ClientCall) -> CallEnd:
        """Open a call, attach its pump, carry both ways until either end has ended; detach it.

        Blocks the calling thread. Never raises for a connection that cannot be made or is lost: the
        caller tries again, with pauses. After ``CUT``, the connection may be dead. Open the next
        call on a new connection; calls still running on the old one may finish there.

        Raises:
            RuntimeError: there is no thread for the call. It has ended, as for the next.
            MemoryError: there is no memory for it.
        """

    def renew(self) -> None:
        """Give the connection up for a new one; every call on the old one ends, as ``BROKEN``."""

    def close(self) -> None:
        """End every call, and make no other: ``carry`` returns at once from now on."""


class DataSession(NamedTuple):
    """The session that a carrier of streams alone belongs to, as its welcome says.

    The carrier proves by it, to whoever answers at the data port, that its connections are that
    session's. The key itself never travels on them.
    """

    session_id: str
    epoch: str
    key: bytes
    lanes: int = 1
    """How many connections the server takes for one stream at once (count)."""


class ProvableCarrier(DataCarrier, Protocol):
    """The client's end of a carrier for streams alone: it can try its way before a stream does."""

    @property
    def where(self) -> str:
        """What has to be open in a firewall, for logs: the carrier, host and port."""

    def prove(self, seconds: float) -> str:
        """Reach the data port, and have both ends prove that they belong to the same session.

        Returns:
            Why that did not succeed within ``seconds``; "": it did. Never raises; ``close`` ends
            it.
        """


class ControlCarrier(DataCarrier, Protocol):
    """The client's end for sessions."""

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        """Wait for a connection that a session could use.

        Args:
            seconds: so long at most.
            is_final: whether a connection that fails now is not to be tried again.
            cancel: ends the wait; the answer does not matter then.

        Raises:
            ConnectFailed: the carrier was closed.
        """

    def failure(self, seconds: float) -> str:
        """Return why there is no connection, as far as up to ``seconds`` of trying can tell."""


# --- the server's end -------------------------------------------------------


class Caller(Protocol):
    """The other end of a call at the server: its address, its certificate, and how to cut it.

    Its methods may be called from any thread.

    That is all ``Hub.attach`` needs of a carrier which reads and writes in its own way, such as one
    over sockets that reads payloads into memory which a sink lends.
    """

    @property
    def carrier(self) -> str:
        """The carrier's name, for reports."""

    @property
    def remote(self) -> str:
        """Where the call comes from, for logs."""

    def x509_names(self) -> frozenset[str] | None:
        """Return the names in the client's verified certificate; None: there is no certificate."""

    def vouch(self) -> None:
        """Note that the hub has let this client in: its connection is no stranger's any more."""

    def cut(self) -> None:
        """End the call at once, whatever is still to be sent.

        Called without any lock of ours, so it may report the call's end before it returns.
        """


class ServerCall(Caller, Protocol):
    """One call that a client has opened, whose messages come and go whole."""

    @property
    def raws(self) -> Iterator[bytes]:
        """The messages that arrive; ends after the client's last one, raises if the call breaks."""

    def break_off(self, why: str) -> None:
        """From now on, end this call as broken.

        Deliver what was yielded so far, then make the client's ``carry`` return ``BROKEN``, so that
        it opens another call.
        """

    def on_over(self, then: Callable[[], None]) -> bool:
        """Have ``then`` called at the call's end; False: it has ended, ``then`` is not called."""


class Listener(Protocol):
    """The server's end of a carrier. It gives calls to its hub as soon as it exists."""

    @property
    def port(self) -> int:
        """The port it listens on; 0: it has no port. A listener for streams alone needs one."""

    def stop(self) -> None:
        """Accept nothing more, give frames that were sent a moment to leave, end every call."""
