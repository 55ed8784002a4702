"""What credit costs: what is paid for at last is what travelled, whatever was expected."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlink.protocol.credit_cost import LARGEST_RATIO, CreditCost, largest_ratio

AHEAD = 64 << 10

ranges = st.tuples(st.integers(1, 1 << 18), st.integers(1, 20))
"""The bytes of a range, and as what part of them it travels."""


class Receiver:
    """Permits a range and takes it, again and again; knows what it was charged."""

    def __init__(self, start: int = 0) -> None:
        self.cost = CreditCost()
        self.cost.begin(start, saved=0)
        self.received = self.allowed = start
        self.saved = self.charged = self.travelled = 0

    def permit(self, nbytes: int) -> int:
        paid = self.cost.of(nbytes)
        self.charged += paid
        self.allowed += self.cost.pay(paid)
        return paid

    def take(self, nbytes: int, shrinks: int) -> int:
        nbytes = min(nbytes, self.allowed - self.received)
        travels = max(1, nbytes // shrinks) if nbytes else 0
        self.received += nbytes
        self.saved += nbytes - travels
        self.travelled += travels
        more = self.cost.settle(self.received, saved=self.saved, allowed=self.allowed, ahead=AHEAD)
        self.charged += more
        return more


@given(st.integers(0, 1 << 20), st.lists(st.one_of(st.integers(1, 1 << 18), ranges), max_size=40))
def test_once_all_is_here_exactly_what_travelled_was_paid(
    start: int, steps: list[int | tuple[int, int]]
) -> None:
    receiver = Receiver(start)
    for step in steps:
        if isinstance(step, int):
            receiver.permit(step)
        else:
            receiver.take(*step)
        assert 1.0 <= receiver.cost.ratio <= LARGEST_RATIO
    receiver.take(receiver.allowed, 3)
    assert receiver.charged == receiver.travelled


@given(st.lists(st.integers(1, 1 << 18), min_size=1, max_size=20))
def test_without_encodings_nothing_is_left_to_settle(sizes: list[int]) -> None:
    receiver = Receiver()
    for nbytes in sizes:
        assert receiver.permit(nbytes) == nbytes
        assert receiver.take(nbytes // 2 or 1, 1) == 0
        assert receiver.cost.ratio == 1


def test_what_shrinks_four_times_costs_a_quarter_when_it_is_permitted() -> None:
    receiver = Receiver()
    receiver.permit(65536)
    assert receiver.take(65536, 4) == 16384 - 65536
    assert receiver.permit(65536) == 16384
    assert receiver.take(65536, 4) == 0


def test_what_shrinks_no_more_is_charged_in_full_and_soon_expected() -> None:
    receiver = Receiver()
    for _ in range(100):  # a long time in which nearly nothing travels
        receiver.permit(65536)
        receiver.take(65536, 1000)
    assert receiver.cost.ratio == LARGEST_RATIO
    paid = receiver.permit(65536)
    assert receiver.take(65536, 1) == 65536 - paid
    for _ in range(16):
        receiver.permit(65536)
        receiver.take(65536, 1)
    assert receiver.cost.ratio == 1


def test_no_more_is_expected_than_is_permitted_to_expect() -> None:
    receiver = Receiver()
    receiver.permit(65536)
    receiver.take(65536, 1000)
    assert receiver.cost.ratio == LARGEST_RATIO
    receiver.cost.bound(1.5)
    assert receiver.cost.ratio == 1.5
    receiver.permit(65536)
    receiver.take(65536, 1000)
    assert receiver.cost.ratio == 1.5


@given(st.integers(0, 1 << 30), st.integers(1, 1 << 30))
def test_the_largest_ratio_leaves_no_more_unpaid_than_may_be_owed(owed: int, ahead: int) -> None:
    ratio = largest_ratio(owed, ahead)
    assert 1 <= ratio <= LARGEST_RATIO
    assert (ratio - 1) * ahead <= owed


def test_what_was_promised_before_there_was_a_limit_costs_nothing() -> None:
    receiver = Receiver()
    receiver.allowed = 100_000
    receiver.cost.begin(100_000, saved=0)
    assert receiver.take(50_000, 2) == 0
    assert receiver.take(50_000, 1) == 0
    assert receiver.permit(1000) == 1000
    assert receiver.take(1000, 2) == -500


def test_what_is_requested_again_is_not_settled_twice() -> None:
    receiver = Receiver()
    receiver.permit(8000)
    assert receiver.take(8000, 1) == 0
    receiver.received = 2000
    assert receiver.take(6000, 1) == 0
