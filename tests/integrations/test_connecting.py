"""Connecting to a job's object server that this end may not reach."""

from __future__ import annotations

import pytest

from streamlink import CancelToken, LinkConfig
from streamlink.errors import Cancelled, ConnectFailed, SecurityError
from streamlink.integrations.connecting import Resting, connected
from streamlink.objects import ObjectServer
from streamlink.testing import memory_address
from tests.support.objects import some_arrays
from tests.support.peers import SMALL


def test_the_token_ends_the_attempt_and_not_the_session() -> None:
    address, cancel = memory_address(), CancelToken()
    with ObjectServer(address, config=SMALL):
        client = connected(address, "site-1", SMALL, cancel)
        cancel.cancel("too late")
        assert client.put(some_arrays()).nbytes
        client.close()


def test_an_attempt_that_is_cancelled_ends() -> None:
    cancel = CancelToken()
    cancel.cancel("FLARE gives up")
    with pytest.raises(Cancelled):
        connected("127.0.0.1:1", "site-1", LinkConfig(), cancel)


def test_who_could_not_connect_rests_and_then_tries_again() -> None:
    now = 100.0
    resting, tries = Resting(60.0, lambda: now), 0

    def attempt(who: str, error: Exception | None = None) -> None:
        nonlocal tries
        with resting.trying(who):
            tries += 1
            if error:
                raise error

    with pytest.raises(ConnectFailed, match="nobody answers"):
        attempt("site-1", ConnectFailed("nobody answers"))
    now += 20
    with pytest.raises(ConnectFailed, match="nobody answers; site-1 tries again in 40 s"):
        attempt("site-1")
    attempt("site-2")
    now += 41
    attempt("site-1")
    assert tries == 3


def test_who_was_refused_at_once_does_not_rest() -> None:
    resting = Resting(60.0)
    for _ in range(2):
        with pytest.raises(SecurityError), resting.trying("site-1"):
            raise SecurityError("the port is none of ours")
