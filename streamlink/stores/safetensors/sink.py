"""The sink of a safetensors directory: shards under new names, published by renaming the index.

Until the rename the old model is untouched; after it the old shards are removed. A process that is
killed at any point leaves either the old or the new model, and files that the next attempt removes
(shadow paging: the index is the root, and the rename switches it).

An attempt with an ``identity`` can be resumed: ``journal`` records which bytes are durable, and a
later process continues from there. The shards of such an attempt end in ``.part`` and get their
headers last, so that no tool takes them for a model.

A model may bring small files, such as ``config.json``: they are written as shards are, and get
their own names after the index (``beside``).
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import StoreError
from streamlink.model.block_hashes import BlockHashTracker
from streamlink.model.digest import (
    BLOCK_BYTES,
    BLOCK_HASH_BYTES,
    block_count,
    block_hash_of,
    root_hash,
)
from streamlink.model.spec import ModelSpec
from streamlink.stores.block_cache import verify
from streamlink.stores.direct import DirectFiles
from streamlink.stores.files import (
    Steps,
    close_all,
    disk_errors,
    lock,
    remove,
    require_free,
    sync_directory,
)
from streamlink.stores.safetensors.ambiguous import require_one_model
from streamlink.stores.safetensors.beside import finish_placing
from streamlink.stores.safetensors.index import (
    ShardIndex,
    new_generation,
    next_index_name,
    publish_index,
    remove_dead_files,
    superseded_files,
    write_block_hashes,
)
from streamlink.stores.safetensors.journal import Journal, Partial, find_partials, partial_name
from streamlink.stores.safetensors.shards import ShardFiles
from streamlink.stores.two_steps import TwoStepSink

__all__ = ["SafetensorsSink"]

logger = logging.getLogger("streamlink.stores")

# A step costs an fsync of the shards and one of the journal, in which the writer stands still.
DURABLE_BYTES = 64 << 20
"""The most that is sent again after a crash of the receiver (bytes)."""


class SafetensorsSink(TwoStepSink):
    """Takes a model's bytes in any order. Made by ``SafetensorsStore.begin`` and ``resume``.

    Bytes that arrive in order are hashed as they arrive; ``commit`` reads back and hashes the other
    blocks.

    Args:
        directory: of the store.
        spec: the tensors.
        shard_bytes: see ``SafetensorsStore``.
        reserve: see ``SafetensorsStore``.
        identity: the sender's name for the content; empty: the attempt cannot be resumed.
        partial: the partial model of an earlier attempt, to resume.
        is_direct: see ``SafetensorsStore``.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        shard_bytes: int,
        reserve: int,
        *,
        identity: str = "",
        partial: Partial | None = None,
        is_direct: bool = False,
    ) -> None:
        super().__init__(directory, spec)
        self._directory = directory
        self._shard_bytes = shard_bytes
        self._reserve = reserve
        self._direct = DirectFiles() if is_direct else None
        self._generation = partial.generation if partial else new_generation()
        self._is_publishing = False
        self._superseded: set[str] = set()
        self._own_names: set[str] = set()  # none before the shards are laid out
        self._fds: list[int] = []
        self._lock: list[int] = []
        # The finalizer gets the lists and not ``self``: a reference to the sink would keep it alive
        # for ever, and the writer's lock with it.
        self._closer = weakref.finalize(self, _close_both, self._fds, self._lock)
        self._journal: Journal | None = None
        self._durable = self._front = 0
        self._has_made_directory = False
        try:
            with disk_errors(directory, "beginning a new model"):
                self._begin(identity, partial)
        except BaseException:
            with suppress(StoreError):  # the first error is the one to report
                self.discard()
            raise

    def write(self, offset: int, payload: memoryview) -> None:
        """Write ``payload`` into its shards; one system call for each run of tensors.

        Raises:
            StoreFull: the disk has no room.
            StoreError: the sink was committed or discarded.
        """
        self._require_writable(offset, payload.nbytes)
        with disk_errors(self._directory, "writing the model"):
            self._shards.write(offset, payload)
            self._tracker.take(offset, payload)
            self._written.add(offset, offset + payload.nbytes)
            if self._journal is not None:
                self._note_progress(self._journal, offset, payload.nbytes)

    def digest(self) -> str | None:
        """Return the digest the model will have; None: only the commit can compute it."""
        # Reading the missing blocks back may take minutes. That is for the commit, which reports
        # its progress to a watchdog.
        if next(self._tracker.unknown(), None) is not None:
            return None
        return root_hash(self._spec, [self._tracker.hashes])

    @property
    def durable(self) -> int:
        """The high-water mark: ``resume`` continues from this byte after a crash."""
        return self._durable

    def saved(self) -> Iterator[memoryview]:
        """Yield the durable bytes in order, read back and verified, in one reused buffer.

        Raises:
            CorruptStore: a block was damaged since it was written.
        """
        return self._verified(self._durable)

    @property
    def whole(self) -> int:
        """The end of the complete blocks without a gap from the start (bytes); 0 once closed."""
        if not self._is_open:
            return 0
        first = next(self._tracker.unknown(), block_count(self._spec.nbytes))
        return min(self._spec.nbytes, first * BLOCK_BYTES)

    def written(self) -> Iterator[memoryview]:
        """Yield the bytes below ``whole``, read back and verified as by ``saved``.

        Raises:
            CorruptStore: a block was damaged since it was written.
        """
        return self._verified(self.whole)

    def suspend(self) -> None:
        """Close the attempt and keep the bytes that arrived in order, for ``resume``.

        An attempt without an identity is discarded.
        """
        if self._journal is None:
            self.discard()
        elif self._is_open:
            with suppress(OSError):  # bytes that are not durable are sent again
                self._advance(self._journal)
            self._close()

    def discard(self) -> None:
        """Remove the files of this attempt. The model that the index names is never touched."""
        try:
            # A sink that was refused the lock must remove nothing: another writer is at work, and
            # its files look dead until its commit.
            if self._is_open and self._lock:
                with disk_errors(self._directory, "discarding an attempt"):
                    self._remove_own()
                    remove_dead_files(self._directory)
        finally:
            self._close()
        if self._has_made_directory:
            with suppress(OSError):  # not empty: another attempt has stored a model in it
                self._directory.rmdir()

    # --- beginning ------------------------------------------------------------------

    def _begin(self, identity: str, partial: Partial | None) -> None:
        self._has_made_directory = not self._directory.exists()
        self._directory.mkdir(parents=True, exist_ok=True)
        # First of all: what follows removes files that, without the lock, another writer may still
        # fill.
        self._take_lock()
        finish_placing(self._directory)
        require_one_model(self._directory)
        self._make_room(partial)
        # After the check for free space: a hostile spec of petabytes must not allocate memory.
        self._tracker = BlockHashTracker(self._spec.nbytes)
        self._shards = ShardFiles(
            self._directory,
            self._spec,
            self._shard_bytes,
            self._generation,
            is_partial=bool(identity or partial),
            fds=self._fds,
            direct=self._direct,
        )
        self._own_names = self._shards.all_names()
        if partial is not None:
            self._go_on(partial)
        else:
            self._shards.create()
            if identity:
                self._keep(
                    Journal.create(
                        self._directory, self._generation, identity, self._spec, self._shard_bytes
                    )
                )
            else:
                self._shards.write_headers()
        self._shards.begin_flushing(self._reserve)

    def _take_lock(self) -> None:
        # The lock is on the directory itself, so no lock file lies beside the model.
        fd = patiently(os.open, self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            lock(fd, self._directory)
        except BaseException:
            os.close(fd)
            raise
        self._lock.append(fd)

    def _make_room(self, partial: Partial | None) -> None:
        if partial is None:
            for other in find_partials(self._directory):
                logger.info(
                    "%s: removing the partial model of another transfer, %d of %d bytes",
                    self._directory,
                    other.mark,
                    other.spec.nbytes,
                )
        remove_dead_files(self._directory, spared=self._generation)
        kept = partial.mark if partial else 0
        require_free(self._directory, self._spec.nbytes - kept, self._reserve)

    # --- an attempt that can be resumed -----------------------------------------------

    def _keep(self, journal: Journal) -> None:
        self._journal = journal
        weakref.finalize(self, journal.close)

    def _go_on(self, partial: Partial) -> None:
        """Open the shards and the journal of an interrupted attempt."""
        self._shards.reopen()
        self._keep(Journal.reopen(self._directory, partial))
        for block in range(block_count(partial.mark)):
            block_hash = partial.hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES]
            self._tracker.set(block, block_hash)
        self._written.add(0, partial.mark)
        self._durable = self._front = partial.mark

    def _note_progress(self, journal: Journal, offset: int, length: int) -> None:
        # A write beyond a gap does not move the front, nor does it when the gap is filled later:
        # these bytes count as not durable and are sent again. Transfers write in order, so this is
        # rare.
        if offset == self._front:
            self._front += length
        # The first marks come early, so that small models and slow links have marks, too.
        step = min(DURABLE_BYTES, max(BLOCK_BYTES, self._durable))
        if self._front - self._durable >= step:
            self._advance(journal)

    def _advance(self, journal: Journal) -> None:
        """Sync the bytes that arrived in order, then record that in the journal."""
        front = self._front
        # Rounded down to whole blocks, because the journal vouches for each byte with a block's
        # hash.
        mark = front if front == self._spec.nbytes else front - front % BLOCK_BYTES
        # Data first, then the record that vouches for it, as in a checkpoint. The other way round,
        # a power failure could leave a record of bytes that are lost.
        self._shards.sync(self._durable, max(0, mark - self._durable))
        self._mark(journal, mark)

    def _mark(self, journal: Journal, mark: int) -> None:
        if mark > self._durable:
            first, last = block_count(self._durable), block_count(mark)
            journal.advance(
                mark, self._tracker.hashes[first * BLOCK_HASH_BYTES : last * BLOCK_HASH_BYTES]
            )
            self._durable = mark

    # --- the end ------------------------------------------------------------------------

    def _hash_unknown(self, steps: Steps) -> None:
        """Read back and hash the blocks that did not arrive in order."""
        buffer = memoryview(bytearray(min(self._spec.nbytes, BLOCK_BYTES)))
        for block in self._tracker.unknown():
            self._tracker.set(block, block_hash_of(self._shards.read_back(block, buffer)))
            steps.done()

    def _verified(self, nbytes: int) -> Iterator[memoryview]:
        buffer = memoryview(bytearray(min(BLOCK_BYTES, nbytes)))
        # Once, and not for each block: the property copies all of them.
        hashes = self._tracker.hashes
        with disk_errors(self._directory, "reading back"):
            for block in range(block_count(nbytes)):
                view = self._shards.read_back(block, buffer)
                block_hash = hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES]
                verify(self._spec, block, view, block_hash, self._directory)
                yield view

    def _make_durable(self, steps: Steps) -> None:
        """Make everything durable under its final name, except that the index is not published."""
        self._hash_unknown(steps)
        if self._journal is not None:
            # The headers are the last bytes: a shard without one begins with zeros, and no tool
            # takes it for a model.
            self._shards.write_headers()
        self._shards.sync_all(steps)
        if self._journal is not None:
            # After the fsync and before the renames: a process that is killed in between finds the
            # whole model on the disk, and has nothing to receive again.
            self._mark(self._journal, self._spec.nbytes)
        self._take_names()

    def _publish(self) -> None:
        """Replace the index, and remove the old shards."""
        # Set before the rename is tried: if the rename succeeds and only the fsync of the directory
        # fails, the index names our files already, and a discard must not remove them.
        self._is_publishing = True
        publish_index(self._directory, self._generation)
        finish_placing(self._directory)
        # The journal is among the dead files now: the index does not name it. A crash before this
        # line leaves both, and ``find_partials`` ignores the journal of a committed model.
        remove_dead_files(self._directory, self._superseded)

    def _take_names(self) -> None:
        """Give all files their final names, which the present index does not mention yet."""
        model, digests = self._shards.plan.model, f"model-{self._generation}.digests"
        hashes = self._shards.hashes_of_tensors(self._tracker.hashes)
        write_block_hashes(self._directory / digests, model, hashes)
        self._shards.take_final_names()
        # The names of shards and sidecar must be durable before the index that refers to them. Else
        # a power failure could keep the index and lose a shard.
        sync_directory(self._directory)
        # Read now: once the index is replaced, nothing names the old files any more, and other
        # tools give theirs names that we could not recognize.
        self._superseded = superseded_files(self._directory)
        plan = self._shards.plan
        index = ShardIndex(plan.weight_map, model.nbytes, digests, plan.placed)
        index.prepare(self._directory, self._generation)

    def _remove_own(self) -> None:
        """Remove this attempt's files by name, which works also without a free descriptor.

        Once the rename of the index was tried, the index may name them: then it decides.
        """
        if self._is_publishing:
            return
        digests, journal = f"model-{self._generation}.digests", partial_name(self._generation)
        for name in (*self._own_names, digests, journal, next_index_name(self._generation)):
            remove(self._directory / name)
        # After the unlinks, which need no descriptor, and before the directory is listed, which
        # needs one.
        close_all(self._fds)

    def _close(self) -> None:
        self._is_open = False
        if self._journal is not None:
            self._journal.close()
        if self._direct is not None:
            self._direct.close()
        self._closer()


def _close_both(shards: list[int], lock_of_writer: list[int]) -> None:
    # The lock last, so that no other writer begins while our files are open.
    close_all(shards)
    close_all(lock_of_writer)
