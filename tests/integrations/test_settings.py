"""Settings that a framework keeps as texts."""

from __future__ import annotations

import pytest

from streamlink.integrations.settings import check_settings, checked_seconds


@pytest.mark.parametrize("text", ["soon", "", "-1", "nan"])
def test_what_is_no_timeout_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        checked_seconds(text)


def test_a_number_of_seconds_is_a_timeout() -> None:
    assert checked_seconds("1.5") == 1.5


def test_a_setting_that_cannot_be_used_is_refused_by_the_name_that_users_know() -> None:
    values = {"one": "1", "two": "second"}
    check_settings(values.__getitem__, {"one": int}, "my_{name}")
    with pytest.raises(ImportError, match=r"my_two \(MY_TWO\) is 'second'.*invalid literal"):
        check_settings(values.__getitem__, {"one": int, "two": int}, "my_{name} (MY_{upper})")
