"""What ``streamlink probe`` forecasts for a line, beside transfers that follow on the same line.

The models are generated at one end and dropped at the other. They are much larger than those of
the probe, and the forecast is made before the first one begins. On every line each model uses one
connection. On emulated lines, where TCP is real and several connections may carry more, models are
also sent over as many as the probe proposes, which are opened while that makes a transfer faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import streamlink
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.namespace import why_not
from benchmarks.longline.roads import EmulatedRoad, RelayedRoad, Road
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.processes import Worker
from benchmarks.stats import Result
from benchmarks.worker import Port
from streamlink.link import ClientLink, ClientRequest, receive_model, send_model
from streamlink.model import GeneratedModel
from streamlink.probing import Measured, ProbeLine, Round, forecast, measure, propose

__all__ = ["LINES", "QUICK", "PlannedLine", "deviation", "is_met", "run", "worst"]

MB = 10**6
CLEAN, LOSSY = 0.10, 0.20
"""How far a forecast may be from the transfer, as a share of it: without loss, and with."""

Transfers = dict[str, dict[str, float]]

TRANSFER_SECONDS, PROBE_SECONDS, PROBE_BYTES = 20.0, 5.0, 256 << 20
WAIT_SECONDS = 300.0
RELAYED_SECONDS, EMULATED_SECONDS = 95.0, 170.0
"""Of a line, with its probe and three transfers; of an emulated one, with six."""


@dataclass(frozen=True)
class PlannedLine:
    """A line, and whether a relay stands for it; otherwise it is emulated, with real TCP."""

    line: Line
    is_relayed: bool

    def __str__(self) -> str:
        return f"{self.line}{', relay' * self.is_relayed}"

    @property
    def seconds(self) -> float:
        """About how long it takes to measure it."""
        return RELAYED_SECONDS if self.is_relayed else EMULATED_SECONDS

    def road(self) -> Road:
        """Return a new road of this line, not yet entered."""
        return RelayedRoad(self.line) if self.is_relayed else EmulatedRoad(self.line)

    @property
    def allowed(self) -> float:
        """How far the forecast may be from the transfer, as a share of it."""
        return LOSSY if self.line.loss else CLEAN


def _relayed(rate: float, round_trip: float) -> PlannedLine:
    return PlannedLine(Line(rate=rate, round_trip=round_trip), is_relayed=True)


QUICK = _relayed(1e8, 0.05)
LINES = (
    _relayed(8 * 200 * 1024, 0.02),
    _relayed(1e8, 0.0),
    QUICK,
    _relayed(1e8, 0.2),
    _relayed(1e9, 0.0),
    _relayed(1e9, 0.05),
    _relayed(1e9, 0.2),
    PlannedLine(Line(rate=2e8, round_trip=0.1), is_relayed=False),
    PlannedLine(Line(rate=2e8, round_trip=0.1, loss=0.001), is_relayed=False),
)


def run(quick: bool, part: Parts = at_once, why_no_losses: Callable[[], str] = why_not) -> Result:
    """Probe each line, then move models over it (quick: one line alone, for seconds).

    Args:
        quick: see above.
        part: measures a line.
        why_no_losses: returns why this machine cannot emulate a line; empty: it can.
    """
    lines: Sequence[PlannedLine] = (QUICK,) if quick else LINES
    seconds = 2.0 if quick else TRANSFER_SECONDS
    reason = why_no_losses()
    missing = tuple(each for each in lines if reason and not each.is_relayed)
    found = {each: part(str(each), each.seconds, partial(_measured, each, seconds))
             for each in lines if each not in missing}  # fmt: skip
    return Result(
        name="probe",
        claim=f"the probe's forecast is within {CLEAN:.0%} of a transfer that takes about "
        f"{seconds:g} s over one connection, {LOSSY:.0%} on a line that loses packets",
        columns=("line", "which way", "forecast, s", "took, s", "off by", "allowed"),
        rows=tuple(row for each, told in found.items() for row in _rows(each, told))
        + tuple((str(each), f"not measured: {reason}", *[""] * 4) for each in missing),
        facts={
            "lines": [
                {
                    "line": each.line.as_json(),
                    "is_relayed": each.is_relayed,
                    "name": str(each),
                    "allowed": each.allowed,
                    **told,
                }
                for each, told in found.items()
            ],
            "missing": {str(each): reason for each in missing},
        },
        met=None if quick else is_met(found, missing),
    )


def is_met(found: Mapping[PlannedLine, Facts], missing: Sequence[PlannedLine] = ()) -> bool | None:
    """Tell whether all forecasts were near enough; None: all measured were, and a line is missing.

    Args:
        found: what was measured, by line.
        missing: lines that this machine cannot have.
    """
    if any(worst(told) > line.allowed for line, told in found.items()):
        return False
    return None if missing or not found else True


def worst(told: Mapping[str, Any]) -> float:
    """Return the largest deviation of a line's forecasts."""
    return max(deviation(each["forecast"], each["took"]) for each in told["transfers"].values())


def deviation(forecast: float, took: float) -> float:
    """Return how far a forecast is from what it took, as a share of that."""
    return abs(forecast - took) / took


def _measured(planned: PlannedLine, seconds: float) -> dict[str, Any]:
    road = planned.road()
    with road:
        with road.far():
            far = Worker("benchmarks.probes:serve", {"host": road.host}, name="server")
        with far:
            address = road.reach(far.expect("listening")["port"])
            facts = {"address": address, "seconds": seconds}
            with road.near():
                near = Worker("benchmarks.probes:probe_and_move", facts, name="prober")
            with near:
                told = near.expect("done", timeout_seconds=WAIT_SECONDS)
        return {**told, "road": road.finish()}


