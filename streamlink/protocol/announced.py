"""What may be announced: the sizes of an ``Open``, and that those of later calls announce the same.

It is checked before anything is kept of it or made for it.
"""

from __future__ import annotations

from streamlink.config import LimitsConfig
from streamlink.errors import FrameTooLarge, RemoteProtocolError
from streamlink.protocol.frames import Open
from streamlink.protocol.limits import MAX_ATTEMPT_BYTES, MAX_DIGEST_BYTES, SMALLEST_CHUNK_BYTES


def check_sizes(frame: Open, limits: LimitsConfig, *, peer: str, stream_id: int) -> None:
    """Check what a sender says of its model.

    Raises:
        FrameTooLarge: the model, or a name of it, is beyond the limits.
        RemoteProtocolError: a size is none.
    """
    if frame.total_bytes < 0 or frame.spec_pages < 0:
        raise RemoteProtocolError(f"{peer} opened with a size below zero", stream_id=stream_id)
    if frame.chunk_bytes < SMALLEST_CHUNK_BYTES:
        raise RemoteProtocolError(
            f"{peer} opened with a chunk size of {frame.chunk_bytes} bytes; the least is "
            f"{SMALLEST_CHUNK_BYTES}",
            stream_id=stream_id,
        )
    if frame.total_bytes > limits.max_model_bytes:
        raise FrameTooLarge(
            f"{peer} announces a model of {frame.total_bytes} bytes; the most is "
            f"{limits.max_model_bytes} (max_model_bytes)",
            stream_id=stream_id,
        )
    job_bytes = len(frame.attempt.job.encode(errors="replace"))
    if len(frame.spec_digest) > MAX_DIGEST_BYTES or job_bytes > MAX_ATTEMPT_BYTES:
        raise FrameTooLarge(
            f"{peer} opened with a digest of {len(frame.spec_digest)} bytes and a job's name of "
            f"{job_bytes}; the most are {MAX_DIGEST_BYTES} and {MAX_ATTEMPT_BYTES}",
            stream_id=stream_id,
        )


def is_same_model(frame: Open, known: Open) -> bool:
    """Return whether both announce one model: a later call may change nothing about it."""
    return _model(frame) == _model(known)


def _model(frame: Open) -> tuple[object, ...]:
    return frame.total_bytes, frame.spec_digest, frame.spec_pages, frame.chunk_bytes, frame.update
