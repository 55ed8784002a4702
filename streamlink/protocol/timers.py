"""Named deadlines, earliest first. Time only ever comes in from outside."""

from __future__ import annotations


class Timers:
    """A small table of ``name → (started, deadline)``, in monotonic seconds."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._deadline: dict[str, float] = {}
        self._paused: dict[str, tuple[float, float]] = {}  # seconds gone by, and left

    def start(self, name: str, seconds: float, *, now: float) -> None:
        """Start the clock ``name``, or start it again from ``now``."""
        if self._paused:
            self._paused.pop(name, None)
        self._started[name] = now
        self._deadline[name] = now + seconds

    def stop(self, name: str) -> None:
        """Stop the clock; harmless when it is not running."""
        if self._paused:
            self._paused.pop(name, None)
        if name in self._deadline:
            del self._started[name], self._deadline[name]

    def run_while(self, is_owed: bool, name: str, seconds: float, *, now: float) -> None:
        """Let the clock run just while something ``is_owed``: it is not started again meanwhile."""
        if not is_owed:
            self.stop(name)
        elif name not in self._deadline:
            self.start(name, seconds, now=now)

    def pause(self, name: str, *, now: float) -> None:
        """Stop the clock until ``resume``; harmless when it is not running.

        Args:
            name: which.
            now: since when it should not have run: lately, or now (monotonic seconds).
        """
        if name in self._deadline:
            started, deadline = self._started.pop(name), self._deadline.pop(name)
            at = max(now, started)
            self._paused[name] = at - started, max(0.0, deadline - at)

    def resume(self, name: str, *, now: float) -> bool:
        """Let a paused clock run on with what was left of it; returns whether there was one."""
        if name not in self._paused:
            return False
        gone, left = self._paused.pop(name)
        self._started[name], self._deadline[name] = now - gone, now + left
        return True

    def stop_all(self) -> None:
        """Stop every clock."""
        for book in (self._started, self._deadline, self._paused):
            book.clear()

    def is_running(self, name: str) -> bool:
        """Whether the clock has been started and not stopped."""
        return name in self._deadline

    def idle_seconds(self, name: str, *, now: float) -> float:
        """How long ago the clock was last started (seconds)."""
        return now - self._started[name]

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, or None while no clock runs."""
        return min(self._deadline.values(), default=None)

    def expired(self, *, now: float) -> list[str]:
        """Return the names whose deadline has passed, earliest first."""
        due = [(at, name) for name, at in self._deadline.items() if at <= now]
        return [name for _, name in sorted(due)]
