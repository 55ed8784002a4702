"""Exchanges and fetches over real sockets whose streams share a small memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import StreamAborted
from streamlink.link.pull import fetch, serve
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, STREAM, WAIT, Federation, assert_same, echo, exchange_models
from tests.support.shared_memory import Deals, watched_deals

KiB = 1 << 10
SPEC = float_spec(20_001, 0, 3)


def shared(memory_bytes: int, **stream: Any) -> LinkConfig:
    """Return ``SMALL`` with one memory, of which each session needs 72 KiB."""
    return LinkConfig(
        stream={**STREAM.model_dump(), "memory_bytes": memory_bytes, **stream},
        timeouts=SMALL.timeouts,
        limits={"max_streams": 16},
    )


@pytest.fixture
def deals() -> Iterator[Deals]:
    with watched_deals() as found:
        yield found


@pytest.mark.parametrize("encodings", [(), ("zstd",)])
def test_exchanges_at_the_same_time_both_of_whose_ends_share_one_memory(
    encodings: tuple[str, ...], deals: Deals
) -> None:
    config = shared(512 * KiB, encodings=encodings)
    with Federation(config) as federation:
        for name in ("a", "b"):
            federation.link(name, echo)
        targets = [MemoryStore() for _ in range(8)]
        exchanges = [
            federation.peer("ab"[number % 2]).ask("echo", pattern_model(SPEC), into=into)
            for number, into in enumerate(targets)
        ]
        for each in exchanges:
            assert each.result(WAIT).received is not None
    expected = content(pattern_model(SPEC))
    for into in targets:
        assert content(into.open()) == expected
    deals.assert_kept(512 * KiB)


def test_those_who_fetch_at_the_same_time_get_the_whole_model(
    deals: Deals,
) -> None:
    port: Future[int] = Future()
    model = pattern_model(SPEC)

    def give() -> None:
        serve(model, count=6, config=shared(7 * 72 * KiB), on_listening=port.set_result)

    server = threading.Thread(target=give, daemon=True)
    server.start()
    targets = [MemoryStore() for _ in range(6)]
    with ThreadPoolExecutor(len(targets)) as pool:
        address = f"127.0.0.1:{port.result(WAIT)}"
        got = [pool.submit(fetch, address, each, config=SMALL) for each in targets]
        for each in got:
            each.result(WAIT)
    server.join(WAIT)
    for target in targets:
        assert_same(target.arrays, targets[0].arrays)
        assert content(target.open()) == content(model)
    deals.assert_kept(7 * 72 * KiB)


def test_a_stream_beyond_the_places_of_its_session_ends_in_words_and_the_others_go_on() -> None:
    with Federation(shared(512 * KiB)) as federation:
        federation.link("a", echo, config=SMALL)
        peer = federation.peer("a")
        requests = [
            peer.request("echo", SPEC, attempt=Attempt("job", 0, number)) for number in range(10)
        ]
        late = requests.pop()
        assert isinstance(late.outgoing.error, StreamAborted)
        assert "has memory reserved for: limits.max_streams and two" in str(late.outgoing.error)
        target = MemoryStore()
        exchange_models(requests[0], pattern_model(SPEC), target)
        assert content(target.open()) == content(pattern_model(SPEC))
