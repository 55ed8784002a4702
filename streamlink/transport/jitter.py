"""Random pauses, so that clients that were cut off together do not come back together.

They leave Python's shared generator alone: whoever embeds us may have seeded that, and a thread of
ours that drew from it would change what a training draws next.
"""

from __future__ import annotations

import random

from tenacity import RetryCallState, wait_exponential

__all__ = ["FullJitter", "below"]

# The system's generator has no state that a fork would copy, so children draw different pauses.
_SYSTEM = random.SystemRandom()


def below(seconds: float) -> float:
    """Return a pause between nothing and ``seconds``."""
    return _SYSTEM.uniform(0.0, seconds)


class FullJitter(wait_exponential):
    """A pause between nothing and a limit that doubles with each try.

    "Full jitter" of M. Brooker, *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015.
    """

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the next pause (seconds)."""
        return below(super().__call__(retry_state))
