"""streamlink on a line: a model that is too large to end, and what of it has arrived when.

Both ends use default settings. The model is computed, not stored, and what arrives is compared with
it; the receiver counts what its sink was given.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xxhash

import streamlink
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.meter import Meter, Span
from benchmarks.longline.raw import MORE_SECONDS, Measured
from benchmarks.longline.roads import Road
from benchmarks.models import Layout
from benchmarks.processes import Worker
from benchmarks.worker import Port

__all__ = ["layout_for", "measure", "receive_model", "send_model"]

TENSOR_BYTES = 16 * 10**6


def measure(line: Line, road: Road, span: Span) -> Measured:
    """Send a model over a road that is not yet entered, until the span is over.

    Raises:
        WorkerFailed: a process failed, or a byte was wrong.
    """
    layout = layout_for(line, span).as_json()
    facts = {"layout": layout, "span": span.as_json(), "host": road.host}
    with road:
        with road.far():
            far = Worker("benchmarks.longline.model:receive_model", facts, name="receiver")
        with far:
            address = road.reach(far.expect("listening")["port"])
            sending = {"layout": layout, "address": address}
            with road.near():
                near = Worker("benchmarks.longline.model:send_model", sending, name="sender")
            with near:
                taken = far.expect("taken", timeout_seconds=span.end + 2 * MORE_SECONDS)
                return Measured(tuple(map(tuple, taken["marks"])), road.finish())


def layout_for(line: Line, span: Span) -> Layout:
    """Return a model that the line cannot carry before the span is over."""
    nbytes = line.bytes_per_second * (span.end + line.round_trip + 1)
    return Layout(int(nbytes // TENSOR_BYTES) + 2, TENSOR_BYTES)


# --- what the processes do ----------------------------------------------------------------------


def receive_model(port: Port, layout: dict[str, Any], span: dict[str, float], host: str) -> None:
    """Receive one model and count its bytes until the span is over."""
    streamlink.tune_allocator()
    port.mark_base()
    plan = Span(**span)
    meter, cancel = Meter(plan), streamlink.CancelToken()
    with ThreadPoolExecutor(max_workers=1) as pool:
        receiving = pool.submit(
            streamlink.receive,
            _Metered(Layout(**layout), meter.add),
            f"{host}:0",
            config=_config(host),
            on_listening=lambda number: port.tell("listening", port=number),
            cancel=cancel,
        )
        receiving.add_done_callback(lambda _: meter.stop())
        is_over = meter.wait(plan.end + MORE_SECONDS)
        if receiving.done() or not is_over:
            cancel.cancel("the span was not over in time")
            receiving.result()
        port.tell("taken", marks=meter.marks)
        cancel.cancel("the span is over")


def send_model(port: Port, layout: dict[str, Any], address: str) -> None:
    """Send one model, until this process is ended."""
    streamlink.tune_allocator()
    port.mark_base()
    streamlink.send(Layout(**layout).model(0.0), address, config=_config(address))


class _Metered:
    """A sink that compares what it is given with the model, counts it and drops it."""

    def __init__(self, layout: Layout, count: Callable[[int], None]) -> None:
        self._expected = layout.model(0.0)
        self._count = count

    @property
    def spec(self) -> streamlink.ModelSpec:
        return self._expected.spec

    def write(self, offset: int, payload: memoryview) -> None:
        self._count(payload.nbytes)
        for view in self._expected.read(offset, payload.nbytes):
            piece, payload = payload[: view.nbytes], payload[view.nbytes :]
            if xxhash.xxh3_64_digest(piece) != xxhash.xxh3_64_digest(view):
                raise streamlink.StreamlinkError(f"wrong bytes arrived near offset {offset}")

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        """Nothing is kept."""

    def discard(self) -> None:
        """Nothing was kept."""


def _config(address: str) -> streamlink.LinkConfig:
    # The ends of an emulated line are no loopback, and what is compared is plain text.
    is_here = address.startswith("127.")
    return streamlink.LinkConfig(security=streamlink.SecurityConfig(insecure=not is_here))
