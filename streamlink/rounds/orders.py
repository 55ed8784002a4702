"""What was ordered of a job that runs, by an operator or through a token: that it ends.

Orders come from other threads and are looked at by the one that runs the rounds: at each event of
a round, and every second while it waits.
"""

from __future__ import annotations

from streamlink.cancel import CancelToken
from streamlink.errors import JobAborted

__all__ = ["Orders"]


class Orders:
    """Whether a job shall go on. Any thread may order; the rounds' thread obeys."""

    def __init__(self, *tokens: CancelToken) -> None:
        self._tokens = tokens
        self._reason: str | None = None

    def abort(self, reason: str) -> None:
        """Let the job end at the next look; the first reason stands."""
        if self._reason is None:
            self._reason = reason

    @property
    def is_aborted(self) -> bool:
        """Whether the job shall end."""
        return self._reason is not None

    def check(self) -> None:
        """Go on, if that is still wanted.

        Raises:
            JobAborted: an operator wants no more of it.
            Cancelled: a token was.
        """
        for token in self._tokens:
            token.check()
        if self._reason is not None:
            raise JobAborted(self._reason)
