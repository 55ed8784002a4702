"""Attempts: what is tried again, until when, and what the caller gets in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlink.cancel import CancelToken
from streamlink.errors import (
    AbortCode,
    Cancelled,
    CommunicationTimeout,
    ConnectFailed,
    ModelError,
    ObjectRefused,
    RequestRefused,
    StreamAborted,
    StreamlinkError,
)
from streamlink.objects.attempts import Attempts
from tests.support.peers import config
from tests.support.virtual_clock import VirtualClock

LOST = StreamAborted(AbortCode.SESSION_LOST, "gone", by_peer=False)


class Trial:
    """Attempts in virtual time, each of which raises what it is told."""

    def __init__(
        self,
        *,
        timeout: float | None = None,
        token: CancelToken | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.clock = VirtualClock()
        self.made = 0
        self.attempts = Attempts(
            config(rejoin_timeout=60.0), self.clock, (token, None), timeout, "object 7", is_over
        )

    def run(self, attempt: Callable[[int], str], *, is_once: bool = False) -> str:
        def one() -> str:
            self.made += 1
            return attempt(self.made)

        with self.clock.running():
            return self.attempts.make(one, is_once=is_once)


def failing(error: StreamlinkError, times: int = 1 << 30) -> Callable[[int], str]:
    def attempt(number: int) -> str:
        if number <= times:
            raise error
        return "done"

    return attempt


def test_a_lost_session_is_tried_again_until_it_succeeds() -> None:
    trial = Trial()
    assert trial.run(failing(LOST, 3)) == "done"
    assert trial.made == 4


@pytest.mark.parametrize(
    "error",
    [
        ObjectRefused("no reads left"),
        ModelError("another model"),
        RequestRefused("no", who="server", metadata={}),
        StreamAborted(AbortCode.STORE_FAILED, "full", by_peer=True),
    ],
)
def test_what_another_attempt_would_meet_again_is_raised_at_once(error: StreamlinkError) -> None:
    trial = Trial()
    with pytest.raises(type(error)):
        trial.run(failing(error))
    assert trial.made == 1


def test_a_target_that_is_good_once_gets_one_attempt() -> None:
    trial = Trial()
    with pytest.raises(StreamAborted):
        trial.run(failing(LOST), is_once=True)
    assert trial.made == 1


def test_attempts_without_progress_come_to_an_end_and_progress_prolongs_them() -> None:
    trial = Trial()
    with pytest.raises(ConnectFailed):
        trial.run(failing(ConnectFailed("nobody")))
    assert 60 <= trial.clock() - 1000 < 70
    moving = Trial()

    def attempt(number: int) -> str:
        moving.attempts.note(min(number, 30))
        raise LOST

    with pytest.raises(StreamAborted):
        moving.run(attempt)
    assert moving.clock() - 1000 > 120


def test_a_client_that_is_over_does_not_try_again() -> None:
    trial = Trial(is_over=lambda: True)
    with pytest.raises(StreamAborted):
        trial.run(failing(LOST))
    assert trial.made == 1


def test_the_time_of_a_call_ends_it_between_attempts() -> None:
    trial = Trial(timeout=20.0)
    with pytest.raises(CommunicationTimeout, match="object 7"):
        trial.run(failing(LOST))
    assert trial.clock() - 1000 == 20


def test_the_time_of_a_call_is_that_of_all_that_it_makes() -> None:
    trial = Trial(timeout=20.0)

    def one(number: int) -> str:
        trial.attempts.cancel.pause(15.0, trial.clock)
        trial.attempts.cancel.check()
        return "done"

    assert trial.run(one) == "done"
    with pytest.raises(CommunicationTimeout, match="object 7"):
        trial.run(one)
    assert trial.clock() - 1000 == 20


def test_a_cancelled_token_hides_what_it_has_caused() -> None:
    token = CancelToken()

    def attempt(number: int) -> str:
        token.cancel("enough")
        raise LOST

    with pytest.raises(Cancelled, match="enough"):
        Trial(token=token).run(attempt)
