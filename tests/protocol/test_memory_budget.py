"""The dealer of one memory: whatever happens its sum holds, and nobody is below its minimum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamlink.protocol.memory_budget import MemoryBudget, Need, NoPlace
from tests.support.shared_memory import watched_deals

TOTAL = 1000
PLACES = ((2, 30), (3, 5))
"""Of each seat: 75 in all."""
RESERVE = 75

needs = st.builds(Need, st.integers(0, 2 * TOTAL), st.integers(0, TOTAL))


class Dealer(RuleBasedStateMachine):
    """Clients and streams that come, need and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = MemoryBudget(TOTAL)
        self.claimed: list[int] = []
        self.left: list[int] = []
        self.streams: dict[int, int] = {}  # to its seat
        self.count = 0

    @rule()
    def claim(self) -> None:
        self.count += 1
        self.claimed.append(self.count)
        assert self.budget.claim(self.count, PLACES) is self.budget.has(self.count)

    @rule(nbytes=st.integers(0, TOTAL // 2))
    def expect(self, nbytes: int) -> None:
        self.budget.expect(nbytes)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def vacate(self, data: st.DataObject) -> None:
        seat = data.draw(st.sampled_from(self.claimed))
        self.claimed.remove(seat)
        self.left.append(seat)
        self.budget.vacate(seat)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        seat = data.draw(st.sampled_from(self.claimed))
        self.count += 1
        has_place = self.budget.has(seat) and list(self.streams.values()).count(seat) < 5
        if not has_place:
            with pytest.raises(NoPlace):
                self.budget.join(seat, self.count)
            return
        assert self.budget.join(seat, self.count) == self.budget.minimum(self.count)
        self.streams[self.count] = seat

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), need=needs)
    def settle(self, data: st.DataObject, need: Need) -> None:
        stream = data.draw(st.sampled_from(sorted(self.streams)))
        before, least = self.budget.dealt(stream), self.budget.minimum(stream)
        assert least <= self.budget.settle(stream, need) <= self.budget.dealt(stream)
        # Nothing that it holds is taken from it.
        assert self.budget.dealt(stream) >= min(before, need.held)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(sorted(self.streams)))
        self.budget.leave(stream)
        self.budget.leave(stream)  # harmless
        del self.streams[stream]

    @invariant()
    def the_sum_is_within_the_budget(self) -> None:
        seats = {seat for seat in self.claimed if self.budget.has(seat)}
        assert self.budget.reserved_bytes == RESERVE * len(seats | set(self.streams.values()))
        assert self.budget.reserved_bytes <= self.budget.dealt_bytes <= TOTAL

    @invariant()
    def what_streams_have_is_within_what_is_dealt(self) -> None:
        assert sum(map(self.budget.dealt, self.streams)) <= self.budget.dealt_bytes

    @invariant()
    def nobody_is_below_its_minimum_and_the_best_places_are_taken(self) -> None:
        for seat in set(self.streams.values()):
            found = [each for each in self.streams if self.streams[each] == seat]
            minimums = sorted(map(self.budget.minimum, found), reverse=True)
            assert minimums == [30, 30, 5, 5, 5][: len(found)]
            assert all(self.budget.dealt(each) >= self.budget.minimum(each) for each in found)

    @invariant()
    def no_client_is_overtaken_by_one_that_came_later(self) -> None:
        served = [self.budget.has(seat) for seat in self.claimed]
        assert served == sorted(served, reverse=True)

    def teardown(self) -> None:
        for stream in self.streams:
            self.budget.leave(stream)
        for seat in self.claimed:
            self.budget.vacate(seat)
        assert self.budget.dealt_bytes == 0


TestDealer = Dealer.TestCase


def seated(*seats: str) -> MemoryBudget:
    budget = MemoryBudget(TOTAL)
    for seat in seats:
        assert budget.claim(seat, PLACES)
        budget.join(seat, f"stream of {seat}")
    return budget


@given(st.lists(st.integers(1, 2 * TOTAL), min_size=1, max_size=8))
def test_streams_that_give_back_what_they_can_end_with_fair_shares(wants: list[int]) -> None:
    budget = MemoryBudget(TOTAL)
    for number in range(len(wants)):
        assert budget.claim(number, PLACES)
        budget.join(number, number)
    for _ in range(2):  # those above their share give back, and those below it get that
        for number, want in enumerate(wants):
            budget.settle(number, Need(want, 0))
    has = [budget.dealt(number) for number in range(len(wants))]
    for more, wanted in zip(has, wants, strict=True):
        # Who does not have what it wants has no less than anybody, but for a rounding.
        assert more >= wanted or more >= max(has) - 1


