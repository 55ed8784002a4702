"""The rate of ``auto`` beside that of plain transfers on loopback, where no encoding pays.

Two processes transfer the same weights many times, plain and with ``auto`` in turn. A transfer of
1 GiB takes 0.3 s, and on a virtual machine two in a row differ by up to a half, so many pairs are
needed. One transfer of each is not counted: it has the imports and the first use of the memory.
The time is that of the stream, from its opening until the receiver has committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlink
from benchmarks.links.payload import Kind, Payload
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.processes import Worker, WorkerFailed
from benchmarks.stats import Result, compare, median_interval, summarize
from benchmarks.tables import report_progress
from benchmarks.worker import Port

__all__ = ["AT_LEAST", "PART_SECONDS", "PAYLOADS", "is_met", "receive", "run", "send", "where_of"]

MIB = 1 << 20
KINDS: tuple[Kind, ...] = ("weights, F32", "weights, BF16")
PAYLOADS = [Payload(1024 * MIB, 64, kind) for kind in KINDS]
QUICK = [Payload(8 * MIB, 64, kind) for kind in KINDS]
PAIRS, QUICK_PAIRS = 100, 2
PART_SECONDS = 110.0
AT_LEAST = 0.97  # of the plain rate: the median of the pairs
WAYS = {"plain": (), "auto": ("auto",)}
PROGRESS_EVERY = 10  # pairs


def run(quick: bool, part: Parts = at_once) -> Result:
    """Measure 100 pairs of transfers of 1 GiB (quick: 2 of 8 MiB) with each kind of weights."""
    payloads, pairs = (QUICK, QUICK_PAIRS) if quick else (PAYLOADS, PAIRS)
    found = [part(where_of(each), PART_SECONDS, partial(_measure, each, pairs))
             for each in payloads]  # fmt: skip
    return Result(
        name="auto",
        claim=f"over loopback, `auto` carries at least {AT_LEAST:.2f} x the rate of plain",
        columns=("model", "pairs", "plain, s", "auto, s", "auto ÷ plain, rates, p10..p90",
                 "90 % interval of the median", "auto: least wire ÷ model"),
        rows=tuple(map(_row, payloads, found)),
        facts={"ratios": {where_of(payload): summarize(_ratios(each)).median
                          for payload, each in zip(payloads, found, strict=True)},
               "runs": {where_of(payload): each
                        for payload, each in zip(payloads, found, strict=True)}},
        met=None if quick else all(map(is_met, found)),
    )  # fmt: skip


def is_met(found: Facts) -> bool:
    """Tell whether ``auto`` is fast enough, by the median of its pairs."""
    return summarize(_ratios(found)).median >= AT_LEAST


def where_of(payload: Payload) -> str:
    """Return how tables call the transfers of a model."""
    return f"loopback, {payload}"


def _measure(payload: Payload, pairs: int) -> Facts:
    """Return the seconds of each transfer and its bytes on the wire, for each of ``WAYS``."""
    model = payload.as_json()
    with (
        Worker("benchmarks.auto:receive", {"payload": model}, name="the receiver") as receiver,
        Worker("benchmarks.auto:send", {"payload": model}, name="the sender") as sender,
    ):
        once = partial(_once, receiver, sender)
        for way in WAYS:
            once(way)
        found: Facts = {name: {way: [] for way in WAYS} for name in ("seconds", "wire_bytes")}
        for number in range(pairs):
            # Each begins as often as the other.
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                for name, value in once(way).items():
                    found[name][way].append(value)
            if number % PROGRESS_EVERY == PROGRESS_EVERY - 1:
                report_progress(f"  {number + 1} of {pairs} pairs")
        for end in (receiver, sender):
            end.tell("end")
            end.finish()
        return found | {"model_bytes": payload.size_bytes}


def _once(receiver: Worker, sender: Worker, way: str) -> Facts:
    """Move the model; returns what the sender has measured."""
    receiver.tell("receive")
    number = receiver.expect("listening")["number"]
    sender.tell("send", number=number, way=way)
    try:
        sent = sender.expect("sent")
    except WorkerFailed:
        receiver.require_running()  # if it has ended, its last words are the reason
        raise
    receiver.expect("received")
    return sent


# --- the report ---------------------------------------------------------------------------------


def _ratios(found: Facts) -> Sequence[float]:
    seconds = found["seconds"]
    rates = {way: [1 / each for each in seconds[way]] for way in WAYS}
    return compare("auto", rates["auto"], "plain", rates["plain"]).ratios


def _row(payload: Payload, found: Facts) -> tuple[str, ...]:
    ratios = _ratios(found)
    seen, (low, high) = summarize(ratios), median_interval(ratios)
    plain, auto = (f"{summarize(found['seconds'][way]).median:.3f}" for way in WAYS)
    return (
        where_of(payload),
        str(seen.count),
        plain,
        auto,
        f"{seen.median:.3f} ({seen.low:.2f}..{seen.high:.2f})",
        f"{low:.3f}..{high:.3f}",
        f"{min(found['wire_bytes']['auto']) / payload.size_bytes:.5f}",
    )


# --- what the processes do ----------------------------------------------------------------------


def receive(port: Port, payload: Facts) -> None:
    """Receive a model each time it is told to, into the same arrays."""
    streamlink.tune_allocator()
    model = Payload(**payload).blank()
    while port.next_command()["event"] != "end":
        streamlink.receive(
            model, "127.0.0.1:0", on_listening=lambda number: port.tell("listening", number=number)
        )
        port.tell("received")


def send(port: Port, payload: Facts) -> None:
    """Send the model each time it is told to."""
    streamlink.tune_allocator()
    model = Payload(**payload).model()
    while (command := port.next_command())["event"] != "end":
        stream = streamlink.StreamConfig(encodings=WAYS[command["way"]])
        config = streamlink.LinkConfig(stream=stream)
        receipt = streamlink.send(model, f"127.0.0.1:{command['number']}", config=config)
        port.tell("sent", seconds=receipt.seconds, wire_bytes=receipt.stats.wire_bytes)
