"""What Prometheus is told, scraped over HTTP from a job that runs; and which cause shows when."""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Self

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from streamlink.errors import AddressInUse
from streamlink.link import Attempt, Totals, Traffic
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.send_model import send_model
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.operate import http
from streamlink.operate.metrics import MetricsCollector, serve_metrics
from streamlink.stores.memory import ArrayModel
from streamlink.transport.traffic import TrafficCounter
from tests.operate.test_status import Watched
from tests.support.models import float_spec, pattern_model
from tests.support.peers import WAIT, Federation, initial, until
from tests.support.relay import Relay, Step

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

UNITS = "bytes|seconds|chunks|resumes|repairs|frames|streams|clients|round|attempt|done|updates"


def scrape(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def moved(samples: Samples) -> list[float]:
    return [value for (name, _), value in samples.items() if name == "streamlink_bytes_total"]


def test_a_job_that_is_done_is_in_the_metrics_of_both_ends() -> None:
    with Watched(num_rounds=2) as job:
        site = job.site(0)
        job.site(1)
        job.begin(2)
        with (
            serve_metrics("127.0.0.1:0", job.federation.server, job.rounds) as here,
            serve_metrics("127.0.0.1:0", site.client) as there,
        ):
            job.reports()
            total = sum(array.nbytes for array in initial().values())
            until(lambda: moved(scrape(there.port)) == [2 * total] * 2)  # the last acks, too
            server = scrape(here.port)
    for direction in ("sent", "received"):
        at = labels(peer="site-0", direction=direction)
        assert server["streamlink_bytes_total", at] == 2 * total
        assert server["streamlink_repairs_total", at] == 0
    assert server["streamlink_clients", ()] == 2
    assert (server["streamlink_round", ()], server["streamlink_round_attempt", ()]) == (1, 1)
    assert server["streamlink_rounds_done_total", ()] == 2
    assert server["streamlink_updates_total", ()] == 4
    latency = "streamlink_ack_latency_seconds"
    count = server[f"{latency}_count", labels(peer="site-0")]
    assert count == server[f"{latency}_bucket", labels(peer="site-0", le="+Inf")] > 0


def test_every_name_has_a_unit_and_every_label_is_bounded() -> None:
    with Watched() as job:
        job.site(0), job.site(1)
        job.begin(2)
        job.reports()
        registry = CollectorRegistry()
        registry.register(MetricsCollector(job.federation.server, job.rounds))
        families = list(registry.collect())
    names = [each.name for each in families]
    assert all(re.search(f"_({UNITS})$", name) for name in names), names
    found = {name for each in families for sample in each.samples for name in sample.labels}
    assert found == {"peer", "direction", "cause", "le"}


def test_a_name_of_a_peer_cannot_forge_a_line() -> None:
    class Named(TrafficCounter):
        def totals(self) -> dict[tuple[str, str], Totals]:
            return {('a"} 1\nforged 2 \\', "sent"): Totals(bytes=7)}

    with serve_metrics("127.0.0.1:0", Named()) as here:
        samples = scrape(here.port)
    assert "forged" not in {name for name, _ in samples}
    assert 7 in samples.values()


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=f"cannot serve metrics on 127.0.0.1:{port}"):
            serve_metrics(f"127.0.0.1:{port}", TrafficCounter())


# --- readers that do not behave -----------------------------------------------------------------


