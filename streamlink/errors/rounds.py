"""Rounds that produce no new model."""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.errors.base import StreamlinkError
from streamlink.errors.models import NonFiniteUpdate

__all__ = ["JobAborted", "NonFiniteRound", "QuorumNotReached", "RoundError"]


class RoundError(StreamlinkError):
    """A round produces no new model.

    Attributes:
        what: why, as a sentence.
        failures: the error of each client that failed, by its name.
    """

    def __init__(self, what: str, failures: Mapping[str, BaseException] | None = None) -> None:
        self.what = what
        self.failures = dict(failures or {})
        super().__init__(what)

    def __str__(self) -> str:
        # Sorted: the order in which clients fail is chance, and two runs should read the same.
        causes = "; ".join(f"{peer}: {error}" for peer, error in sorted(self.failures.items()))
        return f"{self.what} ({causes})" if causes else self.what


class QuorumNotReached(RoundError):
    """Fewer than ``min_clients`` whole updates arrived; the old model stays."""


class JobAborted(RoundError):
    """An operator has ended the job; the last whole model stays.

    Attributes:
        reason: why, in the operator's words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"aborted by the operator: {reason}; the last whole model stays")


class NonFiniteRound(RoundError):
    """An update has NaN or infinity, and ``non_finite`` is ``"fail"``; the old model stays."""

    def __init__(self, peer_name: str, error: NonFiniteUpdate) -> None:
        self.peer_name = peer_name
        super().__init__(f"the update of {peer_name} is not finite", {peer_name: error})
