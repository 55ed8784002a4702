"""When a lockstep round begins again, and when it is given up: its rule, without clocks or streams.

    needed ──▶ lost ──▶ needed     its session ended, and it came back within the grace time
      │          │
      │          └────▶ failed     it did not come back, or an operator excluded it
      │
      └───────────────▶ failed     it failed while it was here: it takes part no more

Every client of an attempt is needed: part of each update may be in the sum already. So one that
fails ends the attempt, and the next one begins without it, once nobody else is lost. The round is
given up when fewer than ``min_clients`` are left, or after ``max_attempts`` attempts.

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
    """Where each client of one lockstep round stands. Times are monotonic seconds, handed in.

    Args:
        rules: the settings of a round.
        number: of the round, for its errors.
        now: when the round begins.
    """

    def __init__(self, rules: RoundConfig, number: int, *, now: float) -> None:
        self.attempt = 0
        """Which attempt runs or has just ended."""
        self.needed: set[str] = set()
        """The clients of that attempt."""
        self.failures: dict[str, StreamlinkError] = {}
        """Who takes part no more, and why."""
        self.deadline = now + rules.train_timeout if rules.train_timeout else None
        """When ``train_timeout`` has passed; None: never."""
        self._rules = rules
        self._number = number
        self._asked: set[str] = set()
        self._lost: dict[str, float] = {}  # until when each is waited for
        self._settled: set[str] = set()  # had their grace time since the attempt ended
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

        ``was_awaited``: it was lost, and had its grace time while the attempt ran.
        """
        self.failures[name] = error
        self._lost.clear()
        self._settled = {name} if was_awaited else set()

    def missing(self, counted: Iterable[str]) -> dict[str, str]:
        """Return who was asked in any attempt and is not among ``counted``, and why."""
        gone = dict.fromkeys(sorted(self._asked.difference(counted)), _GONE)
        return gone | {name: str(error) for name, error in self.failures.items()}

    # --- losses between two attempts --------------------------------------------------------

    @property
    def lost(self) -> list[str]:
        """Who is waited for before the next attempt, ordered by name."""
        return sorted(self._lost)

    def lose(self, names: Iterable[str], *, now: float) -> list[str]:
        """Note whose session has ended; return those who are waited for from now on.

        Nobody is waited for twice between two attempts: a client that came back and is lost again
        takes part in the next attempt if it is here when that begins.
        """
        new = (self.needed & set(names)) - self._settled
        self._lost |= dict.fromkeys(new, now + self._rules.wait_time_after_min_received)
        self._settled |= new
        return sorted(new)

    def grace_left(self, name: str, *, now: float) -> float:
        """Return how much longer a lost client is waited for (seconds)."""
        return max(0.0, self._lost[name] - now)

    def come_back(self, name: str) -> None:
        """A lost client is back: whatever failed of it before is forgiven."""
        del self._lost[name]
        self.failures.pop(name, None)

    def expire(self, name: str, *, now: float) -> None:
        """A lost client was not there at ``now``; it has failed if its grace time is over."""
        if now < self._lost[name]:
            return
        del self._lost[name]
        error = StreamAborted(AbortCode.SESSION_LOST, _GONE, by_peer=True, who=name)
        self.failures.setdefault(name, error)

    def exclude(self, name: str, error: StreamlinkError) -> None:
        """An operator excluded a lost client: nobody waits for it."""
        self._lost.pop(name, None)
        self.failures[name] = error

    # --- losses while an attempt runs -------------------------------------------------------

    @property
    def grace(self) -> float:
        """How long a lost client is waited for (seconds)."""
        return self._rules.wait_time_after_min_received

    def may_resume(self, name: str) -> bool:
        """Whether ``name`` may resume its update once more in this round."""
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
            "model stands",
            failures,
        )
