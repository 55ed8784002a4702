"""Settings: frozen, checked when built, passed down; nothing below the command line looks them up.

Sizes take ``"4MiB"`` (1024²) or ``"2GB"`` (1000³) as well as plain integers. Seconds are floats.
Names users bring from the field (``streaming_read_timeout``, ``streaming_ack_wait``,
``communication_timeout``, ``train_timeout``, ``min_clients``) are kept as they are. Each setting
that costs memory says its price, and ``peak_bytes`` adds the prices up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

__all__ = [
    "GrpcConfig",
    "JobConfig",
    "LimitsConfig",
    "LinkConfig",
    "RoundConfig",
    "SecurityConfig",
    "StreamConfig",
    "TimeoutConfig",
    "parse_size",
]

MIN_KEEPALIVE_SECONDS = 10.0
"""The fastest pace of keepalive pings; every server allows it, so that both ends may differ."""

MAX_CLIENTS = 4096
"""The most clients a server can be set to admit at once."""

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

_UNITS = {
    "": 1,
    "B": 1,
    **{f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)},
    **{f"{p}IB": 1024**n for n, p in enumerate("KMGT", 1)},
}


def parse_size(text: str | int) -> int:
    """Return bytes from ``"16MB"`` (decimal), ``"16MiB"`` (binary), ``"1.5 GB"`` or an integer.

    Raises:
        ValueError: when the text is no size, in words that show the accepted forms.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", str(text), re.IGNORECASE)
    unit = match and match[2].upper()
    if match is None or unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size; write it as 2GB (1000³), 2GiB (1024³) or 4096")
    return int(Fraction(match[1]) * _UNITS[unit])


