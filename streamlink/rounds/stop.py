"""The request to stop a running job: from an operator, or through a ``CancelToken``.

Other threads make the request. The thread that runs the rounds polls it, at each event of a round
and at least once a second while it waits; so a job stops at a point where its state is consistent.
"""

from __future__ import annotations

from streamlink.cancel import CancelToken
from streamlink.errors import JobAborted

__all__ = ["StopSignal"]


class StopSignal:
    """Whether a job must stop. Any thread may call ``abort``; the thread of the rounds polls.

    Args:
        tokens: each of them stops the job, too.
    """

    def __init__(self, *tokens: CancelToken) -> None:
        self._tokens = tokens
        self._reason: str | None = None

    def abort(self, reason: str) -> None:
        """Stop the job at the next check; the first reason is kept."""
        # No lock: of two orders at the same instant either may be the one that counts.
        if self._reason is None:
            self._reason = reason

    @property
    def is_aborted(self) -> bool:
        """Whether an operator has asked for the stop."""
        return self._reason is not None

    def check(self) -> None:
        """Return if the job may continue.

        Raises:
            JobAborted: an operator has aborted it.
            Cancelled: a token was cancelled.
        """
        for token in self._tokens:
            token.check()
        if self._reason is not None:
            raise JobAborted(self._reason)
