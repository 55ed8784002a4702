"""Whole rounds on virtual time: hours of waiting, to the second, that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import QuorumNotReached, RoundError
from streamlink.executors.executor import Task, TaskOutcome
from streamlink.link.assignment import Assignment
from streamlink.link.receive_model import receive_model
from streamlink.model.spec import TensorSpec
from streamlink.protocol.liveness import SessionLost
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.stores.memory import MemoryStore
from tests.support.peers import Array, config, executor, trained
from tests.support.slow_commit import SlowCommit
from tests.support.virtual_job import Cable, VirtualJob, acting_at

HOUR = 3600.0
LONG = 600.0
"""As good as an hour, where somebody says every second that it lives."""
GRACE = 300.0
RECONNECT = 4 / 3 * config().timeouts.reconnect_timeout
"""How long a server waits for a client whose connection it saw break (seconds)."""

CHECKS = 5.0
"""Most that passes until a server looks at a request again (seconds)."""

TRY = 2.0
"""Most that a client pauses between two tries to reach its server, and then some (seconds)."""


class Pulled(Cable):
    """A connection that a client's work breaks, and that is mended after a while, or never."""

    def __init__(self, job: VirtualJob, mended_after: float | None = None) -> None:
        super().__init__()
        self._job, self._mended_after = job, mended_after

    def pull(self) -> None:
        super().pull()
        if self._mended_after is not None:
            self._job.later(self._mended_after, self.mend)


def join_lost(job: VirtualJob, number: int, mended_after: float | None = None) -> None:
    """Join a client that loses its connection in the middle of its update."""
    cable = Pulled(job, mended_after)
    job.site(number, acting_at(number, cable.pull), cable=cable)


def replies_only(assignment: Assignment) -> None:
    """Take the model and reply, without a word about an update that never comes."""
    model, got = assignment.incoming(), MemoryStore()
    receive_model(model, lambda model: got.begin(model.spec))
    assignment.reply()
    assignment.close(model)


@pytest.mark.parametrize("is_spooled", [False, True])
def test_a_client_that_replies_and_never_sends_its_update_is_dropped_after_open_timeout(
    tmp_path: Path, is_spooled: bool
) -> None:
    with VirtualJob(
        spool=tmp_path if is_spooled else None, min_clients=1, wait_time_after_min_received=HOUR
    ) as job:
        job.site(0)
        job.site(1, serving=replies_only)
        report = job.run()
        most = config().timeouts.open_timeout + CHECKS
        assert config().timeouts.open_timeout <= report.seconds <= most
        assert "site-1 did not open the stream" in report.failures["site-1"]
        assert "raise open_timeout" in report.failures["site-1"]
        job.assert_mean_of(0)


@pytest.mark.slow
def test_train_timeout_ends_a_round_whose_client_replied_and_may_still_send_its_update() -> None:
    with VirtualJob(config(open_timeout=HOUR), min_clients=1, train_timeout=LONG) as job:
        job.site(0)
        job.site(1, serving=replies_only)
        with pytest.raises(QuorumNotReached, match=r"train_timeout of 600 s .* waiting for site-1"):
            job.run()
        assert job.when(EventKind.ROUND_FAILED) == LONG
        job.assert_unchanged()


# --- in lockstep ------------------------------------------------------------


def test_a_round_in_which_nobody_waits_takes_no_time() -> None:
    with VirtualJob(min_clients=2) as job:
        job.site(0)
        job.site(1)
        report = job.run()
        assert (report.seconds, job.seconds) == (0.0, 0.0)
        job.assert_mean_of(0, 1)


def test_train_timeout_ends_a_round_in_lockstep_to_the_second_and_names_the_slow_one() -> None:
    with VirtualJob(min_clients=1, train_timeout=LONG) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, 2 * LONG))
        with pytest.raises(QuorumNotReached, match=r"train_timeout of 600 s .* waiting for site-1"):
            job.run()
        assert job.when(EventKind.ROUND_FAILED) == LONG
        job.assert_unchanged()


@pytest.mark.slow
def test_a_slow_client_that_lives_is_waited_for() -> None:
    with VirtualJob(min_clients=2) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, LONG))
        report = job.run()
        assert report.seconds == job.seconds == LONG
        job.assert_mean_of(0, 1)


