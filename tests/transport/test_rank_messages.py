"""How long a process sleeps that waits for messages; the messages themselves: ``test_ranks``."""

from __future__ import annotations

from streamlink.transport.rank_messages import LONGEST_PAUSE_SECONDS, Pauses


def test_who_waits_looks_less_and_less_often_and_at_once_after_something_came() -> None:
    pauses = Pauses()
    first = [pauses.next() for _ in range(20)]
    assert first[1] == 2 * first[0]
    assert first == sorted(first)
    assert first[-1] == LONGEST_PAUSE_SECONDS
    pauses.reset()
    assert pauses.next() == first[0]
