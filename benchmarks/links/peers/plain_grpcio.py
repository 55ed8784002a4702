"""Plain grpcio: one stream of ``bytes``, no protobuf, no hash and no acknowledgement."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.integrations.environments import Environment
from benchmarks.links.ends import End
from benchmarks.links.payload import Arrays
from benchmarks.links.peers import NUMPY, Peer

PEER = Peer(
    {"": "plain grpcio"},
    environment=Environment(("grpcio==1.85.3", NUMPY), has_ours=False),
    order=20,
    module=__name__,
)

SERVICE, METHOD = "benchmark.Plain", "Move"
HEADER = struct.Struct("<IQ")  # number of the array, offset of the payload that follows
MESSAGE_BYTES = 2 << 20
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def receive(end: End) -> None:
    """Serve one call, and copy each message to its place."""
    import grpc

    end.base()
    model = end.target()
    views = [array.data.cast("B") for array in model.values()]
    has_all = threading.Event()

    def take(messages: Iterator[bytes], _: Any) -> bytes:
        for message in messages:
            number, offset = HEADER.unpack_from(message)
            payload = memoryview(message)[HEADER.size :]
            views[number][offset : offset + len(payload)] = payload
        has_all.set()
        return b"done"

    server = grpc.server(ThreadPoolExecutor(2), options=UNLIMITED)
    method = grpc.stream_unary_rpc_method_handler(take)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: method}),)
    )
    number = server.add_insecure_port(end.address)
    server.start()
    end.listening(number)
    has_all.wait()
    end.finished(model)
    server.stop(grace=1.0).wait()


def send(end: End) -> None:
    """Send the arrays in one call."""
    import grpc

    end.base()
    model = end.source()
    with grpc.insecure_channel(end.address, options=UNLIMITED) as channel:
        grpc.channel_ready_future(channel).result(timeout=60)
        end.wait_for_go()
        channel.stream_unary(f"/{SERVICE}/{METHOD}", None, None)(_messages(model))
        end.finished(model)


def _messages(model: Arrays) -> Iterator[bytes]:
    for number, array in enumerate(model.values()):
        view = array.data.cast("B")
        for offset in range(0, len(view), MESSAGE_BYTES):
            yield b"".join((HEADER.pack(number, offset), view[offset : offset + MESSAGE_BYTES]))
