"""Frame ↔ wire bytes, as ``proto/streamlink.proto`` says.

A chunk is written and read by hand (``chunks``); every other frame is protobuf's work, and ends
with a check of its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import xxhash
from google.protobuf.message import DecodeError

from streamlink.errors import AbortCode, RemoteProtocolError
from streamlink.extent import Extent
from streamlink.protocol import frames as f
from streamlink.protocol.limits import (
    DATA_KEY_BYTES,
    MAX_ACK_RANGES,
    MAX_BASES,
    MAX_CARRIER_NAME,
    MAX_DATA_PORTS,
    MAX_ENCODINGS,
    MAX_ENTRIES,
    MAX_TEXT_BYTES,
)
from streamlink.transport._generated import streamlink_pb2 as pb
from streamlink.transport.addresses import LARGEST_PORT
from streamlink.transport.chunks import CHUNK_START, decode_chunk, encode_header
from streamlink.transport.framing import DamagedFrame, check_size

_CHECK = struct.Struct("<BQ")  # tag of the check, check
_CHECK_TAG = 0x79
_NUMBER = struct.Struct("<Q")

_MAX_TEXT = MAX_TEXT_BYTES
_MAX_ENTRIES = MAX_ENTRIES
_MAX_REASON_BYTES, _MAX_TRACEBACK_BYTES = 4 * 1024, 8 * 1024  # fit any message limit


# --- transfers ------------------------------------------------------------------


Buffers = tuple[bytes | memoryview, ...]
"""A frame as it travels: consecutive buffers. Of a chunk the payload is not copied."""


def encode_transfer(frame: f.TransferFrame, stream_id: int, number: int = 0) -> bytes:
    """Return ``transfer_buffers`` joined, for a carrier that takes only ``bytes``, as gRPC does.

    The join is the only copy of a payload that this package makes at the sender.
    """
    return joined(transfer_buffers(frame, stream_id, number))


def transfer_buffers(frame: f.TransferFrame, stream_id: int, number: int = 0) -> Buffers:
    """Return one frame of stream ``stream_id`` as it travels.

    Args:
        frame: what to send.
        stream_id: which stream it is of.
        number: how many frames but chunks this side has sent on this call.
    """
    if isinstance(frame, f.Chunk):
        return encode_header(frame, stream_id), *frame.payload
    # From this frame alone the receiver learns the number of the stream.
    seed = 0 if isinstance(frame, f.Attach) else stream_id
    return (_sealed(_TRANSFER_ENCODERS[type(frame)](frame), seed, number),)


def joined(buffers: Buffers) -> bytes:
    """Return what ``buffers`` hold, copied unless it is one ``bytes`` already."""
    first = buffers[0]
    return first if len(buffers) == 1 and isinstance(first, bytes) else b"".join(buffers)


def decode_transfer(raw: bytes, stream_id: int, number: int = 0) -> f.TransferFrame:
    """Return the frame in ``raw``; a chunk's payload is a view of it.

    Args:
        raw: what arrived.
        stream_id: which stream it is of; 0 where an attach is expected.
        number: how many frames but chunks the other side has sent on this call.

    Raises:
        DamagedFrame: it is not what was sent.
        RemoteProtocolError: it arrived as it left, and is no frame of this protocol.
    """
    # By the first byte, before any parsing: chunks are nearly all that comes here.
    if raw[:1] == CHUNK_START:
        return decode_chunk(raw, stream_id)
    message = _parse_checked(pb.TransferFrame(), raw, stream_id, number)
    kind = message.WhichOneof("frame")
    if kind is None:
        raise RemoteProtocolError("received a frame of an unknown kind", stream_id=stream_id)
    if kind not in _TRANSFER_DECODERS:  # a chunk comes first: only then is it read as one
        raise RemoteProtocolError("received a chunk behind something else", stream_id=stream_id)
    return _TRANSFER_DECODERS[kind](getattr(message, kind), stream_id)


def _sealed(message: Any, seed: int, number: int) -> bytes:
    raw = bytes(message.SerializeToString())
    return raw + _CHECK.pack(_CHECK_TAG, _check_of(raw, seed, number))


def _parse_checked(message: Any, raw: bytes, seed: int, number: int) -> Any:
    """Parse ``raw`` into ``message``, if its check is right.

    Raises:
        DamagedFrame: it is not, or is missing.
        RemoteProtocolError: it is, but this is no frame.
    """
    if len(raw) < _CHECK.size:
        raise DamagedFrame(f"{len(raw)} bytes without a check")
    tag, check = _CHECK.unpack_from(raw, len(raw) - _CHECK.size)
    # In this order, check, size, parser: damage on the way must not look like a fault of the peer.
    if tag != _CHECK_TAG or check != _check_of(raw[: -_CHECK.size], seed, number):
        raise DamagedFrame(f"{len(raw)} bytes whose check is wrong")
    check_size(raw, seed)
    return _parse(message, raw)


def _check_of(raw: bytes, seed: int, number: int) -> int:
    # The number is hashed and never sent: both ends count, so a lost frame shows at the next one.
    return xxhash.xxh3_64_intdigest(_NUMBER.pack(number) + raw, seed=seed)


def _attempt(m: Any) -> f.Attempt:
    return f.Attempt(_text(m.job), m.round, m.attempt)


def _pb_attempt(a: f.Attempt) -> pb.Attempt:
    return pb.Attempt(job=a.job, round=a.round, attempt=a.attempt)


def _text(text: str) -> str:
    # Characters first: a text of megabytes is not encoded only to be counted.
    if len(text) > _MAX_TEXT or len(text.encode()) > _MAX_TEXT:
        raise RemoteProtocolError(
            f"received a text of {len(text)} characters; the most are {_MAX_TEXT} bytes"
        )
    return text


def _clipped(text: str, nbytes: int = _MAX_REASON_BYTES) -> str:
    """Return the beginning of ``text`` that takes at most ``nbytes`` bytes of valid UTF-8."""
    # File names may hold surrogates, hence ``replace``; ``ignore`` drops a character that is cut.
    return text.encode(errors="replace")[:nbytes].decode(errors="ignore")


def _entries(entries: Any) -> dict[str, Any]:
    return dict(_few(entries, _MAX_ENTRIES, "entries"))


def _flat(ranges: tuple[f.Range, ...]) -> tuple[int, ...]:
    return tuple(bound for each in ranges for bound in each) if ranges else ()


def _ranges(bounds: Any) -> tuple[f.Range, ...]:
    if not bounds:
        return ()
    if len(bounds) % 2 or len(bounds) > 2 * MAX_ACK_RANGES:
        raise RemoteProtocolError(f"received {len(bounds)} bounds of ranges, which are no pairs")
    return tuple(zip(bounds[::2], bounds[1::2], strict=True))


def _pb_extent(extent: Extent | None) -> pb.Extent | None:
    return None if extent is None else pb.Extent(start=extent.start, stop=extent.stop)


def _extent(message: Any, name: str) -> Extent | None:
    if not message.HasField(name):
        return None
    found = getattr(message, name)
    if found.start > found.stop:
        raise RemoteProtocolError(f"received the extent [{found.start}, {found.stop})")
    return Extent(found.start, found.stop)


def _few(found: Any, most: int, what: str) -> Any:
    if len(found) > most:
        raise RemoteProtocolError(f"received {len(found)} {what}; the most are {most}")
    return found


def _texts(found: Any, most: int, what: str) -> tuple[str, ...]:
    return tuple(map(_text, _few(found, most, what)))


def _data_ports(ports: Any) -> tuple[f.DataPort, ...]:
    for each in _few(ports, MAX_DATA_PORTS, "data ports"):
        is_named = 0 < len(each.carrier) <= MAX_CARRIER_NAME
        if not is_named or not 0 < each.port <= LARGEST_PORT or each.above > LARGEST_PORT:
            raise RemoteProtocolError(
                f"received a data port that is not valid: {each.carrier[:MAX_CARRIER_NAME]!r} at "
                f"{each.port}"
            )
    return tuple(f.DataPort(each.carrier, each.port, each.above, each.lanes) for each in ports)


def _data_key(key: bytes) -> bytes:
    if len(key) not in (0, DATA_KEY_BYTES):
        raise RemoteProtocolError(
            f"received a data key of {len(key)} bytes; it has {DATA_KEY_BYTES}, or none"
        )
    return key


def _code(number: int) -> AbortCode:
    try:
        return AbortCode(number)
    except ValueError:  # a newer peer's
        return AbortCode.UNSPECIFIED


def _pb_code(code: AbortCode) -> Any:
    return int(code)


def _update(m: Any) -> f.Update:
    # Absent is not 0: an update whose norm is unknown is not one that changes nothing.
    norm = m.norm if m.HasField("norm") else None
    return f.Update(m.weight, _kind(m.kind), m.takes_next, m.is_pure, norm)


def _kind(number: int) -> f.UpdateKind:
    try:
        return f.UpdateKind(number)
    except ValueError as error:  # what it means decides what the mean is: never guessed
        raise RemoteProtocolError(f"received an update of the unknown kind {number}") from error


def _pb_kind(kind: f.UpdateKind) -> Any:
    return int(kind)


def _parse(message: Any, raw: bytes) -> Any:
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise RemoteProtocolError(f"received {len(raw)} bytes that are no frame") from error
    return message


_T = pb.TransferFrame
_TRANSFER_ENCODERS: dict[type, Callable[[Any], Any]] = {
    f.Attach: lambda x: _T(attach=pb.Attach(session_id=x.session_id, stream_id=x.stream_id)),
    f.Open: lambda x: _T(
        open=pb.Open(
            stream_id=x.stream_id,
            attempt=_pb_attempt(x.attempt),
            total_bytes=x.total_bytes,
            spec_digest=x.spec_digest,
            spec_pages=x.spec_pages,
            chunk_bytes=x.chunk_bytes,
            weight=x.update.weight,
            is_resumed=x.is_resumed,
            kind=_pb_kind(x.update.kind),
            takes_next=x.update.takes_next,
            is_pure=x.update.is_pure,
            encodings=x.encodings,
            extent=_pb_extent(x.extent),
            norm=x.update.norm,
            bases=x.bases,
            is_kept=x.is_kept,
        )
    ),
    f.Accept: lambda x: _T(
        accept=pb.Accept(
            received=x.received,
            limit=x.limit,
            chunk_bytes=x.chunk_bytes,
            wants_spec=x.wants_spec,
            ranges=_flat(x.ranges),
            encodings=x.encodings,
            base=x.base,
        )
    ),
    f.SpecPage: lambda x: _T(spec_page=pb.SpecPage(number=x.number, body=x.body)),
    f.Ack: lambda x: _T(
        ack=pb.Ack(
            received=x.received,
            consumed=x.consumed,
            durable=x.durable,
            limit=x.limit,
            ranges=_flat(x.ranges),
        )
    ),
    f.Repair: lambda x: _T(repair=pb.Repair(sequence=x.sequence)),
    f.Held: lambda x: _T(
        held=pb.Held(counter=x.counter, reason=x.reason, waiting_for=x.waiting_for)
    ),
    f.Finish: lambda x: _T(finish=pb.Finish(stop=x.stop, digest=x.digest, metrics=dict(x.metrics))),
    f.Committing: lambda x: _T(committing=pb.Committing(counter=x.counter)),
    f.Commit: lambda x: _T(commit=pb.Commit(digest=x.digest)),
    f.Abort: lambda x: _T(abort=pb.Abort(code=_pb_code(x.code), reason=_clipped(x.reason))),
}

_TRANSFER_DECODERS: dict[str, Callable[[Any, int], f.TransferFrame]] = {
    "ack": lambda m, _: f.Ack(m.received, m.consumed, m.durable, m.limit, _ranges(m.ranges)),
    "attach": lambda m, _: f.Attach(_text(m.session_id), m.stream_id),
    "open": lambda m, _: f.Open(
        m.stream_id,
        _attempt(m.attempt),
        m.total_bytes,
        m.spec_digest,
        m.spec_pages,
        m.chunk_bytes,
        _update(m),
        m.is_resumed,
        _texts(m.encodings, MAX_ENCODINGS, "encodings"),
        _extent(m, "extent"),
        _texts(m.bases, MAX_BASES, "bases"),
        m.is_kept,
    ),
    "accept": lambda m, _: f.Accept(
        m.received,
        m.limit,
        m.chunk_bytes,
        m.wants_spec,
        _ranges(m.ranges),
        _texts(m.encodings, MAX_ENCODINGS, "encodings"),
        _text(m.base),
    ),
    "spec_page": lambda m, _: f.SpecPage(m.number, m.body),
    "repair": lambda m, _: f.Repair(m.sequence),
    "held": lambda m, _: f.Held(m.counter, _text(m.reason), _text(m.waiting_for)),
    "finish": lambda m, _: f.Finish(m.stop, _text(m.digest), _entries(m.metrics)),
    "committing": lambda m, _: f.Committing(m.counter),
    "commit": lambda m, _: f.Commit(_text(m.digest)),
    "abort": lambda m, _: f.Abort(_code(m.code), _text(m.reason)),
}


# --- the model's description ------------------------------------------------------

TensorEntry = tuple[str, str, tuple[int, ...]]
"""A tensor's name, dtype name and shape."""


