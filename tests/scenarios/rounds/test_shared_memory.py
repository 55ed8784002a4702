"""One memory for all streams of a server: small, over real sockets and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import StreamAborted
from tests.support.jobs import Job
from tests.support.peers import SMALL, STREAM, Federation, executor, until
from tests.support.shared_memory import Deals, watched_deals
from tests.support.virtual_job import Cable, VirtualJob

CLIENTS, KiB = 8, 1 << 10
EACH = 24 * KiB
"""What each client needs, as ``shared`` sets it. With a window of its own each stream takes 32."""
LEAST = (CLIENTS + 1) * EACH
WAYS: dict[str, dict[str, Any]] = {
    "lockstep": {"gather": "lockstep"},
    "spool": {"gather": "spool"},
    "duplex": {"gather": "lockstep", "duplex_bytes": 64 * KiB, "num_rounds": 2},
}


def shared(memory_bytes: int) -> LinkConfig:
    """Return ``SMALL`` with one memory for all streams."""
    return LinkConfig(
        stream={**STREAM.model_dump(), "memory_bytes": memory_bytes},
        timeouts=SMALL.timeouts,
        limits={"max_streams": 4},
    )


@pytest.fixture
def deals() -> Iterator[Deals]:
    with watched_deals() as found:
        yield found


@pytest.mark.parametrize("memory", [LEAST, LEAST + 40 * KiB, 1 << 20])
@pytest.mark.parametrize("way", WAYS)
def test_rounds_of_many_clients_are_right_within_a_small_memory(
    way: str, memory: int, tmp_path: Path, deals: Deals
) -> None:
    extras = {"spool": tmp_path / "spool"} if way == "spool" else {}
    with Job(shared(memory), min_clients=CLIENTS, extras=extras, **WAYS[way]) as job:
        for number in range(CLIENTS):
            job.federation.client(f"site-{number}", executor(number), SMALL)
        job.start(CLIENTS)
        reports = job.reports()
        assert [len(each.weights) for each in reports] == [CLIENTS] * len(reports)
        if len(reports) == 1:
            job.assert_mean_of(*range(CLIENTS))
    deals.assert_kept(memory)


def test_a_server_and_its_clients_in_one_process_share_one_memory_in_virtual_time(
    deals: Deals,
) -> None:
    with VirtualJob(shared(10 * EACH), min_clients=4) as job:
        for number in range(4):
            job.site(number)
        job.run()
        job.assert_mean_of(*range(4))
    deals.assert_kept(10 * EACH)


def test_a_client_for_whom_there_is_no_memory_is_refused_in_words() -> None:
    with Federation(shared(3 * EACH)) as federation:
        for name in ("a", "b"):
            federation.link(name, config=SMALL)
        with pytest.raises(StreamAborted) as refused:
            federation.link("c", config=SMALL)
        assert "2 of max_clients=2 sessions are taken, which follows stream.memory_bytes=" in str(
            refused.value
        )
        federation.peer("a").dismiss("make room")
        federation.wait_left("a")
        federation.link("c", config=SMALL)


def test_a_client_that_comes_back_gets_a_place_while_its_lost_session_still_has_one() -> None:
    with Federation(shared(3 * EACH)) as federation:
        federation.link("b", config=SMALL)
        for _ in range(4):
            cable = Cable()
            federation.link("a", config=SMALL, dial=cable)
            federation.peer("a")
            cable.pull()
            until(lambda: federation.server.peers()[0].is_disconnected)
