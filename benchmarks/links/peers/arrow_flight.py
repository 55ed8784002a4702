"""``pyarrow.flight``: one ``do_put`` of record batches that view the source, copied into place."""

from __future__ import annotations

import struct
import threading
from importlib import import_module
from typing import Any

from benchmarks.integrations.environments import Environment
from benchmarks.links.ends import End
from benchmarks.links.peers import NUMPY, Peer

PEER = Peer(
    {"": "pyarrow.flight"},
    environment=Environment(("pyarrow==26.0.1", NUMPY), has_ours=False),
    order=30,
    module=__name__,
)

PLACE = struct.Struct("<IQ")  # number of the array, first element of the batch
BATCH_ELEMENTS = 1 << 19  # 2 MiB: the fastest of 1 to 4 MiB here


def receive(end: End) -> None:
    """Serve one call, and copy each batch to its place."""
    flight: Any = import_module("pyarrow.flight")
    end.base()
    model = end.target()
    arrays = list(model.values())
    has_all = threading.Event()

    class Server(flight.FlightServerBase):
        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            for chunk in reader:
                number, start = PLACE.unpack(chunk.app_metadata.to_pybytes())
                column = chunk.data.column(0)
                arrays[number][start : start + len(column)] = column.to_numpy()
            has_all.set()

    with Server(f"grpc://{end.address}") as server:
        end.listening(server.port)
        has_all.wait()
        end.finished(model)


def send(end: End) -> None:
    """Put the arrays in one call."""
    pa: Any = import_module("pyarrow")
    flight: Any = import_module("pyarrow.flight")
    end.base()
    model = end.source()
    schema = pa.schema([("values", pa.float32())])
    with flight.connect(f"grpc://{end.address}") as client:
        client.wait_for_available(60)
        end.wait_for_go()
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("model"), schema)
        for number, array in enumerate(model.values()):
            for start in range(0, len(array), BATCH_ELEMENTS):
                piece = pa.array(array[start : start + BATCH_ELEMENTS])
                batch = pa.record_batch([piece], schema=schema)
                writer.write_with_metadata(batch, pa.py_buffer(PLACE.pack(number, start)))
        writer.close()
        end.finished(model)
