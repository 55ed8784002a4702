"""What a machine tells its owner. Facts only; the owner decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamlink.errors import StreamlinkError
from streamlink.protocol.frames import Chunk, Hello, Open, Payload, Reply, Request, Welcome

# --- streams --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """Sender: the receiver is ready; writing goes on at ``position`` (bytes)."""

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
        """Where they begin."""
        return self.chunk.offset

    @property
    def payload(self) -> Payload:
        """The bytes as they travelled."""
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
    """The other end is alive but waits for somebody else."""

    reason: str
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Sender: the receiver has the whole model."""

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
    """Server: a client said hello. The owner answers with ``welcome`` or ``abort``."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Welcomed:
    """Client: the server welcomed us."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """The peer wants something."""

    request: Request


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The peer answered one of our requests."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """One of our requests ran into its deadline."""

    request_id: int
    error: StreamlinkError


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The peer no longer wants what it asked for."""

    request_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """The peer said goodbye."""

    reason: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The call that carried the session is lost; another may take over."""

    reason: str
    patience: float
    """How long this end waits for it (seconds)."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A new call carries the session, after ``seconds`` without."""

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
