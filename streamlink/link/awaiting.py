"""``run_async``: a call that blocks, from asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from streamlink.cancel import CancelToken, joined

__all__ = ["run_async"]

T = TypeVar("T")


async def run_async(
    call: Callable[..., T], *args: Any, cancel: CancelToken | None = None, **options: Any
) -> T:
    """Run a call that takes a token, such as ``send``, without blocking the event loop.

    It runs in a thread of its own, a daemon: neither the loop nor the process waits for it. Where
    the task is cancelled, its token ends the call, and the task ends when the call has: nothing
    goes on behind its back.

    Args:
        call: such as ``streamlink.send`` or ``client.ask``; it gets ``cancel``.
        args: passed to it.
        cancel: ends the call, too.
        options: passed to it.

    Returns:
        What ``call`` returns; what it raises is raised here.

    Raises:
        asyncio.CancelledError: the task was cancelled.
        Cancelled: ``cancel`` was.
    """
    done, own = Future[T](), CancelToken()

    def run() -> None:
        try:
            with joined(own, cancel) as token:
                result = call(*args, cancel=token, **options)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name="run-async", daemon=True).start()
    waiting = asyncio.wrap_future(done)
    try:
        # Shielded: cancelling the task would cancel ``done`` with it, which the thread still has to
        # set.
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        own.cancel("its task was cancelled")
        await asyncio.wait([waiting])  # else the call would go on without an owner
        waiting.exception()  # retrieved: the cancel is what is reported
        raise
