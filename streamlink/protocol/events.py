"""What a machine reports to its owner. Only facts: the owner decides what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamlink.errors import StreamlinkError
from streamlink.protocol.frames import Chunk, Hello, Open, Payload, Reply, Request, Welcome

# --- streams --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """Sender: the receiver is ready; writing continues at ``position`` (bytes)."""

    position: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Receiver: the sender announced a model. The owner answers with ``accept`` or ``abort``."""

    open: Open


@dataclass(frozen=True, slots=True)
class SpecReceived:
    """Receiver: every page of the description arrived; ``pages`` in order."""

    pages: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Delivered:
    """Receiver: the next bytes in order, hash checked. ``release`` gives their credit back."""

    chunk: Chunk

    @property
    def offset(self) -> int:
        """The offset of the first (byte)."""
        return self.chunk.offset

    @property
    def payload(self) -> Payload:
        """The bytes as they travelled, encoded or plain."""
        return self.chunk.payload

    @property
    def nbytes(self) -> int:
        """How many logical bytes they are."""
        return self.chunk.nbytes


@dataclass(frozen=True, slots=True)
class Finished:
    """Receiver: every byte was delivered. The owner checks ``digest``, commits, or aborts."""

    digest: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PeerHeld:
    """The peer is alive but waits for a third party, ``waiting_for``."""

    reason: str
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Sender: the receiver has committed the model."""

    digest: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The machine is in its final state because of ``error``."""

    error: StreamlinkError


StreamEvent = (
    Accepted | Opened | SpecReceived | Delivered | Finished | PeerHeld | Committed | Failed
)

# --- session --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """Server: a client's hello arrived. The owner answers with ``welcome`` or ``abort``."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Welcomed:
    """Client: the server's welcome arrived; the session is ready."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request of the peer arrived."""

    request: Request


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The reply to one of our requests arrived."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """One of our requests timed out."""

    request_id: int
    error: StreamlinkError


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The peer has cancelled its request."""

    request_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """The peer has ended the session on purpose."""

    reason: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The call that carried the session is lost; another may take over."""

    reason: str
    grace_seconds: float
    """How long this end waits for it."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A new call carries the session, after ``seconds`` without one."""

    seconds: float


SessionEvent = (
    HelloReceived
    | Welcomed
    | RequestReceived
    | ReplyReceived
    | RequestFailed
    | RequestCancelled
    | PeerLeft
    | Disconnected
    | Reconnected
    | Failed
)
Event = StreamEvent | SessionEvent