def test_a_lost_client_is_waited_for_as_long_as_its_session_and_the_grace_time_last() -> None:
    with VirtualJob(min_clients=1, wait_time_after_min_received=GRACE) as job:
        job.site(0)
        join_lost(job, 1)
        report = job.run()
        assert job.when(EventKind.CLIENT_DROPPED, "site-1") == RECONNECT + GRACE
        assert report.seconds == RECONNECT + GRACE
        assert report.attempt == 2
        assert "within 40 s" in report.failures["site-1"]
        job.assert_mean_of(0)


def test_a_lost_client_that_is_back_within_the_grace_time_goes_on_in_the_same_attempt() -> None:
    back = 200.0
    assert RECONNECT < back < RECONNECT + GRACE
    with VirtualJob(
        config(rejoin_timeout=HOUR), min_clients=2, wait_time_after_min_received=GRACE
    ) as job:
        job.site(0)
        join_lost(job, 1, mended_after=back)
        report = job.run()
        assert back <= report.seconds <= back + TRY
        assert (report.attempt, report.failures) == (1, {})
        job.assert_mean_of(0, 1)


def test_a_connection_that_is_back_before_the_session_is_lost_costs_nothing_else() -> None:
    back = 10.0
    with VirtualJob(min_clients=2, wait_time_after_min_received=0) as job:
        job.site(0)
        join_lost(job, 1, mended_after=back)
        report = job.run()
        assert back <= report.seconds <= back + TRY
        assert (report.attempt, report.failures) == (1, {})
        job.assert_mean_of(0, 1)


def test_a_client_that_says_nothing_is_given_up_after_communication_timeout() -> None:
    # Its read timeout is longer: at the same moment, either could be the first to be noticed.
    link = config(communication_timeout=GRACE, streaming_read_timeout=HOUR)
    with VirtualJob(link, min_clients=1) as job:
        job.site(0)
        job.site(1, acting_at(1, lambda: job.sleep(2 * HOUR), "f64"))
        report = job.run()
        assert GRACE <= report.seconds <= GRACE + 2 * job.clock.read_seconds
        assert "site-1 made no progress for 300.0 s" in report.failures["site-1"]
        job.assert_mean_of(0)


@pytest.mark.slow
def test_a_job_waits_for_its_clients_as_long_as_it_may() -> None:
    with VirtualJob(min_clients=2, wait_for_clients_seconds=HOUR) as job:
        job.site(0)
        with pytest.raises(RoundError, match="1 of 2 clients came within 3600 s"):
            job.run()
        assert job.seconds == HOUR


def test_a_client_whose_server_is_out_of_reach_ends_when_it_may_not_rejoin_any_more() -> None:
    with VirtualJob(config(rejoin_timeout=LONG)) as job:
        cable = Cable()
        client = job.site(0, cable=cable)
        cable.pull()
        assert client.wait(2 * LONG)
        lost = config().timeouts.reconnect_timeout
        assert lost + LONG <= job.seconds <= lost + LONG + TRY
        assert isinstance(client.error, SessionLost)


# --- who is waited for, and nobody's deadline passes ------------------------

TEN = config(
    streaming_read_timeout=10.0,
    streaming_ack_wait=10.0,
    communication_timeout=10.0,
    session_timeout=10.0,
    open_timeout=HOUR,
)
"""Ten seconds for everything that moves."""


class Working:
    """Work that moves, and says so, before it gives its answer."""

    def __init__(self, job: VirtualJob, number: int) -> None:
        self._answer, self._job = executor(number), job

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        for _ in range(12):
            self._job.sleep(4.0)
            assignment.progress()
        return self._answer.execute(task, assignment)


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 2])
def test_fast_clients_wait_for_a_slow_one_for_multiples_of_their_limits(late: int) -> None:
    # Those before and after the slow one in the fixed order wait in different states.
    with VirtualJob(TEN) as job:
        for number in range(3):
            job.site(number, Working(job, number) if number == late else None)
        report = job.run()
        assert (report.attempt, report.seconds) == (1, 12 * 4.0)
        job.assert_mean_of(0, 1, 2)


