"""A server that answers one probe, of whoever knows its token."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from streamlink.cancel import CancelToken
from streamlink.errors import Cancelled, RequestRefused, StreamAborted
from streamlink.link.probe_line import ProbeLine
from streamlink.link.probe_server import serve_probe
from tests.support.peers import WAIT

TOKEN = "one time only"


@contextmanager
def waiting(cancel: CancelToken | None = None) -> Iterator[tuple[str, Future[bool]]]:
    """A server that waits for its probe: its address, and what became of it."""
    port, cancel = Future[int](), cancel or CancelToken()
    with ThreadPoolExecutor(1) as pool:
        over = pool.submit(
            serve_probe, "127.0.0.1:0", token=TOKEN, on_listening=port.set_result, cancel=cancel
        )
        try:
            yield f"127.0.0.1:{port.result(WAIT)}", over
        finally:
            cancel.cancel("the test is over")


def test_it_ends_after_one_probe() -> None:
    with waiting() as (address, over):
        with ProbeLine(address, token=TOKEN) as line:
            line.move([("down", 100_000), ("up", 100_000)])
            assert not over.done()
        assert over.result(WAIT)


@pytest.mark.parametrize(("token", "said"), [("", "asks for its"), ("another", "is wrong")])
def test_a_wrong_token_is_refused_and_the_right_one_still_counts(token: str, said: str) -> None:
    with waiting() as (address, over):
        with pytest.raises(RequestRefused, match=f"one-time token.*{said}|{said}.*token"):
            ProbeLine(address, token=token).start()
        with ProbeLine(address, token=TOKEN) as line:
            line.echo()
        assert over.result(WAIT)


@pytest.mark.slow
def test_it_gives_up_after_five_wrong_tokens() -> None:
    with waiting() as (address, over):
        for _ in range(5):
            with pytest.raises(RequestRefused, match="token is wrong"):
                ProbeLine(address, token="guess").start()
        with pytest.raises(StreamAborted, match="wrong one-time tokens, too often"):
            over.result(WAIT)


def test_it_does_not_wait_for_ever() -> None:
    assert not serve_probe("127.0.0.1:0", token=TOKEN, timeout=0.05)


def test_a_cancelled_token_ends_it() -> None:
    cancel = CancelToken()
    with waiting(cancel) as (_, over):
        cancel.cancel("enough")
        with pytest.raises(Cancelled):
            over.result(WAIT)
