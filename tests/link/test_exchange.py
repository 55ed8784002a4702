"""``Peer.ask``: a future that moves both models, one or many at a time, also from asyncio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest

from streamlink.errors import LocalProtocolError
from streamlink.link.assignment import Assignment
from streamlink.link.exchange import Exchange, ExchangeResult
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.exchanges import LARGE, Asked, Stuck, add_one, arrays
from tests.support.peers import SMALL, WAIT, Array

# --- what goes each way -------------------------------------------------------------------------


def test_both_models_facts_and_numbers_go_both_ways(asked: Asked) -> None:
    answer = arrays(0)
    done = asked.peer(add_one).ask(
        "add", arrays(1), into=answer, metadata={"to": "you"}, metrics={"lr": 0.5}
    )
    result = done.result(WAIT)
    assert answer["w"].tolist() == [2] * 6
    assert (result.metadata, result.metrics) == ({"by": "you"}, {"lr": 0.25})
    assert result.sent is not None
    assert result.received is not None
    assert result.sent.stats.received_bytes == result.received.stats.received_bytes == 24
    assert done.exception(WAIT) is None
    assert done.progress.phase == "over"


def test_models_larger_than_every_window_go_both_ways_at_once(asked: Asked) -> None:
    answer = arrays(0, LARGE)
    asked.peer(add_one).ask("add", arrays(1, LARGE), into=answer).result(WAIT)
    assert np.all(answer["w"] == 2)


def test_a_client_is_asked_without_a_model_and_answers_without_one(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        assert not assignment.has_model
        assert not assignment.wants_model
        assignment.answer(metadata={"hello": assignment.topic}, metrics={"n": 1})

    result = asked.peer(serve).ask("greet").result(WAIT)
    assert (result.metadata, result.metrics) == ({"hello": "greet"}, {"n": 1.0})
    assert result.sent is None
    assert result.received is None


def test_a_client_that_is_asked_without_a_model_answers_with_one(asked: Asked) -> None:
    answer = arrays(0)
    result = asked.peer(lambda work: _unused(work.answer(arrays(7)))).ask("get", into=answer)
    assert result.result(WAIT).received is not None
    assert answer["w"].tolist() == [7] * 6


def test_a_client_answers_without_a_model_where_one_would_have_a_place(asked: Asked) -> None:
    answer = arrays(5)

    def serve(assignment: Assignment) -> None:
        assignment.receive(MemoryStore())
        assignment.answer(metadata={"why": "nothing new"})

    result = asked.peer(serve).ask("get", arrays(), into=answer).result(WAIT)
    assert result.received is None
    assert result.metadata == {"why": "nothing new"}
    assert answer["w"].tolist() == [5] * 6


def test_a_client_answers_without_taking_the_model(asked: Asked) -> None:
    answer = arrays(0)
    peer = asked.peer(lambda work: _unused(work.answer(arrays(3))))
    result = peer.ask("get", arrays(1, LARGE), into=answer).result(WAIT)
    assert result.sent is None
    assert answer["w"].tolist() == [3] * 6


def _unused(receipt: object) -> None:
    pass


def test_the_receiver_makes_its_own_arrays_from_the_description(asked: Asked) -> None:
    made: dict[str, Array] = {}

    def into(spec: ModelSpec) -> ArrayModel:
        made.update({t.name: np.empty(t.shape, np.float32) for t in spec.tensors})
        return ArrayModel(made)

    asked.peer(add_one).ask("add", arrays(4, (2, 3)), into=into).result(WAIT)
    assert made["w"].tolist() == [[5, 5, 5], [5, 5, 5]]


def test_a_client_refuses_a_model_that_was_not_asked_for(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        with pytest.raises(LocalProtocolError, match="the request 'x'; look at has_model"):
            assignment.receive(MemoryStore())
        with pytest.raises(LocalProtocolError, match="back for 'x'; look at wants_model"):
            assignment.answer(arrays())
        assignment.answer()

    asked.peer(serve).ask("x").result(WAIT)


# --- many at a time -----------------------------------------------------------------------------


def test_several_exchanges_with_one_peer_run_at_a_time_and_the_rest_wait(asked: Asked) -> None:
    stuck, answers = Stuck(), [arrays(0) for _ in range(7)]
    peer = asked.peer(stuck)
    all_done = [peer.ask("add", arrays(n), into=answer) for n, answer in enumerate(answers)]
    most = SMALL.limits.max_streams // 8
    for _ in range(most):
        assert stuck.began.acquire(timeout=WAIT)
    assert [done.running() for done in all_done] == [True] * most + [False] * (7 - most)
    assert all_done[-1].progress.phase == "waiting"
    stuck.may_end.set()
    assert not wait(all_done, WAIT).not_done
    assert [answer["w"][0] for answer in answers] == [n + 1 for n in range(7)]


def test_many_peers_are_asked_at_once(asked: Asked) -> None:
    peers = [asked.peer(add_one, f"site-{n}") for n in range(5)]
    answers = [arrays(0, LARGE) for _ in peers]
    all_done = [
        peer.ask("add", arrays(n, LARGE), into=answer)
        for n, (peer, answer) in enumerate(zip(peers, answers, strict=True))
    ]
    for done in all_done:
        done.result(WAIT)
    assert [answer["w"][-1] for answer in answers] == [1, 2, 3, 4, 5]


def test_many_peers_answer_into_one_receiver_that_makes_room_for_each(asked: Asked) -> None:
    lock, made = threading.Lock(), list[dict[str, Array]]()

    def into(spec: ModelSpec) -> ArrayModel:
        room = {each.name: np.zeros(each.shape, np.float32) for each in spec.tensors}
        with lock:  # answers of several clients may come at the same time
            made.append(room)
        return ArrayModel(room)

    peers = [asked.peer(add_one, f"site-{n}") for n in range(5)]
    all_done = [peer.ask("add", arrays(n, LARGE), into=into) for n, peer in enumerate(peers)]
    for done in all_done:
        done.result(WAIT)
    assert sorted(room["w"][-1] for room in made) == [1, 2, 3, 4, 5]


def test_an_answer_with_too_many_facts_is_refused_before_its_model_goes(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        with pytest.raises(LocalProtocolError, match="takes 1024"):
            assignment.answer(arrays(), metrics={str(n): 0.0 for n in range(1025)})
        assignment.answer(arrays(3))

    answer = arrays(0)
    asked.peer(serve).ask("get", into=answer).result(WAIT)
    assert answer["w"][0] == 3


# --- from asyncio ---------------------------------------------------------------------------------


def test_exchanges_are_awaited_without_blocking_the_loop(asked: Asked) -> None:
    stuck = Stuck()
    peer, answers = asked.peer(stuck), [arrays(0), arrays(0)]

    async def ask() -> None:
        exchanges = [peer.ask("add", arrays(1), into=answer) for answer in answers]

        async def both() -> None:
            for exchange in exchanges:
                await exchange

        waiting = asyncio.create_task(both())
        # Only a loop that is free lets the work end.
        asyncio.get_running_loop().call_soon(stuck.may_end.set)
        await waiting

    asyncio.run(asyncio.wait_for(ask(), WAIT))
    assert [answer["w"][0] for answer in answers] == [2, 2]


def test_the_tools_of_asyncio_take_an_exchange_that_is_wrapped(asked: Asked) -> None:
    peer = asked.peer(add_one)

    async def ask() -> list[float]:
        answers = [arrays(0) for _ in range(3)]
        first, second, third = (peer.ask("add", arrays(1), into=answer) for answer in answers)

        async def result() -> ExchangeResult:
            return await first

        futures = {asyncio.create_task(result()), asyncio.wrap_future(second)}
        done, pending = await asyncio.wait({*futures, asyncio.ensure_future(third)})
        assert (len(done), len(pending)) == (3, 0)
        return [float(answer["w"][0]) for answer in answers]

    assert asyncio.run(asyncio.wait_for(ask(), WAIT)) == [2, 2, 2]


def test_asyncio_waits_for_exchanges_as_they_are(asked: Asked) -> None:
    stuck = Stuck()
    peer = asked.peer(lambda work: stuck(work) if work.topic == "stuck" else add_one(work))

    async def ask() -> None:
        quick: Any = peer.ask("add", arrays(1), into=arrays(0))
        slow: Any = peer.ask("stuck", arrays(1), into=arrays(0))
        some = await asyncio.wait([quick, slow], return_when=asyncio.FIRST_COMPLETED)
        assert some == ({quick}, {slow})
        assert (await asyncio.wait([slow], timeout=0.01))[1] == {slow}
        waiting = asyncio.ensure_future(asyncio.wait([slow]))
        await asyncio.sleep(0)  # it waits from here on
        stuck.may_end.set()
        assert (await waiting)[0] == {slow}
        assert slow.result(0).received is not None
        assert (await asyncio.wait([quick]))[0] == {quick}, "one that is over, too"

    asyncio.run(asyncio.wait_for(ask(), WAIT))


def test_a_callback_from_a_loop_is_called_by_the_loop_unless_it_was_removed(asked: Asked) -> None:
    peer, called = asked.peer(add_one), list[threading.Thread]()

    async def ask() -> None:
        exchange = peer.ask("add", arrays(1), into=arrays(0))
        exchange.add_done_callback(lambda _: called.append(threading.current_thread()))
        exchange.add_done_callback(print)
        assert exchange.remove_done_callback(print) == 1
        assert exchange.remove_done_callback(print) == 0
        await exchange

    asyncio.run(asyncio.wait_for(ask(), WAIT))
    assert called == [threading.current_thread()]


def test_a_loop_that_is_closed_does_not_keep_an_exchange_from_its_end(asked: Asked) -> None:
    stuck = Stuck()
    peer = asked.peer(stuck)

    async def ask() -> Exchange:
        exchange = peer.ask("add", arrays(1), into=arrays(0))
        exchange.add_done_callback(print)
        return exchange

    exchange = asyncio.run(ask())
    stuck.may_end.set()
    assert exchange.result(WAIT).received is not None


def test_a_cancelled_task_cancels_its_exchange(asked: Asked) -> None:
    stuck = Stuck()
    peer = asked.peer(stuck)

    async def ask() -> Exchange:
        exchange = peer.ask("add", arrays(), into=arrays())

        async def result() -> None:
            await exchange

        task = asyncio.create_task(result())
        await asyncio.sleep(0)  # it waits from here on
        assert stuck.began.acquire(timeout=WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return exchange

    exchange = asyncio.run(ask())
    assert exchange.cancelled()
    assert stuck.began.acquire(timeout=WAIT)
    assert len(stuck.called_off) == 1
