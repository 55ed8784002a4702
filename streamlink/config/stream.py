"""The settings of streams: chunks, windows, lanes, encodings, and what is kept for differences."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from streamlink.config.values import Bwlimit, KiB, MiB, Names, Rules, Settings, Size

__all__ = ["MAX_LANES", "StreamConfig"]

MAX_LANES = 16
"""The highest value of ``max_lanes``."""

LONG_WINDOW_BYTES = 32 * MiB
"""By how much a long and fast line may make a window larger: the default one then fills 1 Gbit/s at
300 ms, with a quarter of it on its way back as credit."""


LONG_INITIAL_BYTES = 4 * MiB
"""The largest initial window of a stream on a long line (bytes), unless one is set."""


class StreamConfig(Settings):
    """The sizes of chunks and windows."""

    chunk_bytes: Size = Field(default=2 * MiB, ge=4 * KiB, le=64 * MiB)
    """Largest payload of one chunk (bytes). Both ends use the smaller of their two values."""

    min_chunk_bytes: Size = Field(default=64 * KiB, ge=1 * KiB)
    """Chunk size at the start of a stream (bytes); it grows up to ``chunk_bytes`` with the rate."""

    window_bytes: Size = Field(default=16 * MiB, ge=8 * KiB)
    """Most bytes of one stream that are sent but not consumed (bytes); unset, more on a long and
    fast line (``long_bytes``). Price: this much memory at each end."""

    long_bytes: Size = Field(default=64 * MiB, ge=0)
    """Most memory that windows of this process take, all streams together, beyond ``window_bytes``
    each (bytes); 0: none. A stream takes up to 32 MiB of it where its line is so long and fast that
    ``window_bytes`` does not fill it, or where it begins with more. Without effect where
    ``window_bytes`` is set, and inside ``memory_bytes`` where that is set. Price: this much memory
    at an end with such lines."""

    initial_window_bytes: Size = Field(default=1 * MiB, ge=4 * KiB)
    """Initial window of a stream (bytes); unset, up to 4 MiB where the round-trip time is long. It
    grows up to ``window_bytes`` with the rate and the round-trip time of the link. What exceeds
    ``window_bytes`` comes out of ``long_bytes``, or out of ``memory_bytes`` if that is set. If
    ``window_bytes`` is set, the initial window is never larger."""

    data_listen: Names = ("auto",)
    """Server: where streams are taken beside the connections of sessions, as ``CARRIER://WHERE``,
    the best first; ``auto``: TCP at the port above that of sessions, if it is free; ``none``:
    nowhere. A client uses the first carrier that it knows, and stays on the connection that it has
    where that does not work. The error for an unknown carrier lists the known ones."""

    data_ports: str = Field(default="", pattern=r"^([0-9]{1,5}-[0-9]{1,5})?$")
    """Client: the ports of its server that streams may use beside the connection of the session, as
    ``FIRST-LAST``; a server that names another one is not followed there, and streams use that
    connection. Empty: any port that the server names."""

    max_lanes: int = Field(default=4, ge=1, le=MAX_LANES)
    """Most TCP connections that carry one stream at the same time (count); the smaller value of
    both ends counts. With more than one the client adds a connection while that makes the stream
    faster, which helps on long lines, where one connection alone is slow, and not on loopback; see
    also ``limits.max_extra_lanes``. Price: for each beyond the first a descriptor and two threads,
    at the server only a descriptor for models that it receives; at the client one thread more for
    each stream."""

    lanes: int = Field(default=0, ge=0, le=MAX_LANES)
    """Client: as many TCP connections for each stream, where they can be made (count), at most
    ``max_lanes``; 0: as many as make it faster, and one on loopback."""

    congestion_control: str = Field(default="", pattern=r"^[a-z0-9_-]{0,15}$")
    """Congestion control of this end's TCP connections for streams, such as ``bbr``, where the
    system offers it to this process; empty: the system's default, but on loopback Reno instead of
    BBR. It matters at the end that sends. ``sysctl net.ipv4.tcp_allowed_congestion_control``
    lists what Linux offers."""

    memory_bytes: Size = Field(default=0, ge=0)
    """Most memory for the windows of all streams of this process together, with the chunks that are
    on their way through it (bytes); 0: each stream has its own ``window_bytes``. Streams get more
    or less of it as they need, and each client's least is reserved. All servers and clients of a
    process must have the same value. Price: this much memory, however many clients there are."""

    encodings: Names = ()
    """Encodings that models are sent in where the receiver knows them, the best first: ``delta``
    (differences from a model that both ends have ``kept``), ``planes`` (byte planes and zstd, for
    floating point numbers) or ``zstd``; each range that does not shrink travels plain. ``auto``:
    ``delta``, else ``planes``, where what the line carries and this end's processor encodes shows
    that a range arrives sooner so. What is received needs no setting. Price: two more chunks at
    each end, and what an encoder keeps (about 2 MiB)."""

    bwlimit: Bwlimit = ""
    """Bandwidth limit of this process for models, all streams together, as in rclone: ``10M``
    (MiB per second) or ``10Mbit``, ``10M:5M`` (sent:received), or by the time of day
    ``08:00,10M 19:00,off``, also ``Mon-08:00,512K``, which takes the place of ``08:00`` on Mondays;
    empty or ``off``: no limit. Headers of TCP and IP are not counted. All servers and clients of a
    process that set it must set the same."""

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
    ``kept_versions`` models and one that is being written, at a server one more; two more chunks
    for each stream."""

    # A stream may name eight bases (``protocol.limits``), and a server keeps one more than this.
    kept_versions: int = Field(default=1, ge=1, le=7)
    """How many models a client keeps there, the newest, and a server for each job (count); a server
    also keeps the one of the round that runs. With clients that are not asked in each round, more
    are of use."""

    kept_bytes: Size = Field(default=256 << 30, ge=0)
    """Most disk space for all models in the directory, of all jobs and clients that share it
    (bytes). Those of jobs and clients that have ended make way for the next, then older ones of
    this one, but for the newest; one that does not fit beside that is not kept, and travels whole
    the next time."""

    max_repairs: int = Field(default=3, ge=0, le=100)
    """How often one damaged chunk is requested again before the stream fails (count)."""

    max_spec_bytes: Size = Field(default=64 * MiB, ge=4 * KiB)
    """Largest model description accepted from a peer (bytes)."""

    @property
    def data_addresses(self) -> tuple[str, ...]:
        """``data_listen`` without its words ``auto`` and ``none``."""
        return tuple(each for each in self.data_listen if each not in ("auto", "none"))

    def permits(self, port: int) -> bool:
        """Return whether a client's streams may use that port of its server; see ``data_ports``."""
        if not self.data_ports:
            return True
        first, last = map(int, self.data_ports.split("-"))
        return first <= port <= last

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
    def longest_window_bytes(self) -> int:
        """The largest window that a long and fast line may have (bytes)."""
        # Whoever sets a window knows what may be in flight.
        follows = self.long_bytes > 0 and "window_bytes" not in self.model_fields_set
        return self.window_bytes + (LONG_WINDOW_BYTES if follows else 0)

    @property
    def long_initial_bytes(self) -> int:
        """The largest initial window of a stream on a long line (bytes)."""
        # In a memory that is shared the receiver deals what a stream begins with.
        if "initial_window_bytes" in self.model_fields_set or self.memory_bytes:
            return min(self.initial_window_bytes, self.longest_window_bytes)
        return min(LONG_INITIAL_BYTES, self.longest_window_bytes)

    @property
    def extra_bytes(self) -> int:
        """What the windows of a process may take beyond ``window_bytes`` each (bytes)."""
        return self.long_bytes if self.longest_window_bytes > self.window_bytes else 0

    @property
    def stream_bytes(self) -> int:
        """The most memory of one stream at one end (bytes): its window and four chunks.

        What it has of ``long_bytes`` is counted once for the process.

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
            return min(whole, self.longest_window_bytes)
        return min(4 * (nbytes // (4 + self._copies)), self.longest_window_bytes)

    @property
    def least_stream_bytes(self) -> int:
        """What a stream needs of ``memory_bytes`` to move well (bytes): two of its first chunks."""
        return self.price_of(min(2 * self.smallest_chunk_bytes, self.window_bytes))
