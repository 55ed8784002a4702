"""Maps logical ranges to positions in a set of files: shard, offset, length.

Adjacent tensors that are also adjacent in a file form one *run*, so that a model of many small
tensors is read and written in large pieces.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = ["Layout", "split_into_shards"]

FilePosition = tuple[int, int]
"""(number of the shard, offset in its file) of a tensor's first byte."""

# Counted with ``_entry_bytes``, whose bound is exceeded only by characters outside the basic plane,
# which JSON escapes in 12 bytes instead of 6. Even 64 MiB are below the limit of 100 MB.
_SHARD_HEADER_BYTES = 32 << 20


class Layout:
    """Translates logical ranges into pieces of files.

    Args:
        spec: the model.
        places: the file position of each tensor.
    """

    def __init__(self, spec: ModelSpec, places: Sequence[FilePosition]) -> None:
        self._nbytes = spec.nbytes
        self._starts: list[int] = []
        self._places: list[FilePosition] = []
        # No shard has the number -1, so the first tensor always begins a run.
        logical, expected = 0, (-1, 0)
        for tensor, (shard, offset) in zip(spec.tensors, places, strict=True):
            nbytes = tensor.nbytes
            # An empty tensor takes no bytes in the file, so it must not split a contiguous run.
            if not nbytes:
                continue
            if (shard, offset) != expected:
                self._starts.append(logical)
                self._places.append((shard, offset))
            logical += nbytes
            expected = (shard, offset + nbytes)

    def pieces(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Yield (shard, offset in its file, length) for a logical range inside the model."""
        if not length:
            return
        stop = offset + length
        # Only the first run is searched; from there on they follow each other.
        run = bisect_right(self._starts, offset) - 1
        while offset < stop:
            start, (shard, place) = self._starts[run], self._places[run]
            run += 1
            end = self._starts[run] if run < len(self._starts) else self._nbytes
            piece = min(stop, end) - offset
            yield shard, place + offset - start, piece
            offset += piece


def split_into_shards(tensors: Sequence[TensorSpec], shard_bytes: int) -> list[list[TensorSpec]]:
    """Fill shards in order with up to ``shard_bytes`` of data each; there is at least one shard.

    A tensor that is larger gets its own shard. A shard is also full when its header, which readers
    load completely, reaches 32 MiB: well below the limit of the safetensors library.
    """
    shards: list[list[TensorSpec]] = [[]]
    data = header = 0
    for tensor in tensors:
        nbytes, entry = tensor.nbytes, _entry_bytes(tensor)
        is_full = data + nbytes > shard_bytes or header + entry > _SHARD_HEADER_BYTES
        if shards[-1] and is_full:
            shards.append([])
            data = header = 0
        shards[-1].append(tensor)
        data += nbytes
        header += entry
    return shards


def _entry_bytes(tensor: TensorSpec) -> int:
    """Return an upper bound of the tensor's entry in a header (JSON escapes need six bytes)."""
    return 6 * len(tensor.name) + 21 * len(tensor.shape) + 100