def test_waiting_to_be_accepted_is_held_too() -> None:
    limits = config(open_timeout=10.0, communication_timeout=40.0)
    with VirtualJob(limits) as job:
        # The first in order answers late; the others' answers wait to be accepted meanwhile.
        job.site(0, acting_at(0, lambda: job.sleep(25.0), "f64"))
        job.site(1)
        report = job.run()
        assert (report.attempt, report.seconds) == (1, 25.0)
        job.assert_mean_of(0, 1)


def test_a_slow_client_that_moves_fails_nobody() -> None:
    with VirtualJob(TEN) as job:

        def slow(tensor: TensorSpec, start: int, values: Array) -> Array:
            job.sleep(1.5)
            return trained(1)(tensor, start, values)

        job.site(0)
        job.site(1, slow)
        job.site(2)
        report = job.run()
        assert report.attempt == 1
        assert report.seconds > 20.0
        job.assert_mean_of(0, 1, 2)


def test_a_slow_commit_that_moves_outlives_every_limit() -> None:
    with VirtualJob(TEN) as job:
        job.store = SlowCommit(lambda: job.sleep(4.0), steps=10)
        job.site(0)
        job.site(1)
        report = job.run()
        assert (report.attempt, report.seconds) == (1, 10 * 4.0)
        job.assert_mean_of(0, 1)


@pytest.mark.parametrize("what", [EventKind.BEFORE_AGGREGATION, EventKind.BEFORE_PERSIST])
def test_a_slow_listener_runs_nobodys_clock_out(what: EventKind) -> None:
    def listen(event: RoundEvent) -> None:
        if event.kind is what:
            job.sleep(30.0)

    with VirtualJob(TEN) as job:
        job.on_event = listen
        job.site(0)
        job.site(1)
        report = job.run()
        assert (report.attempt, report.seconds) == (1, 30.0)
        job.assert_mean_of(0, 1)


# --- through a spool --------------------------------------------------------


def test_a_spooled_round_goes_on_a_grace_time_after_enough_have_come(tmp_path: Path) -> None:
    with VirtualJob(spool=tmp_path, min_clients=1, wait_time_after_min_received=GRACE) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, HOUR))
        job.site(2, serving=job.slow(2, 100.0))
        report = job.run()
        assert job.when(EventKind.UPDATE_ARRIVED, "site-0") == 0.0
        assert job.when(EventKind.UPDATE_ARRIVED, "site-2") == 100.0
        assert report.seconds == GRACE
        assert "no update of it came before" in report.failures["site-1"]
        job.assert_mean_of(0, 2)


def test_train_timeout_ends_a_spooled_round_to_the_second(tmp_path: Path) -> None:
    with VirtualJob(spool=tmp_path, min_clients=2, train_timeout=LONG) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, 2 * LONG))
        with pytest.raises(QuorumNotReached, match=r"1 of 2 updates came .* train_timeout passed"):
            job.run()
        assert job.when(EventKind.ROUND_FAILED) == LONG
        job.assert_unchanged()


def test_a_lost_client_is_asked_again_by_a_spooled_round_when_it_is_back(tmp_path: Path) -> None:
    back = 200.0
    link = config(rejoin_timeout=HOUR)
    with VirtualJob(link, spool=tmp_path, min_clients=3, wait_time_after_min_received=GRACE) as job:
        job.site(0)
        join_lost(job, 1, mended_after=back)
        job.site(2)
        report = job.run()
        assert job.when(EventKind.CLIENT_DROPPED, "site-1") == RECONNECT
        assert back <= report.seconds <= back + TRY
        assert report.failures == {}
        job.assert_mean_of(0, 1, 2)


def test_a_lost_client_that_does_not_come_back_costs_a_spooled_round_its_grace_time(
    tmp_path: Path,
) -> None:
    with VirtualJob(spool=tmp_path, min_clients=2, wait_time_after_min_received=GRACE) as job:
        job.site(0)
        join_lost(job, 1)
        job.site(2)
        report = job.run()
        assert report.seconds == GRACE  # it began when two had come, before the session was lost
        job.assert_mean_of(0, 2)