def _rows(planned: PlannedLine, told: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            str(planned),
            way,
            f"{each['forecast']:.2f}",
            f"{each['took']:.2f}",
            f"{each['forecast'] / each['took'] - 1:+.1%}",
            f"{planned.allowed:.0%}",
        )
        for way, each in told["transfers"].items()
    ]


# --- what the processes do ----------------------------------------------------------------------


def serve(port: Port, host: str) -> None:
    """Answer probes, and give and take models, until this process is ended."""
    streamlink.tune_allocator()
    port.mark_base()

    def give(asked: ClientRequest) -> None:
        model = _model(int(asked.metadata["bytes"]))
        send_model(asked.send(model.spec), model)

    def take(asked: ClientRequest) -> None:
        receive_model(asked.receive(), lambda model: _Dropped(model.spec))

    server = streamlink.Server(f"{host}:0", _config(host))
    server.serve("give", give)
    server.serve("take", take, answers="receive")
    with server:
        port.tell("listening", port=server.port)
        port.wait_for("end")


def probe_and_move(port: Port, address: str, seconds: float) -> None:
    """Probe the server; then move models that should take ``seconds`` each."""
    streamlink.tune_allocator()
    port.mark_base()
    with ProbeLine(address, _config(address)) as line:
        measured = measure(
            line, address=address, is_encrypted=False, seconds=PROBE_SECONDS, most=PROBE_BYTES
        )
    one = _config(address, max_lanes=1)
    with ClientLink(address, name="prober", config=one) as client:
        transfers = _over_one(client, measured, seconds)
    if not _is_relay(address):
        lanes = next(each.value for each in propose(measured) if each.name == "stream.max_lanes")
        config = _config(address, max_lanes=lanes)
        with ClientLink(address, name="prober", config=config) as client:
            transfers |= _as_proposed(client, measured, seconds)
    port.tell("done", measured=asdict(measured), transfers=transfers)
    port.wait_for("end")


def _over_one(client: ClientLink, measured: Measured, seconds: float) -> Transfers:
    down_bytes, up_bytes = (int(each.rate * seconds) for each in (measured.down, measured.up))
    both_down = int(measured.down_both.rate * seconds)
    both_up = int(measured.up_both.rate * seconds)
    start = max(measured.down.start_seconds, measured.up.start_seconds)
    down, up = _give(client, down_bytes), _take(client, up_bytes)
    both = _both(client, both_down, both_up)
    return {
        "down": _pair(measured.down.seconds_for(down_bytes), down, down_bytes),
        "up": _pair(measured.up.seconds_for(up_bytes), up, up_bytes),
        "both at once": _pair(seconds + start, both, both_down + both_up),
    }


def _as_proposed(client: ClientLink, measured: Measured, seconds: float) -> Transfers:
    """Move models, and compare with a round's forecast, plain: each way, and both at once."""
    down, up = (int(each.rate * seconds) for each in (measured.down, measured.up))
    both_down, both_up = (
        int(each.rate * seconds) for each in (measured.down_both, measured.up_both)
    )
    both = max(
        _round("streaming", both_down, measured).down_seconds,
        _round("streaming", both_up, measured).up_seconds,
    )
    return {
        "down, as proposed": _pair(
            _round("whole", down, measured).down_seconds, _give(client, down), down
        ),
        "up, as proposed": _pair(_round("whole", up, measured).up_seconds, _take(client, up), up),
        "both at once, as proposed": _pair(
            both, _both(client, both_down, both_up), both_down + both_up
        ),
    }


def _round(executor: str, nbytes: int, measured: Measured) -> Round:
    # Without encodings, ``forecast`` returns one plain round for each executor.
    return next(each for each in forecast(nbytes, measured, ()) if each.executor == executor)


def _both(client: ClientLink, down: int, up: int) -> float:
    """Move a model of ``down`` bytes and one of ``up`` at the same time (seconds)."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        began = time.monotonic()
        for each in [pool.submit(_give, client, down), pool.submit(_take, client, up)]:
            each.result()
        return time.monotonic() - began


def _pair(forecast: float, took: float, nbytes: int) -> dict[str, float]:
    return {"forecast": forecast, "took": took, "bytes": nbytes}


def _give(client: ClientLink, nbytes: int) -> float:
    began = time.monotonic()
    with client.ask("give", metadata={"bytes": str(nbytes)}) as answer:
        receive_model(answer.receive(), lambda model: _Dropped(model.spec))
    return time.monotonic() - began


def _take(client: ClientLink, nbytes: int) -> float:
    began, model = time.monotonic(), _model(nbytes)
    with client.ask("take") as answer:
        send_model(answer.send(model.spec), model)
    return time.monotonic() - began


def _model(nbytes: int) -> streamlink.ModelSource:
    spec = streamlink.ModelSpec((streamlink.TensorSpec("probe", "U8", (nbytes,)),))
    return GeneratedModel(spec, lambda tensor, start, out: out.fill(7))


class _Dropped:
    """A sink that drops what it is given."""

    def __init__(self, spec: streamlink.ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Drop it."""

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        """Nothing was kept."""

    def discard(self) -> None:
        """Nothing was kept."""


def _is_relay(address: str) -> bool:
    """Return whether the line is a relay's: the ends of an emulated one are no loopback."""
    return address.startswith("127.")


def _config(address: str, **stream: Any) -> streamlink.LinkConfig:
    return streamlink.LinkConfig(
        # What is compared is plain text.
        security=streamlink.SecurityConfig(insecure=not _is_relay(address)),
        stream=streamlink.StreamConfig(**stream),
    )
