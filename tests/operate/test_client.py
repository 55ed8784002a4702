"""What a client of a job answers to its operator."""

from __future__ import annotations

import pytest

from streamlink.cli.status_text import lines_of
from streamlink.cli.watch import how_it_ended
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.operate.client import ClientOperator
from streamlink.operate.control import ControlError
from streamlink.operate.status import Memory
from streamlink.rounds.report import ClientProgress
from streamlink.transport.bandwidth import forget_bandwidth


@pytest.fixture(autouse=True)
def one_bandwidth() -> None:
    # Not that of this process: other tests may have left a server that is still closing.
    forget_bandwidth()


def an_operator(stopped: list[str], *progress: ClientProgress) -> ClientOperator:
    """That of a client that has not connected."""
    client = Client("10.0.0.5:8517", "site-1", StreamingExecutor(lambda tensor, start, x: x))
    return ClientOperator(
        client,
        "10.0.0.5:8517",
        lambda: "site-1: train",
        lambda: progress,
        lambda: "network" * bool(progress),
        Memory(),
        stopped.append,
    )


def test_a_client_tells_what_it_does_and_how_far_that_is() -> None:
    far = ClientProgress("server", "working", 0, 5 << 20, 10 << 20, 20 << 20, "site-2")
    status = an_operator([], far).answer({"do": "status"})
    assert (status["program"], status["name"], status["tasks_done"]) == ("client", "site-1", 0)
    assert (status["received_bytes"], status["receive_total_bytes"]) == (5 << 20, 20 << 20)
    assert (status["sent_bytes"], status["send_total_bytes"]) == (0, 10 << 20)
    first, second = lines_of(status)
    assert first == "site-1: train, has 25% of 20.0 MiB, working, held for site-2"
    assert second.startswith("server 10.0.0.5:8517; 0 tasks done in ")
    assert how_it_ended(status).startswith("the client has ended, last seen after 0 tasks")


def test_a_client_that_waits_for_nobody_tells_what_limits_it() -> None:
    far = ClientProgress("server", "streaming", 0, 5 << 20, 10 << 20, 20 << 20)
    (first, _) = lines_of(an_operator([], far).status())
    assert first == "site-1: train, has 25% of 20.0 MiB, limited by network"


def test_a_client_without_a_task_has_nothing_to_show() -> None:
    status = an_operator([]).status()
    assert lines_of(status)[0] == "site-1: train"
    assert (status["phase"], status["sent_bytes"], status["receive_total_bytes"]) == ("", 0, 0)


def test_a_client_can_be_ended_and_nothing_else() -> None:
    stopped: list[str] = []
    operator = an_operator(stopped)
    assert "is being ended" in operator.answer({"do": "abort", "reason": "no"})["done"]
    assert stopped == ["no"]
    with pytest.raises(ControlError, match="a client knows status, abort and limit"):
        operator.answer({"do": "drop", "client": "site-1"})


def test_a_limit_is_refused_where_nothing_is_open_that_it_could_hold_for() -> None:
    with pytest.raises(ControlError, match="nothing can be limited"):
        an_operator([]).answer({"do": "limit", "bwlimit": "1M"})
