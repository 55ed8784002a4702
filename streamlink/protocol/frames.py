"""The frames of a transfer and of a session, as plain values.

``proto/streamlink.proto`` is their wire form and ``transport/messages.py`` translates; the machines
see nothing else. Offsets and lengths count logical bytes of the model, in the order of its spec.
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
"""Start and end of consecutive bytes of a model; the end is exclusive."""

Payload = tuple[memoryview, ...]
"""Consecutive bytes of a model as flat views: a payload that waits is not copied."""


def payload_bytes(payload: Payload) -> int:
    """Return how many bytes a payload has."""
    # Nearly all payloads have one view, and this is called for every chunk.
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
    """What a transfer belongs to. Whatever belongs to an older attempt is refused."""

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
    """What the sender of a model announces before its first byte.

    ``weight`` is its weight in a mean; ``takes_next``: there is room at the sender for the next
    model while this one is still in flight; ``is_pure``: it is a function of each range of the
    model it is made from, so another process can resume it at any element; ``norm``: the L2 norm of
    what it changes, over all floating point and complex elements, if its sender knows it.
    """

    weight: float = 1.0
    kind: UpdateKind = UpdateKind.VALUES
    takes_next: bool = False
    is_pure: bool = False
    norm: float | None = None


# --- transfer: the client's first frame -------------------------------------------


@dataclass(frozen=True, slots=True)
class Attach:
    """First frame of a transfer call, from the client: which offered stream this call carries."""

    session_id: str = field(repr=False)  # a secret: whoever has it may carry the session's streams
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
    bases: tuple[str, ...] = ()
    """Digests of models that the sender has kept, the best first: it can send differences."""
    is_kept: bool = False
    """Whether the sender keeps this model, so that the receiver may name it as a base later."""
    brings: Extent = field(init=False)
    """The same, never None."""

    def __post_init__(self) -> None:
        brings = self.extent or Extent(0, max(0, self.total_bytes))
        object.__setattr__(self, "brings", brings)


@dataclass(frozen=True, slots=True)
class SpecPage:
    """One page of the model's description; the protocol does not look inside."""

    number: int
    body: bytes


UNNUMBERED = -1
"""The sequence of a chunk that has not left on any channel."""

PLAIN = 0
"""The encoding of a payload that is the model's bytes as they are."""


@dataclass(slots=True, init=False)
class Chunk:
    """A range of the model: ``nbytes`` logical bytes from ``offset`` on, and how they travel.

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
    """Whether its hash was right (``transport/chunks.py``); when False, no field can be trusted."""
    is_in_place: bool
    """Receiver: the payload lies where the sink wants it, in memory that it has lent."""
    hashes: bytes = field(compare=False)
    """Those of the parts of blocks that a plain payload consists of; empty: not known here."""
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
        hashes: bytes = b"",
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
        self.hashes = hashes
        self.end = offset + nbytes

    @property
    def saved_bytes(self) -> int:
        """How many bytes its encoding saves on the way."""
        return self.nbytes - self.wire_bytes

    def numbered(self, sequence: int) -> Chunk:
        """Return it as the ``sequence``-th chunk frame of a channel."""
        # Without its hashes: it may have arrived damaged because they are.
        return Chunk(sequence, self.offset, self.payload, self.encoding, self.nbytes)


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """What is known of a chunk before its payload is read (see ``Chunk``)."""

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
    base: str = ""
    """The one of ``Open.bases`` that the receiver has kept, too; empty: none."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Three offsets, below which all bytes have reached a stage, the credit, and what is ahead.

    ``received``: arrived, with the right hash. ``consumed``: passed to the sink. ``durable``: would
    survive this process. ``limit``: the sender may send bytes below this offset. ``ranges`` (start,
    end) arrived behind a gap, ascending; only the first few are listed.
    """

    received: int
    consumed: int
    durable: int
    limit: int
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """The chunk frame counted ``sequence`` on this channel arrived damaged; send it again.

    The count is the receiver's own: the header of a damaged chunk may be the damaged part.
    """

    sequence: int


@dataclass(frozen=True, slots=True)
class Committing:
    """The sink commits the model; ``counter`` grows while that makes progress."""

    counter: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The sink has committed the model. Only this is success."""

    digest: str


# --- transfer: from either ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """A keep-alive: this end waits for ``waiting_for``. ``counter`` grows with each frame."""

    counter: int
    reason: str
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Ends the stream or session."""

    code: AbortCode
    reason: str


# --- session ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The client's first frame: its name and what it supports.

    ``resume``: the id of the session to resume after its call was lost; empty: a new one.
    ``is_probe``: the session only measures the line, beside whoever has the same name.
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
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class DataPort:
    """Where a server accepts calls of streams, beside the carrier of its sessions.

    It names no host: a client dials the one that it has reached, and no other.
    """

    carrier: str
    port: int
    above: int = 0
    """0: the client dials ``port``. Else it dials as many above the port where it has reached the
    session: whoever forwards both ports may have given them other numbers."""
    lanes: int = 0
    """How many calls may carry one stream there at once, beside each other; 0: one at a time."""


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
    max_open_requests: int = 0
    """Of the client, at once; 0: not stated."""
    data_key: bytes = field(default=b"", repr=False)
    """With it a connection to a data port proves that it is this session's; b"": none has to."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Sent when nothing else was sent for a while."""

    counter: int


@dataclass(frozen=True, slots=True)
class Request:
    """Asks the peer to do something.

    ``sends`` and ``returns`` are streams the server has opened for it: the first carries a model
    with the request, the second is where a model is expected back. 0: none. ``part`` has patterns
    of the tensors expected back; empty: all. ``sends_extent`` and ``returns_extent`` are the
    bytes of the two models that travel, where not all do: a client that was lost and came back
    resumes its update where it was.
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
    """The request was cancelled; the work on it may stop."""

    request_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Reports progress of the work on a request: ``counter`` has grown."""

    request_id: int
    counter: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a request. ``error``: empty on success. ``traceback``: for the log of who asked."""

    request_id: int
    error: str = ""
    traceback: str = field(default="", repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Ends the session on purpose, or acknowledges the peer's goodbye."""

    reason: str


SenderFrame = Open | SpecPage | Chunk | Finish | Held | Abort
ReceiverFrame = Accept | Ack | Repair | Committing | Commit | Held | Abort
TransferFrame = Attach | SenderFrame | ReceiverFrame
SessionFrame = (
    Hello | Welcome | Heartbeat | Request | TaskProgress | Reply | Cancel | Goodbye | Abort
)
Frame = TransferFrame | SessionFrame
