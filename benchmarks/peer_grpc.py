"""Plain grpcio as a peer: generic methods, identity serialisers, ``bytes`` joined and copied out.

No hash, no ledger, no resume: the least that a Python program using gRPC directly must do. With
``load.acks`` each message is answered and a window bounds what is not, as a real protocol needs.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from benchmarks.arrays import Bytes, Load, digest, make_source, make_target, tune_allocator
from benchmarks.worker import Port

SERVICE, METHOD = "benchmark.Plain", "Move"
HEADER = struct.Struct("<QQ")  # offset and length of the payload that follows
CONNECT_SECONDS = 20.0


def receiver(port: Port, load: dict[str, Any]) -> None:
    """Serve one call and keep its payload in the target."""
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    target = make_target(plan.total_bytes)
    has_all = threading.Event()
    server = grpc.server(ThreadPoolExecutor(2), options=options_of(plan))
    server.add_generic_rpc_handlers((handlers(plan, target, has_all),))
    address = f"127.0.0.1:{listen(server, plan)}"
    server.start()
    port.tell("listening", address=address)
    has_all.wait()
    server.stop(grace=5.0).wait()
    port.tell("received", digest=digest(target))


def sender(port: Port, load: dict[str, Any], address: str) -> None:
    """Send the source in one call; the clock stops at the server's last answer."""
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    source = make_source(plan.total_bytes)
    with _channel(address, plan) as channel:
        grpc.channel_ready_future(channel).result(timeout=CONNECT_SECONDS)
        port.tell("ready")
        port.wait_for("go")
        started_at = time.perf_counter()
        if plan.acks:
            _send_with_acks(channel, plan, source)
        else:
            channel.stream_unary(f"/{SERVICE}/{METHOD}", None, None)(_messages(plan, source))
        seconds = time.perf_counter() - started_at
    port.tell("sent", seconds=seconds, digest=digest(source))


def _send_with_acks(channel: grpc.Channel, plan: Load, source: Bytes) -> None:
    window = threading.Semaphore(max(1, plan.window_bytes // plan.message_bytes))
    call = channel.stream_stream(f"/{SERVICE}/{METHOD}", None, None)(
        _messages(plan, source, window)
    )
    for _ in call:
        window.release()


def _messages(
    plan: Load, source: Bytes, window: threading.Semaphore | None = None
) -> Iterator[bytes]:
    view = source.data
    for offset in range(0, plan.total_bytes, plan.message_bytes):
        payload = view[offset : offset + plan.message_bytes]
        if window is not None:
            window.acquire()
        yield b"".join((HEADER.pack(offset, len(payload)), payload))


def handlers(
    plan: Load, target: Bytes, has_all: threading.Event
) -> grpc.GenericRpcHandler[bytes, bytes]:
    view = target.data

    def keep(message: bytes) -> int:
        offset, length = HEADER.unpack_from(message)
        view[offset : offset + length] = memoryview(message)[HEADER.size :]
        return int(offset + length)

    def without_acks(messages: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
        for message in messages:
            keep(message)
        has_all.set()
        return b"done"

    def with_acks(messages: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for message in messages:
            yield HEADER.pack(keep(message), 0)
        has_all.set()

    method = (
        grpc.stream_stream_rpc_method_handler(with_acks)
        if plan.acks
        else grpc.stream_unary_rpc_method_handler(without_acks)
    )
    return grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})


def listen(server: grpc.Server | grpc.aio.Server, plan: Load) -> int:
    if not plan.certificates:
        return server.add_insecure_port("127.0.0.1:0")
    key, chain = (_pem(plan, "server", name) for name in ("key.pem", "certificate.pem"))
    return server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)]))


def _channel(address: str, plan: Load) -> grpc.Channel:
    if not plan.certificates:
        return grpc.insecure_channel(address, options=options_of(plan))
    trusted = grpc.ssl_channel_credentials(_pem(plan, "server", "ca.pem"))
    return grpc.secure_channel(address, trusted, options=options_of(plan))


def _pem(plan: Load, *name: str) -> bytes:
    return Path(plan.certificates, *name).read_bytes()


def options_of(plan: Load) -> list[tuple[str, int]]:
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    return unlimited + list(plan.options)
