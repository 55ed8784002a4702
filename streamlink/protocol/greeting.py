"""What hello and welcome agree on: the version, and the largest chunk of a session's streams."""

from __future__ import annotations

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, RemoteProtocolError
from streamlink.protocol.frames import Hello, Welcome
from streamlink.protocol.limits import SMALLEST_CHUNK_BYTES

VERSION_MIN = VERSION_MAX = 1
FRAME_OVERHEAD_BYTES = 1024
"""Room a chunk's frame needs beside its payload, generously (bytes)."""


def agree_version(hello: Hello) -> int:
    """Return the newest version both sides speak.

    Raises:
        RemoteProtocolError: there is none; its code is ``VERSION``.
    """
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        raise RemoteProtocolError(
            f"{hello.name} speaks versions {hello.version_min} to {hello.version_max}, this server "
            f"{VERSION_MIN} to {VERSION_MAX}; upgrade the older side",
            code=AbortCode.VERSION,
        )
    return version


def agree_chunk(config: LinkConfig, hello: Hello, peer: str) -> int:
    """Return the largest chunk that fits both sides and both message limits (bytes).

    Raises:
        RemoteProtocolError: it would be too small to be of use.
    """
    fits = min(hello.max_message_bytes, config.grpc.max_message_bytes)
    size = min(hello.chunk_bytes, config.stream.chunk_bytes, fits - FRAME_OVERHEAD_BYTES)
    if size < SMALLEST_CHUNK_BYTES:
        raise RemoteProtocolError(
            f"{peer} offers chunk_bytes={hello.chunk_bytes} and "
            f"max_message_bytes={hello.max_message_bytes}; the smallest chunk that can be "
            f"agreed on is {SMALLEST_CHUNK_BYTES} bytes"
        )
    return size


def fault_in(welcome: Welcome, config: LinkConfig) -> str:
    """Return what of a welcome was not offered, or nothing."""
    if not VERSION_MIN <= welcome.version <= VERSION_MAX:
        return f"chose version {welcome.version}, which we did not offer"
    if not SMALLEST_CHUNK_BYTES <= welcome.chunk_bytes <= config.stream.chunk_bytes:
        return f"chose a chunk size of {welcome.chunk_bytes} bytes"
    return ""
