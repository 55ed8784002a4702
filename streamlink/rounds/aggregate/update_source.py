"""Where the aggregation loop has an update from: an open stream, or a store.

A *live* source is a client that still sends: its bytes are waited for, and it hears whom it waits
for, that its update is being committed, and that it counts. A stored one has all its bytes, and
nobody listens: it answers at once, and what it is told has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.combiner import Contribution

__all__ = ["UpdateSource"]


class UpdateSource(Contribution, Protocol):
    """One client's update, wherever its bytes come from. Used by one thread, but for ``hold``."""

    @property
    def end(self) -> int:
        """Bytes of the update that are here or were taken."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """What its client measured; known once it is finished."""

    # --- waiting: each may be called again until it returns True ---------------------------

    def open(self, seconds: float) -> bool:
        """Wait until the update is announced; False: not within ``seconds``.

        Raises:
            ContributorFailed: this update cannot be had; ``fetch`` and ``finish`` raise it, too.
        """

    def fetch(self, seconds: float) -> bool:
        """Wait for more bytes; False: none within ``seconds``, or the update is complete."""

    def finish(self, seconds: float) -> bool:
        """Wait for what follows the last byte; False: it is not here within ``seconds``."""

    def look_after(self) -> None:
        """Look after an update that nobody waits for just now; never blocks.

        Raises:
            ContributorFailed: it is known already that this update cannot be had.
        """

    # --- its bytes ---------------------------------------------------------------------------

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check that it has the tensors of ``part``, before a byte of it counts.

        Raises:
            ModelError: the client announced something else.
            CorruptStore: what is stored is not what the client sent.
        """

    def release(self, nbytes: int) -> None:
        """Note that so many of the bytes that were taken are used: more may come."""

    # --- what its client hears ---------------------------------------------------------------

    def wait_for(self, name: str) -> None:
        """Note whom everybody waits for now; empty: it is this client."""

    def hold(self, reason: str, waiting_for: str) -> None:
        """Tell the client that it is held, and for whom; called from another thread, too."""

    def committing(self) -> None:
        """Tell it that the new model is being committed; called from another thread, too."""

    def commit(self) -> None:
        """Tell it that its update is in the new model for good."""

    def close(self) -> None:
        """Give up what the source holds here; harmless when called twice."""
