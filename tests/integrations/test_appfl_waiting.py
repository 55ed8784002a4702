"""What APPFL's clients get when their round fails or others are lost, and when the server ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from streamlink.errors import NonFiniteUpdate, RoundError, StoreError, StoreFull
from streamlink.integrations.appfl import (
    StreamlinkAggregator,
    StreamlinkClientCommunicator,
    StreamlinkServerAgent,
)
from streamlink.integrations.appfl.waiting import Waiting
from tests.support.appfl_stand_ins import MODEL, Agent, Communicator, joined, same
from tests.support.waiting import WAIT

NAN = {name: torch.full_like(each, torch.nan) for name, each in MODEL.items()}


class FullDisk(Agent):
    """Fails while it aggregates."""

    def aggregate(self, updates: Mapping[Any, Any]) -> dict[str, Any]:
        raise StoreFull("no space is left for the mean")


class Second(Agent):
    """Has our aggregator, with a synchronous or an asynchronous scheduler."""

    def __init__(self, folder: Path, *, is_async: bool = False, **kwargs: Any) -> None:
        super().__init__(clients=2)
        self.is_async = is_async
        self.aggregator = StreamlinkAggregator(MODEL, {"store": str(folder / "model"), **kwargs})

    def get_parameters(self, **kwargs: Any) -> Any:
        return self.aggregator.get_parameters()

    def global_update(self, client_id: str, local_model: Any, **kwargs: Any) -> Any:
        if self.is_async:
            return self.aggregator.aggregate(client_id, local_model)
        return super().global_update(client_id, local_model, **kwargs)

    def aggregate(self, updates: Mapping[Any, Any]) -> dict[str, Any]:
        return dict(self.aggregator.aggregate(updates))


def errors_of_a_round(agent: Agent, last: Mapping[str, Any] = MODEL) -> list[str]:
    """Return what the first client of a round hears, and what its second and last one does.

    Nobody waits for a timeout: it is an hour.
    """

    def update(client: StreamlinkClientCommunicator, model: Mapping[str, Any]) -> str:
        with pytest.raises(RoundError) as failed:
            client.update_global_model(model)
        return str(failed.value)

    with (
        StreamlinkServerAgent(agent) as server,
        joined(server) as one,
        joined(server, "Client2") as two,
        ThreadPoolExecutor() as pool,
    ):
        waits = pool.submit(update, one, MODEL)
        assert agent.came.wait(WAIT)
        heard = [update(two, last), waits.result(WAIT)]
        assert server.server_terminated()
        with pytest.raises(RoundError, match="the job has ended"):
            two.update_global_model(MODEL)
    return heard[::-1]


def test_an_error_while_aggregating_reaches_all_clients_at_once_and_ends_the_server() -> None:
    for heard in errors_of_a_round(FullDisk(clients=2)):
        assert "StoreFull: no space is left for the mean" in heard


def test_an_update_that_is_not_finite_fails_its_round_and_is_named_to_all(tmp_path: Path) -> None:
    for heard in errors_of_a_round(Second(tmp_path), NAN):
        assert "element 0 of tensor 'a' in the update of Client2 is NaN or infinite" in heard


def test_an_asynchronous_update_that_is_not_finite_is_an_error_of_its_client_only(
    tmp_path: Path,
) -> None:
    with (
        StreamlinkServerAgent(Second(tmp_path, is_async=True)) as server,
        joined(server) as one,
        joined(server, "Client2") as two,
    ):
        with pytest.raises(RoundError, match="in the update of Client2"):
            two.update_global_model(NAN)
        assert same(one.update_global_model(MODEL)[0], MODEL)
        assert same(two.update_global_model(MODEL)[0], MODEL)
        assert not server.server_terminated()


def test_with_accept_non_finite_the_mean_has_it_as_with_appfl_alone(tmp_path: Path) -> None:
    accepting = Second(tmp_path, accept_non_finite=True).aggregator
    assert torch.isnan(accepting.aggregate({"1": MODEL, "2": NAN})["a"]).all()
    assert torch.isnan(accepting.aggregate("1", MODEL)["a"]).all()
    refusing = Second(tmp_path).aggregator
    with pytest.raises(NonFiniteUpdate, match=r"in the update of \(the global model\)"):
        refusing.aggregate("1", MODEL)


def test_an_error_of_the_first_model_reaches_all_clients_that_wait_for_it() -> None:
    class Unreadable(Agent):
        asked: Future[Any] | None = None

        def get_parameters(self, **kwargs: Any) -> Any:
            if self.asked is None:
                self.asked = Future()
                self.came.set()
                return self.asked
            raise StoreError("the first model cannot be read")

    agent = Unreadable(clients=2)
    with (
        StreamlinkServerAgent(agent) as server,
        joined(server) as one,
        joined(server, "Client2") as two,
        ThreadPoolExecutor() as pool,
    ):
        waits = pool.submit(one.get_global_model)
        assert agent.came.wait(WAIT)
        with pytest.raises(RoundError, match="the first model cannot be read"):
            two.get_global_model()
        with pytest.raises(RoundError, match="the first model cannot be read"):
            waits.result(WAIT)
        assert server.server_terminated()


def test_a_client_without_the_wrapper_gets_appfls_own_error() -> None:
    with StreamlinkServerAgent(FullDisk()) as server, pytest.raises(StoreFull):
        Communicator(server).update_global_model(MODEL)


def test_a_call_that_has_no_future_yet_fails_with_the_call_of_another() -> None:
    calls, began, may_go_on = Waiting(3600.0), threading.Event(), threading.Event()

    def late() -> Future[Any]:
        began.set()
        may_go_on.wait(WAIT)
        return Future()

    with ThreadPoolExecutor() as pool:
        waits = pool.submit(calls.result, late)
        assert began.wait(WAIT)
        with pytest.raises(KeyError):
            calls.result({}.popitem)
        may_go_on.set()
        with pytest.raises(RoundError, match="KeyError"):
            waits.result(WAIT)
    assert calls.failed


def test_a_failed_call_does_no_harm_to_later_ones_that_nobody_waits_for() -> None:
    calls = Waiting(3600.0)
    with pytest.raises(KeyError):
        calls.result({}.popitem)
    done: Future[int] = Future()
    done.set_result(3)
    assert calls.result(lambda: done) == 3
    assert calls.failed is None


def test_a_round_whose_other_client_is_lost_ends_with_an_error_and_ends_the_server() -> None:
    with StreamlinkServerAgent(Agent(clients=2), round_timeout=0.05) as server:
        with joined(server) as client:
            with pytest.raises(RoundError, match="one of them was lost"):
                client.update_global_model(MODEL)
        assert server.server_terminated()


def test_a_server_whose_job_is_done_does_not_wait_for_a_client_that_was_lost() -> None:
    agent = Agent()
    with StreamlinkServerAgent(agent, round_timeout=0.0) as server:
        assert not server.server_terminated()
        agent.is_over = True
        assert server.server_terminated()


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; the test's own time limit is the deadline."""
    while not holds():
        pass


