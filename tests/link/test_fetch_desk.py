"""Who is admitted to a served model. The sessions stand for clients whose state a test decides."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from streamlink.errors import StreamAborted
from streamlink.link.fetch_desk import Fetch, FetchDesk
from streamlink.link.oneshot_wire import PULL
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session


class Client:
    """What the desk sees of a session."""

    def __init__(self, name: str) -> None:
        self.peer_name = name
        self.closed = threading.Event()
        self.is_disconnected = False
        self.refusals: list[str] = []

    def reply(self, request: Request, *, error: str) -> None:
        self.refusals.append(error)

    def asks(self, desk: FetchDesk) -> Fetch | None:
        return desk.admit(cast("Session", self), cast("Any", Request(request_id=1, topic=PULL)))


def test_a_second_request_of_a_session_is_refused_whoever_else_is_away() -> None:
    desk, first, second = FetchDesk(most=8), Client("first"), Client("second")
    kept = first.asks(desk)
    assert kept is not None
    assert second.asks(desk) is not None
    first.is_disconnected = True
    assert second.asks(desk) is None
    assert "serves this client already" in second.refusals[0]
    assert [each.peer_name for each in desk.fetches] == ["first", "second"]
    kept.check()


def test_a_place_is_taken_from_one_that_is_away_only_where_there_is_no_other() -> None:
    desk, away, second, third = FetchDesk(most=2), *map(Client, ("away", "second", "third"))
    lost = away.asks(desk)
    assert lost is not None
    away.is_disconnected = True
    assert second.asks(desk) is not None
    lost.check()
    assert third.asks(desk) is not None
    with pytest.raises(StreamAborted, match="away, and third took its place"):
        lost.check()


def test_a_desk_that_was_closed_gives_nobody_a_place() -> None:
    desk, away, second = FetchDesk(most=1), Client("away"), Client("second")
    away.asks(desk)
    away.is_disconnected = True
    desk.close("enough")
    assert second.asks(desk) is None
    assert second.refusals == ["it has stopped serving"]