def encode_spec(tensors: Iterable[TensorEntry], page_bytes: int) -> list[bytes]:
    """Return the description as pages of about ``page_bytes`` at most."""
    pages, body, size = [], pb.SpecBody(), 0
    for name, dtype, shape in tensors:
        # An upper bound: UTF-8 takes at most 4 bytes a character, a varint at most 10 a dimension.
        needed = len(name) * 4 + len(dtype) + 10 * len(shape) + 16
        if size and size + needed > page_bytes:
            pages.append(body.SerializeToString())
            body, size = pb.SpecBody(), 0
        body.tensors.add(name=name, dtype=dtype, shape=shape)
        size += needed
    if body.tensors or not pages:
        pages.append(body.SerializeToString())
    return pages


def decode_spec(pages: Iterable[bytes]) -> Iterator[TensorEntry]:
    """Yield the tensors described by ``pages``.

    Raises:
        RemoteProtocolError: a page is no description.
    """
    for page in pages:
        for tensor in _parse(pb.SpecBody(), page).tensors:
            yield tensor.name, tensor.dtype, tuple(tensor.shape)


# --- sessions -----------------------------------------------------------------------


def encode_session(frame: f.SessionFrame, number: int = 0) -> bytes:
    """Return the wire bytes of the session frame that leaves as number ``number`` of its call."""
    return _sealed(_SESSION_ENCODERS[type(frame)](frame), 0, number)


