"""What a model that is received, or served, answers to its operator."""

from __future__ import annotations

import re
import threading

import pytest

from streamlink.cli.status_text import lines_of
from streamlink.cli.watch import how_it_ended
from streamlink.clock import running_time
from streamlink.link import Totals
from streamlink.link.fetch_desk import FetchDesk
from streamlink.operate.control import ControlError
from streamlink.operate.status import Memory
from streamlink.operate.transfers import (
    FetchOperator,
    SendOperator,
    ServeOperator,
    TransferOperator,
)
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
    with pytest.raises(ControlError, match="knows status, abort and limit"):
        operator.answer({"do": "drop", "client": "site-1"})
    assert how_it_ended(status).startswith("the serving has ended, last seen after 0 fetches")


def test_the_limit_of_the_process_is_changed_and_shown_with_what_is_moved() -> None:
    desk, traffic = FetchDesk(clock=running_time), TrafficCounter()
    operator = ServeOperator(desk, traffic, Memory(), desk.close)
    server = Server(model(), desk=desk, traffic=traffic)
    answer = operator.answer({"do": "limit", "bwlimit": "8Mbit:off"})
    now = "the process now sends at most 1 MB/s, receives without a limit"
    assert answer == {"done": f"the limit is 8Mbit:off; {now}"}
    assert operator.answer({"do": "status"})["bandwidth"] == {
        "bwlimit": "8Mbit:off",
        "up_limit": 1e6,
        "down_limit": None,
        "up_rate": 0,
        "down_rate": 0,
    }
    with pytest.raises(ControlError, match="'fast' is no bandwidth limit"):
        operator.answer({"do": "limit", "bwlimit": "fast"})
    server.stop()


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


def test_a_transfer_tells_its_phase_and_can_be_ended() -> None:
    stopped: list[str] = []
    operator = TransferOperator(TrafficCounter(), Memory(), stopped.append)
    assert operator.answer({"do": "status"})["phase"] == "waiting for a sender"
    operator.update("site-1", "receiving", 3, 9)
    status = operator.answer({"do": "status"})
    assert (status["peer_name"], status["received_bytes"], status["receive_total_bytes"]) == (
        "site-1",
        3,
        9,
    )
    operator.answer({"do": "abort", "reason": "no"})
    assert stopped == ["no"]
    with pytest.raises(ControlError):
        operator.answer({"do": "drop", "client": "site-1"})


@pytest.mark.parametrize("streams", [0, 1])
def test_a_sender_that_has_left_is_not_told_as_one_that_is_received_from(streams: int) -> None:
    class Known(TrafficCounter):
        def totals(self) -> dict[tuple[str, str], Totals]:
            return {("site-1", "received"): Totals(bytes=3, streams=streams)}

    operator = TransferOperator(Known(), Memory(), lambda why: None)
    operator.update("site-1", "receiving", 3, 9)
    expected = "receiving" if streams else "waiting for the next sender"
    assert operator.status()["phase"] == expected


def test_a_sender_and_a_fetcher_tell_where_they_connect_to_and_how_far_they_are() -> None:
    sender = SendOperator(TrafficCounter(), Memory(), lambda why: None, "10.0.0.5:8470")
    fetcher = FetchOperator(TrafficCounter(), Memory(), lambda why: None, "10.0.0.5:8470")
    for each in (sender, fetcher):
        assert lines_of(each.status())[0].startswith("connecting to 10.0.0.5:8470 for ")
    sender.update("10.0.0.5:8470", "waiting for its connection", 3, 9)
    fetcher.update("10.0.0.5:8470", "receiving", 3, 9)
    sent, fetched = sender.status(), fetcher.status()
    assert (sent["sent_bytes"], sent["send_total_bytes"], sent["sending_rate"]) == (3, 9, 0)
    assert (fetched["received_bytes"], fetched["phase"]) == (3, "connecting again")
    line = r"waiting for its connection to 10\.0\.0\.5:8470 for \d+ s: 3 B of 9 B, 0 MB/s"
    assert re.fullmatch(line, lines_of(sent)[0])
    for told in (sent, fetched):
        assert "last seen at 3 of 9 bytes" in how_it_ended(told)
