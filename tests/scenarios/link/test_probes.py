"""Probes over real sockets: inside a bandwidth limit, and over connections that break."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import Cancelled, StreamAborted, StreamlinkError
from streamlink.link.probe_desk import ProbeDesk
from streamlink.link.probe_line import ProbeLine, Way
from streamlink.link.server import Server
from streamlink.probing import measure
from streamlink.transport.connect import dial, hub_at
from streamlink.transport.long_windows import long_windows
from tests.support.peers import WAIT, until
from tests.support.relay import Link, Relay

RATE = 500_000
NBYTES = 300_000
FEW_TRIES = 20
BURST = 0.2  # seconds: twice what may move at once when a limit begins
CARRIERS = [("auto", "tcp"), ("none", "grpc")]


def config(data_listen: str = "auto", bwlimit: str = "", **timeouts: float) -> LinkConfig:
    stream = {"data_listen": data_listen, "bwlimit": bwlimit}
    return LinkConfig.model_validate({"stream": stream, "timeouts": timeouts})


def wait_for_carrier(line: ProbeLine, carrier: str) -> None:
    """Move little models until one has it: the first may begin before the data port is proven."""
    until(lambda: line.move([("down", 1)]).flows[0].carrier == carrier)


# --- inside a bandwidth limit -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("end", ["server", "prober"])
@pytest.mark.parametrize("bwlimit", ["500kB:off", "off:500kB"])
@pytest.mark.parametrize(("data_listen", "carrier"), CARRIERS)
@pytest.mark.product
def test_a_probe_keeps_to_the_bandwidth_limit_of_its_process_in_each_direction(
    data_listen: str, carrier: str, bwlimit: str, end: str
) -> None:
    limited, free = config(data_listen, bwlimit), config(data_listen)
    at_server, at_prober = (limited, free) if end == "server" else (free, limited)
    with Server(config=at_server) as server, ProbeLine(server.address, at_prober) as line:
        wait_for_carrier(line, carrier)
        # Both ends are in this process: what one sends, and what the other receives, counts there.
        for way in ("down", "up"):
            began = time.monotonic()
            line.move([(way, NBYTES)])
            assert time.monotonic() - began >= NBYTES / RATE - BURST


def highest_rate(line: ProbeLine, address: str) -> float:
    """Measure each way for half a second, and return the highest rate (bytes per second)."""
    measured = measure(line, address=address, seconds=0.5, most=4 << 20)
    assert measured.lost_connections == 0
    # Both ways at once share the limit, and so do several connections.
    both = measured.down_both.rate + measured.up_both.rate
    return max(measured.down.rate, measured.up.rate, both, measured.down_several.rate)


@pytest.mark.slow
def test_a_probe_inside_a_limit_finds_that_rate() -> None:
    with Server(config=config(bwlimit="500kB:off")) as server, ProbeLine(server.address) as line:
        # A busy machine may pause an end for part of the half second; what has queued meanwhile
        # then arrives faster than the limit. That spoils one measurement, so it is repeated.
        assert any(highest_rate(line, server.address) <= 1.5 * RATE for _ in range(FEW_TRIES))


# --- connections that break ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize(("data_listen", "carrier"), CARRIERS)
def test_a_model_of_a_probe_resumes_where_its_connections_broke(
    data_listen: str, carrier: str, way: Way
) -> None:
    both = config(data_listen)
    with (
        Server(config=both) as server,
        Relay("127.0.0.1", server.port, with_data_port=data_listen == "auto") as relay,
        ProbeLine(f"127.0.0.1:{relay.port}", both) as line,
    ):
        wait_for_carrier(line, carrier)
        relay.cut_after(1_000_000, way)
        (flow,) = line.move([(way, 3_000_000)]).flows
        assert flow.nbytes == 3_000_000
        assert flow.resumes >= 1
        assert relay.counts.resets >= 1
        assert line.echo() > 0


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_model_of_a_probe_begins_with_the_window_that_was_asked_for(way: Way) -> None:
    slow, cancel = Link(bandwidth=4e6), CancelToken()
    with (
        Server() as server,
        Relay("127.0.0.1", server.port, up=slow, down=slow, with_data_port=True) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}", cancel=cancel) as line,
        ThreadPoolExecutor(1) as pool,
    ):
        moving = pool.submit(line.move, [(way, 48 << 20)], {way: 32 << 20})
        # Up to 16 MiB beyond the window of the settings, at each end. By itself it would take none,
        # since the line holds less.
        until(lambda: long_windows.dealt_bytes >= 28 << 20)
        cancel.cancel("that was all")
        with pytest.raises(Cancelled):
            moving.result(WAIT)


def test_a_probe_counts_the_connections_that_it_has_lost() -> None:
    with (
        Server() as server,
        Relay("127.0.0.1", server.port, with_data_port=True) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}") as line,
    ):

        def tell(what: str) -> None:
            if what == "both ways at once":
                relay.cut_after(10_000, "up")

        measured = measure(line, address=server.address, seconds=0.5, most=32 << 20, tell=tell)
    assert measured.lost_connections >= 1
    assert measured.up.rate > 0


def test_a_probe_counts_the_connection_of_its_session_too() -> None:
    with (
        Server() as server,
        Relay("127.0.0.1", server.port, with_data_port=True) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}") as line,
    ):
        wait_for_carrier(line, "tcp")
        relay.reset()
        until(lambda: line.echo() > 0 and line.reconnects >= 1)
        before = line.reconnects

        def tell(what: str) -> None:
            if what == "up, alone":  # no model moves yet
                relay.reset()

        measured = measure(line, address=server.address, seconds=0.5, most=4 << 20, tell=tell)
        assert line.reconnects > before
    assert measured.lost_connections >= 1


@contextmanager
def strict_desk(config: LinkConfig, **limits: Any) -> Iterator[int]:
    """A server that only answers probes, within these limits: its port."""
    desk = ProbeDesk(config, running_time, on_request=lambda *asked: None, **limits)
    hub = desk.hub = hub_at(
        "127.0.0.1:0",
        config,
        clock=running_time,
        on_session=desk.on_session,
        on_request=desk.on_request,
    )
    hub.listen()
    with closing(hub):
        yield hub.port


def test_a_probe_that_has_too_much_sent_again_is_ended() -> None:
    both = config("none")
    with (
        strict_desk(both, most_resent=0) as port,
        Relay("127.0.0.1", port, down=Link(bandwidth=4e6)) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}", both) as line,
    ):
        relay.cut_after(1_000_000, "down")  # and what has left and waits for the line is lost
        with pytest.raises(StreamAborted, match="a probe moves at most 0 bytes again"):
            line.move([("down", 20_000_000)])


def test_a_probe_that_sends_too_much_again_is_ended() -> None:
    both = config("auto")
    with (
        strict_desk(both, most_resent=0) as port,
        Relay("127.0.0.1", port, with_data_port=True) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}", both) as line,
    ):
        wait_for_carrier(line, "tcp")
        relay.flip("up", at=[1_000_000])  # a chunk that is damaged comes again

        def move_and_wait() -> None:
            line.move([("up", 3_000_000)])
            until(lambda: line.echo() < 0)  # the server may notice it after the model

        with pytest.raises(StreamAborted, match="a probe moves at most 0 bytes again"):
            move_and_wait()


def test_a_session_that_never_begins_its_probe_does_not_keep_its_place() -> None:
    both = config("none")
    with strict_desk(both, begins_within=0.1) as port:
        address = f"127.0.0.1:{port}"
        dialer = dial(address, both, clock=running_time, name="squatter", is_probe=True)
        with closing(dialer):
            session = dialer.connect(lambda session, request: None)
            assert session.closed.wait(WAIT)
            assert "asks for probe.begin within 0.1 s" in str(session.error)


@pytest.mark.slow
def test_a_line_that_does_not_come_back_ends_the_probe_with_the_reason() -> None:
    short = config(reconnect_timeout=1.0, session_timeout=1.0, heartbeat_interval=0.2)
    with (
        Server(config=short) as server,
        Relay("127.0.0.1", server.port, with_data_port=True) as relay,
        ProbeLine(f"127.0.0.1:{relay.port}", short) as line,
    ):
        relay.refuse()
        relay.cut_after(1_000_000, "down")
        with pytest.raises(StreamlinkError, match="was not restored within 1 s"):
            line.move([("down", 100_000_000)])
