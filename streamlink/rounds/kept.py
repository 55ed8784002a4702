"""What a server keeps of the models of its rounds: bases of the differences that travel.

A model is kept while its round computes it, beside the store's own copy: that has one only, which
the next model replaces. The first model of a job is copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

from streamlink.config import StreamConfig
from streamlink.link.bases import Bases
from streamlink.model.digest import BLOCK_BYTES, DigestBuilder, HasBlockHashes
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore, Progress, watch
from streamlink.model.spec import ModelSpec
from streamlink.stores.versions import Versions, VersionWriter

__all__ = ["KeptModels"]

logger = logging.getLogger("streamlink.rounds")


class KeptModels:
    """The versions that the server of one job keeps.

    Args:
        config: says where (``kept``), how many and how much.
        job: the job's name; versions of another job are never used.

    Raises:
        StoreError: the directory cannot be used, or another process uses it.
    """

    def __init__(self, config: StreamConfig, job: str) -> None:
        assert config.kept is not None, "ask for it where it is set"
        # One more than a client: of the model that is computed, and of the one that clients have.
        self._versions = Versions(
            config.kept,
            "server",
            job,
            most=config.kept_versions + 1,
            most_bytes=config.kept_bytes,
        )
        self.bases = Bases(self._versions, f"job {job!r}")
        self._is_current = False

    def require_current(self, store: ModelStore, check: Callable[[], None]) -> None:
        """Keep the model in ``store``, unless this has been done when it was computed.

        Args:
            store: the job's.
            check: called between two blocks; what it raises ends this.

        Raises:
            StoreError: the model cannot be read.
        """
        if self._is_current:
            return
        self._is_current = True
        with closing(store.open()) as source:
            known = _stored_digest(source)
            if known and known in self.bases.digests(source.spec.digest):
                return
            writer = self.bases.begin(source.spec.digest, source.spec.nbytes)
            if writer is not None:
                logger.info("keeping a copy of the model (%d bytes)", source.spec.nbytes)
                _copy(source, writer, check)

    def keeping(self, sink: ModelSink) -> ModelSink:
        """Return a sink that also keeps the model which is written to ``sink``."""
        writer = self.bases.begin(sink.spec.digest, sink.spec.nbytes)
        return sink if writer is None else _KeepingSink(sink, writer)

    def close(self) -> None:
        """Let another process use the directory; the versions stay there."""
        self._versions.close()


class _KeepingSink:
    """The store's sink, and a version beside it, whose errors do not count."""

    def __init__(self, sink: ModelSink, writer: VersionWriter) -> None:
        self._sink, self._writer = sink, writer
        self._digest = DigestBuilder(sink.spec)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._sink.spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Write ``payload`` to the store, then to the version."""
        self._sink.write(offset, payload)
        if offset != self._writer.offset:
            # A round writes in order. If that ever changes, a version is lost, and no model.
            self._writer.discard(f"byte {offset} came after byte {self._writer.offset}")
        if self._writer.is_open:
            self._writer.add(payload)
            self._digest.update(payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Commit the store's sink, then the version."""
        self._sink.commit(progress)
        if self._writer.is_open:
            self._writer.commit(self._digest.hexdigest())

    def discard(self) -> None:
        """Discard both."""
        self._writer.discard()
        self._sink.discard()


def _stored_digest(source: ModelSource) -> str:
    if isinstance(source, HasBlockHashes) and source.block_hash(0) is not None:
        return source.digest()
    return ""


def _copy(source: ModelSource, writer: VersionWriter, check: Callable[[], None]) -> None:
    unchanged, digest = watch(source), DigestBuilder(source.spec)
    try:
        for offset in range(0, source.spec.nbytes, BLOCK_BYTES):
            check()
            for view in source.read(offset, min(BLOCK_BYTES, source.spec.nbytes - offset)):
                digest.update(view)
                writer.add(view)
        unchanged()
    except BaseException:
        writer.discard()
        raise
    writer.commit(digest.hexdigest())
