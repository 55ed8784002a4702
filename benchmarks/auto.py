"""``auto`` beside plain over loopback, where no encoding is worth its time.

Two processes move the same weights again and again, plain and with ``auto`` in turn. A transfer of
1 GiB takes 0.3 s, and two in a row differ by up to a half on a virtual machine, so there are many
pairs, and what a process does once (imports, the first use of its memory) is done before the first
of them. Each model is verified by its digest, as ever.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import streamlink
from benchmarks.links.payload import Kind, Payload
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.processes import Worker
from benchmarks.stats import Result, compare, median_interval, summarize
from benchmarks.tables import report_progress
from benchmarks.worker import Port

__all__ = ["AT_LEAST", "PART_SECONDS", "PAYLOADS", "is_met", "receive", "run", "send", "where_of"]

MIB = 1 << 20
KINDS: tuple[Kind, ...] = ("weights, F32", "weights, BF16")
PAYLOADS = [Payload(1024 * MIB, 64, kind) for kind in KINDS]
QUICK = [Payload(8 * MIB, 64, kind) for kind in KINDS]
PAIRS, QUICK_PAIRS = 60, 2
PART_SECONDS = 75.0
AT_LEAST = 0.97  # of the plain rate: the median of the pairs
WAYS = {"plain": (), "auto": ("auto",)}
SMALL_STEP = 10  # of pairs, between two lines of progress


def run(quick: bool, part: Parts = at_once) -> Result:
    """Measure 60 pairs of transfers of 1 GiB (quick: 2 of 8 MiB) with each kind of weights."""
    payloads, pairs = (QUICK, QUICK_PAIRS) if quick else (PAYLOADS, PAIRS)
    found = [part(where_of(each), PART_SECONDS, partial(_measure, each, pairs))
             for each in payloads]  # fmt: skip
    return Result(
        name="auto",
        claim=f"over loopback, `auto` carries at least {AT_LEAST:.2f} x the rate of plain",
        columns=("model", "pairs", "plain, s", "auto, s", "auto ÷ plain, rates, p10..p90",
                 "90 % interval of the median", "wire ÷ model, auto"),
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
    """Return the seconds of each transfer, by way, and the bytes on the wire of the last one."""
    model = payload.as_json()
    with (
        Worker("benchmarks.auto:receive", {"payload": model}, name="the receiver") as receiver,
        Worker("benchmarks.auto:send", {"payload": model}, name="the sender") as sender,
    ):
        once = partial(_once, receiver, sender)
        for way in WAYS:
            once(way)
        found: Facts = {"seconds": {way: [] for way in WAYS}, "wire_bytes": {}}
        for number in range(pairs):
            # Each begins as often as the other.
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                seconds, found["wire_bytes"][way] = once(way)
                found["seconds"][way].append(seconds)
            if number % SMALL_STEP == SMALL_STEP - 1:
                report_progress(f"  {number + 1} of {pairs} pairs")
        return found | {"model_bytes": payload.size_bytes}


def _once(receiver: Worker, sender: Worker, way: str) -> tuple[float, int]:
    """Move the model; returns the seconds until both ends are done, and bytes on the wire."""
    receiver.tell("receive")
    number = receiver.expect("listening")["number"]
    sender.tell("send", number=number, way=way)
    sent, received = sender.expect("sent"), receiver.expect("received")
    if sent["digest"] != received["digest"]:
        raise ValueError(f"{way}: the receiver has another model")
    return max(sent["at"], received["at"]) - sent["began_at"], sent["wire_bytes"]


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
        f"{found['wire_bytes']['auto'] / payload.size_bytes:.3f}",
    )


# --- what the processes do ----------------------------------------------------------------------


def receive(port: Port, payload: Facts) -> None:
    """Receive a model each time it is told to, into the same arrays."""
    streamlink.tune_allocator()
    model = Payload(**payload).blank()
    while port.next_command()["event"] == "receive":
        receipt = streamlink.receive(
            model, "127.0.0.1:0", on_listening=lambda number: port.tell("listening", number=number)
        )
        port.tell("received", at=time.monotonic(), digest=receipt.digest)


def send(port: Port, payload: Facts) -> None:
    """Send the model each time it is told to; the time to connect does not count."""
    streamlink.tune_allocator()
    model = Payload(**payload).model()
    while True:
        told = port.wait_for("send")
        stream = streamlink.StreamConfig(encodings=WAYS[told["way"]])
        config = streamlink.LinkConfig(stream=stream)
        receipt = streamlink.send(model, f"127.0.0.1:{told['number']}", config=config)
        at = time.monotonic()
        port.tell("sent", began_at=at - receipt.seconds, at=at, digest=receipt.digest,
                  wire_bytes=receipt.stats.wire_bytes)  # fmt: skip
