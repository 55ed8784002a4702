"""Named deadlines. Time only ever comes in as an argument.

A machine has fewer than ten timers, most of them restarted for every chunk. So this is a table that
is searched, not a heap: restarting an entry costs two assignments and leaves nothing to clean up.
"""

from __future__ import annotations


class Timers:
    """A small table of ``name → (started, deadline)``, in monotonic seconds."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._deadline: dict[str, float] = {}
        self._paused: dict[str, tuple[float, float]] = {}  # elapsed and remaining seconds

    def start(self, name: str, seconds: float, *, now: float) -> None:
        """Start the timer ``name``, or restart it from ``now``."""
        if self._paused:
            self._paused.pop(name, None)
        self._started[name] = now
        self._deadline[name] = now + seconds

    def stop(self, name: str) -> None:
        """Stop the timer; harmless when it is not running."""
        if self._paused:
            self._paused.pop(name, None)
        if name in self._deadline:
            del self._started[name], self._deadline[name]

    def run_while(self, is_needed: bool, name: str, seconds: float, *, now: float) -> None:
        """Run the timer only while it ``is_needed``; one that runs already is not restarted."""
        if not is_needed:
            self.stop(name)
        elif name not in self._deadline:
            self.start(name, seconds, now=now)

    def pause(self, name: str, *, now: float) -> None:
        """Stop the timer until ``resume``; harmless when it is not running.

        Args:
            name: which timer.
            now: when it should have stopped. A time before its start counts as its start.
        """
        if name in self._deadline:
            started, deadline = self._started.pop(name), self._deadline.pop(name)
            at = max(now, started)
            self._paused[name] = at - started, max(0.0, deadline - at)

    def resume(self, name: str, *, now: float) -> bool:
        """Run a paused timer for its remaining time; returns whether there was one."""
        if name not in self._paused:
            return False
        elapsed, remaining = self._paused.pop(name)
        self._started[name], self._deadline[name] = now - elapsed, now + remaining
        return True

    def stop_all(self) -> None:
        """Stop every timer."""
        for table in (self._started, self._deadline, self._paused):
            table.clear()

    def is_running(self, name: str) -> bool:
        """Whether the timer was started and not stopped."""
        return name in self._deadline

    def idle_seconds(self, name: str, *, now: float) -> float:
        """How long ago the timer was last started (seconds)."""
        return now - self._started[name]

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, or None while no timer runs."""
        return min(self._deadline.values(), default=None)

    def expired(self, *, now: float) -> list[str]:
        """Return the names of all expired timers, the earliest deadline first."""
        due = [(at, name) for name, at in self._deadline.items() if at <= now]
        return [name for _, name in sorted(due)]
