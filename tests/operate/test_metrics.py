"""What Prometheus is told, scraped over HTTP from a job that runs; and which cause shows when."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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
from tests.support.peers import WAIT, Federation, initial
from tests.support.relay import UNSHAPED, Link, Relay

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
            server, client = scrape(here.port), scrape(there.port)
    total = sum(array.nbytes for array in initial().values())
    for direction in ("sent", "received"):
        at = labels(peer="site-0", direction=direction)
        assert server["streamlink_bytes_total", at] == 2 * total
        assert server["streamlink_repairs_total", at] == 0
    moved = [value for (name, _), value in client.items() if name == "streamlink_bytes_total"]
    assert moved == [2 * total] * 2
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
        until = time.monotonic() + WAIT
        while threads() and time.monotonic() < until:
            time.sleep(0.01)  # a thread that has been cut takes a moment to end
        scrape(here.port)


def test_a_reader_that_asks_byte_by_byte_is_cut_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTION_SECONDS", 0.5)
    with serve_metrics("127.0.0.1:0", TrafficCounter()) as here, readers(here.port, 1) as (reader,):
        reader.settimeout(0.05)
        until = time.monotonic() + WAIT
        while is_open(reader):
            assert time.monotonic() < until


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

STALL_SECONDS = 0.6


class SlowSource(ArrayModel):
    """A source that stands still once, in its middle."""

    has_stood = False

    def read(self, offset: int, nbytes: int) -> Payload:
        if offset and not self.has_stood:
            self.has_stood = True
            threading.Event().wait(STALL_SECONDS)
        return super().read(offset, nbytes)


def longest(traffic: Traffic, direction: str) -> str:
    """Return the cause that most of the time in one direction went to."""
    ((_, total),) = [each for each in traffic.totals().items() if each[0][1] == direction]
    return max(total.stall_seconds, key=lambda cause: total.stall_seconds[cause])


@contextmanager
def one_model(
    source: ModelSource, pause: float = 0.0, link: Link = UNSHAPED
) -> Iterator[tuple[Traffic, Traffic]]:
    """Let a client receive ``source``, standing still once for ``pause`` seconds; both traffics."""
    nobody = threading.Event()

    def take(assignment: Assignment) -> None:
        model, left = assignment.incoming(), [pause]
        model.open()
        while not model.is_complete:
            if (piece := model.read()) is not None:
                nobody.wait(left.pop() if left else 0.0)
                model.release(sum(view.nbytes for view in piece[1]))
        model.commit()
        assignment.reply()

    with Federation() as federation, Relay("127.0.0.1", federation.server.port, down=link) as relay:
        client = ClientLink(
            f"127.0.0.1:{relay.port}", name="site-1", serve=take, config=federation.config
        ).start()
        try:
            exchange = federation.peer("site-1").request(
                "t", source.spec, attempt=Attempt("job", 0, 1)
            )
            send_model(exchange.outgoing, source)
            yield federation.server.traffic, client.traffic
        finally:
            client.close()


def test_a_source_that_gives_nothing_shows_as_the_senders_reader() -> None:
    with one_model(SlowSource(initial()), 0.0) as (server, client):
        assert longest(server, "sent") == "reader"
        assert longest(client, "received") == "network"


def test_a_sink_that_takes_nothing_shows_as_reader_there_and_as_credit_here() -> None:
    with one_model(ArrayModel(initial()), STALL_SECONDS) as (server, client):
        assert longest(client, "received") == "reader"
        assert longest(server, "sent") == "credit"


def test_a_slow_link_shows_as_network_at_both_ends() -> None:
    model = pattern_model(float_spec(40_000))
    with one_model(model, link=Link(bandwidth=200_000)) as (server, client):
        assert longest(server, "sent") == longest(client, "received") == "network"


def test_in_lockstep_who_is_ahead_of_a_slow_peer_is_held() -> None:
    with Watched() as job:
        gate, _ = job.gated(1)
        fast = job.site(0)
        desk = job.begin(2)
        assert gate.reached.wait(WAIT)
        threading.Event().wait(2.2)  # two words of being held: they come every second
        assert {each["name"]: each["held_for"] for each in desk.status()["clients"]} == {
            "site-0": "site-1",
            "site-1": "",
        }
        stalls = job.federation.server.traffic.totals()["site-0", "received"].stall_seconds
        assert max(stalls, key=stalls.__getitem__) == "held"
        assert longest(fast.client.traffic, "sent") == "held"
        gate.opens.set()
        job.report()
