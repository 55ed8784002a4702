"""The two ends of what is beside a model: a source that adds it, and a sink that leaves it out."""

from __future__ import annotations

import hashlib

from streamlink.model.beside import (
    Beside,
    HasBeside,
    SideLimits,
    entries_of,
    joined,
    require_bounded,
)
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import (
    BLOCK_BYTES,
    HasBlockHashes,
    block_count,
    block_hash_of,
    digest_of,
    root_hash,
)
from streamlink.model.interfaces import (
    Check,
    HasIdentity,
    ModelSink,
    ModelSource,
    Payload,
    Progress,
    is_prompt,
    lends,
    watch,
)
from streamlink.model.spec import ModelSpec

__all__ = ["BesideSource", "TensorsOnly", "beside_source", "with_beside"]


def with_beside(source: ModelSource, limits: SideLimits) -> ModelSource:
    """Return ``source`` with what is beside it, if it has anything and ``limits`` allow any.

    Raises:
        TooManySideFiles: there is more than that.
        ModelError: it was changed meanwhile.
    """
    if not limits.max_side_files or not isinstance(source, HasBeside):
        return source
    beside = source.beside(limits)
    require_bounded(entries_of(beside), limits, "the sender")
    return beside_source(source, beside) if entries_of(beside) else source


def beside_source(source: ModelSource, beside: Beside) -> BesideSource:
    """Return ``source`` with ``beside`` behind its tensors; with block hashes, if it has them."""
    kind = _HashedBesideSource if isinstance(source, HasBlockHashes) else BesideSource
    return kind(source, beside)


class BesideSource:
    """A source with the small files of its model behind its tensors. They are held in memory.

    Args:
        source: the tensors; closed with this one.
        beside: what is beside them.
    """

    def __init__(self, source: ModelSource, beside: Beside) -> None:
        self._source = source
        self.content = beside
        """The small files, and the metadata."""
        entries = entries_of(beside)
        self._files = memoryview(b"".join(beside.files[name] for name in entries.files))
        self._start = source.spec.nbytes
        self.spec = joined(source.spec, entries)
        """The tensors, and behind them the entries of the files."""

    def read(self, offset: int, length: int) -> Payload:
        """Return the logical bytes ``[offset, offset + length)``; raises as the source does."""
        self.spec.check_range(offset, length)
        stop = offset + length
        if stop <= self._start:
            return self._source.read(offset, length)
        tensors: Payload = ()
        if offset < self._start:
            tensors = self._source.read(offset, self._start - offset)
        return (*tensors, self._files[max(0, offset - self._start) : stop - self._start])

    def identity(self) -> str:
        """Return a name for the content, with that of the files in it; empty: it has none."""
        known = self._source.identity() if isinstance(self._source, HasIdentity) else ""
        if not known:
            return ""
        hasher = hashlib.sha256(known.encode())
        hasher.update(self.spec.digest)
        hasher.update(self._files)
        return "with files " + hasher.hexdigest()

    def watch(self) -> Check:
        """Return the source's check. The files are in memory, and do not change."""
        return watch(self._source)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class _HashedBesideSource(BesideSource):
    """The same for a source that stores its block hashes."""

    def block_hash(self, block: int) -> bytes | None:
        """Return a block's hash; None: the source was stored without them."""
        source = self._source
        assert isinstance(source, HasBlockHashes)
        # Without bytes of tensors there is no block that could be asked for, and nothing to read.
        if not self.spec.nbytes or (self._start and source.block_hash(0) is None):
            return None
        start, stop = block_range(block, self.spec.nbytes)
        if stop <= self._start and stop - start == BLOCK_BYTES:
            return source.block_hash(block)
        return block_hash_of(b"".join(self.read(start, stop - start)))

    def digest(self) -> str:
        """Return the digest of tensors and files: from the block hashes, or else by reading all."""
        if self.block_hash(0) is None:
            return digest_of(self)
        hashes = (self.block_hash(block) for block in range(block_count(self.spec.nbytes)))
        return root_hash(self.spec, (each or b"" for each in hashes))


class TensorsOnly:
    """A sink that takes a model with small files behind it, and gives on its tensors alone.

    Args:
        spec: of the model with its files.
        sink: where its tensors go.
    """

    def __init__(self, spec: ModelSpec, sink: ModelSink) -> None:
        self.spec = spec
        """The tensors, and behind them the entries of the files."""
        self._sink = sink
        self._stop = sink.spec.nbytes

    @property
    def is_prompt(self) -> bool:
        """Whether ``write`` never blocks."""
        return is_prompt(self._sink)

    def write(self, offset: int, payload: memoryview) -> None:
        """Write the bytes of tensors; drop those of files."""
        if offset < self._stop:
            self._sink.write(offset, payload[: self._stop - offset])

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the sink's own memory for a range of its tensors, if it lends any."""
        lender = lends(self._sink)
        if lender is None or offset + nbytes > self._stop:
            return None
        return lender.lend(offset, nbytes)

    def filled(self, offset: int, nbytes: int) -> None:
        """Note that a lent range is filled."""
        lender = lends(self._sink)
        assert lender is not None
        lender.filled(offset, nbytes)

    def commit(self, progress: Progress | None = None) -> None:
        """Commit the tensors."""
        self._sink.commit(progress)

    def discard(self) -> None:
        """Discard the tensors."""
        self._sink.discard()
