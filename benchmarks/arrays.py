"""The large arrays that every peer sends from and into, and the memory settings they share.

Source and target are real memory, written once before the clock starts, so that no peer pays the
kernel's page faults for them, and hashed after it has stopped.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

import streamlink

__all__ = ["GiB", "KiB", "Load", "MiB", "digest", "make_source", "make_target", "tune_allocator"]

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Load:
    """The work of one run, the same for every peer.

    Attributes:
        total_bytes: size of the source and of the target (bytes).
        message_bytes: payload of one message or chunk (bytes).
        window_bytes: most bytes not acknowledged, where there are acks (bytes).
        tensors: into how many equal tensors the bytes are cut, where tensors matter (count).
        tuned: whether the process keeps freed buffers (:func:`tune_allocator`).
        acks: whether plain gRPC answers each message.
        arenas: most malloc arenas; 0 leaves the C library's own rule.
        options: further gRPC channel options, both ends.
        certificates: folder that ``streamlink certs`` made, where there is TLS.
    """

    total_bytes: int = 4 * GiB
    message_bytes: int = 2 * MiB
    window_bytes: int = 32 * MiB
    tensors: int = 1
    tuned: bool = False
    acks: bool = False
    arenas: int = 0
    options: tuple[tuple[str, int], ...] = ()
    certificates: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Load:
        """Return the load that :meth:`as_json` described."""
        options = tuple((str(name), int(value)) for name, value in facts["options"])
        return cls(**{**facts, "options": options})


def make_source(nbytes: int) -> Bytes:
    """Return ``nbytes`` of memory whose 8-byte words all differ (uint8, shape ``(nbytes,)``)."""
    words = np.arange(-(-nbytes // 8), dtype=np.uint64)
    words *= np.uint64(0x9E3779B97F4A7C15)  # odd, so still all different, and no two alike nearby
    return words.view(np.uint8)[:nbytes]


def make_target(nbytes: int) -> Bytes:
    """Return ``nbytes`` of memory that the process already owns (uint8, shape ``(nbytes,)``)."""
    target = np.empty(nbytes, dtype=np.uint8)
    target.fill(0)  # np.zeros would leave the page faults to the timed part
    return target


def digest(array: Bytes) -> str:
    """Return xxh3-64 of the array's bytes, in hexadecimal."""
    return xxhash.xxh3_64_hexdigest(array.data)


def tune_allocator(load: Load) -> None:
    """Make malloc keep freed message buffers where the load asks for it; else do nothing.

    glibc gives every buffer above 128 KiB a fresh mapping at first and later trims the heap, so a
    stream of MiB messages pays a page fault per 4 KiB of payload. streamlink's own function is
    used, so that a peer gets exactly what streamlink gives itself.
    """
    if load.tuned:
        streamlink.tune_allocator()
    if load.arenas:
        ctypes.CDLL(None).mallopt(-8, load.arenas)  # M_ARENA_MAX
