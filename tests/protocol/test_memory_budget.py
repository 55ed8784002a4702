"""The dealer of one memory budget: whatever happens, its sum holds and nobody starves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamlink.protocol.memory_budget import MemoryBudget

TOTAL = 100


class Dealer(RuleBasedStateMachine):
    """Streams that join, want, give back and leave in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = MemoryBudget(TOTAL)
        self.minimums: dict[int, int] = {}
        self.joined = 0

    @rule(minimum=st.integers(1, TOTAL))
    def join(self, minimum: int) -> None:
        self.joined += 1
        self.minimums[self.joined] = minimum
        self.budget.join(self.joined, minimum=minimum)

    @precondition(lambda self: self.minimums)
    @rule(data=st.data(), nbytes=st.integers(0, 2 * TOTAL))
    def want(self, data: st.DataObject, nbytes: int) -> None:
        stream = data.draw(st.sampled_from(sorted(self.minimums)))
        before = self.budget.dealt(stream)
        assert self.budget.want(stream, nbytes) >= before

    @precondition(lambda self: self.minimums)
    @rule(data=st.data())
    def give_back_the_surplus(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(sorted(self.minimums)))
        self.budget.give_back(stream, self.budget.surplus(stream))

    @precondition(lambda self: self.minimums)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(sorted(self.minimums)))
        self.budget.leave(stream)
        del self.minimums[stream]

    @invariant()
    def the_sum_is_within_the_budget(self) -> None:
        dealt = sum(self.budget.dealt(stream) for stream in self.minimums)
        assert dealt == self.budget.dealt_bytes <= TOTAL

    @invariant()
    def each_has_its_minimum_or_waits_behind_none_that_came_later(self) -> None:
        has = [self.budget.dealt(stream) for stream in sorted(self.minimums)]
        served = [dealt > 0 for dealt in has]
        assert served == sorted(served, reverse=True)
        minimums = [self.minimums[stream] for stream in sorted(self.minimums)]
        assert all(not dealt or dealt >= least for dealt, least in zip(has, minimums, strict=True))

    def teardown(self) -> None:
        for stream in self.minimums:
            self.budget.leave(stream)
        assert self.budget.free_bytes == TOTAL


TestDealer = Dealer.TestCase


@given(st.lists(st.integers(1, TOTAL), min_size=1, max_size=20))
def test_each_that_waits_is_served_once_those_before_it_leave(minimums: list[int]) -> None:
    budget = MemoryBudget(TOTAL)
    for stream, minimum in enumerate(minimums):
        budget.join(stream, minimum=minimum)
    for stream, minimum in enumerate(minimums):
        assert budget.dealt(stream) == minimum
        budget.leave(stream)


def test_a_stream_that_waits_gets_what_others_have_beyond_their_minimum() -> None:
    budget = MemoryBudget(TOTAL)
    budget.join("large", minimum=10)
    assert budget.want("large", TOTAL) == TOTAL
    budget.join("late", minimum=10)
    assert budget.dealt("late") == 0
    budget.give_back("large", budget.surplus("large"))
    assert budget.dealt("late") == 10


def test_what_is_impossible_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive"):
        MemoryBudget(0)
    budget = MemoryBudget(TOTAL)
    with pytest.raises(ValueError, match="not within 1 to 100"):
        budget.join("a", minimum=TOTAL + 1)
    budget.join("a", minimum=10)
    with pytest.raises(ValueError, match="joined before"):
        budget.join("a", minimum=10)
    with pytest.raises(ValueError, match="minimum 10"):
        budget.give_back("a", 1)
