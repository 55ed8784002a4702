"""Calls that have said nothing: so many, and the oldest makes room."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest

from streamlink.transport.server_calls import HandshakeLimit


def test_the_oldest_makes_room_and_those_that_have_spoken_are_left_alone() -> None:
    limit = HandshakeLimit(2)
    cut: list[str] = []
    with limit.waiting(lambda: cut.append("spoke at once")):
        pass
    with ExitStack() as calls:
        for name in ("first", "second", "third", "fourth"):
            calls.enter_context(limit.waiting(partial(cut.append, name)))
        assert cut == ["first", "second"]
        assert len(limit) == 2
    assert len(limit) == 0


def test_a_cut_that_fails_leaves_the_place_of_the_newer_call_to_others() -> None:
    limit = HandshakeLimit(1)

    def fail() -> None:
        raise OSError("it is gone")

    with limit.waiting(fail):
        with pytest.raises(OSError, match="it is gone"), limit.waiting(lambda: None):
            pass
        assert len(limit) == 0
