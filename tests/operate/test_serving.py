"""What a served model answers to its operator."""

from __future__ import annotations

import threading

import pytest

from streamlink.cli.watch import how_it_ended
from streamlink.clock import running_time
from streamlink.link.fetch_desk import FetchDesk
from streamlink.operate.control import ControlError
from streamlink.operate.serving import ServeOperator
from streamlink.operate.status import Memory
from streamlink.stores import MemoryStore
from streamlink.transport.traffic import TrafficCounter
from tests.link.test_oneshot import SPEC, MiB, model
from tests.link.test_pull import Gate, Server, fetching
from tests.support.peers import WAIT


def test_a_served_model_tells_its_fetchers_and_can_be_ended() -> None:
    gate, desk, traffic = Gate(), FetchDesk(clock=running_time), TrafficCounter()
    operator = ServeOperator(desk, traffic, Memory(), desk.close)
    assert operator.answer({"do": "status"})["clients"] == []
    server = Server(model(MiB, gate), desk=desk, traffic=traffic)
    got = fetching(server.address, MemoryStore(), name="site-1")
    assert gate.is_reached.acquire(timeout=WAIT)
    status = operator.answer({"do": "status"})
    (fetcher,) = status["clients"]
    assert (fetcher["name"], fetcher["presence"]) == ("site-1", "here")
    assert fetcher["send_total_bytes"] == SPEC.nbytes
    operator.answer({"do": "abort", "reason": "no"})
    gate.open()
    assert "no" in str(got.exception(WAIT))
    with pytest.raises(ControlError, match="knows status and abort"):
        operator.answer({"do": "drop", "client": "site-1"})
    assert how_it_ended(status).startswith("the serving has ended, last seen after 0 fetches")


def test_a_fetch_that_is_done_is_counted_and_no_longer_listed() -> None:
    desk, done = FetchDesk(count=2, clock=running_time), threading.Event()
    operator = ServeOperator(desk, TrafficCounter(), Memory(), desk.close)
    server = Server(model(), desk=desk)
    fetching(server.address, MemoryStore()).result(WAIT)
    fetching(server.address, MemoryStore(), retry=WAIT).result(WAIT)
    assert server.done.result(WAIT) == 2
    done.set()
    status = operator.status()
    assert (status["served"], status["count"], status["clients"]) == (2, 2, [])
