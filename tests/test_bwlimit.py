"""Bandwidth limits as people write them: their meaning, by the time of day, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import LinkConfig
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
        *("08:00,1M 08:00,2M", "Mon-08:00,1M 08:00,2M", "08:00,1M,2M"),
    ],
)
def test_a_bad_limit_is_refused_with_its_value_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|such as") as refused:
        parse_bwlimit(text)
    assert any(word in str(refused.value) for word in [*text.split(), text.rpartition(",")[2]])


@given(slots, minutes)
def test_the_latest_slot_holds_and_that_of_last_week_before_the_first(
    chosen: dict[tuple[str | None, int, int], str], minute: int
) -> None:
    # Without days and with days the same minute may be named twice, which is refused.
    chosen = {
        key: text for key, text in chosen.items() if (None, *key[1:]) not in chosen or not key[0]
    }
    text = " ".join(
        f"{day + '-' if day else ''}{hour:02}:{of_hour:02},{limit}"
        for (day, hour, of_hour), limit in chosen.items()
    )
    table = parse_bwlimit(text)

    def begins(when: datetime) -> str | None:
        for (day, hour, of_hour), limit in chosen.items():
            is_day = day is None or when.strftime("%a").lower() == day.lower()[:3]
            if is_day and (when.hour, when.minute) == (hour, of_hour):
                return limit
        return None

    when = MONDAY + timedelta(minutes=minute)
    back = (when - timedelta(minutes=ago) for ago in range(7 * 24 * 60))
    limit = next(found for each in back if (found := begins(each)))
    assert table.at(when) == at(limit, when)


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
