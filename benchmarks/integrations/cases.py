"""What is run and what came of it, as objects and as the lines of the result files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = [
    "ALL_KILLED",
    "FAILURES",
    "LINES",
    "NOT_FINITE",
    "OURS",
    "STAYS_CUT",
    "Case",
    "Ended",
    "Memory",
    "Outcome",
    "kind_of",
    "lines_of",
    "short",
]

LINES = ("bare", "tuned", "first", "second")
OURS = LINES[2:]
TUNED = ("appfl",)
"""Whose processes run with other settings where streamlink is in them; "tuned" shows what these
settings alone bring: ``gc.freeze()`` for APPFL."""
FAILURES = ("cut", "killed", "stopped", "unfetched", "restarted")
"""What each framework has in both lines."""
ALL_KILLED, NOT_FINITE, STAYS_CUT = "all killed", "not finite", "stays cut"
MORE_FAILURES = {
    "nvflare": ("cut off", "unreachable", "not installed", "wrong setting"),
    "appfl": (ALL_KILLED, NOT_FINITE, STAYS_CUT),
}
"""Those of one framework alone, by its name. "cut" is a short one, after which a transfer resumes;
"cut off" and "stays cut" last until the client has given up. In Flower's cases a line that is cut
stays so for a round. "unreachable": no client can connect; "not installed": one knows nothing of
us; "wrong setting": one has a setting that cannot be used.
"""
Ended = Literal["done", "failed", "out of memory", "timeout"]


@dataclass(frozen=True)
class Case:
    """One run of one framework.

    Attributes:
        line: ``"bare"`` (without streamlink), ``"tuned"`` (without it, but with the settings of
            the process that go with it), ``"first"`` (streamlink, and the framework's aggregation
            as it is) or ``"second"`` (an aggregation of ours in its place).
        failure: what goes wrong in the middle of it; None: nothing.
        mode: ``"processes"``, or what else the framework knows, such as ``"simulation"``.
    """

    framework: str
    size_bytes: int = 64_000_000
    arrays: int = 64
    line: str = "first"
    clients: int = 2
    rounds: int = 3
    dtype: str = "float32"
    failure: str | None = None
    mode: str = "processes"

    def __post_init__(self) -> None:
        if self.line not in (lines := lines_of(self.framework)):
            raise ValueError(f"line {self.line!r}; {self.framework} has {', '.join(lines)}")
        known = (*FAILURES, *MORE_FAILURES.get(self.framework, ()))
        if self.failure is not None and self.failure not in known:
            raise ValueError(f"failure {self.failure!r}; it can be one of {', '.join(known)}")

    @property
    def is_ours(self) -> bool:
        """Tell whether streamlink moves the models."""
        return self.line in OURS

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        words = [self.framework, self.line, f"{short(self.size_bytes)} in {self.arrays}"]
        words += [f"{self.clients} clients", f"{self.rounds} rounds"]
        extra = [each for each in (self.dtype, self.mode) if each not in ("float32", "processes")]
        return ", ".join([*words, *extra, *([self.failure] if self.failure else [])])


def lines_of(framework: str) -> tuple[str, ...]:
    """Return the lines that a framework has, in the order in which they are run."""
    return tuple(line for line in LINES if line != "tuned" or framework in TUNED)


def short(size_bytes: float) -> str:
    """Return a size as a reader says it: ``64 MB``, ``2.5 GB``."""
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:.3g} GB"
    return f"{size_bytes / 1e6:.3g} MB"


def kind_of(machine: Mapping[str, Any]) -> str:
    """Return a kind of machine as a row says it; runs on two of one kind may be compared."""
    if not machine:
        return ""
    return f"{machine['cores']} × {machine['cpu']}, {machine['memory_bytes'] / 1e9:.0f} GB"


@dataclass(frozen=True)
class Memory:
    """The memory of one side: the sum over all its processes at one moment (bytes)."""

    base_bytes: int
    peak_bytes: int
    over_base_bytes: int
    """The highest sum of what each process had above its own base."""
    shared_bytes: int = 0
    """Shared memory and tmpfs in it, at the peak."""


@dataclass
class Outcome:
    """What one run showed; what was not seen is empty."""

    case: Case
    ended: Ended
    seconds: float
    said: str = ""
    exact: bool | None = None
    rounds: list[float] = field(default_factory=list)
    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    commit: str = ""
    at: str = ""
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The kind of machine that it was run on."""
        return kind_of(self.machine)

    def as_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Outcome:
        """Return the outcome that ``as_json`` wrote."""
        memory = {side: Memory(**each) for side, each in facts["memory"].items()}
        return cls(**{**facts, "case": Case(**facts["case"]), "memory": memory})
