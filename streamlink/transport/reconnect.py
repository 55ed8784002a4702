"""Opens one call after another for what has to be carried, with growing pauses (tenacity).

Runs in the client alone: all calls start there. What limits it in time is not here: a session's
machine and a stream's pump count the seconds they have been without a call.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tenacity import Retrying, retry_if_result, wait_random_exponential

__all__ = ["keep_carried"]

FIRST_PAUSE_SECONDS = 0.1
"""Most that is waited before the first try; doubles with each that moves nothing (seconds)."""

LONGEST_PAUSE_SECONDS = 2.0
"""Most that is ever waited between two tries (seconds)."""


def keep_carried(
    carry: Callable[[], bool], *, is_over: Callable[[], bool], pause: Callable[[float], object]
) -> None:
    """Call ``carry`` again and again until ``is_over``.

    Every pause is random, between nothing and its limit (full jitter): clients that have lost their
    connections together do not come back together.

    Args:
        carry: opens a call, carries until that ends, and returns whether anything moved.
        is_over: whether nothing is left to carry, or nobody waits for it any more.
        pause: waits up to so many seconds; comes back at once where it is over meanwhile.
    """

    def sleep(seconds: float) -> None:
        pause(seconds)

    while not is_over():
        Retrying(
            retry=retry_if_result(lambda has_moved: not has_moved and not is_over()),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS),
            sleep=sleep,
        )(carry)
        if not is_over():
            pause(random.uniform(0.0, FIRST_PAUSE_SECONDS))
