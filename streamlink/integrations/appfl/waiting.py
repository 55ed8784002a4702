"""Calls that APPFL answers together: what fails in the last of them fails in all, at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from streamlink.errors import RoundError

__all__ = ["ROUND_SECONDS", "Waiting"]

ROUND_SECONDS = 3540.0
"""How long a client waits for the others: it learns why before APPFL ends its call, at 3600 s."""


class Waiting:
    """The calls of clients that wait for one answer of APPFL's scheduler.

    The scheduler works in the call of the last client. Where that raises, it leaves the futures of
    the others open for ever, and the models of that round in its lists, so that no later round can
    be right. So the others get the error here, and no call begins after it.

    Args:
        seconds: how long a call waits for the others.

    Attributes:
        failed: why no call begins any more; None: nothing has failed that others waited for.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock = seconds, threading.Lock()
        self._futures = WeakSet[Future[Any]]()  # the scheduler and those that wait hold them
        self._last: RoundError | None = None
        self.failed: Exception | None = None

    def result(self, ask: Callable[[], Any]) -> Any:
        """Return what ``ask`` returns or promises; raises what it raises.

        Raises:
            RoundError: the call of another client failed, or did not come.
        """
        if self.failed is not None:
            raise RoundError(f"the job has ended: {self.failed}")
        before, found = self._last, None
        try:
            found = ask()
            if not isinstance(found, Future):  # nobody waits for anybody, as in asynchronous jobs
                return found
            self._wait(found, before)
            return found.result()
        except Exception as error:
            if isinstance(found, Future):
                self.failed = error
            self._end_others(error)
            raise

    def _wait(self, future: Future[Any], before: RoundError | None) -> None:
        with self._lock:
            # Another call may have failed before the future of this one was known here.
            if self._last is not None and self._last is not before:
                raise self._last
            self._futures.add(future)
        if not wait([future], self._seconds).done:
            what = f"the others have not come within {self._seconds:g} s: one of them was lost, or "
            what += "needs longer. The job ends; start it again. For rounds of more than an hour "
            what += "set use_polling in the server's grpc_configs, and a longer round_timeout"
            raise RoundError(what)

    def _end_others(self, error: Exception) -> None:
        # Not ``error`` itself: its traceback would keep a model in memory.
        what = f"the round has failed: {type(error).__name__}: {error}"
        with self._lock:
            self._last = error if isinstance(error, RoundError) else RoundError(what)
            for each in self._futures:
                with suppress(InvalidStateError):  # it has its answer
                    each.set_exception(self._last)
