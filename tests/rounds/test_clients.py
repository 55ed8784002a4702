"""What is known of the clients: a function of the rounds that were committed."""

from __future__ import annotations

import math

from streamlink.config.link import MAX_CLIENTS
from streamlink.link import Attempt
from streamlink.rounds.clients import ClientBook, ClientRecord, updated
from streamlink.rounds.events import EventKind, RoundEvent
from tests.support.virtual_clock import VirtualClock

ONE = {"site-1": ClientRecord("site-1", 3, 6, 20.0, {"loss": 0.5}, 4.0)}


def test_an_update_that_counts_replaces_what_was_known_and_clears_the_failure() -> None:
    known = updated(ONE, 7, {}, {}, {"site-1": "out of memory"}, {})
    assert known["site-1"] == ClientRecord(
        "site-1", 3, 7, 20.0, {"loss": 0.5}, 4.0, "out of memory"
    )
    known = updated(known, 8, {"site-1": 30.0}, {"site-1": {"loss": 0.25}}, {}, {"site-1": 2.0})
    assert known == {"site-1": ClientRecord("site-1", 4, 8, 30.0, {"loss": 0.25}, 2.0)}


def test_a_recovered_update_keeps_the_time_that_was_measured_before() -> None:
    assert updated(ONE, 7, {"site-1": 1.0}, {}, {}, {})["site-1"].seconds == 4.0


def test_what_clients_report_is_kept_within_bounds() -> None:
    metrics = {f"m{number:03}": 1.0 for number in range(99)} | {"a" * 129: 1.0, "b": math.nan}
    (record,) = updated({}, 0, {"site-1": 1.0}, {"site-1": metrics}, {}, {}).values()
    assert sorted(record.metrics) == ["b", *(f"m{number:03}" for number in range(31))]
    (record,) = updated({}, 0, {}, {}, {"site-1": "x" * 9000}, {}).values()
    assert len(record.failure) == 500


def test_of_too_many_clients_those_are_forgotten_that_were_asked_longest_ago() -> None:
    old = updated({}, 4, {}, {}, {"old": "late"}, {})
    new = {f"new-{number}": 1.0 for number in range(MAX_CLIENTS)}
    assert updated(old, 5, new, {}, {}, {}).keys() == new.keys()


def test_a_choice_sees_a_round_only_once_it_is_committed() -> None:
    clock = VirtualClock()
    book, attempt = ClientBook(clock), Attempt("job", 0, 1)
    book.note(RoundEvent(EventKind.ROUND_STARTED, attempt))
    for name in ("site-1", "site-2"):
        book.note(RoundEvent(EventKind.TASK_OFFERED, attempt, name))
    clock.advance(2.0)
    book.note(RoundEvent(EventKind.UPDATE_ARRIVED, attempt, "site-1"))
    clock.advance(3.0)
    book.expect(0, {"site-1": 1.0, "site-2": 1.0}, {}, {})
    names = ["site-2", "site-1"]
    assert book.of(names) == [ClientRecord("site-1"), ClientRecord("site-2")]
    book.advance()
    assert [each.seconds for each in book.of(names)] == [2.0, 5.0]