def test_one_stream_alone_gets_all_but_the_reserves_and_room_for_one_more_client() -> None:
    budget = seated("a")
    assert budget.settle("stream of a", Need(5000, 0)) == 30 + TOTAL - 2 * RESERVE


@pytest.mark.parametrize("want", range(1, 20))
def test_a_need_is_rounded_up_by_a_quarter_at_most(want: int) -> None:
    budget = seated("a")
    assert want <= budget.settle("stream of a", Need(30 + want, 0)) - 30 <= 1.25 * want


def test_what_is_expected_for_clients_to_come_is_not_dealt() -> None:
    budget = seated("a")
    budget.expect(5 * RESERVE)
    assert budget.settle("stream of a", Need(5000, 0)) == 30 + TOTAL - 5 * RESERVE
    budget.settle("stream of a", Need(5000, 5000))  # all of it is promised
    for seat in "bcde":
        assert budget.claim(seat, PLACES)
    assert not budget.claim("f", PLACES)


def test_a_stream_that_needs_more_gets_more_and_an_idle_one_returns_to_its_minimum() -> None:
    budget = seated("far", "near")
    budget.settle("stream of near", Need(100, 0))
    assert budget.settle("stream of far", Need(600, 0)) >= 600
    assert 100 <= budget.dealt("stream of near") <= 125
    assert budget.settle("stream of near", Need(0, 0)) == 30


def test_what_is_promised_stays_until_it_is_used_up() -> None:
    budget = seated("a")
    budget.settle("stream of a", Need(500, 0))
    for held in (400, 100, 30):
        # It may use no more than its minimum from now on, and does so step by step.
        assert budget.settle("stream of a", Need(0, held)) == 30
        assert budget.dealt("stream of a") == held


def test_a_client_that_waits_is_admitted_when_streams_give_back_what_they_hold() -> None:
    budget = seated("a", "b")
    everything = TOTAL - 3 * RESERVE
    assert budget.settle("stream of a", Need(2 * TOTAL, 0)) == 30 + everything
    assert budget.claim("c", PLACES)
    assert not budget.claim("d", PLACES)
    budget.settle("stream of a", Need(everything, everything))
    assert not budget.has("d"), "it is promised"
    budget.settle("stream of a", Need(everything, 30))
    assert budget.has("d")


def test_a_client_that_gives_up_waiting_keeps_nobody_behind_it() -> None:
    budget = MemoryBudget(100)
    assert budget.claim("a", PLACES)
    assert not budget.claim("b", PLACES)
    assert not budget.claim("c", ((1, 10),))
    budget.vacate("b")
    assert budget.has("c")


def test_a_stream_on_a_lesser_place_takes_over_a_better_one() -> None:
    budget = seated("a")
    for stream in (2, 3, 4):
        budget.join("a", stream)
    assert [budget.minimum(each) for each in (2, 3, 4)] == [30, 5, 5]
    budget.leave("stream of a")
    assert [budget.minimum(each) for each in (2, 3, 4)] == [30, 30, 5]


def test_a_seat_is_free_once_its_last_stream_has_left() -> None:
    budget = seated("a")
    budget.vacate("a")
    assert budget.reserved_bytes == RESERVE
    with pytest.raises(NoPlace):
        budget.join("a", 2)
    budget.leave("stream of a")
    assert budget.dealt_bytes == 0
    budget.vacate("a")  # harmless


def test_a_hook_of_tests_sees_each_deal() -> None:
    with watched_deals() as deals:
        budget = seated("a")
        budget.settle("stream of a", Need(100, 0))
        budget.settle("stream of a", Need(100, 100))
        budget.settle("stream of a", Need(100, 500))  # more than it has
        budget.leave("stream of a")
    assert deals.faults == [f"holds 500 of {deals.most['stream of a']} bytes"]
    assert deals.gone == {"stream of a"}
    assert deals.peak_bytes > RESERVE + 70


def test_what_is_impossible_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive"):
        MemoryBudget(0)
    budget = seated("a")
    with pytest.raises(ValueError, match="claimed before"):
        budget.claim("a", PLACES)
    with pytest.raises(ValueError, match="not within 1 to 1000"):
        budget.claim("b", ((1, TOTAL + 1),))
    with pytest.raises(ValueError, match="joined before"):
        budget.join("a", "stream of a")
