"""The files that TensorBoard reads: records of protobuf messages, each with two checksums.

    length  u64  ──┐ little-endian
    crc     u32    │ of the length
    data           │ an ``Event``
    crc     u32  ──┘ of the data

The crc is CRC-32C, rotated and with a constant added, because data may have such checksums inside
(TFRecord). Of an ``Event`` only these fields are written, in the encoding of protobuf: 1 wall time
(double), 2 step (varint), 3 file version (text), 5 summary, 7 session log. A summary is a list of
values (1), each with a tag (1) and a number (2, float). The messages are tensorflow/core/util/
event.proto and framework/summary.proto, which have not changed incompatibly since 2015.

It is written here, and not by a library: tensorboardX imports torch, boto3 and google.cloud into
the server wherever they are installed, and pickles each event; TensorBoard's own writer imports
TensorFlow in the same way. Their reader is what the tests use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

__all__ = ["file_version", "record", "scalars", "session_start"]

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed


def file_version(wall_time: float) -> bytes:
    """Return the event that begins a file."""
    return _event(wall_time, 0, _bytes(3, b"brain.Event:2"))


def session_start(wall_time: float, step: int) -> bytes:
    """Return the event that makes TensorBoard drop what earlier files have from ``step`` on."""
    return _event(wall_time, step, _bytes(7, _key(1, 0) + _varint(1)))


def scalars(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """Return an event with a point of each curve; a number is rounded to 32 bits."""
    summary = b"".join(_bytes(1, _value(tag, value)) for tag, value in values.items())
    return _event(wall_time, step, _bytes(5, summary))


def record(event: bytes) -> bytes:
    """Return an event as it stands in the file."""
    length = struct.pack("<Q", len(event))
    return b"".join((length, _masked_crc(length), event, _masked_crc(event)))


def _event(wall_time: float, step: int, what: bytes) -> bytes:
    return _key(1, 1) + struct.pack("<d", wall_time) + _key(2, 0) + _varint(step) + what


def _value(tag: str, number: float) -> bytes:
    return _bytes(1, tag.encode()) + _key(2, 5) + _float(number)


def _float(number: float) -> bytes:
    try:
        return struct.pack("<f", number)
    except OverflowError:  # beyond 3.4e38, as a cast would give it
        return struct.pack("<f", float("inf") if number > 0 else float("-inf"))


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _masked_crc(data: bytes) -> bytes:
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc32c(data: Iterable[int]) -> int:
    # In Python, a byte at a time: a round has a few kilobytes.
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc


_TABLE = tuple(map(_entry, range(256)))
