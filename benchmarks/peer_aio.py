"""A grpc.aio server as a peer, with the sender of plain grpcio: handlers are synchronous, or not.

One event loop for all calls is what a server of very many sessions would want. This measures what
it costs a stream: synchronous handlers run in a thread pool, and each message passes between the
loop and a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from benchmarks.arrays import Bytes, Load, digest, make_target, tune_allocator
from benchmarks.peer_grpc import HEADER, METHOD, SERVICE, handlers, listen, options_of
from benchmarks.worker import Port

__all__ = ["async_receiver", "sync_receiver"]


def sync_receiver(port: Port, load: dict[str, Any]) -> None:
    """Serve one call with the synchronous handlers of ``peer_grpc``."""
    _receive(port, Load.from_json(load), is_async=False)


def async_receiver(port: Port, load: dict[str, Any]) -> None:
    """Serve one call with a coroutine."""
    _receive(port, Load.from_json(load), is_async=True)


def _receive(port: Port, plan: Load, *, is_async: bool) -> None:
    tune_allocator(plan)
    port.mark_base()
    target, has_all = make_target(plan.total_bytes), threading.Event()
    made = _coroutine(target, has_all) if is_async else handlers(plan, target, has_all)
    asyncio.run(_serve(port, plan, made, has_all))
    port.tell("received", digest=digest(target))


async def _serve(
    port: Port,
    plan: Load,
    handler: grpc.GenericRpcHandler[bytes, bytes],
    has_all: threading.Event,
) -> None:
    server = grpc.aio.server(ThreadPoolExecutor(2), options=options_of(plan))
    server.add_generic_rpc_handlers((handler,))
    address = f"127.0.0.1:{listen(server, plan)}"
    await server.start()
    port.tell("listening", address=address)
    await asyncio.to_thread(has_all.wait)
    await server.stop(grace=5.0)


def _coroutine(target: Bytes, has_all: threading.Event) -> grpc.GenericRpcHandler[bytes, bytes]:
    view = target.data

    async def keep(messages: AsyncIterator[bytes], _: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        async for message in messages:
            offset, length = HEADER.unpack_from(message)
            view[offset : offset + length] = memoryview(message)[HEADER.size :]
        has_all.set()
        return b"done"

    method = grpc.stream_unary_rpc_method_handler(keep)
    return grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})
