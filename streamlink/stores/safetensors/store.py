"""``SafetensorsStore``: one model in a directory, replaced atomically.

A commit writes new shards under new names, then renames the new index over the old one.
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
from streamlink.stores.safetensors.index import ADAPTER_NAME, INDEX_NAME, SINGLE_NAME
from streamlink.stores.safetensors.journal import Partial, find_partials
from streamlink.stores.safetensors.sink import SafetensorsSink
from streamlink.stores.safetensors.source import SafetensorsSource

__all__ = ["KIND", "SafetensorsStore"]

logger = logging.getLogger("streamlink.stores")

_IDLE_BUFFER_BYTES = 8 << 20


class SafetensorsStore:
    """Holds one model as safetensors shards in a directory that Hugging Face tools can load.

    One writer at a time; a second writer is refused. Readers may read during a write.

    Args:
        directory: created by the first ``begin``.
        shard_bytes: the most data in one shard (bytes); a larger tensor gets its own shard.
        cache_blocks: see ``SafetensorsSource``.
        reserve_bytes: how many bytes must stay free on the disk.
        is_direct: read and write past the page cache where that is possible: for a model that is
            written once and read once, in blocks and in order.
    """

    def __init__(
        self,
        directory: str | Path,
        shard_bytes: int = 4 << 30,
        cache_blocks: int = 8,
        reserve_bytes: int = 0,
        *,
        is_direct: bool = False,
    ) -> None:
        self._directory = Path(directory)
        self._shard_bytes = shard_bytes
        self._cache_blocks = cache_blocks
        self._reserve = reserve_bytes
        self._is_direct = is_direct

    def open(self) -> SafetensorsSource:
        """Return the last committed model; raises as ``SafetensorsSource`` does."""
        return SafetensorsSource(self._directory, self._cache_blocks, is_direct=self._is_direct)

    def begin(self, spec: ModelSpec, identity: str = "") -> SafetensorsSink:
        """Return a sink for the next model. Leftovers of crashed attempts are removed first.

        Args:
            spec: the tensors.
            identity: the sender's name for the content. With it the sink keeps a journal of what is
                ``durable``, and ``resume`` continues from there. Price: after each 64 MiB the sink
                waits until they are on the disk.

        Raises:
            StoreFull: the disk has no room for another copy; says how much is needed.
            StoreError: another writer uses the store.
        """
        return SafetensorsSink(
            self._directory,
            spec,
            self._shard_bytes,
            self._reserve,
            identity=identity,
            is_direct=self._is_direct,
        )

    @property
    def keeps_beside(self) -> bool:
        """Whether sinks take the small files beside a model: config, tokenizer and such."""
        return True

    def check_writable(self) -> None:
        """Raise ``StoreError`` if a model cannot be stored here."""
        require_writable(self._directory, "no model can be stored here")

    def resume(self, spec_digest: bytes, identity: str) -> SafetensorsSink | None:
        """Return the sink of an interrupted transfer of the same model; None: there is none.

        Raises:
            StoreFull: the disk has no room for the rest.
            StoreError: another writer uses the store.
        """
        if not identity or not self._directory.is_dir():
            return None
        with disk_errors(self._directory, "looking for an interrupted transfer"):
            for partial in find_partials(self._directory):
                # The spec too: a sender may give two models of different shape the same name.
                if partial.identity == identity and partial.spec.digest == spec_digest:
                    return self._go_on(partial)
        return None

    def expire(self, seconds: float) -> None:
        """Remove partial models that nobody changed for ``seconds``.

        Raises:
            StoreError: one cannot be removed.
        """
        expire_partials(self._directory, seconds)

    def _go_on(self, partial: Partial) -> SafetensorsSink | None:
        try:
            return SafetensorsSink(
                self._directory, partial.spec, partial.shard_bytes, self._reserve, partial=partial
            )
        except CorruptStore as error:
            # The sink has discarded the partial model before it raised, so it is not found again.
            logger.warning("%s; the transfer starts again from the first byte", error)
            return None


_MODELS = (INDEX_NAME, SINGLE_NAME, ADAPTER_NAME)

KIND = StoreKind(
    name="none",
    title="safetensors",
    suffix="",
    recognizes=lambda head: False,  # the format has no magic number
    open_source=SafetensorsSource,
    make_store=lambda path, reserve: SafetensorsStore(path, reserve_bytes=reserve or 0),
    holds_model=lambda path: any((path / name).exists() for name in _MODELS),
)
"""How ``registry`` opens such a store."""