def decode_session(raw: bytes, number: int = 0) -> f.SessionFrame:
    """Return the session frame in ``raw``, which arrived as number ``number`` of its call.

    Raises:
        DamagedFrame: it is not what was sent, or not in its turn.
        RemoteProtocolError: it arrived as it left, and is no frame of this protocol.
    """
    message = _parse_checked(pb.SessionFrame(), raw, 0, number)
    kind = message.WhichOneof("frame")
    if kind is None:
        raise RemoteProtocolError("received a frame of an unknown kind")
    return _SESSION_DECODERS[kind](getattr(message, kind))


_S = pb.SessionFrame
_SESSION_ENCODERS: dict[type, Callable[[Any], Any]] = {
    f.Hello: lambda x: _S(
        hello=pb.Hello(
            version_min=x.version_min,
            version_max=x.version_max,
            name=x.name,
            instance=x.instance,
            token=x.token,
            chunk_bytes=x.chunk_bytes,
            max_message_bytes=x.max_message_bytes,
            session_timeout=x.session_timeout,
            resume=x.resume,
            is_probe=x.is_probe,
        )
    ),
    f.Welcome: lambda x: _S(
        welcome=pb.Welcome(
            version=x.version,
            session_id=x.session_id,
            epoch=x.epoch,
            chunk_bytes=x.chunk_bytes,
            heartbeat_interval=x.heartbeat_interval,
            data_ports=[
                pb.DataPort(
                    carrier=each.carrier, port=each.port, above=each.above, lanes=each.lanes
                )
                for each in x.data_ports
            ],
            max_open_requests=x.max_open_requests,
            data_key=x.data_key,
        )
    ),
    f.Heartbeat: lambda x: _S(heartbeat=pb.Heartbeat(counter=x.counter)),
    f.Request: lambda x: _S(
        request=pb.Request(
            request_id=x.request_id,
            topic=x.topic,
            attempt=_pb_attempt(x.attempt),
            sends=x.sends,
            returns=x.returns,
            metadata=dict(x.metadata),
            part=x.part,
            sends_extent=_pb_extent(x.sends_extent),
            returns_extent=_pb_extent(x.returns_extent),
        )
    ),
    f.TaskProgress: lambda x: _S(
        progress=pb.TaskProgress(request_id=x.request_id, counter=x.counter)
    ),
    f.Reply: lambda x: _S(
        reply=pb.Reply(
            request_id=x.request_id,
            error=_clipped(x.error),
            traceback=_clipped(x.traceback[::-1], _MAX_TRACEBACK_BYTES)[::-1],  # its end says most
            metadata=dict(x.metadata),
        )
    ),
    f.Cancel: lambda x: _S(cancel=pb.Cancel(request_id=x.request_id, reason=_clipped(x.reason))),
    f.Goodbye: lambda x: _S(goodbye=pb.Goodbye(reason=_clipped(x.reason))),
    f.Abort: lambda x: _S(abort=pb.Abort(code=_pb_code(x.code), reason=_clipped(x.reason))),
}

