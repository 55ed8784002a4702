"""Differences on the wire while two clients fine-tune a model of bfloat16 weights.

Each client is behind a line of 100 Mbit/s of its own, trains for 20 steps of AdamW with data that
the other one has not, and sends the whole model back; the new model is the mean of both. That is
done twice from the same seeds: plain, and with ``auto``, where server and clients keep the last
model. Both must end with the same bits.

The relays count the bytes, of both clients together. Wire time is the time in which the bytes of
the server's transfers were on their way: in each round that of the slower client, down and up. A
spool takes the updates, so that no client waits for the other one's training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.parts import Facts, Parts, at_once
from benchmarks.processes import Worker, WorkerFailed
from benchmarks.stats import Result
from benchmarks.tables import report_progress

__all__ = [
    "AT_LEAST",
    "LEARNING_RATES",
    "Plan",
    "Ran",
    "Round",
    "is_met",
    "measure",
    "ratio",
    "run",
]

MB = 10**6
CLIENTS = 2
LEARNING_RATES = (1e-5, 1e-4)
AT_LEAST = {1e-5: 3.0}
"""Wire time of plain divided by that of auto, by learning rate; others are reported only."""
TRAIN_SECONDS = 3600.0
JOB_SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    """What is trained, and for how long.

    Attributes:
        network: words, width, layers and heads.
        rounds: of the job (count). steps: of each client in each round (count).
        bandwidth: of each client's line, each way (bytes per second).
        stream: settings of streams, plain and with auto.
    """

    network: dict[str, int]
    rounds: int = 5
    steps: int = 20
    bandwidth: float = 12.5 * MB
    stream: dict[str, Any] = field(default_factory=dict)


FULL = Plan({"words": 20_000, "width": 768, "layers": 12, "heads": 12})  # 100 M parameters
SMALL = Plan({"words": 1000, "width": 128, "layers": 4, "heads": 4}, rounds=3, steps=5)  # 1 M


@dataclass(frozen=True)
class Round:
    """What one round has moved: bytes of both clients, seconds of the slower one."""

    down_bytes: int
    up_bytes: int
    down_seconds: float
    up_seconds: float

    @property
    def wire_bytes(self) -> int:
        """Of both directions, as the relays have counted them."""
        return self.down_bytes + self.up_bytes

    @property
    def wire_seconds(self) -> float:
        """Of both directions."""
        return self.down_seconds + self.up_seconds


@dataclass(frozen=True)
class Ran:
    """What became of a job: its rounds, the digest of its last model, the mean loss by round."""

    rounds: tuple[Round, ...]
    digest: str
    losses: tuple[float, ...]

    @property
    def later(self) -> tuple[Round, ...]:
        """The rounds after the first one, which finds nothing kept."""
        return self.rounds[1:]

    @classmethod
    def from_json(cls, facts: Facts) -> Ran:
        """Return what ``asdict`` wrote."""
        rounds = tuple(Round(**each) for each in facts["rounds"])
        return cls(rounds, facts["digest"], tuple(facts["losses"]))


def run(quick: bool, part: Parts = at_once) -> Result:
    """Train 100 M parameters in 5 rounds (quick: 1 M in 3), plain and with auto."""
    if find_spec("torch") is None:
        return _result({}, None, "skipped: torch is not installed")
    plan = SMALL if quick else FULL
    found = {
        rate: {name: _job(plan, rate, name, part) for name in ("plain", "auto")}
        for rate in LEARNING_RATES
    }
    return _result(found, plan)


def _job(plan: Plan, rate: float, name: str, part: Parts) -> Ran:
    def measured() -> Facts:
        return asdict(measure(plan, rate, name == "auto"))

    return Ran.from_json(part(f"learning rate {rate:g}, {name}", JOB_SECONDS, measured))


def ratio(found: dict[str, Ran]) -> float:
    """Return the wire time after the first round, plain divided by auto."""
    plain, auto = (
        sum(each.wire_seconds for each in found[name].later) for name in ("plain", "auto")
    )
    return plain / auto


def is_met(found: dict[float, dict[str, Ran]]) -> bool:
    """Tell whether all bits are equal, and enough time was saved where that is claimed."""
    return all(
        _is_equal(runs) and ratio(runs) >= AT_LEAST.get(rate, 0.0) for rate, runs in found.items()
    )


def _is_equal(found: dict[str, Ran]) -> bool:
    return len({ran.digest for ran in found.values()}) == 1


def measure(plan: Plan, learning_rate: float, is_auto: bool) -> Ran:
    """Run the job once, in fresh processes.

    Raises:
        WorkerFailed: a process failed, or a client did.
    """
    with ExitStack() as workers:
        folder = Path(workers.enter_context(tempfile.TemporaryDirectory(prefix="streamlink-")))

        def started(body: str, name: str, **facts: Any) -> Worker:
            stream = plan.stream | (_stream(folder / name) if is_auto else {})
            facts |= {"network": plan.network, "stream": stream}
            worker = Worker(f"benchmarks.finetune_bodies:{body}", facts, name=name)
            return workers.enter_context(worker)

        # All at once: each of them imports for seconds.
        server = started("serve", "server", rounds=plan.rounds, spool=str(folder / "spool"))
        work = {"steps": plan.steps, "learning_rate": learning_rate}
        clients = [
            started("client", f"site-{number}", number=number, **work)
            for number in range(1, CLIENTS + 1)
        ]
        lines = [
            workers.enter_context(
                Worker("benchmarks.lines:counted_line", {"bandwidth": plan.bandwidth}, name="line")
            )
            for _ in clients
        ]
        address = server.expect("listening")["address"]
        for line_there, client in zip(lines, clients, strict=True):
            line_there.tell("target", address=address)
            client.tell("server", **line_there.expect("listening"))
            client.expect("joined")
        server.tell("go")
        counts = []
        for number in range(1, plan.rounds + 1):
            counts.append(_counted(server, lines))
            report_progress(f"  round {number} of {plan.rounds} is over")
        ran = server.expect("ran", timeout_seconds=TRAIN_SECONDS)
        for each in (server, *clients):
            each.finish()
    return _ran(ran, counts)


def _stream(kept: Path) -> dict[str, Any]:
    """Return what is set at each end for ``auto`` with differences."""
    return {"encodings": ["auto"], "kept": str(kept)}


def _counted(server: Worker, lines: list[Worker]) -> dict[str, int]:
    """Return the bytes on all lines up to the end of the next round."""
    server.expect("round", timeout_seconds=TRAIN_SECONDS)
    for each in lines:
        each.tell("count")
    counts = [each.expect("counted") for each in lines]
    server.tell("go")
    return {way: sum(each[way] for each in counts) for way in ("down", "up")}


def _ran(ran: dict[str, Any], counts: list[dict[str, int]]) -> Ran:
    moved = ran["moved"]
    if ran["failures"] or len(moved) != 2 * CLIENTS * len(counts):
        raise WorkerFailed(f"{len(moved)} transfers, and failures {ran['failures']}")
    before = [{"down": 0, "up": 0}, *counts]
    rounds = []
    for number, (earlier, later) in enumerate(pairwise(before), moved[0]["round"]):
        down, up = (
            max(
                each["seconds"]
                for each in moved
                if (each["round"], each["direction"]) == (number, direction)
            )
            for direction in ("sent", "received")
        )
        rounds.append(Round(later["down"] - earlier["down"], later["up"] - earlier["up"], down, up))
    return Ran(tuple(rounds), ran["digest"], tuple(ran["losses"]))


# --- the report ---------------------------------------------------------------------------------


def _result(found: dict[float, dict[str, Ran]], plan: Plan | None, skipped: str = "") -> Result:
    return Result(
        name="finetune",
        claim="fine-tuning in bfloat16 with differences takes at most 1/"
        f"{AT_LEAST[1e-5]:.0f} of the wire time after the first round at a learning rate of 1e-5, "
        "and ends with the same bits",
        columns=(
            "learning rate",
            "sent",
            "round",
            "MB down",
            "MB up",
            "s down",
            "s up",
            "plain ÷ auto",
        ),
        rows=tuple(_rows(found)) or ((skipped, *[""] * 7),),
        facts={
            "plan": asdict(plan) if plan else skipped,
            "runs": {
                str(rate): {name: asdict(ran) for name, ran in runs.items()}
                | {"ratio": ratio(runs), "is_equal": _is_equal(runs)}
                for rate, runs in found.items()
            },
        },
        met=is_met(found) if plan is FULL else None,
    )


def _rows(found: dict[float, dict[str, Ran]]) -> Iterator[tuple[str, ...]]:
    for rate, runs in found.items():
        for name, ran in runs.items():
            for number, each in enumerate(ran.rounds, 1):
                yield (
                    f"{rate:g}", name, str(number),
                    f"{each.down_bytes / MB:.2f}", f"{each.up_bytes / MB:.2f}",
                    f"{each.down_seconds:.2f}", f"{each.up_seconds:.2f}", "",
                )  # fmt: skip
        bits = "equal bits" if _is_equal(runs) else "OTHER BITS"
        yield f"{rate:g}", bits, "2 on", "", "", "", "", f"{ratio(runs):.2f}"
