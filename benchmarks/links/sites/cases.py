"""What is run of the two-site job, and what came of it, as objects and as lines of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks.integrations.cases import kind_of
from benchmarks.links.cases import Accuracy
from benchmarks.links.lines import Line

__all__ = ["CLIENTS", "FAR", "NEAR", "SERVER", "Look", "Probed", "SiteCase", "SiteRun", "Used",
           "Variant", "Way"]  # fmt: skip

NEAR, FAR, SERVER = "near", "far", "server"
CLIENTS = (NEAR, FAR)

Gather = Literal["lockstep", "spool"]
Kind = Literal["whole", "streaming"]
Encoding = Literal["plain", "auto", "bf16"]


@dataclass(frozen=True)
class Variant:
    """One way to run the job.

    Attributes:
        gather: how updates are gathered.
        encoding: how models travel, in both directions.
        duplex: whether the next model goes down while updates still come up.
        executor: what the clients are; those of FLARE's notes are whole.
    """

    gather: Gather
    encoding: Encoding = "plain"
    duplex: bool = False
    executor: Kind = "whole"

    @property
    def name(self) -> str:
        """How tables call it, without the encoding."""
        words: list[str] = [self.gather]
        if self.duplex:
            words.append("duplex")
        if self.executor != "whole":
            words.append(f"{self.executor} clients")
        return ", ".join(words)

    def __str__(self) -> str:
        return f"{self.name}, {self.encoding}"


@dataclass(frozen=True)
class SiteCase:
    """One variant of the job, with a model and two lines.

    Attributes:
        near: the line of the near client. far: of the far one.
        keys: how many arrays the model has, of ``key_bytes`` each (float32).
    """

    variant: Variant
    near: Line
    far: Line
    keys: int
    key_bytes: int
    rounds: int

    @property
    def nbytes(self) -> int:
        """The model's size (bytes)."""
        return self.keys * self.key_bytes

    def line(self, client: str) -> Line:
        """Return the line of a client."""
        return self.near if client == NEAR else self.far

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> SiteCase:
        """Return the case that ``as_json`` wrote."""
        lines = {name: Line.from_json(facts[name]) for name in CLIENTS}
        return cls(**{**facts, **lines, "variant": Variant(**facts["variant"])})

    def __str__(self) -> str:
        size = f"{self.keys} x {self.key_bytes / 1e6:g} MB"
        return f"{self.variant}; {size}, {self.rounds} rounds, {self.near} and {self.far}"


@dataclass(frozen=True)
class Probed:
    """What the probe found of one client's line, and proposed for it.

    Attributes:
        down: bytes per second, from the server. up: to it.
        round_trip: median over the idle line (seconds).
        seconds: how long the probe took. nbytes: what it moved.
        settings: by ``section.key``. reasons: by the same names.
    """

    down: float
    up: float
    round_trip: float
    seconds: float
    nbytes: int
    settings: dict[str, float]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Way:
    """One model on its way between the server and a client, as the client saw it.

    Attributes:
        seconds: in which its bytes were on their way: without work, and without waits for others.
        lasted_seconds: from the request to the end, everything included.
        wire_bytes: that travelled for it, without headers.
    """

    client: str
    direction: Literal["down", "up"]
    round: int
    seconds: float
    lasted_seconds: float
    nbytes: int
    wire_bytes: int


@dataclass(frozen=True)
class Look:
    """One look at a process: seconds after the start, memory (bytes), processor time so far."""

    at: float
    rss_bytes: int
    cpu_seconds: float


@dataclass(frozen=True)
class Used:
    """What one process used: memory at its base and at its peak (bytes), processor time (s)."""

    base_bytes: int
    peak_bytes: int
    cpu_seconds: float
    looks: tuple[Look, ...] = ()

    @property
    def over_base_bytes(self) -> int:
        """Peak memory above the base."""
        return self.peak_bytes - self.base_bytes

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Used:
        """Return what ``asdict`` wrote."""
        return cls(**{**facts, "looks": tuple(Look(**each) for each in facts["looks"])})


@dataclass
class SiteRun:
    """What one run of a case showed; what was not seen is empty.

    Attributes:
        error: why it failed; empty: it ended, and the final model has every byte that it should.
        seconds: from the start of the first round to the end of the last.
        round_seconds: of each round, from the end of the one before.
        ways: each model that moved.
        wire_bytes: what TCP carried on each client's line, both directions, headers left out.
        used: by process. peak_bytes: what the server may hold over base by its own computation.
        probed: by client. accuracy: of each client's line, as a raw socket found it first.
    """

    case: SiteCase
    error: str = ""
    seconds: float = 0.0
    round_seconds: list[float] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    wire_bytes: dict[str, int] = field(default_factory=dict)
    used: dict[str, Used] = field(default_factory=dict)
    peak_bytes: int = 0
    probed: dict[str, Probed] = field(default_factory=dict)
    accuracy: dict[str, Accuracy] = field(default_factory=dict)
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
    def from_json(cls, facts: Mapping[str, Any]) -> SiteRun:
        """Return the run that ``as_json`` wrote."""
        return cls(
            **{
                **facts,
                "case": SiteCase.from_json(facts["case"]),
                "ways": [Way(**each) for each in facts["ways"]],
                "used": {name: Used.from_json(each) for name, each in facts["used"].items()},
                "probed": {name: Probed(**each) for name, each in facts["probed"].items()},
                "accuracy": {
                    name: Accuracy(**each) for name, each in facts.get("accuracy", {}).items()
                },
            }
        )
