"""The rule of a spooled round: when it is over, and which clients count.

    asked ──▶ arrived                 its whole update is stored and counts
      │
      ├─────▶ failed                  it failed while it was connected: it is not asked again
      │
      └─────▶ away ──▶ asked          it was lost, and came back within the grace time

The round is over when no client is asked or away any more; or when ``take_first`` have arrived, and
no other counts then; or when ``min_clients`` have arrived and the grace time has passed since then;
or at ``train_timeout``; or when ``min_clients`` can no longer arrive. Pure: no clock, no threads,
no streams; times are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamlink.config import RoundConfig

__all__ = ["SpoolRule"]


class SpoolRule:
    """The state of each client in one spooled round. Times are monotonic seconds, passed in."""

    def __init__(self, rules: RoundConfig, asked: Iterable[str], *, now: float) -> None:
        self.asked = set(asked)
        self.arrived: set[str] = set()
        self.failed: set[str] = set()
        self._away: dict[str, float] = {}
        self._rules = rules
        self._deadline = now + rules.train_timeout if rules.train_timeout else None
        self._enough_since: float | None = None

    # --- events -----------------------------------------------------------------------

    def arrive(self, name: str, *, now: float) -> None:
        """Its whole update is stored. The spool refuses those that come after ``take_first``."""
        self.asked.discard(name)
        self.arrived.add(name)
        # Only the first quorum: if each later update began the grace time anew, a trickle of
        # updates could delay the round until ``train_timeout``.
        if self.is_enough and self._enough_since is None:
            self._enough_since = now

    def drop(self, name: str, *, is_gone: bool, now: float) -> None:
        """It failed; ``is_gone``: its session is lost, so it may come back."""
        self.asked.discard(name)
        if is_gone:
            self._away[name] = now
        else:
            self.failed.add(name)

    def forget(self, name: str) -> None:
        """It does not count after all; the next quorum starts the grace time again."""
        self.arrived.discard(name)
        self._away.pop(name, None)
        if not self.is_enough:
            self._enough_since = None

    def ask_again(self, name: str) -> None:
        """It is back, and is asked again."""
        del self._away[name]
        self.asked.add(name)

    # --- what the round does -----------------------------------------------------------------

    def away(self, *, now: float) -> set[str]:
        """Return the lost clients that may still come back."""
        grace = self._rules.wait_time_after_min_received
        return {name for name, since in self._away.items() if now < since + grace}

    @property
    def is_enough(self) -> bool:
        """Whether ``min_clients`` have arrived."""
        return len(self.arrived) >= self._rules.min_clients

    @property
    def is_full(self) -> bool:
        """Whether ``take_first`` have arrived."""
        first = self._rules.take_first
        return bool(first) and len(self.arrived) >= first

    def is_late(self, *, now: float) -> bool:
        """Whether ``train_timeout`` has passed."""
        return self._deadline is not None and now >= self._deadline

    def why_over(self, *, now: float) -> str:
        """Return why the round ended for the clients that are still asked, for messages."""
        grace, least = self._rules.wait_time_after_min_received, self._rules.min_clients
        if self.is_full:
            return f"the first {len(self.arrived)} updates had arrived (take_first)"
        if self._enough_since is not None and now >= self._enough_since + grace:
            return (
                f"the round's rule was met: {len(self.arrived)} updates, min_clients is {least}, "
                f"and {grace:g} s had passed (wait_time_after_min_received)"
            )
        if self.is_late(now=now):
            return f"{self._rules.train_timeout:g} s had passed (train_timeout)"
        return f"too few clients were left for min_clients={least}"

    def seconds_left(self, *, now: float) -> float:
        """Return how long to wait at most before calling this again; 0: the round is over."""
        away = self.away(now=now)
        # As many as can still arrive; if they are too few, waiting for them is of no use.
        possible = len(self.arrived) + len(self.asked) + len(away)
        if self.is_full or (not self.asked and not away) or possible < self._rules.min_clients:
            return 0.0
        grace = self._rules.wait_time_after_min_received
        ends = [self._away[name] + grace for name in away]
        if self._deadline is not None:
            ends.append(self._deadline)
        if self._enough_since is not None:
            ends.append(self._enough_since + grace)
        return max(0.0, min(ends) - now) if ends else float("inf")
