"""What the log says of a client whose task failed."""

from __future__ import annotations

import pytest

from streamlink import RoundConfig, ScatterAndGather
from streamlink.errors import AbortCode, QuorumNotReached
from streamlink.link import Assignment
from streamlink.stores.memory import MemoryStore
from tests.support.peers import Federation, initial, until


def test_a_traceback_is_logged_though_our_own_sender_aborted_the_update(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work(assignment: Assignment) -> None:
        model = assignment.incoming()
        model.open()
        update = assignment.outgoing(model.spec)
        model.abort(AbortCode.TASK_FAILED, "boom")
        until(lambda: update.error is not None)  # now the server looks for what this replies
        assignment.reply(error="boom", traceback="Traceback (most recent call last):\nboom")
        assignment.close(model, update)

    with Federation() as federation:
        federation.link("site-1", work)
        federation.peer("site-1")
        store = MemoryStore(initial())
        job = ScatterAndGather(federation.server, store, RoundConfig(num_rounds=1, min_clients=1))
        with pytest.raises(QuorumNotReached, match="boom"):
            job.run()
    assert "site-1: | Traceback (most recent call last):" in caplog.text
