"""The frames of a transfer and of a session, as plain values.

``proto/streamlink.proto`` is their wire form and ``transport/messages.py`` translates; the machines
only ever see these. Offsets and lengths are logical bytes of the model, spec order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from streamlink.errors import AbortCode
from streamlink.extent import Extent

NO_ENTRIES: Mapping[str, str] = MappingProxyType({})
NO_METRICS: Mapping[str, float] = MappingProxyType({})

Range = tuple[int, int]
"""Start and end of consecutive bytes of a model; the end is not part of it."""

Payload = tuple[memoryview, ...]
"""Consecutive bytes of a model as flat views; views, so that nothing is copied to wait."""


def payload_bytes(payload: Payload) -> int:
    """Return how many bytes a payload has; nearly all are of one view."""
    return payload[0].nbytes if len(payload) == 1 else sum([view.nbytes for view in payload])


def split_payload(payload: Payload, nbytes: int) -> tuple[Payload, Payload]:
    """Cut a payload in two after ``nbytes``, or after all of it where it has fewer."""
    if nbytes >= payload_bytes(payload):
        return payload, ()
    number = 0
    while payload[number].nbytes <= nbytes:
        nbytes -= payload[number].nbytes
        number += 1
    view = payload[number]
    front = (*payload[:number], view[:nbytes]) if nbytes else payload[:number]
    return front, (view[nbytes:], *payload[number + 1 :])


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a transfer belongs to. Anything of an older attempt is refused by name."""

    job: str = ""
    round: int = 0
    attempt: int = 0

    def __str__(self) -> str:
        return f"job {self.job!r} round {self.round} attempt {self.attempt}"


class UpdateKind(IntEnum):
    """What an update's floating point and complex tensors are. Integers are always values."""

    VALUES = 0
    DIFFERENCES = 1
    """From the model that came with the request."""


@dataclass(frozen=True, slots=True)
class Update:
    """What the sender of a model says of it before its first byte.

    ``weight`` is its weight in a mean; ``takes_next``: there is room at the sender for the next
    model while this one is still on its way; ``is_pure``: it is a function of each range of the
    model it is made from, so another process can go on with it at any element.
    """

    weight: float = 1.0
    kind: UpdateKind = UpdateKind.VALUES
    takes_next: bool = False
    is_pure: bool = False


# --- transfer: client's first word -------------------------------------------


@dataclass(frozen=True, slots=True)
class Attach:
    """First frame of a transfer call, from the client: which offered stream this call carries."""

    session_id: str = field(repr=False)  # who knows it may carry the session's streams
    stream_id: int


# --- transfer: from the sender ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Open:
    """Announces a model, and what kind of update it is."""

    stream_id: int
    attempt: Attempt
    total_bytes: int
    spec_digest: bytes
    spec_pages: int
    chunk_bytes: int
    update: Update = Update()
    is_resumed: bool = False
    encodings: tuple[str, ...] = ()
    """Names of the encodings that chunks may travel in, beside plain; the best first."""
    extent: Extent | None = field(default=None, compare=False)
    """The bytes of the model that the stream brings; None: all of them."""
    brings: Extent = field(init=False)
    """The same, spelled out."""

    def __post_init__(self) -> None:
        brings = self.extent or Extent(0, max(0, self.total_bytes))
        object.__setattr__(self, "brings", brings)


@dataclass(frozen=True, slots=True)
class SpecPage:
    """One page of the model's description; opaque here."""

    number: int
    body: bytes


UNNUMBERED = -1
"""The sequence of a chunk that has not left on any channel."""

PLAIN = 0
"""The encoding of a payload that is the model's bytes as they are."""


