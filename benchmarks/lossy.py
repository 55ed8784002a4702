"""What lossy formats save, lose and cost: models that a server sends to one client, in memory.

The weights are synthetic: normal numbers with a standard deviation of 0.02, as after the usual
initialization of a transformer. Over loopback nothing is gained by fewer bytes, so the rate shows
what the processors of both ends can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import streamlink
from benchmarks.processes import Worker, WorkerFailed
from benchmarks.stats import MIN_PAIRS, Result, interleave, summarize
from benchmarks.worker import Port
from streamlink.stores import MemoryStore

__all__ = ["CASES", "Case", "Sent", "is_met", "measure", "run"]

MiB = 1 << 20
TENSORS, DEVIATION, SEED = 16, 0.02, 1
ROUNDS = 4  # the first one warms up
SMALL = "step"  # what the client sends back, so that only the model's way counts
AT_MOST = {"bf16": 0.51, "fp16": 0.51, "int8": 0.26}
"""The share of the model's bytes that may travel."""


@dataclass(frozen=True)
class Case:
    """Settings of the stream, and the most that an element may change, as a share of ``largest``.

    Attributes:
        name: in the table.
        stream: settings of the server.
        bound: from the documentation of the format; 0: nothing changes.
    """

    name: str
    stream: dict[str, Any]
    bound: float = 0.0


CASES = (
    Case("plain", {}),
    Case("planes", {"encodings": ["planes"]}),
    Case("bf16", {"lossy_down": ["*=bf16"]}, 2.0**-8 * (1 + 2.0**-15)),
    Case("fp16", {"lossy_down": ["*=fp16"]}, 2.0**-11),
    Case("int8", {"lossy_down": ["*=int8"]}, (0.5 + 2.0**-16) / 127 * (1 + 2.0**-15)),
)


@dataclass(frozen=True)
class Sent:
    """One model on its way to the client.

    Attributes:
        nbytes: of the model. wire_bytes: that travelled for it.
        seconds: in which bytes were on their way.
        max_abs: largest change of an element. relative_rms: of all; 0 where nothing was rounded.
        largest: absolute value of an element of the model.
    """

    nbytes: int
    wire_bytes: int
    seconds: float
    max_abs: float
    relative_rms: float
    largest: float

    @property
    def share(self) -> float:
        """Of the model's bytes that travelled."""
        return self.wire_bytes / self.nbytes

    @property
    def rate(self) -> float:
        """Bytes of the model per second."""
        return self.nbytes / self.seconds


def run(quick: bool) -> Result:
    """Send 256 MiB (quick: 16 MiB) in each format, in turn."""
    nbytes = 16 * MiB if quick else 256 * MiB
    results = interleave(
        {case.name: lambda case=case: measure(case, nbytes) for case in CASES},  # type: ignore[misc]
        pairs=1 if quick else MIN_PAIRS,
    )
    found = {name: [sent for runs in every for sent in runs] for name, every in results.items()}
    return Result(
        name="lossy",
        claim="of the bytes of an F32 model bf16 and fp16 send at most "
        f"{AT_MOST['bf16']:.2f}, int8 {AT_MOST['int8']:.2f}, and no element changes by more than "
        "the bound of its format",
        columns=("format", "sent", "max abs error", "relative RMS", "MB/s, median", "p10..p90"),
        rows=tuple(_row(name, sent) for name, sent in found.items()),
        facts={
            "nbytes": nbytes,
            "tensors": TENSORS,
            "deviation": DEVIATION,
            "runs": {name: [asdict(each) for each in sent] for name, sent in found.items()},
        },
        met=None if quick else is_met(found),
    )


def is_met(found: dict[str, list[Sent]]) -> bool:
    """Tell whether each format saves what it should, and keeps to its bound."""
    bounds = {case.name: case.bound for case in CASES}
    return all(
        sent.share <= AT_MOST.get(name, 1.0) and sent.max_abs <= bounds[name] * sent.largest
        for name, every in found.items()
        for sent in every
    )


def measure(case: Case, nbytes: int) -> list[Sent]:
    """Run some rounds in fresh processes; return what became of the models after the first.

    Raises:
        WorkerFailed: a process failed, or a transfer did.
    """
    facts = {"stream": case.stream, "nbytes": nbytes}
    with Worker("benchmarks.lossy:serve", facts, name="server") as server:
        address = server.expect("listening")["address"]
        with Worker("benchmarks.lossy:client", {"address": address}, name="client") as client:
            ran = server.expect("ran")
            client.finish()
            server.finish()
    # A round may end before the client's word that it has the whole model. That one is left out.
    if len(ran["sent"]) < 2:
        raise WorkerFailed(f"of {ROUNDS} models {len(ran['sent'])} were known to have arrived")
    return [Sent(**each) for each in ran["sent"][1:]]


def serve(port: Port, stream: dict[str, Any], nbytes: int) -> None:
    """Hold the model in memory, run the rounds, and tell what was sent."""
    streamlink.tune_allocator()
    port.mark_base()
    rng = np.random.default_rng(SEED)
    count = nbytes // 4 // TENSORS
    arrays = {
        f"key_{key:02d}": rng.standard_normal(count, np.float32) * np.float32(DEVIATION)
        for key in range(TENSORS)
    }
    largest = float(max(np.abs(each).max() for each in arrays.values()))
    sent: list[dict[str, Any]] = []

    def note(facts: streamlink.TransferFacts) -> None:
        # Whole, whatever its end: a round may end before the word of the client that it has it.
        if facts.direction == "sent" and facts.bytes == facts.total_bytes:
            rounding = facts.rounding
            sent.append(
                asdict(
                    Sent(
                        facts.bytes, facts.wire_bytes, facts.seconds,
                        rounding.max_abs if rounding else 0.0,
                        rounding.relative_rms if rounding else 0.0,
                        largest,
                    )
                )
            )  # fmt: skip

    store = MemoryStore({**arrays, SMALL: np.zeros(1, np.float32)})
    rules = streamlink.RoundConfig(min_clients=1, num_rounds=ROUNDS, part=(SMALL,))
    config = streamlink.LinkConfig(stream=streamlink.StreamConfig(**stream))
    with streamlink.Server("127.0.0.1:0", config, on_transfer=note) as server:
        port.tell("listening", address=f"127.0.0.1:{server.port}")
        streamlink.ScatterAndGather(server, store, rules, job="lossy").run()
    port.tell("ran", sent=sent)


def client(port: Port, address: str) -> None:
    """Take the models, and send one number back."""
    streamlink.tune_allocator()
    port.mark_base()
    executor = streamlink.StreamingExecutor(lambda tensor, start, values: values)
    with streamlink.Client(address, "site-1", executor) as site:
        site.run()


def _row(name: str, sent: Sequence[Sent]) -> tuple[str, ...]:
    rates = summarize([each.rate / 1e6 for each in sent])
    worst = max(sent, key=lambda each: each.max_abs)
    return (
        name,
        f"{summarize([each.share for each in sent]).median:.3f}",
        f"{worst.max_abs:.2e}" if worst.max_abs else "0",
        f"{worst.relative_rms:.2e}" if worst.relative_rms else "0",
        f"{rates.median:.0f}",
        f"{rates.low:.0f}..{rates.high:.0f}",
    )