Size = Annotated[int, BeforeValidator(parse_size)]
Patterns = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda text: text.split(",") if isinstance(text, str) else text),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class StreamConfig(_Frozen):
    """How a model is cut and how much of it may be on its way."""

    chunk_bytes: Size = Field(default=2 * MiB, ge=4 * KiB, le=64 * MiB)
    """Largest payload of one chunk (bytes). Both ends use the smaller of their two values."""

    min_chunk_bytes: Size = Field(default=64 * KiB, ge=1 * KiB)
    """Chunk size a stream starts with (bytes); it grows towards ``chunk_bytes`` with the rate."""

    window_bytes: Size = Field(default=16 * MiB, ge=8 * KiB)
    """Most bytes of one stream sent but not taken (bytes). Price: this much at each end."""

    initial_window_bytes: Size = Field(default=1 * MiB, ge=4 * KiB)
    """Window a stream starts with (bytes); it grows towards ``window_bytes`` with the link."""

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
        """
        return self.window_bytes + 4 * self.chunk_bytes


class TimeoutConfig(_Frozen):
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


class GrpcConfig(_Frozen):
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


class LimitsConfig(_Frozen):
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


class SecurityConfig(_Frozen):
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


class LinkConfig(_Frozen):
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
        return cls.model_validate(_sections(_load_yaml(path)))


class RoundConfig(_Frozen):
    """Scatter and gather, with the arguments users of NVIDIA FLARE know."""

    min_clients: int = Field(default=2, ge=1, le=MAX_CLIENTS)
    """A round needs this many whole updates (count)."""

    num_rounds: int = Field(default=3, ge=1)
    """How many rounds to run (count)."""

    start_round: int = Field(default=0, ge=0)
    """Number of the first round."""

    wait_time_after_min_received: float = Field(default=10.0, ge=0)
    """Grace for a client that dropped out to come back before the round goes on (seconds)."""

    train_timeout: float = Field(default=0.0, ge=0)
    """A round ends this long after its task was first offered (seconds); 0: no limit."""

    train_task_name: str = "train"
    """Name of the task the clients are given."""

    wait_for_clients: int = Field(default=0, ge=0, le=MAX_CLIENTS)
    """The first round waits for so many clients (count); 0: for ``min_clients``. It begins with
    ``min_clients`` when they have been waited for long enough."""

    wait_for_clients_seconds: Seconds = 120.0
    """How long the first round waits for clients to be there (seconds)."""

    gather: Literal["auto", "lockstep", "spool"] = "auto"
    """How updates are gathered: ``lockstep`` averages as they arrive and needs every one of them,
    ``spool`` stores each and lets stragglers go; ``auto``: spool where a directory was given for it
    and more clients are here than ``min_clients``, else lockstep."""

    weights: Literal["given", "equal"] = "given"
    """Whose weights count in the mean: those the clients give, such as samples; or all alike."""

    non_finite: Literal["accept", "reject", "fail"] = "reject"
    """NaN or infinity in an update: average it (``accept``), go on without that update, which costs
    a lockstep round an attempt (``reject``), or fail the round (``fail``)."""

    part: Patterns = ()
    """Patterns (``*``, ``?``, ``[]``) of the tensors clients send back; empty: all. The others stay
    as they are. As one text, separated by commas."""

    duplex_bytes: Size = Field(default=0, ge=0)
    """Memory for ranges of the next model that go down while updates still come up (bytes); 0: off.
    It takes a lockstep round, and clients that have room for two models."""

    max_attempts: int = Field(default=3, ge=1)
    """How many attempts one round may take: one, and one more for each it loses (count). A client
    that was lost may come back as often within a round."""

    @property
    def awaited_clients(self) -> int:
        """How many clients the first round waits for (count)."""
        return max(self.min_clients, self.wait_for_clients)

    def require_room(self, grpc: GrpcConfig) -> None:
        """Check that all clients a job waits for can be admitted at once.

        Raises:
            ValueError: they cannot, so the job would wait in vain; says what to change.
        """
        if (count := self.awaited_clients) <= grpc.max_clients:
            return
        name = "wait_for_clients" if count > self.min_clients else "min_clients"
        raise ValueError(
            f"rounds.{name} is {count}, but the server admits at most grpc.max_clients = "
            f"{grpc.max_clients} clients at once; raise grpc.max_clients to {count}, or lower "
            f"rounds.{name}"
        )


class JobConfig(LinkConfig):
    """All settings of a job: those of its links, and the rules of its rounds.

    One file serves both sides: a client does not look at ``rounds``.
    """

    rounds: RoundConfig = RoundConfig()
    """The rules of a round."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if "max_clients" not in self.grpc.model_fields_set:
            self._admit(self.rounds.awaited_clients)
        return self

    def _admit(self, count: int) -> None:
        """Admit at least ``count`` clients, without marking ``max_clients`` as set by the user."""
        if count > self.grpc.max_clients:
            values = {**dict(self.grpc), "max_clients": count}
            given = self.grpc.model_fields_set
            # The model is frozen for its users; here it is still under construction.
            self.__dict__["grpc"] = GrpcConfig.model_construct(_fields_set=given, **values)

    @classmethod
    def assemble(
        cls,
        file: str | Path | None = None,
        settings: Sequence[str] = (),
        overrides: Mapping[str, object] | None = None,
    ) -> Self:
        """Build the settings of a job from where users write them.

        What is more particular wins: ``overrides`` over ``settings`` over ``file`` over defaults.

        Args:
            file: YAML with the sections ``stream``, ``timeouts``, ``grpc``, ``security`` and
                ``rounds``.
            settings: each ``"section.key=value"``, such as ``"stream.chunk_bytes=4MiB"``; of two
                for one key the later counts.
            overrides: ``"section.key"`` to value; None: not given.

        Raises:
            ValueError: a setting is not of that form, or the file is no mapping of settings.
            ValidationError: an unknown key, or a value that is not allowed; both are named.
            OSError: the file cannot be read.
        """
        values = _sections(_load_yaml(file)) if file is not None else {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(f"setting {setting!r} is not of the form section.key=value")
            _put(values, name.strip(), text.strip())
        for name, value in (overrides or {}).items():
            if value is not None:
                _put(values, name, value)
        return cls.model_validate(values)


def _sections(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's sections to add to; one with nothing under its name is empty, not wrong."""
    return {
        name: dict(section) if isinstance(section, dict) else {} if section is None else section
        for name, section in loaded.items()
    }


def _put(values: dict[str, Any], name: str, value: object) -> None:
    section, dot, key = name.partition(".")
    if not (section and dot and key):
        raise ValueError(f"setting {name!r} names no section; write it as section.key=value")
    there = values.setdefault(section, {})
    if isinstance(there, dict):  # what is not is refused as a whole, by its name
        there[key] = value


def _load_yaml(path: str | Path) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            loaded = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: this is not YAML: {_one_line(error)}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: expected a mapping of settings, found {type(loaded).__name__}")
    return loaded


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
