"""The rule of a lockstep round: when a new attempt begins, and when the round fails.

    needed ──▶ lost ──▶ needed     its session ended, and it came back within the grace time
      │          │
      │          └────▶ failed     it did not come back, or an operator excluded it
      │
      └───────────────▶ failed     it failed while it was connected: it is not asked again

Every client of an attempt is needed: part of each update may be in the sum already, and cannot be
subtracted from rounded numbers. So one failure ends the attempt, and the next attempt begins
without that client, once no other client is lost. The round fails when fewer than ``min_clients``
are left, or after ``max_attempts`` attempts. Pure: no clock, no streams; times are passed in.

While an attempt runs, a lost client may resume its update; see ``source`` for who can. This
rule only counts how often each has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, QuorumNotReached, StreamAborted, StreamlinkError

__all__ = ["LockstepRule", "require_quorum"]

_GONE = "its session ended, and it did not come back"


class LockstepRule:
    """The state of each client in one lockstep round. Times are monotonic seconds, passed in.

    Args:
        rules: the settings of a round.
        number: of the round, for its errors.
        now: when the round begins.
    """

    def __init__(self, rules: RoundConfig, number: int, *, now: float) -> None:
        self.attempt = 0
        """Number of the attempt that runs, or has just ended."""
        self.needed: set[str] = set()
        """The clients of that attempt."""
        self.failures: dict[str, StreamlinkError] = {}
        """The clients that are not asked again, and why."""
        self.deadline = now + rules.train_timeout if rules.train_timeout else None
        """When ``train_timeout`` has passed; None: never."""
        self._rules = rules
        self._number = number
        self._asked: set[str] = set()
        self._lost: dict[str, float] = {}  # name → until when the round waits for it
        self._settled: set[str] = set()  # had their grace time after this attempt
        self._returns: Counter[str] = Counter()

    # --- attempts ---------------------------------------------------------------------------

    def begin(self, here: Iterable[str]) -> list[str]:
        """Begin the next attempt; return who takes part: all of ``here`` that have not failed.

        Raises:
            QuorumNotReached: these are too few, or there were as many attempts as there may be.
        """
        most = self._rules.max_attempts
        if self.attempt == most:
            what = f"round {self._number} failed {most} times (max_attempts)"
            raise QuorumNotReached(what, self.failures)
        names = [name for name in here if name not in self.failures]
        require_quorum(self._number, len(names), self._rules.min_clients, self.failures)
        self.attempt += 1
        self.needed = set(names)
        self._asked |= self.needed
        return names

    def fail(self, name: str, error: StreamlinkError, *, was_awaited: bool = False) -> None:
        """End the attempt, since the update of ``name`` failed.

        ``was_awaited``: it was lost, and had its grace time while the attempt ran already.
        """
        self.failures[name] = error
        # A new break between two attempts: all others may have a grace time in it again.
        self._lost.clear()
        self._settled = {name} if was_awaited else set()

    def missing(self, counted: Iterable[str]) -> dict[str, str]:
        """Return who was asked in any attempt and is not among ``counted``, and why."""
        gone = dict.fromkeys(sorted(self._asked.difference(counted)), _GONE)
        return gone | {name: str(error) for name, error in self.failures.items()}

    # --- losses between two attempts --------------------------------------------------------

    @property
    def lost(self) -> list[str]:
        """The clients that the next attempt waits for, ordered by name."""
        return sorted(self._lost)

    def lose(self, names: Iterable[str], *, now: float) -> list[str]:
        """Note whose session has ended; return those that the next attempt now waits for.

        Each client gets one grace time between two attempts, or one that keeps crashing could delay
        the round for ever. After that it takes part only if it is connected when the next begins.
        """
        new = (self.needed & set(names)) - self._settled
        self._lost |= dict.fromkeys(new, now + self._rules.wait_time_after_min_received)
        self._settled |= new
        return sorted(new)

    def grace_left(self, name: str, *, now: float) -> float:
        """Return how much of a lost client's grace time is left (seconds)."""
        return max(0.0, self._lost[name] - now)

    def come_back(self, name: str) -> None:
        """A lost client is back: its earlier failure no longer counts."""
        del self._lost[name]
        self.failures.pop(name, None)

    def expire(self, name: str, *, now: float) -> None:
        """A lost client is not back at ``now``; it has failed if its grace time is over."""
        if now < self._lost[name]:
            return
        del self._lost[name]
        error = StreamAborted(AbortCode.SESSION_LOST, _GONE, by_peer=True, who=name)
        self.failures.setdefault(name, error)

    def exclude(self, name: str, error: StreamlinkError) -> None:
        """An operator excluded a lost client: the round no longer waits for it."""
        self._lost.pop(name, None)
        self.failures[name] = error

    # --- losses while an attempt runs -------------------------------------------------------

    @property
    def grace(self) -> float:
        """How long the round waits for a lost client (seconds)."""
        return self._rules.wait_time_after_min_received

    def may_resume(self, name: str) -> bool:
        """Whether ``name`` may resume its update once more in this round."""
        # As often as a round may begin anew. Without a bound a client that crashes at the same byte
        # each time would hold all others for ever.
        return self._returns[name] < self._rules.max_attempts

    def resume(self, name: str) -> None:
        """Note that ``name`` is back within its attempt."""
        self._returns[name] += 1


def require_quorum(
    number: int,
    left: int,
    least: int,
    failures: Mapping[str, StreamlinkError],
    *,
    arrived: int = 0,
) -> None:
    """Raise ``QuorumNotReached`` if clients ``left`` and ``arrived`` updates are not enough."""
    if left + arrived < least:
        raise QuorumNotReached(
            f"round {number}: {left} of {least} clients left (min_clients); the last whole "
            "model stays",
            failures,
        )
