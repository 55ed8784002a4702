"""The shelf: who may still read what, and when each object is released, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from streamlink.config import ObjectLimits
from streamlink.errors import (
    ObjectError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    UnknownObject,
)
from streamlink.objects.reference import Reference, Sealer
from streamlink.objects.shelf import Holder, Lease, Shelf
from tests.support.virtual_clock import VirtualClock

SPEC = "cd" * 32
LIMITS = ObjectLimits(max_objects=3, max_bytes=100, ttl=60.0, max_ttl=600.0)


class Store:
    """A shelf of texts with a clock of its own."""

    def __init__(self, limits: ObjectLimits = LIMITS) -> None:
        self.clock = VirtualClock()
        self.shelf: Shelf[str] = Shelf(limits, Sealer(), self.clock, self.clock.wall)

    def put(
        self,
        what: str = "model",
        nbytes: int = 10,
        *,
        readers: tuple[str, ...] | None = None,
        reads: int | None = None,
        ttl: float | None = None,
        owner: str = "",
    ) -> Reference:
        slot = self.shelf.reserve(nbytes)
        return self.shelf.fill(
            slot,
            what,
            digest="",
            spec_digest=SPEC,
            readers=readers,
            reads=reads,
            ttl=ttl,
            owner=owner,
        )

    def read(self, reference: Reference, name: str = "site-1", *, is_complete: bool = True) -> str:
        lease = self.shelf.open(reference, Holder(name, "s", "c"))
        what = self.shelf.enter(lease)
        self.shelf.leave(lease)
        self.shelf.close(lease, is_complete=is_complete)
        return what


def test_an_object_is_read_by_its_readers_and_by_the_server_only() -> None:
    store = Store()
    reference = store.put(readers=("site-1",))
    assert store.read(reference, "site-1") == store.read(reference, "") == "model"
    with pytest.raises(ObjectRefused, match="not meant for 'site-2'"):
        store.read(reference, "site-2")


def test_an_object_that_names_no_reader_is_for_the_server_alone() -> None:
    store = Store()
    reference = store.put(readers=())
    with pytest.raises(ObjectRefused, match="not meant for"):
        store.read(reference, "site-1")
    assert store.read(reference, "") == "model"


def test_reads_are_used_up_by_complete_reads_and_the_last_one_releases_the_object() -> None:
    store = Store()
    reference = store.put(reads=2)
    store.read(reference, is_complete=False)
    store.read(reference)
    assert not store.shelf.take_released()
    store.read(reference)
    assert store.shelf.take_released() == ["model"]
    assert not len(store.shelf)
    with pytest.raises(ObjectRefused, match="no reads left"):
        store.read(reference)


def test_a_read_that_runs_holds_its_place_until_it_ends() -> None:
    store = Store()
    reference = store.put(reads=1)
    lease = store.shelf.open(reference, Holder("site-1", "s", "c"))
    with pytest.raises(ObjectRefused, match="no reads left: site-1 reads it now"):
        store.read(reference, "site-2")
    store.shelf.close(lease, is_complete=False)
    assert store.read(reference, "site-2") == "model"


@pytest.mark.parametrize("again", [Holder("site-1", "s", "c"), Holder("site-1", "new", "d")])
def test_a_reader_that_comes_again_takes_the_place_of_its_earlier_attempt(again: Holder) -> None:
    store = Store()
    reference = store.put(reads=1)
    first = store.shelf.open(reference, Holder("site-1", "s", "c"))
    second = store.shelf.open(reference, again)
    assert second.replaced == (first,)
    with pytest.raises(ObjectRefused, match="a newer read"):
        store.shelf.enter(first)
    store.shelf.close(first, is_complete=True)
    assert store.shelf.enter(second) == "model"


def test_two_calls_of_one_client_are_two_reads() -> None:
    store = Store()
    reference = store.put(reads=1)
    store.shelf.open(reference, Holder("site-1", "s", "c"))
    with pytest.raises(ObjectRefused, match="no reads left"):
        store.shelf.open(reference, Holder("site-1", "s", "d"))


def test_an_expired_object_is_gone_and_the_error_says_why() -> None:
    store = Store()
    reference = store.put(ttl=5.0)
    assert store.shelf.next_expiry == store.clock() + 5
    store.clock.advance(5)
    with pytest.raises(ObjectExpired, match="has expired"):
        store.read(reference)
    assert store.shelf.take_released() == ["model"]
    assert store.shelf.next_expiry is None


def test_expiry_lets_a_transfer_that_runs_finish_and_nobody_begins_another() -> None:
    store = Store()
    reference = store.put(ttl=5.0)
    lease = store.shelf.open(reference, Holder("site-1"))
    store.shelf.enter(lease)
    store.clock.advance(6)
    store.shelf.expire()
    assert not store.shelf.take_released()
    assert len(store.shelf) == 1
    with pytest.raises(ObjectExpired):
        store.shelf.enter(lease)
    store.shelf.leave(lease)
    assert store.shelf.take_released() == ["model"]
    store.shelf.close(lease, is_complete=True)
    assert not store.shelf.take_released()


def test_a_lease_between_two_ranges_does_not_keep_an_expired_object() -> None:
    store = Store()
    lease = store.shelf.open(store.put(ttl=5.0), Holder("site-1"))
    store.clock.advance(6)
    store.shelf.expire()
    assert store.shelf.take_released() == ["model"]
    with pytest.raises(ObjectExpired):
        store.shelf.enter(lease)


def test_a_dropped_object_is_unknown_and_dropping_it_again_does_nothing() -> None:
    store = Store()
    reference = store.put()
    store.shelf.drop(reference)
    store.shelf.drop(reference)
    assert store.shelf.take_released() == ["model"]
    with pytest.raises(UnknownObject, match="was dropped"):
        store.read(reference)


def test_only_the_server_and_the_client_that_put_an_object_may_drop_it() -> None:
    store = Store()
    mine, another = store.put(owner="site-1"), store.put(owner="site-1")
    with pytest.raises(ObjectRefused, match="was not put by 'site-2'"):
        store.shelf.drop(mine, by="site-2")
    store.shelf.drop(mine, by="site-1")
    store.shelf.drop(another)
    assert store.shelf.take_released() == ["model", "model"]


def test_the_reason_is_known_from_the_reference_when_it_is_no_longer_remembered() -> None:
    store = Store(ObjectLimits(max_objects=1))
    old = store.put(ttl=5.0)
    store.clock.advance(6)
    released = store.put(ttl=6000.0)
    store.shelf.drop(released)
    for _ in range(5000):
        store.shelf.drop(store.put())
    with pytest.raises(ObjectExpired):
        store.read(old)
    with pytest.raises(UnknownObject, match="was released"):
        store.read(released)


def test_what_is_too_many_or_too_large_is_refused_and_expired_objects_make_room() -> None:
    store = Store()
    with pytest.raises(ObjectLimit, match="max_bytes"):
        store.put(nbytes=101)
    for _ in range(3):
        store.put(nbytes=33, ttl=5.0)
    with pytest.raises(ObjectLimit, match="max_objects"):
        store.put(nbytes=1)
    store.clock.advance(6)
    store.put(nbytes=100)


def test_what_is_on_its_way_takes_room_until_it_is_cancelled() -> None:
    store = Store()
    slot = store.shelf.reserve(60)
    with pytest.raises(ObjectLimit):
        store.put(nbytes=60)
    store.shelf.cancel(slot)
    store.shelf.cancel(slot)
    store.put(nbytes=60)


@pytest.mark.parametrize(
    ("terms", "why"),
    [({"reads": 0}, "at least 1"), ({"ttl": 0.0}, "positive"), ({"ttl": float("nan")}, "positive")],
)
def test_terms_that_make_no_sense_are_refused(terms: dict[str, float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Store().put(**terms)  # type: ignore[arg-type]


def test_a_time_to_live_above_the_limit_is_refused() -> None:
    with pytest.raises(ObjectLimit, match="max_ttl"):
        Store().put(ttl=601.0)


def test_clearing_releases_everything_once() -> None:
    store = Store()
    reference = store.put()
    lease = store.shelf.open(reference, Holder("site-1"))
    store.shelf.enter(lease)
    store.shelf.reserve(5)
    store.shelf.clear()
    assert store.shelf.take_released() == ["model"]
    assert len(store.shelf) == store.shelf.nbytes == 0
    store.shelf.leave(lease)
    store.shelf.close(lease, is_complete=True)
    assert not store.shelf.take_released()


class AnyUse(RuleBasedStateMachine):
    """Any order of puts, reads, ends and passing time: the promises hold."""

    references = Bundle("references")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(ObjectLimits(max_objects=4, max_bytes=60, ttl=20.0, max_ttl=100.0))
        self.shelf = self.store.shelf
        self.number = 0
        self.held: dict[str, Reference] = {}
        self.released: set[str] = set()
        self.reads_left: dict[str, int | None] = {}
        self.inside: dict[Lease[str], int] = {}

    @rule(
        target=references,
        nbytes=st.integers(0, 30),
        readers=st.sampled_from([None, (), ("a",), ("a", "b")]),
        reads=st.none() | st.integers(1, 3),
        ttl=st.none() | st.floats(1, 100),
    )
    def put(
        self,
        nbytes: int,
        readers: tuple[str, ...] | None,
        reads: int | None,
        ttl: float | None,
    ) -> Reference | None:
        self.number += 1
        what = f"model {self.number}"
        try:
            reference = self.store.put(what, nbytes, readers=readers, reads=reads, ttl=ttl)
        except ObjectLimit:
            return None
        self.held[what], self.reads_left[what] = reference, reads
        return reference

    @rule(
        target=leases,
        reference=references,
        name=st.sampled_from(["", "a", "b", "c"]),
        session=st.sampled_from(["s", "t"]),
        call=st.sampled_from(["c", "d"]),
    )
    def open(
        self, reference: Reference | None, name: str, session: str, call: str
    ) -> Lease[str] | None:
        if reference is None:
            return None
        try:
            lease = self.shelf.open(reference, Holder(name, session, call))
        except ObjectError:
            return None
        assert not name or reference.readers is None or name in reference.readers
        assert self.reads_left[lease.content] != 0
        return lease

    @rule(lease=leases)
    def enter(self, lease: Lease[str] | None) -> None:
        if lease is None:
            return
        try:
            what = self.shelf.enter(lease)
        except ObjectError:
            return
        assert what not in self.released
        self.inside[lease] = self.inside.get(lease, 0) + 1

    @rule(lease=leases)
    def leave(self, lease: Lease[str] | None) -> None:
        if lease is not None and self.inside.get(lease):
            self.inside[lease] -= 1
            self.shelf.leave(lease)

    @rule(lease=leases, is_complete=st.booleans())
    def close(self, lease: Lease[str] | None, is_complete: bool) -> None:
        if lease is None:
            return
        left = self.reads_left[lease.content]
        if is_complete and lease.is_open and left is not None:
            self.reads_left[lease.content] = left - 1
        self.shelf.close(lease, is_complete=is_complete)

    @rule(reference=references)
    def drop(self, reference: Reference | None) -> None:
        if reference is not None:
            self.shelf.drop(reference)

    @rule(seconds=st.floats(0, 50))
    def pass_time(self, seconds: float) -> None:
        self.store.clock.advance(seconds)
        self.shelf.expire()

    @invariant()
    def nothing_is_released_twice_or_while_somebody_reads_it(self) -> None:
        for what in self.shelf.take_released():
            assert what not in self.released
            self.released.add(what)
        for lease, count in self.inside.items():
            assert not count or lease.content not in self.released

    @invariant()
    def the_limits_hold_and_the_count_is_that_of_what_is_held(self) -> None:
        assert len(self.shelf) == len(self.held) - len(self.released) <= 4
        held = [each for what, each in self.held.items() if what not in self.released]
        assert self.shelf.nbytes == sum(each.nbytes for each in held) <= 60

    @invariant()
    def what_has_no_reads_left_is_gone_as_soon_as_nobody_is_inside(self) -> None:
        for what, left in self.reads_left.items():
            is_read = any(n and each.content == what for each, n in self.inside.items())
            assert left is None or left > 0 or is_read or what in self.released


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
