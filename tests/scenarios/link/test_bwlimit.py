"""A bandwidth limit over real sockets: both carriers keep to it, and no timeout expires."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import streamlink as sl
from streamlink.config import LinkConfig
from streamlink.link.transfer import Receipt
from streamlink.stores import as_model
from streamlink.stores.memory import MemoryStore
from streamlink.transport.bandwidth import change_bandwidth
from tests.support.models import content, random_bytes
from tests.support.peers import WAIT

pytestmark = pytest.mark.slow

RATE = 200_000
NBYTES = 400_000
# All shorter than the transfer.
HASTY = {
    f"{name}": 1.0
    for name in (
        "streaming_read_timeout",
        "streaming_ack_wait",
        "communication_timeout",
        "call_timeout",
    )
}


def moved(
    bwlimit: str,
    data_listen: str,
    count: int = 1,
    raw: bytes = random_bytes(NBYTES),
    **stream: Any,
) -> tuple[float, list[Receipt], bytes]:
    """Move a model ``count`` times at once, both ends in this process; returns also the time."""
    stream |= {"bwlimit": bwlimit, "data_listen": data_listen}
    config = LinkConfig.model_validate({"stream": stream, "timeouts": HASTY})
    model = as_model({"a": np.frombuffer(raw, np.uint8)})
    stores = [MemoryStore() for _ in range(count)]
    began = time.monotonic()

    def move(store: MemoryStore, done: Future[Receipt]) -> None:
        port = Future[int]()

        def take() -> None:
            try:
                done.set_result(
                    sl.receive(store.begin, config=config, on_listening=port.set_result)
                )
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=take, daemon=True).start()
        sl.send(model, f"127.0.0.1:{port.result(WAIT)}", config=config)

    receipts = [Future[Receipt]() for _ in stores]
    threads = [
        threading.Thread(target=move, args=each, daemon=True)
        for each in zip(stores, receipts, strict=True)
    ]
    for thread in threads:
        thread.start()
    done = [each.result(WAIT) for each in receipts]
    seconds = time.monotonic() - began
    for thread in threads:
        thread.join(WAIT)
    return seconds, done, content(stores[0].open())


@pytest.mark.parametrize(("data_listen", "carrier"), [("auto", "tcp"), ("none", "grpc")])
@pytest.mark.parametrize("bwlimit", ["200kB:off", "off:200kB"])
def test_each_carrier_keeps_to_the_limit_in_each_direction(
    bwlimit: str, data_listen: str, carrier: str
) -> None:
    seconds, (receipt,), arrived = moved(bwlimit, data_listen)
    assert receipt.stats.carrier == carrier
    assert receipt.stats.resumes == 0
    assert arrived == random_bytes(NBYTES)
    assert seconds >= NBYTES / RATE


@pytest.mark.parametrize("data_listen", ["auto", "none"])
@pytest.mark.parametrize("bwlimit", ["200kB:off", "off:200kB"])
def test_auto_encodes_where_a_limit_and_not_the_line_is_slow(
    bwlimit: str, data_listen: str
) -> None:
    raw = bytes(2 * NBYTES)
    _, (receipt,), arrived = moved(bwlimit, data_listen, raw=raw, encodings=("auto",))
    assert arrived == raw
    assert receipt.stats.wire_bytes < 0.5 * len(raw)


def test_two_transfers_share_one_limit() -> None:
    seconds, receipts, arrived = moved("400kB", "auto", count=2)
    assert arrived == random_bytes(NBYTES)
    assert seconds >= 2 * NBYTES / 400_000
    # Each in turn: neither ends long before the other.
    rates = [each.stats.mean_rate or 0.0 for each in receipts]
    assert max(rates) <= 1.5 * min(rates)


def test_a_limit_that_is_lifted_on_the_way_lets_the_rest_pass() -> None:
    lifting = threading.Timer(1.0, change_bandwidth, ["off"])
    lifting.start()
    seconds, _, arrived = moved("20kB", "auto")
    lifting.join()
    assert arrived == random_bytes(NBYTES)
    assert seconds < NBYTES / 20_000 / 2
