"""Whole rounds on virtual time: hours of waiting, to the second, that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import QuorumNotReached, RoundError
from streamlink.protocol.liveness import SessionLost
from streamlink.rounds.events import EventKind
from tests.support.peers import config
from tests.support.virtual_job import Cable, VirtualJob, acting_at

HOUR = 3600.0
GRACE = 300.0
RECONNECT = 4 / 3 * config().timeouts.reconnect_timeout
"""How long a server waits for a client whose connection it saw break (seconds)."""

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


# --- in lockstep ------------------------------------------------------------


def test_a_round_in_which_nobody_waits_takes_no_time() -> None:
    with VirtualJob(min_clients=2) as job:
        job.site(0)
        job.site(1)
        report = job.run()
        assert (report.seconds, job.seconds) == (0.0, 0.0)
        job.assert_mean_of(0, 1)


def test_train_timeout_ends_a_round_in_lockstep_to_the_second_and_names_the_slow_one() -> None:
    with VirtualJob(min_clients=1, train_timeout=HOUR) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, 2 * HOUR))
        with pytest.raises(
            QuorumNotReached, match=r"train_timeout of 3600 s .* waiting for site-1"
        ):
            job.run()
        assert job.when(EventKind.ROUND_FAILED) == HOUR
        job.assert_unchanged()


def test_a_slow_client_that_lives_is_waited_for() -> None:
    with VirtualJob(min_clients=2) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, HOUR / 6))
        report = job.run()
        assert report.seconds == job.seconds == HOUR / 6
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
    link = config(communication_timeout=GRACE)
    with VirtualJob(link, min_clients=1) as job:
        job.site(0)
        job.site(1, acting_at(1, lambda: job.sleep(HOUR), "f64"))
        report = job.run()
        assert GRACE <= report.seconds <= GRACE + 2 * job.clock.read_seconds
        assert "site-1 made no progress for 300.0 s" in report.failures["site-1"]
        job.assert_mean_of(0)


def test_a_job_waits_for_its_clients_as_long_as_it_may() -> None:
    with VirtualJob(min_clients=2, wait_for_clients_seconds=HOUR) as job:
        job.site(0)
        with pytest.raises(RoundError, match="1 of 2 clients came within 3600 s"):
            job.run()
        assert job.seconds == HOUR


def test_a_client_whose_server_is_out_of_reach_ends_when_it_may_not_rejoin_any_more() -> None:
    with VirtualJob(config(rejoin_timeout=HOUR)) as job:
        cable = Cable()
        client = job.site(0, cable=cable)
        cable.pull()
        assert client.wait(2 * HOUR)
        lost = config().timeouts.reconnect_timeout
        assert lost + HOUR <= job.seconds <= lost + HOUR + TRY
        assert isinstance(client.error, SessionLost)


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
    with VirtualJob(spool=tmp_path, min_clients=2, train_timeout=HOUR) as job:
        job.site(0)
        job.site(1, serving=job.slow(1, 2 * HOUR))
        with pytest.raises(QuorumNotReached, match=r"1 of 2 updates came .* train_timeout passed"):
            job.run()
        assert job.when(EventKind.ROUND_FAILED) == HOUR
        job.assert_unchanged()


def test_a_lost_client_is_asked_again_by_a_spooled_round_when_it_is_back(tmp_path: Path) -> None:
    back = 200.0
    link, rules = config(rejoin_timeout=HOUR), {"wait_time_after_min_received": GRACE}
    with VirtualJob(link, spool=tmp_path, min_clients=3, **rules) as job:
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
