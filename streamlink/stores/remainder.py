"""What rounding has left of a client's last update, kept on a disk for its next one.

A directory has at most two files. ``remainder`` is of the last update that the server has
committed; ``remainder.next`` is written while the next one is sent, and takes its name once that is
committed. So an update that fails, or a process that is killed while it sends, changes nothing: the
next try begins with the same remainder, and a process that resumes the same update goes on with
``remainder.next``.

Layout: a head of 4,096 bytes, JSON with a checksum, which names what the remainder belongs to and
has the xxh3-128 of the rest; then the elements of the rounded tensors in their own dtypes, end to
end. What was never written is zero: nothing is left of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xxhash

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json
from streamlink.stores.files import (
    close_all,
    disk_errors,
    lock,
    read_bytes,
    remove,
    replace,
    require_free,
    sync_data,
    write_all,
)

__all__ = ["Remainder"]

logger = logging.getLogger("streamlink.stores")

_Array = npt.NDArray[Any]

_HEAD_BYTES = 4096
_PIECE_BYTES = 1 << 20
_NAME, _NEXT = "remainder", "remainder.next"


class Remainder:
    """The remainder of the last update, and that of the one which is sent now.

    One process at a time uses a directory. Close it, or use it in a ``with`` block.

    Args:
        directory: of this client alone; made where it is missing.
        spec: the tensors that are rounded.
        owner: a text that changes with whatever makes the last remainder useless: the job, the
            model's description, the formats.
        update: names the update that is sent now.
        is_resumed: another process began to send it.

    Raises:
        StoreError: the directory cannot be used, or another process uses it.
        StoreFull: there is no room for the remainder.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, *, owner: str, update: str, is_resumed: bool = False
    ) -> None:
        self._directory, self._spec, self._owner = directory, spec, owner
        self._path, self._next_path = directory / _NAME, directory / _NEXT
        self._open: list[int] = []
        try:
            with disk_errors(directory, "keeping the remainder of an update"):
                directory.mkdir(parents=True, exist_ok=True)
                self._open.append(patiently(os.open, directory, os.O_RDONLY | os.O_DIRECTORY))
                lock(self._open[0], directory)
                self._last = self._open_last()
                self._next = self._open_next(update, is_resumed=is_resumed)
        except BaseException:
            self.close()
            raise

    def take(self, tensor: TensorSpec, start: int, count: int) -> _Array:
        """Return what the last update left of elements ``[start, start + count)`` of a tensor.

        Raises:
            StoreError: it cannot be read.
        """
        if self._last is None:
            return np.zeros(count, tensor.numpy_dtype)
        with disk_errors(self._path, "reading the remainder of an update"):
            at = self._place(tensor, start)
            data = read_bytes(self._last, count * tensor.itemsize, at, self._path)
        return np.frombuffer(data, tensor.numpy_dtype)

    def put(self, tensor: TensorSpec, start: int, values: _Array) -> None:
        """Keep what this update leaves from element ``start`` of a tensor on.

        Raises:
            StoreFull: the disk is full.
            StoreError: it cannot be written.
        """
        with disk_errors(self._next_path, "writing the remainder of an update"):
            write_all(self._next, as_bytes_view(values), self._place(tensor, start))

    def commit(self) -> None:
        """Let the remainder of this update take the place of the last one: the server has it.

        Raises:
            StoreError: it cannot be written.
        """
        with disk_errors(self._next_path, "committing the remainder of an update"):
            digest = self._digest_of(self._next, self._next_path)
            write_all(self._next, self._head(digest=digest), 0)
            sync_data(self._next)
            replace(self._next_path, self._path)

    def close(self) -> None:
        """Close the files and let another process use the directory; what was written stays."""
        close_all(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- the two files ------------------------------------------------------------------------

    def _open_last(self) -> int | None:
        if not self._path.exists():
            return None
        try:
            fd = self._opened(self._path, os.O_RDONLY)
            head = self._read_head(fd, self._path)
            if head.get("owner") != self._owner:
                why = "it belongs to another job, another model or other formats"
            elif head.get("digest") != self._digest_of(fd, self._path):
                why = "it is damaged"
            else:
                return fd
        except CorruptStore as error:
            why = str(error)
        # It stays lost, which costs precision once. A wrong remainder would spoil the model.
        logger.warning("%s: this remainder of an update is dropped: %s", self._path, why)
        remove(self._path)
        return None

    def _open_next(self, update: str, *, is_resumed: bool) -> int:
        if is_resumed and (fd := self._begun(update)) is not None:
            return fd
        remove(self._next_path)
        require_free(self._directory, _HEAD_BYTES + self._spec.nbytes, 0)
        fd = self._opened(self._next_path, os.O_RDWR | os.O_CREAT)
        write_all(fd, self._head(update=update), 0)
        os.ftruncate(fd, _HEAD_BYTES + self._spec.nbytes)  # the rest is zero
        return fd

    def _begun(self, update: str) -> int | None:
        """Return the file of an update that another process began; None: there is none."""
        try:
            fd = self._opened(self._next_path, os.O_RDWR)
            head = self._read_head(fd, self._next_path)
        except (FileNotFoundError, CorruptStore):
            head = {}
        if head.get("owner") == self._owner and head.get("update") == update:
            return fd
        logger.warning("%s: no remainder of the first part of %s", self._directory, update)
        return None

    def _opened(self, path: Path, flags: int) -> int:
        fd = patiently(os.open, path, flags, 0o600)
        self._open.append(fd)
        return fd

    def _head(self, **facts: str) -> bytes:
        return encode_checked_json({"owner": self._owner, **facts}).ljust(_HEAD_BYTES)

    def _read_head(self, fd: int, path: Path) -> dict[str, Any]:
        if (nbytes := os.fstat(fd).st_size) != _HEAD_BYTES + self._spec.nbytes:
            return {"nbytes": nbytes}  # of another model: no head of it is of use here
        return decode_checked_json(read_bytes(fd, _HEAD_BYTES, 0, path), path)

    def _digest_of(self, fd: int, path: Path) -> str:
        hasher = xxhash.xxh3_128()
        for piece in self._pieces(fd, path):
            hasher.update(piece)
        return hasher.hexdigest()

    def _pieces(self, fd: int, path: Path) -> Iterator[bytes]:
        for at in range(0, self._spec.nbytes, _PIECE_BYTES):
            nbytes = min(_PIECE_BYTES, self._spec.nbytes - at)
            yield read_bytes(fd, nbytes, _HEAD_BYTES + at, path)

    def _place(self, tensor: TensorSpec, start: int) -> int:
        first = self._spec.offset_of(self._spec.names[tensor.name])
        return _HEAD_BYTES + first + start * tensor.itemsize
