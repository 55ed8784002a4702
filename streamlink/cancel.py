"""``CancelToken``: ends a blocking call from another thread.

A call that may block takes a token and checks it where it is safe to stop. So the exception is
raised at a place of our choosing. ``KeyboardInterrupt`` is raised wherever the main thread happens
to be, and inside a destructor or a callback the interpreter swallows it.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink.clock import Clock
from streamlink.errors import Cancelled

__all__ = ["CancelToken", "checked", "joined"]

logger = logging.getLogger("streamlink.cancel")


class CancelToken:
    """Ends the blocking calls that have it, once any thread calls ``cancel``.

    They raise ``Cancelled`` within about a second, and clean up as after any other error: the peer
    gets the reason, and nothing half-written is visible. Many calls may share one token, one after
    another or at the same time. A cancelled token cannot be used again.

    Not for signal handlers: ``cancel`` takes a lock that the interrupted thread may hold.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._reason = ""
        self._numbers = itertools.count()
        self._acts: dict[int, Callable[[str], None]] = {}

    def cancel(self, reason: str = "cancelled") -> None:
        """End the calls that have this token, from any thread; the first reason stands."""
        with self._lock:
            if self._cancelled.is_set():
                return
            # Before the event is set: ``check`` reads it without the lock, once it sees the event.
            self._reason = reason
            self._cancelled.set()
            acts, self._acts = list(self._acts.values()), {}
        # Not under the lock: an act takes locks of its own, whose owners may be about to call
        # ``calling``.
        for act in acts:
            _call(act, reason)

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._cancelled.is_set()

    @property
    def reason(self) -> str:
        """The argument of ``cancel``; empty before it was called."""
        return self._reason

    def check(self) -> None:
        """Raise if the token is cancelled.

        Raises:
            Cancelled: ``cancel`` was called.
        """
        if self._cancelled.is_set():
            raise Cancelled(self._reason)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until ``cancel`` is called, for at most ``seconds``; return whether it was."""
        return self._cancelled.wait(seconds)

    def pause(self, seconds: float, clock: Clock) -> None:
        """Wait for ``seconds`` of ``clock``, or until ``cancel`` is called."""
        is_cancelled = clock.event()
        with self.calling(lambda _: is_cancelled.set()):
            clock.wait(is_cancelled, seconds)

    @contextmanager
    def calling(self, act: Callable[[str], None]) -> Iterator[None]:
        """Within the block, let ``cancel`` call ``act(reason)`` to end a wait.

        ``act`` runs in the thread that cancels, or here where that was before. It must not block,
        and it may run a moment after the block has ended.
        """
        with self._lock:
            # Under the lock: ``cancel`` either finds the act in the table or is seen here, and no
            # wait is missed (a lost wake-up).
            number = next(self._numbers)
            is_late = self._cancelled.is_set()
            if not is_late:
                self._acts[number] = act
        if is_late:
            _call(act, self._reason)
        try:
            yield
        finally:
            with self._lock:
                # Where ``cancel`` has emptied the table, it is gone already.
                self._acts.pop(number, None)


@contextmanager
def joined(first: CancelToken, second: CancelToken | None) -> Iterator[CancelToken]:
    """Within the block, give a token that is cancelled as soon as one of the two is."""
    if second is None or second is first:
        yield first
        return
    either = CancelToken()
    with first.calling(either.cancel), second.calling(either.cancel):
        yield either


def checked(
    progress: Callable[[int], None] | None, cancel: CancelToken | None, until: float = math.inf
) -> Callable[[int], None]:
    """Return ``progress`` that looks at the token at each step, up to byte ``until``."""

    def told(done: int) -> None:
        # Beyond ``until`` the numbers count steps of the commit, which is not to be interrupted:
        # some of the files may have their final names already.
        if cancel is not None and done <= until:
            cancel.check()
        if progress is not None:
            progress(done)

    return told


def _call(act: Callable[[str], None], reason: str) -> None:
    try:
        act(reason)
    except Exception:  # the other waits have to end all the same
        logger.exception("a wait could not be ended")
