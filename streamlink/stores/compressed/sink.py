"""The sink of a compressed model: it compresses blocks and appends them as they arrive.

A payload that covers whole blocks is compressed without a copy. A partly covered block is collected
in one buffer of 1 MiB, which is appended when another block is written. A block that is written
again is read back, merged, and appended anew: the file is append-only, as in a log-structured file
system. So writes work in any order, and writes in order are fast.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
import zstandard

from streamlink.descriptors import patiently
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, block_hash_of, root_hash
from streamlink.model.ranges import require_complete
from streamlink.model.spec import ModelSpec
from streamlink.stores.compressed.format import HEAD, encode_tail, index_bytes, new_index
from streamlink.stores.files import (
    Flusher,
    Steps,
    close_all,
    disk_errors,
    lock,
    read_bytes,
    remove,
    replace,
    require_free,
    write_all,
)
from streamlink.stores.two_steps import TwoStepSink

__all__ = ["MIN_SAVING", "CompressedSink", "partial_path"]

MIN_SAVING = 0.125
"""The share by which a block must shrink to be stored compressed."""

_NO_BLOCK = -1
# A sample has 4 pieces of 16 KiB: a sixteenth of the block, so looking is nearly free.
_SAMPLE_BYTES = 16 << 10
_SAMPLES = 4
_SAMPLED_IN_A_ROW = 16
_WRITE_BYTES = 8 << 20


class CompressedSink(TwoStepSink):
    """Takes a model's bytes in any order. Made by ``CompressedStore.begin``.

    Memory: one block, one compressed block, and 28 bytes for each block of the model.
    """

    def __init__(
        self, path: Path, spec: ModelSpec, level: int, reserve: int, min_saving: float
    ) -> None:
        super().__init__(path, spec)
        self._temporary = partial_path(path)
        self._packer = _Packer(level, min_saving)
        self._buffer = memoryview(bytearray(min(BLOCK_BYTES, spec.nbytes)))
        self._buffered = _NO_BLOCK
        self._fds: list[int] = []
        # Closing releases the lock as well: it is on this descriptor.
        self._closer = weakref.finalize(self, close_all, self._fds)
        try:
            with disk_errors(path, "beginning a new model"):
                self._begin(reserve)
        except BaseException:
            self._close()
            raise

    def write(self, offset: int, payload: memoryview) -> None:
        """Compress and append ``payload``, block by block.

        Raises:
            StoreFull: the disk has no room above its reserve.
            StoreError: the sink was committed or discarded.
        """
        self._require_writable(offset, payload.nbytes)
        start, stop = offset, offset + payload.nbytes
        with disk_errors(self._path, "writing the model"):
            while start < stop:
                block = start // BLOCK_BYTES
                begin, end = block_range(block, self._spec.nbytes)
                piece_stop = min(stop, end)
                piece = payload[start - offset : piece_stop - offset]
                if start == begin and piece_stop == end:
                    self._append(block, piece)
                else:
                    self._merge(block, start - begin, piece)
                start = piece_stop
        self._written.add(offset, stop)

    def digest(self) -> str | None:
        """Return the digest the model will have, once all of it was written."""
        require_complete(self._written, self._spec)
        with disk_errors(self._path, "writing the model"):
            self._flush()
        return root_hash(self._spec, [self._index["hash"].tobytes()])

    def discard(self) -> None:
        """Remove the file of this attempt. The model under the final name is never touched."""
        # The name may be another writer's by now: our rename may have succeeded, and only the fsync
        # of the directory failed.
        if self._is_open and _is_at(self._temporary, self._fds[0]):
            with disk_errors(self._path, "discarding an attempt"):
                remove(self._temporary)
        self._close()

    def _make_durable(self, steps: Steps) -> None:
        """Append spec, index and footer, and make the file durable."""
        self._flush()
        self._write_tail(steps)
        os.fsync(self._fds[0])
        steps.done()

    def _publish(self) -> None:
        """Rename the file to its final name."""
        # The lock is on the file and not on its name, so it is held until the rename is durable.
        replace(self._temporary, self._path)

    def _begin(self, reserve: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # The compressed size is unknown, but the index needs its room. This check comes before the
        # index is allocated: a hostile spec of petabytes must not allocate memory.
        require_free(self._path.parent, index_bytes(self._spec), reserve)
        self._index = new_index(self._spec)
        self._fds.append(_open_locked(self._temporary))
        # Only with the lock: O_TRUNC would empty the file of a writer that holds it.
        os.ftruncate(self._fds[0], 0)
        write_all(self._fds[0], HEAD, 0)
        self._end = len(HEAD)
        self._flusher = Flusher(self._fds[0], self._path.parent, reserve)

    def _append(self, block: int, data: memoryview) -> None:
        """Store a whole block at the end of the file."""
        if self._buffered == block:
            self._buffered = _NO_BLOCK  # this whole block supersedes its buffered part
        frame = self._packer.pack(data)
        write_all(self._fds[0], frame, self._end)
        # After the write: if that fails, the index still names the previous frame, and the next
        # append overwrites what was written in part.
        self._index[block] = self._end, len(frame), np.frombuffer(block_hash_of(data), np.uint8)
        self._flusher.wrote(self._end, len(frame))
        self._end += len(frame)

    def _merge(self, block: int, start: int, piece: memoryview) -> None:
        """Copy part of a block into the buffer, which holds that block afterwards."""
        if self._buffered != block:
            self._flush()
            self._fetch(block)
        self._buffer[start : start + piece.nbytes] = piece

    def _fetch(self, block: int) -> None:
        """Load a block into the buffer; it may not have been stored yet."""
        # Where nothing is stored yet, the buffer keeps bytes of another block. They are never
        # published: a commit requires that every byte was written.
        length = int(self._index["length"][block])
        if length:
            start, stop = block_range(block, self._spec.nbytes)
            frame = read_bytes(
                self._fds[0], length, int(self._index["offset"][block]), self._temporary
            )
            data = frame if length == stop - start else zstandard.decompress(frame)
            self._buffer[: stop - start] = data
        self._buffered = block

    def _flush(self) -> None:
        if self._buffered != _NO_BLOCK:
            block = self._buffered
            start, stop = block_range(block, self._spec.nbytes)
            self._append(block, self._buffer[: stop - start])

    def _write_tail(self, steps: Steps) -> None:
        tail = memoryview(encode_tail(self._spec, self._index, self._end))
        # In pieces, each a sign of progress: the index of a model of a TiB has 28 MiB.
        for start in range(0, len(tail), _WRITE_BYTES):
            write_all(self._fds[0], tail[start : start + _WRITE_BYTES], self._end + start)
            steps.done()

    def _close(self) -> None:
        self._is_open = False
        self._closer()


class _Packer:
    """Compresses blocks, and samples blocks first if the previous one was incompressible."""

    def __init__(self, level: int, min_saving: float) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)
        self._share = 1 - min_saving
        self._raw_in_a_row = 0

    def pack(self, block: memoryview) -> bytes | memoryview:
        """Return the block's frame, or the raw block if compression does not save enough."""
        if self._looks_random(block):
            return block
        frame = self._compressor.compress(block)
        if len(frame) < block.nbytes * self._share:
            self._raw_in_a_row = 0
            return frame
        self._raw_in_a_row += 1
        return block

    def _looks_random(self, block: memoryview) -> bool:
        """After an incompressible block, compress a sample of the next before the whole block.

        Compressing random float32 in vain is ten times slower than storing it. A sample cannot see
        repetitions that are far apart, so every 16th block is compressed completely.
        """
        if not self._raw_in_a_row or block.nbytes < BLOCK_BYTES:
            return False
        if self._raw_in_a_row % _SAMPLED_IN_A_ROW == 0:
            return False
        step = block.nbytes // _SAMPLES
        starts = range(0, block.nbytes, step)
        # From all over the block: the beginning alone may be a tensor of another kind.
        sample = b"".join([block[start : start + _SAMPLE_BYTES] for start in starts])
        if len(self._compressor.compress(sample)) < len(sample) * self._share:
            return False
        self._raw_in_a_row += 1
        return True


def partial_path(path: Path) -> Path:
    """Return the temporary name under which a compressed model is written."""
    return path.with_name(path.name + ".part")


def _open_locked(path: Path) -> int:
    """Open the temporary file for writing, and lock it."""
    while True:
        # Not O_EXCL: the leftover of a crashed writer is taken over. Its lock went with its
        # process.
        fd = patiently(os.open, path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(fd, path)
            # Between our open and our lock another writer may have renamed this file to its final
            # name: then we would hold the lock of a published model, so we open the name again.
            if _is_at(path, fd):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _is_at(path: Path, fd: int) -> bool:
    """Tell whether ``path`` still names the open file."""
    # One look at the name: between two of them another writer may rename it.
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