@dataclass(slots=True, init=False)
class Chunk:
    """A piece of the stream: ``nbytes`` logical bytes from ``offset`` on, and how they travel.

    Credit, acks and resume count logical bytes; only the rate counts ``wire_bytes``.
    """

    # Unlike the other frames it is not frozen, and its constructor is written out: setting the
    # fields of a frozen one takes several times as long, at both ends of every chunk. It gets its
    # number when it leaves and changes no more.

    sequence: int
    """Counts the chunk frames of one channel, repairs included; ``UNNUMBERED``: it has not left."""
    offset: int
    payload: Payload
    encoding: int
    """Which encoding the payload is in, as agreed for the stream; 0: ``PLAIN``."""
    nbytes: int
    """What the payload decodes to (bytes)."""
    is_intact: bool
    """What the carrier's hash check found; when False, no field can be trusted."""
    is_in_place: bool
    """Receiver: the payload lies where the sink wants it, in memory that it has lent."""
    wire_bytes: int = field(init=False)
    """Bytes of the payload as it travels."""
    end: int = field(init=False)
    """Offset of the first byte after the chunk."""

    def __init__(
        self,
        sequence: int,
        offset: int,
        payload: Payload,
        encoding: int = PLAIN,
        nbytes: int = -1,
        is_intact: bool = True,
        is_in_place: bool = False,
    ) -> None:
        """Make a chunk; ``nbytes`` -1: it is plain, and has as many as its payload."""
        self.sequence = sequence
        self.offset = offset
        self.payload = payload
        self.encoding = encoding
        self.wire_bytes = wire_bytes = payload_bytes(payload)
        self.nbytes = nbytes = wire_bytes if nbytes < 0 else nbytes
        self.is_intact = is_intact
        self.is_in_place = is_in_place
        self.end = offset + nbytes

    @property
    def saved_bytes(self) -> int:
        """How many bytes its encoding saves on the way."""
        return self.nbytes - self.wire_bytes

    def numbered(self, sequence: int) -> Chunk:
        """Return it as the ``sequence``-th chunk frame of a channel."""
        return Chunk(sequence, self.offset, self.payload, self.encoding, self.nbytes)


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """What is known of a chunk before its payload is read."""

    sequence: int
    offset: int
    nbytes: int
    """Logical bytes."""
    wire_bytes: int
    encoding: int = PLAIN

    @property
    def end(self) -> int:
        """Offset of the first byte after the chunk."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class Finish:
    """All chunks were sent. ``digest`` is of the extent, ``metrics`` of the work on the model."""

    stop: int
    """Where the extent ends: the byte after the last that was sent."""
    digest: str
    metrics: Mapping[str, float] = field(default_factory=dict)


# --- transfer: from the receiver ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Accept:
    """The receiver is ready for chunks on this channel.

    ``received``, ``limit`` and ``ranges`` are as in ``Ack``: the sender resumes at ``received``.
    """

    received: int
    limit: int
    chunk_bytes: int
    wants_spec: bool = False
    ranges: tuple[Range, ...] = ()
    encodings: tuple[str, ...] = ()
    """Those of ``Open.encodings`` that the receiver decodes; ``Chunk.encoding`` counts from 1."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The three marks, each a count of bytes from the start, and the credit.

    ``received``: arrived and its hash is right. ``consumed``: the sink has it. ``durable``: it
    survives this process. ``limit``: the sender may send bytes below this offset. ``ranges``
    (start, end) arrived behind a gap, ascending; only the first few are listed.
    """

    received: int
    consumed: int
    durable: int
    limit: int
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """The chunk frame counted ``sequence`` on this channel arrived damaged; send it again.

    The count is the receiver's own: the header of a damaged chunk may be what is damaged.
    """

    sequence: int


@dataclass(frozen=True, slots=True)
class Committing:
    """The sink is making the model whole; ``counter`` grows while it moves."""

    counter: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The sink has the whole model. Only this is success."""

    digest: str


# --- transfer: from either ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """Not stalled: waiting for ``waiting_for``. ``counter`` grows with each word of it."""

    counter: int
    reason: str
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Abort:
    """The stream or session ends here."""

    code: AbortCode
    reason: str


# --- session ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The client's first frame: who it is and what it can do.

    ``resume``: the id of the session to go on with after its call was lost; empty: a new one.
    """

    version_min: int
    version_max: int
    name: str
    instance: str = field(repr=False)
    chunk_bytes: int
    max_message_bytes: int
    session_timeout: float
    token: str = field(default="", repr=False)
    resume: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DataPort:
    """Where a server takes calls of streams beside the carrier of its sessions.

    It names no host: a client dials the one that it has reached, and no other.
    """

    carrier: str
    port: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's answer: what was agreed for this session."""

    version: int
    session_id: str = field(repr=False)
    epoch: str
    chunk_bytes: int
    heartbeat_interval: float
    data_ports: tuple[DataPort, ...] = ()
    """The best first; a client uses one that it knows, or none."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Sent when there was nothing else to say."""

    counter: int


@dataclass(frozen=True, slots=True)
class Request:
    """Asks the peer for something.

    ``sends`` and ``returns`` are streams the server has opened for it: the first carries a model
    with the request, the second is where a model is expected back. 0: none. ``part`` has patterns
    of the tensors expected back; empty: all. ``sends_extent`` and ``returns_extent`` are the
    bytes of the two models that travel, where not all do: a client that was lost and came back
    resumes its update at the mark.
    """

    request_id: int
    topic: str
    attempt: Attempt = Attempt()
    sends: int = 0
    returns: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    part: tuple[str, ...] = ()
    sends_extent: Extent | None = None
    returns_extent: Extent | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for this request's reply any more; the work on it may stop."""

    request_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Work on a request moved: ``counter`` grew."""

    request_id: int
    counter: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a request. ``error``: empty on success. ``traceback``: for the asking side's log."""

    request_id: int
    error: str = ""
    traceback: str = field(default="", repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The sender ends the session on purpose, or acknowledges that its peer does."""

    reason: str


SenderFrame = Open | SpecPage | Chunk | Finish | Held | Abort
ReceiverFrame = Accept | Ack | Repair | Committing | Commit | Held | Abort
TransferFrame = Attach | SenderFrame | ReceiverFrame
SessionFrame = (
    Hello | Welcome | Heartbeat | Request | TaskProgress | Reply | Cancel | Goodbye | Abort
)
Frame = TransferFrame | SessionFrame
