"""The settings of one end of a link: streams, deadlines, the carrier, limits, security."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from streamlink.config.bandwidth import least_rate, parse_bwlimit
from streamlink.config.files import load_yaml, sections
from streamlink.config.security import SecurityConfig
from streamlink.config.values import (
    Bwlimit,
    KiB,
    MiB,
    Names,
    Patterns,
    Rules,
    Seconds,
    Settings,
    Size,
)

__all__ = [
    "MAX_CLIENTS",
    "MAX_LANES",
    "MIN_KEEPALIVE_SECONDS",
    "GrpcConfig",
    "LimitsConfig",
    "LinkConfig",
    "SecurityConfig",
    "StreamConfig",
    "TimeoutConfig",
    "check_bwlimit",
]

# A gRPC server ends connections that ping more often than it permits (too_many_pings).
MIN_KEEPALIVE_SECONDS = 10.0
"""The shortest interval of keepalive pings. Every server permits it, so both ends may differ."""

MAX_LANES = 16
"""The highest value of ``max_lanes``."""

MAX_CLIENTS = 4096
"""The highest value of ``max_clients``."""


class StreamConfig(Settings):
    """The sizes of chunks and windows."""

    chunk_bytes: Size = Field(default=2 * MiB, ge=4 * KiB, le=64 * MiB)
    """Largest payload of one chunk (bytes). Both ends use the smaller of their two values."""

    min_chunk_bytes: Size = Field(default=64 * KiB, ge=1 * KiB)
    """Chunk size at the start of a stream (bytes); it grows up to ``chunk_bytes`` with the rate."""

    window_bytes: Size = Field(default=16 * MiB, ge=8 * KiB)
    """Most bytes of one stream that are sent but not consumed (bytes). Price: this much memory at
    each end."""

    initial_window_bytes: Size = Field(default=1 * MiB, ge=4 * KiB)
    """Window at the start of a stream (bytes); it grows up to ``window_bytes`` with the rate and
    the round-trip time of the link."""

    data_listen: Names = ("auto",)
    """Server: where streams are taken beside the connections of sessions, as ``CARRIER://WHERE``,
    the best first; ``auto``: TCP at the port above that of sessions, if it is free; ``none``:
    nowhere. A client uses the first carrier that it knows, and stays on the connection that it has
    where that does not work. The error for an unknown carrier lists the known ones."""

    max_lanes: int = Field(default=1, ge=1, le=MAX_LANES)
    """Most TCP connections that carry one stream at the same time (count); the smaller value of
    both ends counts. With more than one the client adds a connection while that makes the stream
    faster, which helps on long lines, where one connection alone is slow. Price: a descriptor and
    two threads each at both ends; at the server also for what clients may open beyond need, twice
    as many for each client."""

    lanes: int = Field(default=0, ge=0, le=MAX_LANES)
    """Client: as many TCP connections for each stream, where they can be made (count), at most
    ``max_lanes``; 0: as many as make it faster."""

    congestion_control: str = Field(default="", pattern=r"^[a-z0-9_-]{0,15}$")
    """Congestion control of this end's TCP connections for streams, such as ``bbr``, where the
    system offers it to this process; empty: the system's own choice. It matters at the end that
    sends. ``sysctl net.ipv4.tcp_allowed_congestion_control`` lists what Linux offers."""

    memory_bytes: Size = Field(default=0, ge=0)
    """Most memory for the windows of all streams of this process together, with the chunks that are
    on their way through it (bytes); 0: each stream has its own ``window_bytes``. Streams get more
    or less of it as they need, and each client's least is reserved. All servers and clients of a
    process must have the same value. Price: this much memory, however many clients there are."""

    encodings: Names = ()
    """Encodings that models are sent in where the receiver knows them, the best first: ``planes``
    (byte planes and zstd, for floating point numbers) or ``zstd``; each range that does not shrink
    travels plain; ``delta`` sends differences from a model that both ends have ``kept``. ``auto``:
    ``delta`` and ``planes``, where what the line carries and this end's processor encodes shows
    that a range arrives sooner so. What is received needs no setting. Price: two more
    chunks at each end, and what an encoder keeps (about 2 MiB)."""

    bwlimit: Bwlimit = ""
    """Bandwidth limit of this process for models, all streams together, as in rclone: ``10M``
    (MiB per second) or ``10Mbit``, ``10M:5M`` for what it sends and receives, or by the time of day
    ``08:00,10M 19:00,off``, also ``Mon-08:00,512K``; empty or ``off``: no limit. Headers of TCP and
    IP are not counted. All servers and clients of a process that set it must set the same."""

    lossy_down: Rules = ()
    """Server: formats that lose precision, for tensors of the models that it sends to clients in
    rounds: PATTERN=FORMAT, separated by commas, such as ``*.weight=int8,*=bf16``. The first pattern
    that matches counts. Formats are ``fp16``, ``bf16`` and ``int8`` (a scale for each block of 256
    elements); integers, and what a format would not make smaller, stay as they are. Digests are of
    the rounded model. Price: four more chunks at each end."""

    lossy_up: Rules = ()
    """Client: the same for the updates that it sends to the server."""

    error_feedback: Path | None = None
    """Client: directory that keeps what ``lossy_up`` loses of an update, and adds it to the next
    update of this client (error feedback); unset: it is lost. Price: disk space for the tensors
    that are rounded, twice while an update is sent."""

    kept: Path | None = None
    """Directory that keeps the models of rounds, so that both ends can send the differences from
    one that the other has, too; unset: nothing is kept. It needs ``encodings`` with ``delta`` or
    ``auto`` at the end that sends, and a directory at both. Price: disk space for
    ``kept_versions`` models and one that is being written, at a server one more."""

    # A stream may name eight bases (``protocol.limits``), and a server keeps one more than this.
    kept_versions: int = Field(default=1, ge=1, le=7)
    """How many models are kept there, the newest (count); a server also keeps the one of the round
    that runs. With clients that are not asked in each round, more are of use."""

    kept_bytes: Size = Field(default=256 << 30, ge=0)
    """Most disk space for the models that are kept there (bytes); one that does not fit is not
    kept, and travels whole the next time."""

    max_repairs: int = Field(default=3, ge=0, le=100)
    """How often one damaged chunk is requested again before the stream fails (count)."""

    max_spec_bytes: Size = Field(default=64 * MiB, ge=4 * KiB)
    """Largest model description accepted from a peer (bytes)."""

    @property
    def data_addresses(self) -> tuple[str, ...]:
        """``data_listen`` without its words ``auto`` and ``none``."""
        return tuple(each for each in self.data_listen if each not in ("auto", "none"))

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.error_feedback is not None and not self.lossy_up:
            raise ValueError(
                "error_feedback keeps what lossy_up loses, and lossy_up is not set; set lossy_up, "
                "such as *=int8, or omit error_feedback"
            )
        if self.kept is not None and self.lossy_down:
            raise ValueError(
                "kept has models as they are, and lossy_down sends them rounded, so no difference "
                "from one would be small; omit kept or lossy_down"
            )
        if "none" in self.data_listen and len(self.data_listen) > 1:
            raise ValueError(f"data_listen ({', '.join(self.data_listen)}): none stands alone")
        if self.lanes > self.max_lanes:
            raise ValueError(
                f"lanes ({self.lanes}) must not exceed max_lanes ({self.max_lanes}); set both"
            )
        if self.window_bytes < self.chunk_bytes:
            raise ValueError(
                f"window_bytes ({self.window_bytes}) must hold at least one chunk "
                f"(chunk_bytes = {self.chunk_bytes})"
            )
        return self

    @property
    def client_lanes(self) -> int:
        """Server: most connections of one client beside the first of each of its streams (count).

        All that two streams may have: a model that comes, and one that goes. Where it moves more
        at a time, these share them.
        """
        return 2 * (self.max_lanes - 1)

    @property
    def smallest_chunk_bytes(self) -> int:
        """The chunk size at the start of a stream: never above ``chunk_bytes``."""
        return min(self.min_chunk_bytes, self.chunk_bytes)

    @property
    def stream_bytes(self) -> int:
        """The most memory of one stream at one end (bytes): its window and four chunks.

        The four: one being serialized, one inside the carrier, one being read, one being consumed.
        With encodings two more: one that is encoded, or decoded, beside its other form, and its
        byte planes. With ``kept`` three more: the same range of a kept version, how the two differ,
        and that in byte planes. With lossy formats four more: what was read, the same rounded, and
        its packed form, once in pieces.
        """
        return self.window_bytes + self._copies * self.chunk_bytes

    @property
    def _copies(self) -> int:
        is_lossy, keeps = bool(self.lossy_down or self.lossy_up), self.kept is not None
        return 4 + 2 * bool(self.encodings) + 3 * keeps + 4 * is_lossy

    def price_of(self, window_bytes: int) -> int:
        """Return what a window costs of ``memory_bytes`` (bytes): see ``stream_bytes``.

        In a window of fewer than four chunks a chunk is a quarter of it.
        """
        return window_bytes + self._copies * min(self.chunk_bytes, -(-window_bytes // 4))

    def window_within(self, nbytes: int) -> int:
        """Return the largest window that ``nbytes`` of ``memory_bytes`` pay for (bytes)."""
        whole = nbytes - self._copies * self.chunk_bytes
        if whole >= 4 * self.chunk_bytes:
            return min(whole, self.window_bytes)
        return min(4 * (nbytes // (4 + self._copies)), self.window_bytes)

    @property
    def least_stream_bytes(self) -> int:
        """What a stream needs of ``memory_bytes`` to move well (bytes): two of its first chunks."""
        return self.price_of(min(2 * self.smallest_chunk_bytes, self.window_bytes))


class TimeoutConfig(Settings):
    """Deadlines (seconds). Progress restarts each of them, so they expire only without progress."""

    streaming_read_timeout: Seconds = 300.0
    """Receiver: the stream fails if a chunk is ready and the application consumes none for this
    long (seconds)."""

    streaming_ack_wait: Seconds = 300.0
    """Sender: the stream fails if no chunk is acknowledged for this long while some are sent
    (seconds)."""

    communication_timeout: Seconds = 300.0
    """A request fails if it makes no progress for this long in its present stage: sending,
    processing or receiving (seconds)."""

    open_timeout: Seconds = 30.0
    """A stream fails if the peer does not open or accept it within this time (seconds)."""

    heartbeat_interval: Seconds = 5.0
    """How often an idle session sends a heartbeat (seconds)."""

    session_timeout: Seconds = 30.0
    """A session's call is lost if nothing is received over it for this long (seconds)."""

    call_timeout: Seconds = 20.0
    """A stream's call is closed if nothing is received over it for this long although the peer
    should send something; the stream then resumes over a new connection (seconds). The time is four
    times as long until the first bytes arrive, and doubles after each attempt without any bytes."""

    reconnect_timeout: Seconds = 30.0
    """How long a session or stream may be without a connection, in total, since it last made
    progress (seconds). Meanwhile the client reconnects and the server keeps its state; then both
    ends fail with an error. A handshake, or data that was received before, is not progress. The
    server waits up to 4/3 of this value, so that a client which notices the break late, after
    ``session_timeout``, can still reconnect."""

    partial_expiry: Seconds = 7 * 24 * 3600.0
    """How long the partial model of an interrupted transfer is kept after its last byte (seconds).
    Older partial models and spooled updates are removed when a model is received, or a round is
    spooled, in the same directory; files that a running process writes are never removed. Price:
    their space on the disk."""

    rejoin_timeout: float = Field(default=300.0, ge=0, allow_inf_nan=False)
    """How long a client tries to start a new session after its session was lost because the server
    was killed, or was unreachable for longer than ``reconnect_timeout`` (seconds); 0: not at all.
    If the server ends the session, with success or with an error, the client ends at once."""

    connect_timeout: Seconds = 20.0
    """How long a client tries to connect to the server before it fails (seconds)."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        # A heartbeat may be late, and the session must outlive that.
        if self.session_timeout < 2 * self.heartbeat_interval:
            raise ValueError(
                f"session_timeout ({self.session_timeout}) must be at least twice "
                f"heartbeat_interval ({self.heartbeat_interval}), or a live peer looks dead"
            )
        return self

    @property
    def held_interval(self) -> float:
        """How often a stream that waits for another peer reports that to its own peer (seconds)."""
        # A report may be lost with its call: four of them fit into the shortest deadline that they
        # prolong.
        shortest = min(
            self.streaming_read_timeout,
            self.streaming_ack_wait,
            self.communication_timeout,
            self.open_timeout,
        )
        return min(5.0, shortest / 4)


class GrpcConfig(Settings):
    """The gRPC carrier."""

    # The largest ``chunk_bytes`` that can be set, and room for the chunk's header.
    max_message_bytes: Size = Field(default=64 * MiB + 64 * KiB, ge=16 * KiB)
    """Largest gRPC message sent or accepted (bytes); chunks fit the smaller value of both ends."""

    keepalive_seconds: float = Field(default=60.0, ge=MIN_KEEPALIVE_SECONDS, allow_inf_nan=False)
    """How often both ends ping an idle connection (seconds)."""

    keepalive_timeout_seconds: Seconds = 20.0
    """The connection is closed if a ping is not answered within this time (seconds)."""

    max_clients: int = Field(default=16, ge=1, le=MAX_CLIENTS)
    """Server: most sessions at the same time (count). If it is not set, a job that waits for more
    clients raises it to that number; with ``stream.memory_bytes`` it is as many as that number and
    the limit of file descriptors have room for. Price: two threads each, and two for each
    stream."""

    lookahead_bytes: Size = Field(default=8 * MiB, ge=64 * KiB)
    """HTTP/2 flow-control window of each stream (bytes); a link needs its bandwidth-delay product:
    rate x round-trip time."""


class LimitsConfig(Settings):
    """Limits for what a peer can make this process store or do. See docs/limits.md.

    If a peer exceeds a limit, its stream or session fails; nothing else is affected.
    """

    max_model_bytes: Size = Field(default=1 << 50, ge=1)
    """Largest model accepted from a peer (bytes)."""

    max_tensors: int = Field(default=1 << 18, ge=1)
    """Most tensors in a description accepted from a peer (count). Price: about 1 KiB each, for each
    client. It also bounds the sum over all descriptions that are cached for one peer, except the
    latest."""

    max_name_bytes: Size = Field(default=1024, ge=1, le=4096)
    """Longest name of a tensor accepted from a peer (bytes)."""

    max_dimensions: int = Field(default=64, ge=1, le=255)
    """Most dimensions of a tensor accepted from a peer (count)."""

    max_side_files: int = Field(default=64, ge=0, le=999)
    """Most small files beside a model (``config.json``, tokenizer and such) that are sent with it,
    or accepted from a peer (count); 0: none, which sends the tensors alone."""

    max_side_bytes: Size = Field(default=64 * MiB, ge=0)
    """Largest size of such files together (bytes). Price: this much memory at the sender."""

    more_side_files: Patterns = ()
    """Sender: further texts in the model's directory that go with it, such as ``README.md`` or
    ``*.txt``. Without this only what tools are known to load beside the weights goes, and what an
    earlier model has brought."""

    max_open_requests: int = Field(default=64, ge=1)
    """Most unanswered requests of one peer at the same time (count). Price at a client: a thread
    each."""

    max_streams: int = Field(default=32, ge=4)
    """Server: most active streams of one client (count), in four equal shares: answers to its
    requests, models that it sends with those, requests of the server, and streams that are ending.
    A model waits for a place in its share. Price: two threads each."""

    max_handlers: int = Field(default=32, ge=1)
    """Server: most requests of clients that are handled at the same time (count); those answered
    with a model, those that bring one, and all others are counted apart. One client has at most
    ``max_streams`` / 4 of them; a client that has none is always given one. Others wait. Price: a
    thread each."""

    max_waiting_requests: int = Field(default=512, ge=1)
    """Server: most requests of clients that wait for a handler (count), over all clients, and for
    each way to answer by itself; one more is refused, to be asked again later. Price: what a
    request carries, its facts above all."""

    max_silent_calls: int = Field(default=32, ge=1)
    """Server: most open calls that have not identified themselves yet (count); one more closes the
    oldest of them. Price: two threads each."""

    max_unknown_connections: int = Field(default=256, ge=16)
    """Server: most open connections that have not identified themselves yet (count). From half of
    them on, connections that have sent nothing are closed, the oldest first. The number is lower if
    this process may open too few file descriptors. Price: a descriptor each."""

    probes: Literal["idle", "always", "never"] = "idle"
    """Server: when ``streamlink probe`` may measure the line to this server: ``idle``: while no
    round runs and no model moves, ``always``, or ``never``. A probe moves at most 256 MiB in at
    most 60 s, and there is one at a time. Price: the line, for that time."""

    frames_per_second: float = Field(default=500.0, gt=0, allow_inf_nan=False)
    """Small frames per second (count) that a stream or session accepts, besides those that belong
    to its chunks: a token bucket that holds eight seconds of them."""


_FULL_STREAMS = 2
"""Streams of a client that are never below ``least_stream_bytes`` (count): those of a round."""

_LEAST_BYTES = 8 * KiB
"""Of ``memory_bytes`` for each further stream: enough to go on moving, a chunk at a time."""


_PROGRESS_TIMEOUTS = (
    "streaming_read_timeout",
    "streaming_ack_wait",
    "communication_timeout",
    "call_timeout",
)
"""Those that a chunk which waits too long for the bandwidth limit would let expire."""


def check_bwlimit(text: str, least: float, because: str) -> None:
    """Refuse a limit that is too low for the timeouts.

    Raises:
        ValueError: a chunk would wait too long for it, or it is no limit; says what would do.
    """
    lowest = parse_bwlimit(text).lowest
    if lowest is not None and lowest < least:
        raise ValueError(
            f"bwlimit {text!r} is too low: at {lowest:g} bytes/s chunks would be late for "
            f"{because}; set at least {math.ceil(least)}B, or raise that timeout"
        )


class LinkConfig(Settings):
    """Everything one end of a link needs."""

    stream: StreamConfig = StreamConfig()
    """Sizes of chunks and windows."""

    timeouts: TimeoutConfig = TimeoutConfig()
    """Deadlines."""

    grpc: GrpcConfig = GrpcConfig()
    """The gRPC carrier."""

    limits: LimitsConfig = LimitsConfig()
    """Limits for what a peer can make this process store or do."""

    security: SecurityConfig = SecurityConfig()
    """Certificates, tokens, and permission for plain text."""

    @property
    def client_bytes(self) -> int:
        """What is reserved of ``stream.memory_bytes`` for each client (bytes)."""
        least = self.stream.least_stream_bytes
        return _FULL_STREAMS * least + self.limits.max_streams * min(_LEAST_BYTES, least)

    @property
    def places(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The places of a client's streams in that: how many, and bytes of each; the best first."""
        least = self.stream.least_stream_bytes
        return (_FULL_STREAMS, least), (self.limits.max_streams, min(_LEAST_BYTES, least))

    @property
    def least_bwlimit(self) -> tuple[float, str]:
        """The lowest limit that the timeouts permit (bytes/s), and the shortest timeout."""
        timeouts = self.timeouts
        seconds, name = min((getattr(timeouts, name), name) for name in _PROGRESS_TIMEOUTS)
        return least_rate(seconds), f"timeouts.{name} ({seconds:g} s)"

    @model_validator(mode="after")
    def _bwlimit_passes(self) -> Self:
        check_bwlimit(self.stream.bwlimit, *self.least_bwlimit)
        return self

    @property
    def is_max_clients_set(self) -> bool:
        """Whether somebody has chosen ``grpc.max_clients``."""
        return "max_clients" in self.grpc.model_fields_set

    @model_validator(mode="after")
    def _fits_memory(self) -> Self:
        memory, each = self.stream.memory_bytes, self.client_bytes
        if not memory:
            return self
        # One more: a client that comes back needs a place while its old session still has one.
        clients = self.grpc.max_clients if self.is_max_clients_set else 1
        if memory < (clients + 1) * each:
            what = f" grpc.max_clients = {clients}" if self.is_max_clients_set else " one client"
            raise ValueError(
                f"stream.memory_bytes ({memory}) is too little for{what}: {each} are reserved for "
                f"each, and for one that comes back; set it to {(clients + 1) * each} or more (0: "
                "no bound), or lower grpc.max_clients, stream.min_chunk_bytes or limits.max_streams"
            )
        if not self.is_max_clients_set:
            self._admit(min(memory // each - 1, MAX_CLIENTS))
        return self

    def _admit(self, count: int) -> None:
        # The model is frozen for its users; here it is still under construction.
        self.__dict__["grpc"] = self._grpc_for(count)

    def admitting(self, count: int) -> Self:
        """Return these settings with that ``max_clients``, which does not count as set."""
        return self.model_copy(update={"grpc": self._grpc_for(count)})

    def _grpc_for(self, count: int) -> GrpcConfig:
        values = {**dict(self.grpc), "max_clients": count}
        return GrpcConfig.model_construct(_fields_set=self.grpc.model_fields_set, **values)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file of the same keys; pydantic refuses unknown keys by name."""
        return cls.model_validate(sections(load_yaml(path)))
