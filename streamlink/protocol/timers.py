"""Named deadlines, earliest first. Time only ever comes in from outside."""

from __future__ import annotations


class Timers:
    """A small table of ``name → (started, deadline)``, in monotonic seconds."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._deadline: dict[str, float] = {}

    def start(self, name: str, seconds: float, *, now: float) -> None:
        """Start the clock ``name``, or start it again from ``now``."""
        self._started[name] = now
        self._deadline[name] = now + seconds

    def stop(self, name: str) -> None:
        """Stop the clock; harmless when it is not running."""
        self._started.pop(name, None)
        self._deadline.pop(name, None)

    def stop_all(self) -> None:
        """Stop every clock."""
        self._started.clear()
        self._deadline.clear()

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

    def excuse(self, seconds: float) -> None:
        """Push every deadline back: this process stood still for ``seconds``, not the peer."""
        for name in self._deadline:
            self._started[name] += seconds
            self._deadline[name] += seconds