def test_a_server_ends_when_all_its_clients_were_lost_while_they_trained() -> None:
    with StreamlinkServerAgent(Agent(clients=2), round_timeout=0.0) as server:
        assert not server.server_terminated()  # clients may come
        with joined(server) as one, joined(server, "Client2") as two:
            for each in (one, two):
                each.get_global_model()
            assert server.objects.clients == ("Client1", "Client2")
            assert not server.server_terminated()  # they train
        until(lambda: not server.objects.clients)
        assert server.server_terminated()


def test_a_server_waits_as_appfl_does_where_clients_without_the_wrapper_train() -> None:
    with StreamlinkServerAgent(Agent(clients=2), round_timeout=0.0) as server:
        Communicator(server, "Client2").get_global_model()
        with joined(server) as client:
            client.get_global_model()
        until(lambda: not server.objects.clients)
        assert not server.server_terminated()


def test_a_server_outside_of_its_with_block_fails_in_its_own_script() -> None:
    server = StreamlinkServerAgent(Agent())
    with pytest.raises(RuntimeError, match="within `with StreamlinkServerAgent"):
        server.server_terminated()  # which APPFL's `serve` calls first
    with pytest.raises(RuntimeError, match="within `with StreamlinkServerAgent"):
        Communicator(server).get_configuration(_streamlink="Client1")


def test_a_client_that_asks_for_a_model_before_its_configuration_is_refused_at_once() -> None:
    with StreamlinkServerAgent(Agent()) as server:
        client = StreamlinkClientCommunicator(Communicator(server), "127.0.0.1:1-9", {})
        with pytest.raises(RuntimeError, match="call get_configuration first"):
            client.get_global_model()
        with pytest.raises(RuntimeError, match="call get_configuration first"):
            client.update_global_model(MODEL)


def test_a_client_whose_server_has_no_wrapper_learns_it_with_its_configuration() -> None:
    client = StreamlinkClientCommunicator(Communicator(Bare()), "127.0.0.1:1-9", {})
    with pytest.raises(ValueError, match="put a StreamlinkServerAgent around the server's agent"):
        client.get_configuration()


class Bare(Agent):
    """Takes metadata and does nothing with it, as APPFL's own agent does."""

    def get_client_configs(self, **kwargs: Any) -> Any:
        return super().get_client_configs()
