"""The settings of one end of a link: streams, deadlines, the carrier, limits, security."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from streamlink.config.bandwidth import debt_seconds, least_rate, parse_bwlimit
from streamlink.config.files import load_yaml, sections
from streamlink.config.security import SecurityConfig
from streamlink.config.stream import StreamConfig
from streamlink.config.values import (
    KiB,
    MiB,
    Patterns,
    Seconds,
    Settings,
    Size,
)

__all__ = [
    "MAX_CLIENTS",
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

MAX_CLIENTS = 4096
"""The highest value of ``max_clients``."""


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
    """How long a client tries to start a new session after its session was lost: because the server
    was killed, or was unreachable for longer than ``reconnect_timeout``, or messages arrived
    damaged on call after call (seconds); 0: not at all. Sessions that are lost again within
    ``session_timeout`` share it. If the server ends the session for another reason, with success or
    with an error, the client ends at once."""

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
    the limit of file descriptors have room for. Price: descriptors and some memory each
    (docs/operations.md); two threads for each stream that does not use the data port."""

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

    max_extra_lanes: int = Field(default=32, ge=0)
    """Server: most TCP connections beyond the first of each stream, of all clients together
    (count); see ``stream.max_lanes``. One more is refused, and its stream goes on with those that
    it has. Price: a descriptor each, and two threads while it carries a model to a client."""

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
        seconds, name = self._shortest_timeout
        return least_rate(seconds), f"timeouts.{name} ({seconds:g} s)"

    @property
    def bwlimit_debt_seconds(self) -> float:
        """How long bytes that moved unasked may hold up what the limit permits (seconds)."""
        return debt_seconds(self._shortest_timeout[0])

    @property
    def _shortest_timeout(self) -> tuple[float, str]:
        return min((getattr(self.timeouts, name), name) for name in _PROGRESS_TIMEOUTS)

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
