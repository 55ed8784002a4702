"""One model through a faulty line, in this process: what it took, and what was left behind.

``cuts``, ``slow`` and ``flips`` send a model with ``streamlink.send`` to ``streamlink.receive``,
with a relay between the two.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

import streamlink
from benchmarks.pipes import NO_TAP, Tap
from benchmarks.relay import UNSHAPED, Counts, Link, Relay
from streamlink.errors import AddressInUse

__all__ = ["Heard", "Left", "Passed", "left_behind", "listening", "pass_model"]

ALONE_SECONDS = 60.0
SETTLE_SECONDS = 10.0
_ATTEMPTS = 5  # to find a port that is free on both addresses


@dataclass(frozen=True)
class Passed:
    """A transfer that succeeded, as both ends and the line tell it."""

    sent: streamlink.Receipt
    received: streamlink.Receipt
    line: Counts
    seconds: float


def pass_model(
    model: streamlink.ModelSource,
    into: streamlink.ModelStore,
    config: streamlink.LinkConfig,
    *,
    link: Link = UNSHAPED,
    begin: Callable[[Relay], object] = lambda relay: None,
    tap: Tap = NO_TAP,
    carrier: str = "grpc",
    retry: float = 0.0,
) -> Passed:
    """Send ``model`` over a line; ``begin`` is called with the line before.

    Args:
        model: is sent.
        into: takes it.
        config: of both ends.
        link: the line's rate and delay, both ways.
        begin: is called with the line.
        tap: sees what passes on it, and may change it.
        carrier: of the model. With another than gRPC the line is that of its connections alone, and
            sessions have one of their own.
        retry: see ``streamlink.send``; 0: in one attempt.

    Raises:
        StreamlinkError: the transfer failed.
    """
    if carrier != "grpc":
        for _ in range(_ATTEMPTS):
            with suppress(AddressInUse):
                return _pass_apart(
                    model,
                    into,
                    config,
                    link=link,
                    begin=begin,
                    tap=tap,
                    carrier=carrier,
                    retry=retry,
                )
        raise AddressInUse(f"{_ATTEMPTS} ports in turn were free on one address alone")
    port: Future[int] = Future()
    with ThreadPoolExecutor(max_workers=1) as pool:
        receiving = pool.submit(
            streamlink.receive,
            into,
            "127.0.0.1:0",
            config=config,
            on_listening=port.set_result,
            timeout=ALONE_SECONDS,
        )
        with Relay("127.0.0.1", _known(port, receiving), up=link, down=link, tap=tap) as relay:
            begin(relay)
            since = time.monotonic()
            sent = streamlink.send(model, f"127.0.0.1:{relay.port}", config=config, retry=retry)
            seconds = time.monotonic() - since
            received = receiving.result()
            return Passed(sent, received, relay.counts, seconds)


def _pass_apart(
    model: streamlink.ModelSource,
    into: streamlink.ModelStore,
    config: streamlink.LinkConfig,
    *,
    link: Link,
    begin: Callable[[Relay], object],
    tap: Tap,
    carrier: str,
    retry: float,
) -> Passed:
    """Do as ``pass_model``, with one line for sessions and one for the data port.

    The client dials the data port on the host of the session, under the number that the server
    names. So the lines listen on another address of the loopback, where that number is free.

    Raises:
        AddressInUse: where the server listens, another has that number; nothing was sent.
    """
    port: Future[int] = Future()
    with (
        Relay("127.0.0.1", 0, up=link, down=link, tap=tap, listen=("127.0.0.2", 0)) as line,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        line.redirect("127.0.0.1", line.port)
        where = f"{carrier}://127.0.0.1:{line.port}"
        stream = config.stream.model_copy(update={"data_listen": (where,)})
        receiving = pool.submit(
            streamlink.receive,
            into,
            "127.0.0.1:0",
            config=config.model_copy(update={"stream": stream}),
            on_listening=port.set_result,
            timeout=ALONE_SECONDS,
        )
        with Relay("127.0.0.1", _known(port, receiving), listen=("127.0.0.2", 0)) as sessions:
            begin(line)
            since = time.monotonic()
            to = f"127.0.0.2:{sessions.port}"
            sent = streamlink.send(model, to, config=config, retry=retry)
            seconds = time.monotonic() - since
            received = receiving.result()
            return Passed(sent, received, line.counts, seconds)


def _known(port: Future[int], receiving: Future[streamlink.Receipt]) -> int:
    """Return the port once the receiver listens; if it fails first, raise its error."""
    either: tuple[Future[Any], ...] = (port, receiving)
    wait(either, return_when=FIRST_COMPLETED)
    if not port.done():
        receiving.result()
    return port.result()


@dataclass(frozen=True)
class Left:
    """What this process had more of after something than before (counts)."""

    threads: int
    descriptors: int


@contextmanager
def left_behind() -> Iterator[Callable[[], Left]]:
    """Yield what tells, after the block, what was not given back within a few seconds."""
    process = psutil.Process()
    before = Left(threading.active_count(), process.num_fds())
    found = before

    def look() -> Left:
        gc.collect()
        return Left(
            max(0, threading.active_count() - before.threads),
            max(0, process.num_fds() - before.descriptors),
        )

    yield lambda: found
    until = time.monotonic() + SETTLE_SECONDS
    while (found := look()) != Left(0, 0) and time.monotonic() < until:
        time.sleep(0.1)  # gRPC closes its sockets in its own time and tells nobody


class Heard(logging.Handler):
    """Counts the log's lines by what stands in them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def count(self, words: str) -> int:
        """Return how many lines have ``words`` in them."""
        return sum(words in line for line in self.lines)


@contextmanager
def listening() -> Iterator[Heard]:
    """Yield what the library logs meanwhile, from warnings on."""
    heard = Heard()
    heard.setLevel(logging.WARNING)
    logger = logging.getLogger("streamlink")
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
