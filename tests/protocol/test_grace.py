"""How long an end has been without the other, whatever calls came to nothing meanwhile."""

from __future__ import annotations

from streamlink.protocol.grace import Absence, Outage


def lost(at: float = 10.0, *, patience: float = 60.0) -> Absence:
    absence = Absence()
    absence.begin(patience, now=at)
    return absence


def test_an_absence_lasts_from_the_call_that_was_lost() -> None:
    absence = lost(10.0, patience=60.0)
    assert (absence.seconds(now=15.0), absence.left(now=15.0)) == (5.0, 55.0)
    assert absence.left(now=80.0) == -10.0
    assert absence.end(now=15.0) == 5.0


def test_a_call_that_only_greets_ends_no_absence() -> None:
    absence = lost(10.0)
    absence.end(now=15.0)
    absence.begin(60.0, now=35.0)
    assert (absence.seconds(now=35.0), absence.left(now=35.0)) == (25.0, 35.0)


def test_news_over_a_call_end_it() -> None:
    absence = lost(10.0)
    absence.end(now=15.0)
    absence.heard()
    absence.begin(60.0, now=35.0)
    assert (absence.seconds(now=35.0), absence.left(now=35.0)) == (0.0, 60.0)


def test_news_while_it_lasts_forgive_what_was_missed_before() -> None:
    absence = lost(10.0)
    absence.end(now=15.0)
    absence.begin(60.0, now=35.0)
    absence.heard()
    assert absence.left(now=35.0) == 40.0


def test_each_absence_has_its_own_patience() -> None:
    absence = lost(10.0, patience=60.0)
    absence.end(now=15.0)
    absence.heard()
    absence.begin(5.0, now=20.0)
    assert absence.left(now=20.0) == 5.0


def test_an_outage_adds_up_over_calls_that_bring_a_greeting_only() -> None:
    outage = Outage()
    assert outage.deadline(30.0) is None
    outage.begin(now=10.0)
    outage.begin(now=12.0)  # known already
    assert outage.deadline(30.0) == 40.0
    outage.heard(is_progress=False, now=20.0)
    assert outage.deadline(30.0) is None
    outage.begin(now=50.0)
    assert outage.deadline(30.0) == 70.0
    outage.heard(is_progress=True, now=60.0)
    outage.begin(now=61.0)
    assert outage.deadline(30.0) == 91.0


def test_a_short_break_is_no_news() -> None:
    outage = Outage()
    outage.begin(now=1.0)
    assert not outage.is_news(now=1.5)
    assert outage.is_news(now=3.0)
