"""What is run and what came of it, as objects and as the lines of the file of raw results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.integrations.cases import kind_of
from benchmarks.links.lines import Line
from benchmarks.links.payload import Payload

__all__ = ["MIB", "Accuracy", "Case", "Moment", "Run", "Side"]

MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """One peer, which moves one model over one line."""

    peer: str
    line: Line
    payload: Payload

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Case:
        """Return the case that ``as_json`` wrote."""
        return cls(facts["peer"], Line.from_json(facts["line"]), Payload(**facts["payload"]))

    def __str__(self) -> str:
        return f"{self.peer}, {self.payload}, {self.line}"


@dataclass(frozen=True)
class Moment:
    """One look at an end: seconds after the clock's start, memory over its base (bytes)."""

    at: float
    over_base_bytes: int


@dataclass(frozen=True)
class Side:
    """What one end used; a framework's is the sum over its processes.

    Attributes:
        base_bytes: resident memory with everything imported and no model.
        peak_over_base_bytes: the most above that until the end of the transfer, the model included.
        cpu_seconds: processor time from the clock's start to the end of the transfer.
        moments: memory over time.
    """

    base_bytes: int
    peak_over_base_bytes: int
    cpu_seconds: float
    moments: tuple[Moment, ...] = ()

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Side:
        """Return the side that ``asdict`` wrote."""
        return cls(**{**facts, "moments": tuple(Moment(**each) for each in facts["moments"])})


@dataclass(frozen=True)
class Accuracy:
    """What a raw socket found of a line, before anything else was measured on it.

    Attributes:
        round_trip: median of single bytes there and back over the idle line (seconds).
        spread: of these, the 90th percentile minus the 10th (seconds).
        rate: payload of a raw socket, from the near end (bits per second), without the start.
        seconds: how long that was measured, in each direction.
        down_rate: the same from the far end; 0: that was not measured.
        lost, down_lost: share of the packets that the line lost meanwhile, up and down (0 to 1);
            None: it counts none.
    """

    round_trip: float
    spread: float
    rate: float
    seconds: float
    down_rate: float = 0.0
    lost: float | None = None
    down_lost: float | None = None


@dataclass
class Run:
    """What one run of a case showed; what was not seen is empty.

    Attributes:
        error: why it failed; empty: it ended, and the far end has every byte.
        seconds: from the word to start until both ends were finished.
        startup_seconds: before that: processes, imports, the model, connecting.
        wire_bytes: what entered the line meanwhile, both directions; None: not counted here.
        sides: by ``"send"`` and ``"receive"``.
        line: what the line says of itself, and the kernel's ``congestion_control``.
        facts: the ``version`` of the peer, and what it says by ``"send"`` and ``"receive"``.
        accuracy: of the line, as measured before.
        turn: of its case, from 1 on; the next try of one that failed has the same. 0: not known.
    """

    case: Case
    error: str = ""
    seconds: float = 0.0
    startup_seconds: float = 0.0
    wire_bytes: int | None = None
    sides: dict[str, Side] = field(default_factory=dict)
    line: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    commit: str = ""
    at: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    turn: int = 0

    @property
    def where(self) -> str:
        """The kind of machine that it was run on."""
        return kind_of(self.machine)

    @property
    def rate(self) -> float:
        """Payload per second (bytes/s)."""
        return self.case.payload.size_bytes / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Run:
        """Return the run that ``as_json`` wrote."""
        sides = {role: Side.from_json(each) for role, each in facts["sides"].items()}
        accuracy = Accuracy(**facts["accuracy"]) if facts["accuracy"] else None
        case = Case.from_json(facts["case"])
        return cls(**{**facts, "case": case, "sides": sides, "accuracy": accuracy})
