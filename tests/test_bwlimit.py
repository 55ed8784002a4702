"""Bandwidth limits as people write them: their meaning, by the time of day, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streamlink.config import LinkConfig, StreamConfig
from streamlink.config.bandwidth import (
    NO_LIMIT,
    BandwidthLimit,
    Timetable,
    least_rate,
    parse_bwlimit,
)

MONDAY = datetime(2026, 11, 23)
BERLIN = ZoneInfo("Europe/Berlin")
DAY_AND_NIGHT = "02:30,1M 03:00,2M 12:00,off"

days = st.sampled_from((None, "Mon", "tuesday", "Sun"))
slots = st.dictionaries(
    st.tuples(days, st.integers(0, 23), st.integers(0, 59)),
    st.sampled_from(("1M", "2M:3M", "off", "5Mbit", "off:1K")),
    min_size=1,
    max_size=6,
)
minutes = st.integers(0, 7 * 24 * 60 - 1)


def at(text: str, local: datetime) -> BandwidthLimit:
    return parse_bwlimit(text).at(local)


@pytest.mark.parametrize(
    ("text", "up", "down"),
    [
        ("10M", 10 * 2**20, 10 * 2**20),
        ("10m", 10 * 2**20, 10 * 2**20),
        ("512K", 512 * 1024, 512 * 1024),
        ("1.5G", 1.5 * 2**30, 1.5 * 2**30),
        ("10MB/s", 1e7, 1e7),
        ("10Mbit", 1.25e6, 1.25e6),
        ("1Gbit/s", 1.25e8, 1.25e8),
        ("10M:5M", 10 * 2**20, 5 * 2**20),
        ("10M:off", 10 * 2**20, None),
        ("off:64KiB", None, 65536),
    ],
)
def test_a_limit_holds_in_both_directions_unless_two_are_given(
    text: str, up: float | None, down: float | None
) -> None:
    assert at(text, MONDAY) == BandwidthLimit(up, down)


@pytest.mark.parametrize("text", ["", "off", "OFF", "off:off", "   "])
def test_no_limit_is_written_as_off_or_left_out(text: str) -> None:
    assert parse_bwlimit(text) == Timetable()
    assert at(text, MONDAY) is NO_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        *("10", "10Mb", "10Mbps", "fast", "-1M", "0M", "1M:", ":1M", "10M,5M"),
        *("24:00,1M", "08:60,1M", "8,1M", "08:00 1M", "08:00,", "Foo-08:00,1M", "08:00,1M off"),
        *("08:00,1M 08:00,2M", "Mon-08:00,1M Monday-08:00,2M", "08:00,1M,2M"),
        *("10 Mbit", "10 M:5 M", "10M 5M", "1M: 2M", "08:00, 1M"),
    ],
)
def test_a_bad_limit_is_refused_with_its_value_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write (it as 10M|off)") as refused:
        parse_bwlimit(text)
    assert any(repr(each) in str(refused.value) for each in (text, *text.split()))


@pytest.mark.parametrize("text", ["10 Mbit", "10 M:5 M"])
def test_a_space_before_the_unit_is_named_as_what_is_wrong(text: str) -> None:
    with pytest.raises(ValueError, match=rf"'10' in '{text}' .*a limit has no space in it"):
        parse_bwlimit(text)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("form", ["{}T", "1M:{}T", "0.{}M", "{}", "08:00,{}T", "{}:00,1M", "{} T"])
def test_a_number_without_end_is_refused_with_a_part_of_it(form: str, digits: int) -> None:
    with pytest.raises(ValueError, match=r"99\.\.\.") as refused:
        parse_bwlimit(form.format("9" * digits))
    assert "write it as 10M" in str(refused.value)
    assert len(str(refused.value)) < 500
    with pytest.raises(ValidationError, match="write it as 10M"):
        StreamConfig(bwlimit=form.format("9" * digits))


def test_the_largest_number_that_may_be_written_is_a_rate() -> None:
    assert at("9" * 15 + "T", MONDAY).up == float((10**15 - 1) * 2**40)


@given(slots, minutes)
def test_the_latest_slot_holds_and_that_of_last_week_before_the_first(
    chosen: dict[tuple[str | None, int, int], str], minute: int
) -> None:
    text = " ".join(
        f"{day + '-' if day else ''}{hour:02}:{of_hour:02},{limit}"
        for (day, hour, of_hour), limit in chosen.items()
    )
    table = parse_bwlimit(text)

    def begins(when: datetime) -> str | None:
        # Those with a weekday first: they take the place of daily ones.
        for (day, hour, of_hour), limit in sorted(chosen.items(), key=lambda slot: not slot[0][0]):
            is_day = day is None or when.strftime("%a").lower() == day.lower()[:3]
            if is_day and (when.hour, when.minute) == (hour, of_hour):
                return limit
        return None

    when = MONDAY + timedelta(minutes=minute)
    back = (when - timedelta(minutes=ago) for ago in range(7 * 24 * 60))
    limit = next(found for each in back if (found := begins(each)))
    assert table.at(when) == at(limit, when)


def test_working_hours_leave_out_the_weekend() -> None:
    text = "07:00,5Mbit:40Mbit 19:00,off Sat-07:00,off Sun-07:00,off"
    for swapped in (text, " ".join(reversed(text.split()))):
        at_noon = [at(swapped, MONDAY + timedelta(days=day, hours=12)) for day in range(7)]
        assert at_noon == [BandwidthLimit(625e3, 5e6)] * 5 + [NO_LIMIT] * 2
        at_night = [at(swapped, MONDAY + timedelta(days=day, hours=3)) for day in range(7)]
        assert at_night == [NO_LIMIT] * 7


def berlin(utc: datetime) -> BandwidthLimit:
    return at(DAY_AND_NIGHT, utc.astimezone(BERLIN).replace(tzinfo=None))


def test_a_slot_that_summer_time_skips_never_holds_for_longer_than_the_skipped_hour() -> None:
    # 2026-03-29 01:00 UTC: 02:00 becomes 03:00, so 02:30 does not exist.
    assert berlin(datetime(2026, 3, 29, 0, 59, tzinfo=UTC)) == NO_LIMIT
    assert berlin(datetime(2026, 3, 29, 1, 0, tzinfo=UTC)).up == 2 * 2**20


def test_the_hour_that_comes_twice_has_its_slots_twice() -> None:
    # 2026-10-25 01:00 UTC: 03:00 becomes 02:00 again.
    found = [
        berlin(datetime(2026, 10, 25, 0, tzinfo=UTC) + timedelta(minutes=minute)).up
        for minute in (0, 30, 60, 90, 120)
    ]
    assert found == [None, 2**20, None, 2**20, 2 * 2**20]


def test_a_limit_too_low_for_a_timeout_is_refused_with_what_would_do() -> None:
    with pytest.raises(ValueError, match=r"bwlimit '100B' is too low.*call_timeout \(20 s\)"):
        LinkConfig.model_validate({"stream": {"bwlimit": "100B"}})
    least = least_rate(20.0)
    LinkConfig.model_validate({"stream": {"bwlimit": f"{least:.0f}B:1M"}})
    with pytest.raises(ValueError, match="streaming_ack_wait"):
        LinkConfig.model_validate(
            {
                "stream": {"bwlimit": "Mon-08:00,1M Tue-08:00,2K"},
                "timeouts": {"streaming_ack_wait": 1.0},
            }
        )
