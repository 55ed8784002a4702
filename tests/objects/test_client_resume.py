"""Cut links, lost sessions, restarted clients and servers: what goes on, from where, and what not.

Over real sockets, through a relay that breaks when it is told to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.copying import copy_model
from streamlink.errors import (
    Cancelled,
    CommunicationTimeout,
    ObjectRefused,
    RequestRefused,
    UnknownObject,
)
from streamlink.link import TransferFacts
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.objects import ObjectClient
from streamlink.stores import MemoryStore, SafetensorsStore
from tests.support.models import content, pattern_model
from tests.support.objects import Exchange
from tests.support.peers import WAIT, config, until
from tests.support.relay import Relay

SPEC = ModelSpec((TensorSpec("a", "F32", (1_000_003,)), TensorSpec("b", "U8", (2_000_001,))))
CONFIG = config(reconnect_timeout=0.5, rejoin_timeout=WAIT)


class Line:
    """A server, and clients that reach it through a relay."""

    def __init__(self, exchange: Exchange, relay: Relay) -> None:
        self.exchange, self.relay = exchange, relay
        self.facts: list[TransferFacts] = []
        self._clients: list[ObjectClient] = []

    def client(self, settings: LinkConfig = CONFIG) -> ObjectClient:
        client = ObjectClient(
            f"127.0.0.1:{self.relay.port}",
            name="site-1",
            config=settings,
            on_transfer=self.facts.append,
        )
        self._clients.append(client)
        return client.start()

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()

    def lose_session(self) -> None:
        """Break the line until the server has given the client up."""
        peer = self.exchange.link.wait_for_peer("site-1", WAIT)
        assert peer is not None
        self.relay.refuse()
        self.relay.reset()

        def come_back() -> None:
            until(lambda: not peer.is_here)
            self.relay.allow()

        threading.Thread(target=come_back, daemon=True).start()


@contextmanager
def joined(spool: Path, settings: LinkConfig) -> Iterator[Line]:
    with (
        Exchange("127.0.0.1:0", config=settings, spool=spool) as exchange,
        Relay("127.0.0.1", exchange.server.port) as relay,
    ):
        made = Line(exchange, relay)
        yield made
        relay.allow()
        made.close_clients()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with joined(tmp_path / "spool", CONFIG) as made:
        yield made


class When:
    """Acts once, when a transfer has come so far."""

    def __init__(self, share: float, act: Callable[[], object]) -> None:
        self._share, self._act, self.is_done = share, act, False

    def __call__(self, phase: str, done: int, total: int) -> None:
        if done >= self._share * total and not self.is_done:
            self.is_done = True
            self._act()


@pytest.mark.slow
def test_a_get_and_a_put_outlive_a_cut_within_their_session(tmp_path: Path) -> None:
    model, store, settings = pattern_model(SPEC), MemoryStore(), config(reconnect_timeout=WAIT)
    with joined(tmp_path / "spool", settings) as line:
        client = line.client(settings)
        reference = client.put(model, readers=None, progress=When(0.4, line.relay.reset))
        client.get(reference, store, progress=When(0.4, line.relay.reset))
        assert content(store.open()) == content(model)
        assert line.exchange.asked["object.get"] == line.exchange.asked["object.put"] == 1
        assert [facts.resumes > 0 for facts in line.facts] == [True, True]


@pytest.mark.slow
def test_a_get_into_a_directory_goes_on_where_a_lost_session_stopped(
    line: Line, tmp_path: Path
) -> None:
    reference = line.exchange.server.put(pattern_model(SPEC), reads=1)
    receipt = line.client().get(
        reference, tmp_path / "model", progress=When(0.6, line.lose_session)
    )
    assert line.exchange.asked["object.get"] == 2
    assert receipt.resumed_at > 0
    assert (
        receipt.digest == reference.digest == SafetensorsStore(tmp_path / "model").open().digest()
    )


@pytest.mark.slow
def test_a_get_into_memory_begins_again_after_a_lost_session(line: Line) -> None:
    model, store = pattern_model(SPEC), MemoryStore()
    reference = line.exchange.server.put(model, reads=1)
    line.client().get(reference, store, progress=When(0.6, line.lose_session))
    assert line.exchange.asked["object.get"] == 2
    assert content(store.open()) == content(model)


@pytest.mark.slow
def test_a_put_goes_on_where_a_lost_session_stopped(line: Line) -> None:
    model = pattern_model(SPEC)
    reference = line.client().put(model, progress=When(0.6, line.lose_session))
    assert line.exchange.asked["object.put"] == 2
    assert line.facts[-1].bytes < SPEC.nbytes
    with line.exchange.server.open(reference) as source:
        assert content(source) == content(model)


@pytest.mark.slow
def test_a_lazy_reader_goes_on_after_a_lost_session(line: Line) -> None:
    model, client = pattern_model(SPEC), line.client()
    whole = content(model)
    reference = line.exchange.server.put(model, reads=1)
    with client.open(reference, kept_bytes=1) as lazy:
        parts = [b"".join(lazy.read(0, 1_000_000))]
        line.lose_session()
        parts.append(b"".join(lazy.read(1_000_000, SPEC.nbytes - 1_000_000)))
    assert b"".join(parts) == whole
    until(lambda: not len(line.exchange.server))


def stopped_at(share: float, call: Callable[..., object]) -> None:
    """Stop ``call`` from its own progress, as a process that is about to end does."""
    cancel = CancelToken()
    with pytest.raises(Cancelled):
        call(cancel=cancel, progress=When(share, cancel.cancel))


def test_a_get_goes_on_in_the_next_process_of_its_client(line: Line, tmp_path: Path) -> None:
    reference = line.exchange.server.put(pattern_model(SPEC), reads=1)
    first = line.client()
    stopped_at(0.6, lambda **how: first.get(reference, tmp_path / "model", **how))
    first.close()
    receipt = line.client().get(reference, tmp_path / "model")
    assert 0 < receipt.resumed_at < SPEC.nbytes
    assert receipt.digest == reference.digest


@pytest.mark.slow
def test_a_put_of_files_goes_on_in_the_next_process_of_its_client(
    line: Line, tmp_path: Path
) -> None:
    copy_model(pattern_model(SPEC), tmp_path / "model")
    first = line.client()
    stopped_at(0.6, lambda **how: first.put(tmp_path / "model", **how))
    first.close()
    reference = line.client().put(tmp_path / "model")
    assert 0 < line.facts[-1].bytes < SPEC.nbytes
    with line.exchange.server.open(reference) as source:
        assert content(source) == content(pattern_model(SPEC))
    assert len(line.exchange.server) == 1


@pytest.mark.slow
def test_what_is_whole_is_not_sent_again_by_a_client_that_never_got_its_reference(
    line: Line, tmp_path: Path
) -> None:
    copy_model(pattern_model(SPEC), tmp_path / "model")

    def refuse() -> None:
        raise UnknownObject("the client was killed here")

    line.exchange.before["object.reference"] = refuse
    first = line.client()
    with pytest.raises(RequestRefused, match="killed here"):
        first.put(tmp_path / "model")
    first.close()
    line.exchange.before.clear()
    sent = len(line.facts)
    reference = line.client().put(tmp_path / "model")
    assert len(line.facts) == sent
    assert len(line.exchange.server) == 1
    line.exchange.server.drop(reference)


def test_a_server_that_cannot_be_reached_hears_later_what_is_dropped(line: Line) -> None:
    client = line.client()
    reference = client.put(pattern_model(SPEC))
    line.relay.refuse()
    line.relay.reset()
    client.drop(reference)
    assert len(line.exchange.server) == 1
    line.relay.allow()
    until(lambda: not len(line.exchange.server))


def test_a_server_that_was_started_again_does_not_know_its_references(line: Line) -> None:
    reference = line.exchange.server.put(pattern_model(SPEC))
    with Exchange("127.0.0.1:0", config=CONFIG) as restarted:

        def restart() -> None:
            line.relay.redirect("127.0.0.1", restarted.server.port)
            line.relay.reset()

        with pytest.raises(UnknownObject, match="started again"):
            line.client().get(reference, MemoryStore(), progress=When(0.4, restart))
        line.close_clients()


def test_an_open_object_keeps_its_read_over_a_lost_session(line: Line) -> None:
    reference = line.exchange.server.put(pattern_model(SPEC), reads=1)
    lazy = line.client().open(reference)
    lazy["b"]
    first = line.exchange.link.wait_for_peer("site-1", WAIT)
    other = line.exchange.client("site-2")
    line.lose_session()
    until(lambda: first is not None and not first.is_here)
    with pytest.raises(ObjectRefused, match="site-1 reads it now"):
        other.open(reference)
    assert line.exchange.link.wait_for_peer("site-1", WAIT, unless=first)
    with pytest.raises(ObjectRefused, match="site-1 reads it now"):
        other.open(reference)
    lazy.close()
    until(lambda: not len(line.exchange.server))


@pytest.mark.slow
def test_a_lazy_reader_that_was_started_again_has_left_its_read(line: Line) -> None:
    reference = line.exchange.server.put(pattern_model(SPEC), reads=1)
    line.client(config(reconnect_timeout=0.5)).open(reference)["b"]
    peer = line.exchange.link.wait_for_peer("site-1", WAIT)
    line.relay.refuse()
    line.relay.reset()
    until(lambda: peer is not None and not peer.is_here)
    line.relay.allow()
    line.client()
    line.exchange.client("site-2").open(reference).close()


def test_a_lazy_reader_that_cannot_join_again_returns_its_read(tmp_path: Path) -> None:
    with joined(tmp_path, config(reconnect_timeout=0.5)) as line:
        reference = line.exchange.server.put(pattern_model(SPEC), reads=1)
        line.client().open(reference)["b"]
        other = line.exchange.client("site-2")
        with pytest.raises(ObjectRefused, match="site-1 reads it now"):
            other.open(reference)
        peer = line.exchange.link.wait_for_peer("site-1", WAIT)
        line.relay.refuse()
        line.relay.reset()
        until(lambda: peer is not None and not peer.is_here)
        other.open(reference).close()


def test_a_call_that_takes_too_long_ends_with_what_it_had(line: Line) -> None:
    opens = threading.Event()
    line.exchange.before["object.get"] = lambda: opens.wait(WAIT)
    reference = line.exchange.server.put(pattern_model(SPEC))
    with pytest.raises(CommunicationTimeout, match="timeout"):
        line.client().get(reference, MemoryStore(), timeout=0.3)
    opens.set()
