"""Machines in the state a test begins with, and the frames it feeds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from streamlink.config import LinkConfig, StreamConfig, TimeoutConfig
from streamlink.protocol.events import Event
from streamlink.protocol.frames import Accept, Ack, Attempt, Chunk, Frame, Hello, Open, Payload
from streamlink.protocol.machine import Machine
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream

KiB = 1024
V = TypeVar("V")


def small_config(**changes: float) -> LinkConfig:
    """Return settings with chunks of 4 KiB, a window of four, and unlike deadlines."""
    settings: dict[str, float] = {
        "chunk_bytes": 4 * KiB,
        "min_chunk_bytes": 4 * KiB,
        "window_bytes": 16 * KiB,
        "initial_window_bytes": 16 * KiB,
        "streaming_read_timeout": 40.0,
        "streaming_ack_wait": 20.0,
        "communication_timeout": 60.0,
        "open_timeout": 10.0,
        **changes,
    }
    stream = {k: v for k, v in settings.items() if k in StreamConfig.model_fields}
    timeouts = {k: v for k, v in settings.items() if k in TimeoutConfig.model_fields}
    return LinkConfig.model_validate({"stream": stream, "timeouts": timeouts})


SMALL = small_config()
READ, ACK_WAIT, COMMUNICATION, OPEN = 40.0, 20.0, 60.0, 10.0
"""The deadlines of ``SMALL`` (seconds)."""


def zeros(nbytes: int) -> Payload:
    return (memoryview(bytes(nbytes)),) if nbytes else ()


def an_open(total_bytes: int = 64 * KiB, *, spec_pages: int = 0, **changes: object) -> Open:
    """Return the frame a sender of ``total_bytes`` begins with."""
    fields: dict[str, object] = {"stream_id": 1, "attempt": Attempt("job", 1, 1)}
    fields |= {"spec_digest": b"spec", "spec_pages": spec_pages, "chunk_bytes": 4 * KiB}
    return Open(total_bytes=total_bytes, **{**fields, **changes})  # type: ignore[arg-type]


def a_chunk(number: int, *, nbytes: int = 4 * KiB, **changes: object) -> Chunk:
    """Return the ``number``-th of equal chunks, as its sender would number it."""
    fields: dict[str, object] = {"sequence": number, "offset": number * 4 * KiB}
    return Chunk(payload=zeros(nbytes), **{**fields, **changes})  # type: ignore[arg-type]


def damaged(sequence: int = 99, offset: int = 1 << 40) -> Chunk:
    """Return a chunk whose header is as wrong as its hash."""
    return Chunk(sequence, offset, zeros(7), encoding=5, is_intact=False)


def a_sender(
    config: LinkConfig = SMALL,
    *,
    total_bytes: int = 64 * KiB,
    pages: tuple[bytes, ...] = (),
) -> SendStream:
    return SendStream(
        config, stream_id=1, total_bytes=total_bytes, spec_pages=pages, peer_name="site-1"
    )


def streaming_sender(
    config: LinkConfig = SMALL,
    *,
    total_bytes: int = 64 * KiB,
    limit: int = 16 * KiB,
    now: float = 0.0,
) -> SendStream:
    """Return a sender whose peer has accepted it with credit up to ``limit``."""
    sender = a_sender(config, total_bytes=total_bytes)
    sender.attach(now=now)
    sender.frames_to_send(now=now)
    sender.receive(Accept(0, limit, config.stream.chunk_bytes), now=now)
    sender.next_event()
    return sender


def write_all(sender: SendStream, *, now: float = 0.0) -> list[Frame]:
    """Write as much as there is room for; returns the frames that leave."""
    while (room := sender.writable_bytes) > 0:
        sender.write(zeros(room), now=now)
    return sender.frames_to_send(now=now)


def finishing_sender(config: LinkConfig = SMALL, *, total_bytes: int = 8 * KiB) -> SendStream:
    """Return a sender that has sent everything, its finish included."""
    sender = streaming_sender(config, total_bytes=total_bytes)
    write_all(sender)
    sender.finish("digest", now=0.0)
    sender.frames_to_send(now=0.0)
    return sender


def a_receiver(config: LinkConfig = SMALL) -> ReceiveStream:
    return ReceiveStream(config, stream_id=1, peer_name="site-1")


def streaming_receiver(
    config: LinkConfig = SMALL,
    *,
    total_bytes: int = 64 * KiB,
    spec_pages: int = 0,
    now: float = 0.0,
) -> ReceiveStream:
    """Return a receiver that has accepted a model of ``total_bytes``; no events are left."""
    receiver = a_receiver(config)
    receiver.attach(now=now)
    receiver.receive(an_open(total_bytes, spec_pages=spec_pages), now=now)
    receiver.accept(wants_spec=spec_pages > 0, now=now)
    receiver.frames_to_send(now=now)
    events(receiver)
    return receiver


def acked(sender: SendStream, received: int, *, consumed: int | None = None, now: float) -> None:
    """Let the peer acknowledge ``received`` bytes, all of them consumed unless said otherwise."""
    done = received if consumed is None else consumed
    sender.receive(Ack(received, done, 0, max(sender.limit, done + 16 * KiB)), now=now)


def fed(receiver: ReceiveStream, *chunks: Chunk, now: float = 0.0) -> ReceiveStream:
    for chunk in chunks:
        receiver.receive(chunk, now=now)
    return receiver


def reattached(receiver: ReceiveStream, *, now: float, total_bytes: int = 64 * KiB) -> list[object]:
    """Let the sender come back on a new call; returns the answer."""
    receiver.detach(now=now)
    receiver.attach(now=now)
    receiver.receive(an_open(total_bytes, is_resumed=True), now=now)
    return list(receiver.frames_to_send(now=now))


def a_hello(**changes: object) -> Hello:
    fields: dict[str, object] = {"version_min": 1, "version_max": 1, "name": "site-1"}
    fields |= {"instance": "a", "chunk_bytes": 4 * KiB, "max_message_bytes": 1 << 20}
    return Hello(**{**fields, "session_timeout": 30.0, **changes})  # type: ignore[arg-type]


def events(machine: Machine) -> list[Event]:
    """Take every event that waits."""
    found = []
    while (event := machine.next_event()) is not None:
        found.append(event)
    return found


def the(kind: type[V], among: Iterable[object]) -> V:
    """Return the one value of ``kind``."""
    (found,) = [value for value in among if isinstance(value, kind)]
    return found
