"""The settings of one end of a link: streams, deadlines, the carrier, limits, security."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from streamlink.config.files import load_yaml, sections
from streamlink.config.values import KiB, MiB, Names, Seconds, Settings, Size

__all__ = [
    "MAX_CLIENTS",
    "MIN_KEEPALIVE_SECONDS",
    "GrpcConfig",
    "LimitsConfig",
    "LinkConfig",
    "SecurityConfig",
    "StreamConfig",
    "TimeoutConfig",
]

MIN_KEEPALIVE_SECONDS = 10.0
"""The fastest pace of keepalive pings; every server allows it, so that both ends may differ."""

MAX_CLIENTS = 4096
"""The most clients a server can be set to admit at once."""


class StreamConfig(Settings):
    """How a model is cut and how much of it may be on its way."""

    chunk_bytes: Size = Field(default=2 * MiB, ge=4 * KiB, le=64 * MiB)
    """Largest payload of one chunk (bytes). Both ends use the smaller of their two values."""

    min_chunk_bytes: Size = Field(default=64 * KiB, ge=1 * KiB)
    """Chunk size a stream starts with (bytes); it grows towards ``chunk_bytes`` with the rate."""

    window_bytes: Size = Field(default=16 * MiB, ge=8 * KiB)
    """Most bytes of one stream sent but not taken (bytes). Price: this much at each end."""

    initial_window_bytes: Size = Field(default=1 * MiB, ge=4 * KiB)
    """Window a stream starts with (bytes); it grows towards ``window_bytes`` with the link."""

    data_listen: Names = ()
    """Server: where streams are taken beside the connections of sessions, as ``CARRIER://WHERE``,
    the best first. A client uses the first carrier that it knows, and stays on the connection that
    it has where that does not work. Built in is ``memory://``, which works within one process."""

    encodings: Names = ()
    """Encodings that models are sent in where the receiver knows them, the best first, such as
    ``zstd``; each range that does not shrink travels plain. Empty: all of it does. Worth it where
    the line is slower than this end's processor encodes. What is received needs no setting. Price:
    one more chunk at each end, and what an encoder keeps (zstd: about 2 MiB)."""

    max_repairs: int = Field(default=3, ge=0, le=100)
    """How often one chunk may be asked for again before the stream fails (count)."""

    max_spec_bytes: Size = Field(default=64 * MiB, ge=4 * KiB)
    """Largest model description accepted from a peer (bytes)."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.window_bytes < self.chunk_bytes:
            raise ValueError(
                f"window_bytes ({self.window_bytes}) must hold at least one chunk "
                f"(chunk_bytes = {self.chunk_bytes})"
            )
        return self

    @property
    def smallest_chunk_bytes(self) -> int:
        """The chunk size a stream starts with: never above ``chunk_bytes``."""
        return min(self.min_chunk_bytes, self.chunk_bytes)

    @property
    def stream_bytes(self) -> int:
        """Memory one stream may hold at one end (bytes): its window, and four chunks under way.

        The four: one being joined, one inside the carrier, one being read, one being worked on.
        With encodings a fifth: one that is encoded, or decoded, beside its other form.
        """
        return self.window_bytes + (4 + bool(self.encodings)) * self.chunk_bytes


class TimeoutConfig(Settings):
    """Deadlines (seconds). Progress restarts every one of them; only idleness lets them expire."""

    streaming_read_timeout: Seconds = 300.0
    """Receiver: a chunk is ready and the upper layer takes none for this long (seconds)."""

    streaming_ack_wait: Seconds = 300.0
    """Sender: the oldest chunk is not acknowledged and none else is, for this long (seconds)."""

    communication_timeout: Seconds = 300.0
    """A request stands still in one of its stages sending, processing, receiving (seconds)."""

    open_timeout: Seconds = 30.0
    """A stream that was offered is not opened or accepted for this long (seconds)."""

    heartbeat_interval: Seconds = 5.0
    """A session that has nothing else to say sends a heartbeat this often (seconds)."""

    session_timeout: Seconds = 30.0
    """A call that brings nothing at all for a session this long is lost (seconds)."""

    call_timeout: Seconds = 20.0
    """A stream's call brings nothing for this long while the other end owes something: it is given
    up, and the stream goes on over another, on a new connection (seconds). Four times as long until
    the first bytes have come, and twice as long after each try that brought none."""

    reconnect_timeout: Seconds = 30.0
    """How long a session or stream whose connection is lost may be without one, in sum, since
    anything last came over it (seconds). The client tries again and again; the server keeps its
    place. Then what was lost ends with an error at either end. A break may be seen at one end only,
    and all calls start at the client: so the server leaves one that notices it after
    ``session_timeout`` time for a try, up to 4/3 of this setting. A greeting, or what was said
    before, does not count as anything that came."""

    partial_expiry: Seconds = 7 * 24 * 3600.0
    """How long what an interrupted transfer has left is kept, since its last byte (seconds). Older
    partial models and spooled updates are removed when a model is received, or a round is spooled,
    in the same place; never those a living process writes. Price: their room on the disk."""

    rejoin_timeout: float = Field(default=300.0, ge=0, allow_inf_nan=False)
    """How long a client whose session was lost without the server's word, because that was killed
    or was away for longer than ``reconnect_timeout``, tries to begin a new one at the same address
    (seconds); 0: not at all. A server that says goodbye, or that it failed, ends the client at
    once."""

    connect_timeout: Seconds = 20.0
    """How long a client tries to reach the server before it gives up (seconds)."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.session_timeout < 2 * self.heartbeat_interval:
            raise ValueError(
                f"session_timeout ({self.session_timeout}) must be at least twice "
                f"heartbeat_interval ({self.heartbeat_interval}), or a live peer looks dead"
            )
        return self

    @property
    def held_interval(self) -> float:
        """How often a stream that waits for another peer says so (seconds)."""
        shortest = min(
            self.streaming_read_timeout,
            self.streaming_ack_wait,
            self.communication_timeout,
            self.open_timeout,
        )
        return min(5.0, shortest / 4)


