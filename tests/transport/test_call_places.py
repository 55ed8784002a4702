"""How many calls may carry the streams of one session."""

from __future__ import annotations

import pytest

from streamlink.config import LimitsConfig, LinkConfig, StreamConfig
from streamlink.errors import AbortCode, ProtocolError
from streamlink.transport.call_places import CallPlaces, LanePlaces

MOST = 4
CONFIG = LinkConfig(limits=LimitsConfig(max_streams=MOST), stream=StreamConfig(max_lanes=3))
OFFERED = range(1, 100)


@pytest.fixture
def places() -> CallPlaces:
    return CallPlaces(CONFIG, "site-1", LanePlaces(100))


def test_so_many_streams_have_a_call_and_one_more_is_refused(places: CallPlaces) -> None:
    for stream in range(1, MOST + 1):
        places.take(stream, OFFERED)
    with pytest.raises(ProtocolError, match="site-1 has 4 transfer calls open") as refused:
        places.take(MOST + 1, OFFERED)
    assert refused.value.code is AbortCode.REFUSED
    places.take(MOST, OFFERED)  # a call that takes over is not one more


def test_streams_that_have_ended_share_a_few(places: CallPlaces) -> None:
    for stream in range(200, 204):
        places.take(stream, OFFERED)
    with pytest.raises(ProtocolError):
        places.take(204, OFFERED)


def test_only_the_newest_call_of_a_stream_frees_its_place(places: CallPlaces) -> None:
    for stream in range(1, MOST + 1):
        places.take(stream, OFFERED)
        places.took(stream, 7)
    places.free(1, 6)
    with pytest.raises(ProtocolError):
        places.take(99, OFFERED)
    places.free(1, 7)
    places.take(99, OFFERED)


@pytest.mark.parametrize("carrying", [0, 3, 4])
def test_a_lane_needs_a_stream_that_is_carried_by_fewer_than_it_may(
    places: CallPlaces, carrying: int
) -> None:
    with pytest.raises(ProtocolError, match=r"max_lanes is 3"):
        places.take_lane(1, carrying)


def test_the_lanes_of_a_session_are_bounded_over_all_its_streams(places: CallPlaces) -> None:
    for call in range(4):
        places.take_lane(call, 1)
        places.took_lane(call, call)
    with pytest.raises(ProtocolError, match="has 4 such in all"):
        places.take_lane(9, 1)
    places.free(2, 2)
    places.take_lane(9, 1)


def test_a_lane_that_goes_on_alone_takes_no_place_of_other_streams(places: CallPlaces) -> None:
    places.take(1, OFFERED)
    places.took(1, 1)
    places.took_lane(1, 2)
    places.free(1, 1)
    for lane in range(CONFIG.stream.client_lanes - 1):
        places.took_lane(1, 3 + lane)
    places.take_lane(2, 1)
    places.free(1, 2)  # now another one is the stream's own
    places.took_lane(2, 99)
    places.take_lane(2, 2)


def test_where_one_connection_is_the_most_no_lane_is_taken() -> None:
    config = LinkConfig(stream=StreamConfig(max_lanes=1))
    with pytest.raises(ProtocolError):
        CallPlaces(config, "site-1").take_lane(1, 1)


def test_all_sessions_share_so_many_lanes_and_free_them() -> None:
    shared = LanePlaces(2)
    one, other = (CallPlaces(CONFIG, name, shared) for name in ("site-1", "site-2"))
    for number, places in enumerate((one, other)):
        places.take_lane(1, 1)
        places.took_lane(1, number)
    for places in (one, other):
        with pytest.raises(ProtocolError, match=r"have 2 lanes in all, which is limits\.max_extra"):
            places.take_lane(1, 1)
    one.free(1, 0)
    one.free(1, 0)  # as where two threads see its end
    other.take_lane(1, 1)
    with pytest.raises(ProtocolError):
        one.take_lane(1, 1)


def test_a_lane_that_goes_on_alone_is_none_any_more() -> None:
    places = CallPlaces(CONFIG, "site-1", LanePlaces(1))
    places.take(1, OFFERED)
    places.took(1, 1)
    places.take_lane(1, 1)
    places.took_lane(1, 2)
    places.free(1, 1)
    places.take_lane(1, 1)


def test_a_lane_of_which_no_call_comes_leaves_its_place_to_others() -> None:
    places = CallPlaces(CONFIG, "site-1", LanePlaces(1))
    for _ in range(2):
        with pytest.raises(MemoryError), places.taking_lane(1, 1):
            raise MemoryError
