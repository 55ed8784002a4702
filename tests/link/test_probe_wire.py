"""What a probe and its server say: the first window of a model, within what both have."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.link.probe_wire import beginning_with, largest_initial_window, parse_size

MiB = 1 << 20


@pytest.mark.parametrize(
    ("stream", "longest"),
    [
        ({}, 48 * MiB),
        ({"long_bytes": 0}, 16 * MiB),
        ({"window_bytes": "8MiB"}, 8 * MiB),
        ({"memory_bytes": "20MiB"}, 12 * MiB),  # with four chunks on their way
        ({"memory_bytes": "1GiB"}, 48 * MiB),
    ],
)
def test_a_initial_window_is_at_most_what_a_stream_may_have(
    stream: dict[str, object], longest: int
) -> None:
    config = LinkConfig.model_validate({"stream": stream})
    assert largest_initial_window(config.stream) == longest
    changed = beginning_with(config, 99_999_999_999).stream
    assert changed.initial_window_bytes == longest
    # What it may grow to, and whether that was set, is as before.
    assert changed.longest_window_bytes == config.stream.longest_window_bytes
    assert changed.window_bytes == config.stream.window_bytes


@pytest.mark.parametrize("first", [0, 1, MiB])
def test_a_initial_window_is_never_smaller_than_that_of_the_settings(first: int) -> None:
    config = LinkConfig.model_validate({"stream": {"initial_window_bytes": "2MiB"}})
    assert beginning_with(config, first) == config


@pytest.mark.parametrize("text", ["", "-1", "1e6", "\uff11\uff12", "9" * 12, " 1", "1_000"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_size(text) == 0


def test_a_size_is_read() -> None:
    assert parse_size("048000") == 48_000
