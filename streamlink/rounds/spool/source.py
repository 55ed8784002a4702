"""A stored update as a source of the aggregation loop: read from front to back, and verified.

The loop is the same as in lockstep (``aggregate.gather``), so the new model has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamlink.errors import CorruptStore
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec
from streamlink.rounds.spool.stored import StoredUpdate, stored_digest

__all__ = ["StoredSource"]


class StoredSource:
    """One client's stored update, read from front to back.

    Args:
        update: as it is stored.
        filters: functions that are applied to its elements, in this order.
        weigh: returns the weight that counts, for the one that the client announced.
    """

    def __init__(
        self,
        update: StoredUpdate,
        *,
        filters: Sequence[RangeFunction] = (),
        weigh: Callable[[float], float] = lambda weight: weight,
    ) -> None:
        self.peer_name = update.peer_name
        self.kind = update.update.kind
        self.filters = tuple(filters)
        self.weight = weigh(update.update.weight)
        self.metrics = update.metrics
        self._update = update
        self._source: ModelSource | None = None
        self._position = 0

    @property
    def end(self) -> int:
        """The size of the update: all of it is here."""
        return self._opened.spec.nbytes

    def open(self, seconds: float = 0.0) -> bool:
        """Open the stored update at its beginning; always True.

        Raises:
            StoreError: it cannot be read.
        """
        self.close()
        # From the beginning: an attempt that failed may have read a part of it.
        self._source, self._position = self._update.store.open(), 0
        return True

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check that it is what was stored: its digest, and the tensors of ``part``.

        Raises:
            CorruptStore: it is not.
            StoreError: it cannot be read.
        """
        # From the block hashes, where the store has them: ``take`` compares every block with its
        # hash.
        digest = stored_digest(self._opened)
        if self._opened.spec != part or digest != self._update.digest:
            raise CorruptStore(
                f"this is not the update of {self.peer_name} that was stored here: its digest is "
                f"{digest}, not {self._update.digest}",
                path=str(self._update.path),
            )

    def fetch(self, seconds: float) -> bool:
        """Return False: all bytes are here."""
        return False

    def finish(self, seconds: float) -> bool:
        """Return True: it was complete before it was stored."""
        return True

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, verified if the store can do that.

        Raises:
            CorruptStore: they are not what was stored.
        """
        payload = self._opened.read(self._position, nbytes)
        self._position += nbytes
        return join(payload)

    def close(self) -> None:
        """Close the store; may be called twice."""
        if self._source is not None:
            self._source.close()
            self._source = None

    @property
    def _opened(self) -> ModelSource:
        assert self._source is not None, "open() comes first"
        return self._source

    # --- no notices: its client got the acknowledgement when the update was stored -----------

    def poll(self) -> None:
        """Do nothing: a stored update cannot be lost."""

    def release(self, nbytes: int) -> None:
        """Do nothing: there is no stream with a window."""

    def wait_for(self, name: str) -> None:
        """Do nothing."""

    def hold(self, reason: str, waiting_for: str) -> None:
        """Do nothing."""

    def committing(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""