class GrpcConfig(Settings):
    """The gRPC carrier."""

    max_message_bytes: Size = Field(default=64 * MiB + 64 * KiB, ge=16 * KiB)
    """Largest gRPC message sent or accepted (bytes); chunks shrink to fit the smaller side's."""

    keepalive_seconds: float = Field(default=60.0, ge=MIN_KEEPALIVE_SECONDS, allow_inf_nan=False)
    """Both ends ping an idle connection this often (seconds); set alike from this one place."""

    keepalive_timeout_seconds: Seconds = 20.0
    """A ping unanswered for this long closes the connection (seconds)."""

    max_clients: int = Field(default=16, ge=1, le=MAX_CLIENTS)
    """Server: sessions admitted at once (count). Where it is not set, a job that waits for more
    clients admits as many. Price: six threads and two streams each."""

    lookahead_bytes: Size = Field(default=8 * MiB, ge=64 * KiB)
    """HTTP/2 window offered per stream (bytes); a link needs about rate x round-trip time."""


class LimitsConfig(Settings):
    """What a peer can make this process hold or do, beside the bytes of models. See docs/limits.md.

    A peer that goes beyond one of these breaks its stream, or its session, and nothing else.
    """

    max_model_bytes: Size = Field(default=1 << 50, ge=1)
    """Largest model accepted from a peer (bytes)."""

    max_tensors: int = Field(default=1 << 18, ge=1)
    """Most tensors in a description accepted from a peer (count). Price: about 1 KiB each, for each
    client; descriptions remembered from one peer have no more in sum, but for the latest."""

    max_name_bytes: Size = Field(default=1024, ge=1, le=4096)
    """Longest name of a tensor accepted from a peer (bytes)."""

    max_dimensions: int = Field(default=64, ge=1, le=255)
    """Most dimensions of a tensor accepted from a peer (count)."""

    max_open_requests: int = Field(default=64, ge=1)
    """Requests of one peer that may be unanswered at once (count). Price at a client: a thread
    each."""

    max_silent_calls: int = Field(default=32, ge=1)
    """Server: calls that may be open before they have said who they are (count); one more ends the
    oldest of them. Price: two threads each."""

    max_unknown_connections: int = Field(default=256, ge=16)
    """Server: connections that may be open while nobody has shown on them who they are (count); of
    more than half of them those that have sent nothing are cut first, the oldest before the others.
    Fewer where this process may have too few descriptors. Price: a descriptor each."""

    frames_per_second: float = Field(default=500.0, gt=0, allow_inf_nan=False)
    """Small frames a second (count) that a stream or session takes for good, beside those that its
    chunks explain; eight seconds of them may come at once."""


class SecurityConfig(Settings):
    """Who the two ends are, and that nobody between them listens or changes anything.

    Paths of files only: what is secret stands in them, never in a setting. See docs/security.md.
    """

    certificate: Path | None = None
    """This end's own certificate, and those between it and the CA (PEM file). A server with one
    takes TLS only; a client shows it to the server (mutual TLS)."""

    key: Path | None = None
    """Private key of ``certificate`` (PEM file, not encrypted)."""

    ca: Path | None = None
    """The CA that the other end's certificate must come from (PEM file). Client: turns TLS on.
    Server: every client has to show a certificate, and acts only as the name in it."""

    tokens: Path | None = None
    """Server: the SHA-256 of each site's token by the site's name (YAML or JSON file). Every
    client has to bring the token of its name, beside its certificate where ``ca`` is given too."""

    token: Path | None = None
    """Client: file that holds this site's token and nothing else."""

    server_name: str | None = None
    """Client: the name in the server's certificate, where it is not the host of its address.
    Without ``ca`` it turns TLS on with the public CAs that gRPC knows."""

    insecure: bool = False
    """Plain text beyond this machine: whoever is on the way can read and change everything, and a
    name proves nothing. Without it plain text is for loopback addresses only."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            there, missing = ("key", "certificate") if self.key else ("certificate", "key")
            raise ValueError(f"{there} is given without {missing}; they belong together")
        if self.server_name == "":
            raise ValueError("server_name is empty; leave it out to take the host of the address")
        tls = [name for name in ("certificate", "ca", "server_name") if getattr(self, name)]
        if self.insecure and tls:
            raise ValueError(
                f"insecure asks for plain text and {tls[0]} for TLS; give one of them only"
            )
        return self


class LinkConfig(Settings):
    """Everything one end of a link needs."""

    stream: StreamConfig = StreamConfig()
    """How a model is cut and how much of it may be on its way."""

    timeouts: TimeoutConfig = TimeoutConfig()
    """Deadlines."""

    grpc: GrpcConfig = GrpcConfig()
    """The gRPC carrier."""

    limits: LimitsConfig = LimitsConfig()
    """What a peer can make this process hold or do."""

    security: SecurityConfig = SecurityConfig()
    """Certificates, tokens, and whether plain text may leave this machine."""

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file of the same keys; unknown ones are refused by pydantic, by name."""
        return cls.model_validate(sections(load_yaml(path)))
