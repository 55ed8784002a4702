"""What a client answers is read beside what it is sent, by a thread that is there only then."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from streamlink.errors import ExchangeFailed
from streamlink.link.assignment import Assignment
from streamlink.link.send_model import send_model
from streamlink.stores.memory import MemoryStore
from tests.support.exchanges import LARGE, Asked, Stuck, arrays
from tests.support.peers import WAIT, until
from tests.support.scarce import no_threads


def receivers() -> int:
    return sum(each.name.startswith("receive-") for each in threading.enumerate())


def answer_first(assignment: Assignment) -> None:
    """Answer with a model, all of it, before anything of the other one is taken."""
    model = MemoryStore(arrays(3, LARGE)).open()
    answer = assignment.outgoing(model.spec)
    send_model(answer, model)
    assignment.receive(MemoryStore())
    assignment.reply()
    assignment.close(answer)


def test_an_answer_is_read_while_the_client_takes_nothing(asked: Asked) -> None:
    answer = arrays(0, LARGE)
    asked.peer(answer_first).ask("get", arrays(1, LARGE), into=answer).result(WAIT)
    assert np.all(answer["w"] == 3)


def test_no_thread_waits_for_an_answer_that_has_not_begun(asked: Asked) -> None:
    stuck, answer = Stuck(), arrays(0)
    exchange = asked.peer(stuck).ask("add", arrays(1, LARGE), into=answer)
    assert stuck.began.acquire(timeout=WAIT)
    assert receivers() == 0
    exchange.cancel()


def test_an_answer_that_fails_while_the_model_is_sent_ends_both(asked: Asked) -> None:
    def serve(assignment: Assignment) -> None:
        answer = assignment.outgoing(MemoryStore(arrays(3)).open().spec)
        answer.cancel("the disk is full")
        ended.wait(WAIT)

    ended = threading.Event()
    exchange = asked.peer(serve).ask("get", arrays(1, LARGE), into=arrays(0))
    with pytest.raises(ExchangeFailed, match="the disk is full"):
        exchange.result(WAIT)
    ended.set()
    until(lambda: receivers() == 0)


def test_where_no_thread_can_be_started_the_answer_is_read_behind_the_model(asked: Asked) -> None:
    stuck, answer = Stuck(), arrays(0, LARGE)
    exchange = asked.peer(stuck).ask("add", arrays(1, LARGE), into=answer)
    with no_threads("receive-site-1"):
        stuck.may_end.set()
        exchange.result(WAIT)
    assert np.all(answer["w"] == 2)
