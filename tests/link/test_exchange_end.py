"""Each way in which an exchange ends, and that one which ends keeps nothing."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from concurrent.futures import CancelledError, Future, as_completed, wait
from typing import Any, NoReturn

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    Cancelled,
    ExchangeFailed,
    LocalProtocolError,
    ModelError,
    StoreFull,
    StreamAborted,
)
from streamlink.link.assignment import Assignment
from streamlink.link.exchange import Exchange
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel, MemorySink, MemoryStore
from streamlink.testing import FailingSource
from tests.support.exchanges import LARGE, Asked, Stuck, add_one, arrays
from tests.support.models import pattern_model
from tests.support.peers import ODD, SMALL, WAIT, until


def test_cancelling_one_exchange_leaves_the_others_alone(asked: Asked) -> None:
    stuck, answer = Stuck(), arrays(0)
    peer = asked.peer(lambda work: stuck(work) if work.topic == "stuck" else add_one(work))
    gone = peer.ask("stuck", arrays())
    assert stuck.began.acquire(timeout=WAIT)
    assert gone.cancel("not needed")
    assert stuck.began.acquire(timeout=WAIT)
    assert stuck.called_off == ["not needed"]
    with pytest.raises(CancelledError):
        gone.result(WAIT)
    peer.ask("add", arrays(1), into=answer).result(WAIT)
    assert answer["w"][0] == 2


def test_one_that_waits_for_its_turn_is_cancelled_at_once(asked: Asked) -> None:
    stuck = Stuck()
    peer = asked.peer(stuck)
    before = [peer.ask("stuck") for _ in range(SMALL.limits.max_streams // 8)]
    waiting = peer.ask("stuck")
    assert waiting.cancel()
    stuck.may_end.set()
    assert waiting.done()
    assert not any(done.cancelled() for done in before)


def test_whoever_waits_for_several_hears_of_one_that_is_cancelled(asked: Asked) -> None:
    stuck = Stuck()
    peer = asked.peer(stuck)
    all_of_them = [peer.ask("stuck") for _ in range(SMALL.limits.max_streams // 8 + 1)]
    assert stuck.began.acquire(timeout=WAIT)
    for done in (all_of_them[0], all_of_them[-1]):  # one runs, one waits for its turn
        assert done.cancel()
        assert done.cancel(), "once more is harmless"
        assert wait([done], WAIT).done == {done}
        assert list(as_completed([done], WAIT)) == [done]
    stuck.may_end.set()


def test_a_model_that_cannot_be_released_does_not_keep_the_exchange() -> None:
    def release() -> None:
        raise OSError("the disk is gone")

    def open_it(spec: ModelSpec | None, has_answer: bool) -> NoReturn:
        raise ModelError("not this one")

    clock, token = running_time, CancelToken()
    failing = Exchange(
        "site-1", "add", None, None, open_it, clock=clock, cancel=token, release=release
    )
    failing.run()
    assert failing.done()
    with pytest.raises(ExchangeFailed, match="not this one"):
        failing.result(0)


def test_one_that_has_no_time_at_all_fails_and_does_not_hang(asked: Asked) -> None:
    peer = asked.peer(Stuck())
    for _ in range(5):
        with pytest.raises(ExchangeFailed):
            peer.ask("stuck", timeout=0.0).result(WAIT)


def test_waiting_for_a_while_does_not_end_it(asked: Asked) -> None:
    stuck = Stuck()
    done = asked.peer(stuck).ask("add", arrays(), into=arrays())
    with pytest.raises(TimeoutError):
        done.result(0.01)
    stuck.may_end.set()
    assert done.result(WAIT).received is not None


def test_work_that_raises_fails_the_exchange_with_its_reason(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        assignment.receive(MemoryStore())
        raise ValueError("no data here")

    done = asked.peer(serve).ask("train", arrays(), into=arrays())
    with pytest.raises(ExchangeFailed) as failed:
        done.result(WAIT)
    text = str(failed.value)
    # The answer may overtake the acknowledgement of the last bytes, which travels on another call.
    assert re.match(r"the exchange 'train' with site-1 failed, with \d+ of 24 bytes sent", text)
    assert "ValueError: no data here" in text
    assert failed.value.code is AbortCode.TASK_FAILED


def test_work_that_exits_fails_the_exchange(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        sys.exit("no GPU here")

    with pytest.raises(ExchangeFailed, match="no GPU here"):
        asked.peer(serve).ask("add", arrays(), into=arrays()).result(WAIT)


def test_a_sink_that_fails_ends_the_exchange_at_both_ends(asked: Asked) -> None:
    class Full(MemorySink):
        def write(self, offset: int, payload: memoryview) -> None:
            raise StoreFull("the disk has no room")

    heard = Future[str]()

    def serve(assignment: Assignment) -> None:
        try:
            assignment.answer(arrays(1, LARGE))
        except StreamAborted as error:
            heard.set_result(error.reason)
            raise

    store = MemoryStore()
    done = asked.peer(serve).ask("get", into=lambda spec: Full(store, spec))
    with pytest.raises(ExchangeFailed, match="the disk has no room") as failed:
        done.result(WAIT)
    assert isinstance(failed.value.cause, StoreFull)
    assert "the disk has no room" in heard.result(WAIT)


def test_a_client_logs_in_one_line_that_the_server_did_not_take_its_answer(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    def serve(assignment: Assignment) -> None:
        assignment.answer(arrays())

    done = asked.peer(serve).ask("t", into={"other": np.zeros(7, np.float32)})
    with pytest.raises(ExchangeFailed, match="another model"):
        done.result(WAIT)
    until(lambda: any(each.name == "streamlink.client" for each in caplog.records))
    (line,) = [each for each in caplog.records if each.name == "streamlink.client"]
    assert line.exc_info is None
    assert "did not take the answer of 'site-1' to 't': the source has another" in line.getMessage()


def test_a_source_that_fails_ends_the_exchange_at_both_ends(asked: Asked) -> None:
    source = FailingSource(pattern_model(ODD), 9000, OSError("bad sector"))
    done = asked.peer(add_one).ask("add", source, into=MemoryStore())
    with pytest.raises(ExchangeFailed, match="bad sector"):
        done.result(WAIT)


def test_the_servers_token_ends_exchanges_with_its_reason() -> None:
    token, stuck = CancelToken(), Stuck()
    asked = Asked(cancel=token)
    try:
        peer = asked.peer(stuck)
        done = peer.ask("add", arrays(), into=arrays())
        assert stuck.began.acquire(timeout=WAIT)
        token.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            done.result(WAIT)
        with pytest.raises(Cancelled, match="enough"):
            peer.ask("add")
    finally:
        asked.close()


def test_a_client_that_leaves_fails_the_exchange(asked: Asked) -> None:
    stuck = Stuck()
    done = asked.peer(stuck).ask("add", arrays(), into=arrays())
    assert stuck.began.acquire(timeout=WAIT)
    asked.links[0].close("out of power")
    with pytest.raises(ExchangeFailed, match=r"out of power; ask it again if it comes back"):
        done.result(WAIT)
    stuck.may_end.set()


def test_a_client_that_has_gone_cannot_be_asked(asked: Asked) -> None:
    peer = asked.peer(add_one)
    asked.links[0].close()
    assert asked.server.wait_until_left("site-1", WAIT)
    with pytest.raises(ExchangeFailed, match=r"site-1.*ask it again if it comes back"):
        peer.ask("add").result(WAIT)


def test_work_that_returns_without_an_answer_is_named_and_may_answer_later(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    taken = Future[Assignment]()
    done = asked.peer(taken.set_result).ask("add")
    until(lambda: "'add' returned without an answer" in caplog.text)
    taken.result(WAIT).answer(metadata={"by": "another thread"})
    assert done.result(WAIT).metadata == {"by": "another thread"}


def test_work_that_was_called_off_is_logged_in_one_line(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Stuck()

    def serve(assignment: Assignment) -> None:
        stuck(assignment)
        assignment.check()  # raises: it was called off

    done = asked.peer(serve).ask("add")
    assert stuck.began.acquire(timeout=WAIT)
    done.cancel("no longer needed")
    until(lambda: any(each.name == "streamlink.client" for each in caplog.records))
    (logged,) = [each for each in caplog.records if each.name == "streamlink.client"]
    assert "'add' off: no longer needed" in logged.getMessage()
    assert (logged.levelname, logged.exc_info) == ("WARNING", None)


def test_arrays_that_an_exchange_still_fills_are_refused_until_it_is_over(asked: Asked) -> None:
    stuck, into = Stuck(), arrays(0)
    peer = asked.peer(stuck)
    first = peer.ask("add", arrays(), into=into)
    for the_same in (into, {"w": into["w"]}):
        with pytest.raises(ModelError, match="another exchange still fills these arrays"):
            peer.ask("add", arrays(), into=the_same)
    stuck.may_end.set()
    first.result(WAIT)
    with pytest.raises(ModelError, match="cannot be read as a model"):
        peer.ask("add", 3, into=into)  # type: ignore[arg-type]  # takes nothing
    peer.ask("add", arrays(4), into=into).result(WAIT)
    assert into["w"].tolist() == [5] * 6


def test_a_request_is_answered_once_and_its_model_comes_once(asked: Asked) -> None:
    found: list[str] = []

    def serve(assignment: Assignment) -> None:
        assignment.receive(MemoryStore())
        with pytest.raises(LocalProtocolError, match="'add' was received already"):
            assignment.receive(MemoryStore())
        assignment.answer(metadata={"number": "1"})
        with pytest.raises(LocalProtocolError, match="'add' was answered already"):
            assignment.answer(metadata={"number": "2"})
        found.append("both")

    result = asked.peer(serve).ask("add", arrays()).result(WAIT)
    assert result.metadata == {"number": "1"}
    until(lambda: found == ["both"])


def test_what_cannot_be_sent_or_filled_is_refused_before_anything_is_sent(asked: Asked) -> None:
    peer = asked.peer(add_one)
    wrong: Any = 3
    with pytest.raises(ModelError, match="cannot be read as a model"):
        peer.ask("add", wrong)
    with pytest.raises(ModelError, match="into which no model can be received"):
        peer.ask("add", into=wrong)
    with pytest.raises(LocalProtocolError, match="must be text"):
        peer.ask("add", metadata={"n": wrong})
    with pytest.raises(LocalProtocolError, match="no valid Unicode"):
        peer.ask("add", metadata={"n": "\udcff"})
    with pytest.raises(LocalProtocolError, match="no valid Unicode"):
        peer.ask("\udcff")
    with pytest.raises(LocalProtocolError, match="takes 1024"):
        peer.ask("add", metrics={str(n): 0.0 for n in range(1025)})
    with pytest.raises(ValueError, match="are taken"):
        peer.ask("add", metadata={"streamlink.x": ""})
    with pytest.raises(ValueError, match="finite"):
        peer.ask("add", metrics={"loss": float("nan")})


def test_an_answer_with_other_tensors_is_refused(asked: Asked) -> None:
    other = {"v": np.zeros(6, np.float32)}
    with pytest.raises(ExchangeFailed) as failed:
        asked.peer(add_one).ask("add", arrays(), into=other).result(WAIT)
    assert isinstance(failed.value.cause, ModelError)


def test_callbacks_are_called_with_the_exchange(asked: Asked) -> None:
    called: list[Exchange] = []
    is_called = threading.Event()
    done = asked.peer(add_one).ask("add", arrays(), into=arrays())

    def call(each: object) -> None:
        called.append(done)
        is_called.set()

    done.add_done_callback(call)
    assert is_called.wait(WAIT)
    assert called == [done]


@pytest.mark.parametrize("fails", [False, True])
def test_a_future_that_is_kept_keeps_no_model(asked: Asked, fails: bool) -> None:
    peer, model = asked.peer(add_one), arrays(1, LARGE)
    source = ArrayModel(model)
    sent = FailingSource(source, 9000, OSError("bad sector")) if fails else source
    is_kept = weakref.ref(model["w"])
    gc.disable()  # it would free a cycle, too
    try:
        done = peer.ask("add", sent, into=MemoryStore())
        del model, source, sent
        assert (done.exception(WAIT) is not None) == fails
        until(lambda: is_kept() is None)
    finally:
        gc.enable()
    assert done.progress.phase == "over"