_SESSION_DECODERS: dict[str, Callable[[Any], f.SessionFrame]] = {
    "hello": lambda m: f.Hello(
        m.version_min,
        m.version_max,
        _text(m.name),
        _text(m.instance),
        m.chunk_bytes,
        m.max_message_bytes,
        m.session_timeout,
        _text(m.token),
        _text(m.resume),
        m.is_probe,
    ),
    "welcome": lambda m: f.Welcome(
        m.version,
        _text(m.session_id),
        _text(m.epoch),
        m.chunk_bytes,
        m.heartbeat_interval,
        _data_ports(m.data_ports),
        m.max_open_requests,
        _data_key(m.data_key),
    ),
    "heartbeat": lambda m: f.Heartbeat(m.counter),
    "request": lambda m: f.Request(
        m.request_id,
        _text(m.topic),
        _attempt(m.attempt),
        m.sends,
        m.returns,
        _entries(m.metadata),
        _texts(m.part, _MAX_ENTRIES, "patterns"),
        _extent(m, "sends_extent"),
        _extent(m, "returns_extent"),
    ),
    "progress": lambda m: f.TaskProgress(m.request_id, m.counter),
    "reply": lambda m: f.Reply(
        m.request_id, _text(m.error), _text(m.traceback), _entries(m.metadata)
    ),
    "cancel": lambda m: f.Cancel(m.request_id, _text(m.reason)),
    "goodbye": lambda m: f.Goodbye(_text(m.reason)),
    "abort": lambda m: f.Abort(_code(m.code), _text(m.reason)),
}
