"""Models as safetensors files: the format users already hold their weights in.

``SafetensorsSource`` reads one file, or a directory with one file or with shards and an index, by
``pread`` and never through a map, so resident memory stays flat. ``SafetensorsStore`` replaces the
model in a directory atomically: new shards under new names, then one rename of the index.
"""

from __future__ import annotations

import logging
from pathlib import Path

from streamlink.errors import CorruptStore
from streamlink.model.spec import ModelSpec
from streamlink.stores.files import disk_errors
from streamlink.stores.kind import StoreKind
from streamlink.stores.preflight import require_writable
from streamlink.stores.safetensors.expiry import expire_partials
from streamlink.stores.safetensors.index import INDEX_NAME, SINGLE_NAME
from streamlink.stores.safetensors.journal import Partial, find_partials
from streamlink.stores.safetensors.sink import SafetensorsSink
from streamlink.stores.safetensors.source import SafetensorsSource

__all__ = ["KIND", "SafetensorsStore"]

logger = logging.getLogger("streamlink.stores")

_IDLE_BUFFER_BYTES = 8 << 20


class SafetensorsStore:
    """Holds one model as safetensors shards in a directory that Hugging Face tools can load.

    One writer at a time; a second one is refused. Readers are not disturbed by it.

    Args:
        directory: made by the first ``begin``.
        shard_bytes: most data in one shard (bytes); a larger tensor gets one of its own.
        cache_blocks: see ``SafetensorsSource``.
        reserve_bytes: must stay free on the disk (bytes).
    """

    def __init__(
        self,
        directory: str | Path,
        shard_bytes: int = 4 << 30,
        cache_blocks: int = 8,
        reserve_bytes: int = 0,
    ) -> None:
        self._directory = Path(directory)
        self._shard_bytes = shard_bytes
        self._cache_blocks = cache_blocks
        self._reserve = reserve_bytes

    def open(self) -> SafetensorsSource:
        """Return the last whole model; raises as ``SafetensorsSource`` does."""
        return SafetensorsSource(self._directory, self._cache_blocks)

    def begin(self, spec: ModelSpec, identity: str = "") -> SafetensorsSink:
        """Return a sink for the next model. What crashed attempts left behind is removed first.

        Args:
            spec: the tensors.
            identity: what the sender calls its model. Where there is one, the sink says how far it
                is ``durable``, and a later ``resume`` goes on from there. Price: each 64 MiB are
                brought to the disk before the next are taken.

        Raises:
            StoreFull: the disk has no room for another copy; says how much is needed.
            StoreError: another writer is at work.
        """
        return SafetensorsSink(
            self._directory, spec, self._shard_bytes, self._reserve, identity=identity
        )

    def check_writable(self) -> None:
        """Find out whether a model could be stored here; raises ``StoreError`` if not."""
        require_writable(self._directory, "no model can be stored here")

    def resume(self, spec_digest: bytes, identity: str) -> SafetensorsSink | None:
        """Return the sink of an interrupted attempt at this very model; ``None``: there is none.

        Raises:
            StoreFull: the disk has no room for the rest.
            StoreError: another writer is at work.
        """
        if not identity or not self._directory.is_dir():
            return None
        with disk_errors(self._directory, "looking for an interrupted transfer"):
            for partial in find_partials(self._directory):
                if partial.identity == identity and partial.spec.digest == spec_digest:
                    return self._go_on(partial)
        return None

    def expire(self, seconds: float) -> None:
        """Remove what attempts interrupted longer ago than ``seconds`` have left.

        Raises:
            StoreError: it cannot be removed.
        """
        expire_partials(self._directory, seconds)

    def _go_on(self, partial: Partial) -> SafetensorsSink | None:
        try:
            return SafetensorsSink(
                self._directory, partial.spec, partial.shard_bytes, self._reserve, partial=partial
            )
        except CorruptStore as error:
            logger.warning("%s; the transfer begins again", error)
            return None


KIND = StoreKind(
    name="none",
    title="safetensors",
    suffix="",
    recognizes=lambda head: False,  # the format has no magic number
    open_source=SafetensorsSource,
    make_store=lambda path, reserve: SafetensorsStore(path, reserve_bytes=reserve or 0),
    holds_model=lambda path: any((path / name).exists() for name in (INDEX_NAME, SINGLE_NAME)),
)
"""How ``registry`` opens such a store."""