@contextmanager
def readers(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connect so often, and say nothing."""
    with ExitStack() as opened:
        yield [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), WAIT))
            for _ in range(count)
        ]


def is_cut(reader: socket.socket) -> bool:
    """Wait until a connection is ended, without a word."""
    try:
        return reader.recv(1) == b""
    except ConnectionError:
        return True


def is_open(reader: socket.socket) -> bool:
    """Say one byte more, and tell whether the connection still stands."""
    try:
        reader.sendall(b"G")
        return reader.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def threads() -> int:
    return sum("process_request_thread" in each.name for each in threading.enumerate())


def test_readers_beyond_the_bound_are_refused_and_the_others_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTION_SECONDS", WAIT)
    with serve_metrics("127.0.0.1:0", TrafficCounter()) as here:
        with readers(here.port, http.CONNECTIONS) as idle:
            with readers(here.port, 4) as more:
                assert all(is_cut(each) for each in more)
            assert threads() == http.CONNECTIONS
            monkeypatch.setattr(http, "CONNECTION_SECONDS", 0.0)
            assert all(is_cut(each) for each in idle)
        monkeypatch.setattr(http, "CONNECTION_SECONDS", WAIT)
        until(lambda: not threads())  # a thread that has been cut takes a moment to end
        scrape(here.port)


def test_a_reader_that_asks_byte_by_byte_is_cut_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTION_SECONDS", 0.5)
    with serve_metrics("127.0.0.1:0", TrafficCounter()) as here, readers(here.port, 1) as (reader,):
        reader.settimeout(0.05)
        until(lambda: not is_open(reader))


class NoThread(threading.Thread):
    """A thread for which the system has no room."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_a_reader_without_a_thread_takes_no_place_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve_metrics("127.0.0.1:0", TrafficCounter()) as here:
        monkeypatch.setattr(threading, "Thread", NoThread)
        with readers(here.port, http.CONNECTIONS + 1) as idle:
            assert all(is_cut(each) for each in idle)
        monkeypatch.undo()
        scrape(here.port)


def test_a_server_that_closes_does_not_wait_for_its_readers() -> None:
    here = serve_metrics("127.0.0.1:0", TrafficCounter())
    with readers(here.port, 1) as (reader,):
        reader.sendall(b"GET ")
        here.close()
        assert is_cut(reader)


# --- which cause shows when -------------------------------------------------------------------

Show = Callable[[], bool]
"""Whether both ends show the cause by now."""


class SlowSource(ArrayModel):
    """A source that stands still once, in its middle, until that shows."""

    shows: Show | None = None

    def read(self, offset: int, nbytes: int) -> Payload:
        shows = self.shows
        if offset and shows is not None:
            self.shows = None
            until(shows)
        return super().read(offset, nbytes)


def longest(traffic: Traffic, direction: str, peer: str = "") -> str:
    """Return the cause that most of the time in one direction went to, if there was any."""
    for (name, way), total in traffic.totals().items():
        if way == direction and peer in name and any(total.stall_seconds.values()):
            return max(total.stall_seconds, key=lambda cause: total.stall_seconds[cause])
    return ""


class OneModel:
    """A client that receives a model through a relay, and may stand still once."""

    def __init__(self, expected: tuple[str, str]) -> None:
        self._expected = expected
        self.shows: Show | None = None
        """What the client waits for after its first piece."""
        self._federation = Federation()
        self.relay = Relay("127.0.0.1", self._federation.server.port)
        self._client = ClientLink(
            f"127.0.0.1:{self.relay.port}",
            name="site-1",
            serve=self._take,
            config=self._federation.config,
        ).start()

    def is_shown(self) -> bool:
        """Whether the server and the client give the expected causes for most of the time."""
        ends = (self._federation.server.traffic, "sent"), (self._client.traffic, "received")
        return tuple(longest(*end) for end in ends) == self._expected

    def send(self, source: ModelSource) -> None:
        peer = self._federation.peer("site-1")
        exchange = peer.request("t", source.spec, attempt=Attempt("job", 0, 1))
        send_model(exchange.outgoing, source)

    def _take(self, assignment: Assignment) -> None:
        model = assignment.incoming()
        model.open()
        while not model.is_complete:
            if (piece := model.read()) is not None:
                if (shows := self.shows) is not None:
                    self.shows = None
                    until(shows)
                model.release(sum(view.nbytes for view in piece[1]))
        model.commit()
        assignment.reply()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.relay.close()
        self._federation.__exit__(None, None, None)


def test_a_source_that_gives_nothing_shows_as_the_senders_reader() -> None:
    source = SlowSource(initial())
    with OneModel(("reader", "network")) as model:
        source.shows = model.is_shown
        model.send(source)


def test_a_sink_that_takes_nothing_shows_as_reader_there_and_as_credit_here() -> None:
    with OneModel(("credit", "reader")) as model:
        model.shows = model.is_shown
        model.send(ArrayModel(initial()))


def test_a_line_that_stands_still_shows_as_network_at_both_ends() -> None:
    stands = threading.Event()

    def stall(relay: Relay) -> None:
        relay.stall("down")  # acks still come up: what is missed is not credit
        stands.set()

    with OneModel(("network", "network")) as model, ThreadPoolExecutor(1) as pool:
        model.relay.play([Step(action=stall, after_bytes=80_000, direction="down")])
        sent = pool.submit(model.send, pattern_model(float_spec(40_000)))
        assert stands.wait(WAIT)
        until(model.is_shown)
        model.relay.resume()
        sent.result(WAIT)


def test_in_lockstep_who_is_ahead_of_a_slow_peer_is_held() -> None:
    with Watched() as job:
        gate, _ = job.gated(1)
        fast = job.site(0)
        desk = job.begin(2)
        assert gate.reached.wait(WAIT)
        held = {"site-0": "site-1", "site-1": ""}
        until(lambda: {each["name"]: each["held_for"] for each in desk.status()["clients"]} == held)
        until(lambda: longest(job.federation.server.traffic, "received", "site-0") == "held")
        until(lambda: longest(fast.client.traffic, "sent") == "held")
        gate.opens.set()
        job.report()
