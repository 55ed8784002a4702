"""A client that is killed in lockstep, and restarted: it resumes its update."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import AbortCode, ModelError, StreamlinkError
from streamlink.executors.executor import Executor, Task
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.extent import Extent
from streamlink.filters import FilterContext, FilterFactory, on_floats
from streamlink.link import Update
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.protocol.machine import Machine
from streamlink.protocol.sender import SendStream
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.resume import Answer, PartialUpdate
from tests.support.arriving import arrive, awaited
from tests.support.jobs import Job as Rounds
from tests.support.peers import (
    ODD,
    WAIT,
    Array,
    Gate,
    assert_same,
    initial,
    mean_of,
    trained,
)
from tests.support.processes import fact
from tests.support.round_processes import LINK, Job

FOUR = ModelSpec(tuple(TensorSpec(f"t{n}", "F32", (1 << 16,)) for n in range(4)))
"""Of 1 MiB: far more than the windows, so that the mark of a client is near where it stopped."""

LONG = 60

Make = Callable[[RangeFunction], Executor]


def a_job(folder: Path, fate: str, **facts: Any) -> Job:
    """Two clients; the second meets its ``fate``."""
    rules = {"gather": "lockstep", "wait_time_after_min_received": LONG, "model": FOUR}
    return Job(folder, **{**rules, "fates": {0: "", 1: fate}, **facts})


def assert_undisturbed(job: Job, attempt: int = 1) -> None:
    """Both count, in this attempt, and the model is bit for bit that of a round without a loss."""
    report = fact(job.server, "contributors")
    assert report["contributors"] == ["site-0", "site-1"]
    assert (report["attempt"], report["failures"]) == (attempt, {})
    assert fact(job.server, "digest")
    assert_same(job.model(), mean_of(initial(FOUR), {0: 1.0, 1: 1.0}))


@pytest.mark.processes
def test_a_killed_client_resumes_its_update_and_only_the_rest_is_sent(tmp_path: Path) -> None:
    with a_job(tmp_path, "hang@t3") as job:
        job.reached(1).kill()
        again = job.client(1)
        report = fact(job.server, "contributors")
        assert (report["attempt"], report["contributors"]) == (1, ["site-0", "site-1"])
        sent, received = fact(job.server, "digest")["wire"]
        assert_same(job.model(), mean_of(initial(FOUR), {0: 1.0, 1: 1.0}))
        assert fact(job.clients[0], "seen") == FOUR.nbytes  # each range once
        assert fact(again, "seen") < FOUR.nbytes // 3
    # Two clients, a model each; to begin again would have taken another three quarters.
    assert sent < 2.2 * FOUR.nbytes
    assert received < 2.2 * FOUR.nbytes


@pytest.mark.processes
@pytest.mark.parametrize("place", ["weight", "t0", "metrics"])
def test_a_client_may_be_killed_before_its_first_byte_and_after_its_last(
    place: str, tmp_path: Path
) -> None:
    with a_job(tmp_path, f"hang@{place}") as job:
        job.reached(1).kill()
        job.client(1)
        assert_undisturbed(job)


@pytest.mark.processes
def test_a_client_that_is_killed_before_the_commit_counts(tmp_path: Path) -> None:
    with a_job(tmp_path, "", pauses_at="before persist") as job:
        while fact(job.server, "event") != "before persist":
            pass
        job.clients[1].kill()
        job.clients[1].wait()
        job.go_on()
        assert_undisturbed(job)


@pytest.mark.processes
def test_a_client_that_is_not_pure_costs_an_attempt(tmp_path: Path) -> None:
    # Nothing of it is kept, so the attempt ends with its session: that has to wait for the next.
    patient = {**LINK, "timeouts": {**LINK["timeouts"], "reconnect_timeout": LONG}}
    with a_job(tmp_path, "hang@t3", is_pure=False, link=patient) as job:
        job.reached(1).kill()
        again = job.client(1, is_pure=False)
        assert_undisturbed(job, attempt=2)
        assert fact(again, "seen") == FOUR.nbytes


# --- in one process: what may surround an update that goes on --------------------------------


@on_floats
def halved(tensor: TensorSpec, start: int, values: Array) -> Array:
    return (values / 2).astype(values.dtype)


def seeded(facts: FilterContext) -> RangeFunction:
    """Add noise that is a function of the attempt and the position."""
    seed = zlib.crc32(str(facts.attempt).encode())

    @on_floats
    def noise(tensor: TensorSpec, start: int, values: Array) -> Array:
        steps = np.arange(start, start + values.size) * (seed % 31) % 17
        sums: Array = values + steps.astype(values.dtype)
        return sums

    return noise


def digest_of_rounds(stops_at: str = "", first: Make = StreamingExecutor, **facts: Any) -> str:
    """Run rounds of two clients; the second is lost where it stops, and comes back."""
    with Rounds(arrays=initial(), wait_time_after_min_received=WAIT, **facts) as job:
        job.site(0, first(trained(0)))
        gate = Gate(1, stops_at)
        leaving = job.site(1, differences(gate if stops_at else trained(1)))
        job.start(2)
        if stops_at:
            assert gate.reached.wait(WAIT)
            leaving.leave()
            gate.opens.set()
            job.federation.wait_left("site-1")
            job.site(1, differences(trained(1)))
        assert all(report.attempt == 1 for report in job.reports())
        return digest_of(job.store.open())


def differences(function: RangeFunction) -> StreamingExecutor:
    return StreamingExecutor(function, returns="differences", filter_up=FilterFactory(seeded))


def whole(function: RangeFunction) -> WholeExecutor:
    """Return an executor that has room for the next model while its update is on its way."""

    def train(arrays: dict[str, Array], task: Task) -> None:
        for tensor in ODD.tensors:
            flat = arrays[tensor.name].reshape(-1)
            flat[:] = function(tensor, 0, flat)

    return WholeExecutor(train, initial(), next_model="memory")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "facts"),
    [
        ("f64", {}),
        ("i8", {}),
        ("bf16", {}),
        ("bf16", {"extras": {"filters_down": [FilterFactory(seeded)], "filters_up": [halved]}}),
        ("bf16", {"part": ["f64", "i8", "bf16", "c64"]}),
        ("bf16", {"duplex_bytes": 1 << 20, "num_rounds": 2, "first": whole}),
    ],
    ids=["at once", "between", "late", "filters", "part", "duplex"],
)
def test_the_new_model_is_that_of_a_round_without_a_loss(place: str, facts: dict[str, Any]) -> None:
    assert digest_of_rounds(place, **facts) == digest_of_rounds(**facts)


def test_a_client_that_is_lost_before_it_answers_begins_again_whatever_its_executor() -> None:
    began, ends = threading.Event(), threading.Event()

    def train(arrays: dict[str, Array], task: Task) -> None:
        began.set()
        ends.wait(WAIT)

    with Rounds(wait_time_after_min_received=WAIT) as job:
        calls: list[Task] = []
        job.site(0, WholeExecutor(lambda arrays, task: calls.append(task), initial()))
        leaving = job.site(1, WholeExecutor(train, initial()))
        job.start(2)
        assert began.wait(WAIT)
        leaving.leave()
        ends.set()
        job.federation.wait_left("site-1")
        job.site(1, WholeExecutor(train, initial()))
        assert job.report().attempt == 1
    assert len(calls) == 1


@pytest.mark.parametrize(
    "other",
    [
        StreamingExecutor(trained(1), weight=2.0),
        StreamingExecutor(trained(1), is_pure=False),
        WholeExecutor(lambda arrays, task: None, initial()),
    ],
    ids=["another weight", "not pure", "whole"],
)
def test_who_comes_back_with_another_update_counts_in_a_new_attempt(other: Executor) -> None:
    with Rounds(wait_time_after_min_received=WAIT) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.start(2)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        gate.opens.set()
        job.federation.wait_left("site-1")
        job.site(1, other)
        report = job.report()
    assert (report.attempt, sorted(report.weights)) == (2, ["site-0", "site-1"])
    assert report.failures == {}


def test_who_does_not_come_back_is_waited_for_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Rounds(wait_time_after_min_received=0.2) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        report = job.report()
        job.assert_mean_of(0, 2)
    assert (report.attempt, list(report.failures)) == (2, ["site-1"])
    assert "if it is back within 0.2 s" in caplog.text
    assert "for site-1 to come back" not in caplog.text


def test_a_client_comes_back_as_often_as_a_round_has_attempts() -> None:
    with Rounds(wait_time_after_min_received=WAIT, max_attempts=2) as job:
        gate, site = job.gated(1)
        job.site(0)
        job.start(2)
        for _ in range(3):
            assert gate.reached.wait(WAIT)
            site.leave()
            gate.opens.set()
            job.federation.wait_left("site-1")
            gate, site = job.gated(1)
        gate.opens.set()
        assert job.report().attempt == 2
        job.assert_mean_of(0, 1)


class Back:
    """A client that is back with ``again`` as soon as it is looked for."""

    grace_seconds = WAIT

    def __init__(self, again: ReceiveTransfer) -> None:
        self.again, self.asked = again, list[int]()

    def is_possible(self, error: StreamlinkError) -> bool:
        return not isinstance(error, ModelError)

    def try_resume(self, partial: PartialUpdate, seconds: float) -> bool:
        self.asked.append(partial.resume_offset)
        partial.resume(Answer(self.again))
        return True


@pytest.mark.parametrize("cut", [7, 200, 1000])
@pytest.mark.parametrize(("used", "asked"), [(64, 0), (256, 256), (300, 256), (511, 256)])
def test_what_of_a_lost_stream_was_not_used_comes_again_from_the_beginning_of_its_block(
    used: int, asked: int, cut: int
) -> None:
    data = bytes(each % 251 for each in range(600))
    again = awaited(600, 2, Extent(asked, 600) if asked else None)
    lost, back = awaited(600), Back(again)
    contributor = LiveSource("a", Answer(lost), resume=back)
    arrive(contributor, bytes(600), update=Update(is_pure=True))
    contributor.take(used)
    lost.abort(AbortCode.SESSION_LOST, "it is gone")
    contributor.poll()
    contributor.release(used)  # nobody hears it, and nothing is raised
    assert not contributor.fetch(0.01)  # it is back, and has not announced itself yet
    assert (back.asked, contributor.end, contributor.model) == ([asked], used, again)
    arrive(contributor, data, cut, begins=asked, update=Update(is_pure=True))
    assert contributor.end == 600
    assert contributor.take(600 - used) == data[used:]  # and nothing of what came before


def test_an_update_of_which_nothing_was_used_comes_again_with_another_norm() -> None:
    again, norms = awaited(600, 2), list[float | None]()
    lost = awaited(600)

    def filters(update: Update) -> tuple[RangeFunction, ...]:
        norms.append(update.norm)
        return ()

    contributor = LiveSource("a", Answer(lost), filters=filters, resume=Back(again))
    arrive(contributor, bytes(600), update=Update(norm=3.0))
    assert contributor.filters == ()
    lost.abort(AbortCode.SESSION_LOST, "it is gone")
    contributor.poll()
    assert not contributor.fetch(0.01)  # it is back, and has not announced itself yet
    data = bytes(each % 251 for each in range(600))
    arrive(contributor, data, update=Update(norm=4.0))
    assert contributor.filters == ()
    assert contributor.take(600) == data
    assert norms == [3.0, 4.0]


@pytest.mark.parametrize(
    ("used", "update", "why"),
    [
        (4, Update(is_pure=True, norm=4.0), "another update"),
        (0, Update(is_pure=True, norm=3.0, weight=2.0), "another update"),
        (0, Update(is_pure=True, norm=-1.0), "a norm is 0 or more"),
    ],
)
def test_an_update_that_comes_again_is_refused_if_it_is_another_one(
    used: int, update: Update, why: str
) -> None:
    lost, again = awaited(600), awaited(600, 2)
    contributor = LiveSource("a", Answer(lost), resume=Back(again))
    arrive(contributor, bytes(600), update=Update(is_pure=True, norm=3.0))
    contributor.take(used)
    lost.abort(AbortCode.SESSION_LOST, "it is gone")
    contributor.poll()
    assert not contributor.fetch(0.01)  # it is back, and has not announced itself yet
    with pytest.raises(ContributorFailed, match=why):
        arrive(contributor, bytes(600), update=update)


class Holds:
    """Notes for whom the server holds the client that stays, once the other one has left."""

    def __init__(self) -> None:
        self.is_disconnected, self.told = threading.Event(), Future[tuple[str, str]]()

    def frame_received(self, machine: Any, frame: f.Frame) -> None:
        is_of_ours = isinstance(machine, SendStream) and machine.peer_name.startswith("server")
        is_news = self.is_disconnected.is_set() and not self.told.done()
        if is_of_ours and is_news and isinstance(frame, f.Held):
            self.told.set_result((frame.reason, frame.waiting_for))

    def before_send(self, machine: Any) -> None: ...

    def before_event(self, machine: Any) -> None: ...


@pytest.fixture
def holds() -> Iterator[Holds]:
    Machine.observer = heard = Holds()
    yield heard
    Machine.observer = None


def test_while_a_client_is_away_the_others_are_held_and_told_for_whom(holds: Holds) -> None:
    with Rounds(wait_time_after_min_received=LONG) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.start(2)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        gate.opens.set()
        job.federation.wait_left("site-1")
        holds.is_disconnected.set()
        assert holds.told.result(WAIT) == ("lockstep", "site-1")
        job.site(1)
        assert job.report().attempt == 1
