"""A goodbye over real gRPC: it is heard, or said again over the next call, or given up in time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from streamlink.config import LinkConfig, RoundConfig
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.client import ClientLink
from streamlink.link.peer import Peer
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores.memory import MemoryStore
from tests.scenarios.link.test_reconnect import Through
from tests.support.peers import WAIT, Site, config, echo, executor, initial

RECONNECTS = config(reconnect_timeout=WAIT)


class Closing:
    """A server that closes in a thread of its own."""

    def __init__(self, through: Through) -> None:
        self._thread = threading.Thread(target=through.server.close, args=["the job is done"])
        self._thread.start()

    def wait(self) -> None:
        """Wait until it has closed."""
        self._thread.join(3 * WAIT)
        assert not self._thread.is_alive()


def until(is_so: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(int(WAIT / 0.01)):
        if is_so():
            return
        never.wait(0.01)
    raise AssertionError("it never was")


def do_a_round(through: Through) -> Site:
    site = through.client("site-1", executor(1))
    through.peer("site-1")
    rules = RoundConfig(min_clients=1, num_rounds=1)
    ScatterAndGather(through.server, MemoryStore(initial()), rules).run()
    return site


@pytest.mark.parametrize("held", ["both", "down"])
def test_a_client_whose_connection_is_reset_while_goodbye_is_in_flight_ends_well(
    held: str,
) -> None:
    with Through(RECONNECTS) as through:
        site = do_a_round(through)
        peer = through.peer("site-1")
        through.relay.stall(held)  # type: ignore[arg-type]
        closing = Closing(through)
        until(lambda: not peer.is_here)
        through.relay.reset()
        through.relay.resume()
        assert len(site.done.result(WAIT)) == 1
        closing.wait()


def test_a_client_that_is_away_when_its_server_ends_hears_the_goodbye_when_it_is_back() -> None:
    with Through(RECONNECTS) as through:
        site = do_a_round(through)
        peer = lose(through)
        closing = Closing(through)
        until(lambda: not peer.is_here)
        through.relay.allow()
        assert len(site.done.result(WAIT)) == 1
        closing.wait()


def lose(through: Through) -> Peer:
    """Let the connections of the client break, and no other be made."""
    peer = through.peer("site-1")
    through.relay.refuse()
    through.relay.reset()
    until(lambda: peer.is_disconnected)
    return peer


def test_a_server_waits_no_longer_than_reconnect_timeout_for_a_client_that_is_gone() -> None:
    with Through(config(reconnect_timeout=0.5)) as through:
        through.link("site-1")
        lose(through)
        Closing(through).wait()


def test_a_cancelled_server_waits_for_nobody() -> None:
    with Through(config(reconnect_timeout=1000)) as through:
        through.link("site-1")
        peer = lose(through)
        closing = Closing(through)
        until(lambda: not peer.is_here)
        through.server.cancel.cancel("enough")
        closing.wait()


def test_a_client_that_is_started_again_while_its_server_ends_is_told_that_all_is_over() -> None:
    patient: LinkConfig = config(reconnect_timeout=1000)
    with Through(patient) as through:
        link = through.link("site-1")
        peer = lose(through)
        closing = Closing(through)
        until(lambda: not peer.is_here)
        with pytest.raises(StreamAborted, match="the job is done") as told:
            ClientLink(f"127.0.0.1:{through.server.port}", name="site-1", serve=echo).start()
        assert told.value.code is AbortCode.GOODBYE
        closing.wait()  # its process is gone: nobody is waited for
        through.relay.allow()
        link.close()
