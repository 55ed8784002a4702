"""``pyarrow.flight`` as a peer: record batches that view the source, copied into the target.

Needs pyarrow; ``peers.py`` skips it in words where that is missing.
"""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any

from benchmarks.arrays import Bytes, Load, digest, make_source, make_target, tune_allocator
from benchmarks.worker import Port

# Untyped on purpose: types must check alike where pyarrow is installed and where it is not.
pa: Any = importlib.import_module("pyarrow")
flight: Any = importlib.import_module("pyarrow.flight")

SCHEMA = pa.schema([("payload", pa.uint8())])


class _Target(flight.FlightServerBase):
    """Takes one ``do_put`` into an array."""

    def __init__(self, target: Bytes) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._view = target.data
        self.has_all = threading.Event()

    def do_put(self, context: object, descriptor: object, reader: Any, writer: object) -> None:
        """Copy every batch to where the one before it ended."""
        offset = 0
        for chunk in reader:
            column = chunk.data.column(0)
            payload = memoryview(column.buffers()[1]).cast("B")
            payload = payload[column.offset : column.offset + len(column)]
            self._view[offset : offset + len(payload)] = payload
            offset += len(payload)
        self.has_all.set()


def receiver(port: Port, load: dict[str, Any]) -> None:
    """Serve one ``do_put`` and keep its payload in the target."""
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    target = make_target(plan.total_bytes)
    server = _Target(target)
    port.tell("listening", address=f"grpc://127.0.0.1:{server.port}")
    server.has_all.wait()
    server.shutdown()  # waits for the call's answer to leave
    port.tell("received", digest=digest(target))


def sender(port: Port, load: dict[str, Any], address: str) -> None:
    """Put the source; the clock stops when the server has ended the call."""
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    source = make_source(plan.total_bytes)
    with flight.connect(address) as client:
        client.wait_for_available(20)
        port.tell("ready")
        port.wait_for("go")
        started_at = time.perf_counter()
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("source"), SCHEMA)
        for offset in range(0, plan.total_bytes, plan.message_bytes):
            writer.write_batch(_batch(source[offset : offset + plan.message_bytes]))
        writer.close()
        seconds = time.perf_counter() - started_at
    port.tell("sent", seconds=seconds, digest=digest(source))


def _batch(piece: Bytes) -> Any:
    array = pa.Array.from_buffers(pa.uint8(), len(piece), [None, pa.py_buffer(piece)])
    return pa.record_batch([array], schema=SCHEMA)
