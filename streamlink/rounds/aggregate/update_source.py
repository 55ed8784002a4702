"""What the aggregation loop needs of an update, whether it is still arriving or stored.

A live source (``lockstep.source``) is a client that still sends: the loop waits for its bytes, and
notifies it whom it waits for, that its update is being committed, and that it counts. A stored one
(``spool.source``) has all its bytes: it answers at once and ignores the notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.combiner import Contribution

__all__ = ["UpdateSource"]


class UpdateSource(Contribution, Protocol):
    """One client's update. One thread uses it, but others call ``hold`` and ``committing``, too."""

    @property
    def end(self) -> int:
        """How far the update has arrived (byte), including what was taken."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """What its client measured; known once it is finished."""

    # --- waiting: each may be called again until it returns True ---------------------------

    def open(self, seconds: float) -> bool:
        """Wait until the update is announced; False: not within ``seconds``.

        Raises:
            ContributorFailed: the update failed; ``fetch`` and ``finish`` raise it, too.
        """

    def fetch(self, seconds: float) -> bool:
        """Wait for more bytes; False: none within ``seconds``, or the update is complete."""

    def finish(self, seconds: float) -> bool:
        """Wait for what follows the last byte; False: it is not here within ``seconds``."""

    def poll(self) -> None:
        """Check the update while the loop waits for another one; never blocks.

        Raises:
            ContributorFailed: it is known already that the update failed.
        """

    # --- its bytes ---------------------------------------------------------------------------

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check that it has the tensors of ``part``, before a byte of it counts.

        Raises:
            ModelError: the client announced something else.
            CorruptStore: what is stored is not what the client sent.
        """

    def release(self, nbytes: int) -> None:
        """Return the credit of bytes that were taken and are used: the client may send more."""

    # --- notices to its client ---------------------------------------------------------------

    def wait_for(self, name: str) -> None:
        """Note whom the loop waits for now; empty: for this client."""

    def hold(self, reason: str, waiting_for: str) -> None:
        """Notify the client that it is held, and for whom."""

    def committing(self) -> None:
        """Notify it that the new model is being committed."""

    def commit(self) -> None:
        """Notify it that its update is in the new model."""

    def close(self) -> None:
        """Release what the source holds; may be called twice."""
