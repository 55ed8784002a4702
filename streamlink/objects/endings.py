"""``Endings``: tells the server which reads and puts of a client are over, until it has heard.

A read that the server does not know to have ended keeps its object, and so does a put that nobody
wants any more. What cannot be told at once, such as while the connection is cut, is told later,
over the next session if need be.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.errors import RequestRefused, ServerBusy, StreamlinkError
from streamlink.link import ClientLink
from streamlink.objects.reference import Reference
from streamlink.objects.wire import CLOSE, DROP, Caller

__all__ = ["Drop", "Ending", "Endings"]

_SOON_SECONDS = 2.0  # what the end of a read, or of the client, waits for the server
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0
_MOST_ENDED = 16  # reads of ``note`` that ``close`` tells the server (count)
_MOST_UNTOLD = 1000  # what is told later (count): as many reads as the server lets one client open


@dataclass(frozen=True, slots=True)
class Ending:
    """A read that has ended at the client."""

    reference: Reference
    caller: Caller
    is_complete: bool
    """Whether it is used up."""
    topic = CLOSE

    def facts(self) -> dict[str, str]:
        """Return the facts of a request."""
        complete = str(int(self.is_complete))
        return {"ref": str(self.reference), **self.caller.facts(), "complete": complete}


@dataclass(frozen=True, slots=True)
class Drop:
    """What the client has put, whole or in part, and wants released."""

    what: tuple[tuple[str, str], ...]
    """Facts that name it: its reference, or the call that has put it."""
    topic = DROP

    def facts(self) -> dict[str, str]:
        """Return the facts of a request."""
        return dict(self.what)


class Endings:
    """What of one client is over. Any thread may use it.

    Args:
        link: to the server.
        clock: of waits and deadlines.
        cancel: the client's own token.
    """

    def __init__(self, link: ClientLink, clock: Clock, cancel: CancelToken) -> None:
        self._link, self._clock, self._cancel = link, clock, cancel
        self._lock = threading.Lock()
        self._ended: deque[tuple[Ending, float]] = deque(maxlen=_MOST_ENDED)
        self._untold: deque[Ending | Drop] = deque(maxlen=_MOST_UNTOLD)
        self._is_telling = False
        self._closing = CancelToken()

    def note(self, ending: Ending) -> None:
        """Note a read that the server knows to have ended, but for its very last step."""
        self._ended.append((ending, self._clock()))

    def tell(self, ending: Ending | Drop) -> None:
        """Tell the server that it is over; what takes longer than 2 s is done later."""
        with suppress(RequestRefused):
            self.ask(ending)

    def ask(self, ending: Ending | Drop) -> None:
        """As ``tell``, but raise the server's refusal.

        Raises:
            RequestRefused: the server has nothing of that kind, or refuses.
        """
        if not self._is_answered(ending, _SOON_SECONDS):
            self._tell_later(ending)

    def close(self) -> None:
        """Tell the server what it does not know yet, for 2 s at most."""
        self._closing.cancel("the client is closing")
        until = self._clock() + _SOON_SECONDS
        # A goodbye may overtake the commit of a read, which goes over another connection: the
        # server would hold the object for the next process of this client. Not what is older.
        recent = [each for each, at in list(self._ended) if until - at <= 2 * _SOON_SECONDS]
        self._ended.clear()
        for ending in (*self._untold, *recent):
            left = until - self._clock()
            if left <= 0 or self._cancel.is_cancelled or not self._is_told(ending, left):
                return  # the next would wait as long for nothing

    # --- small parts --------------------------------------------------------------------------

    def _is_told(
        self, ending: Ending | Drop, seconds: float | None, cancel: CancelToken | None = None
    ) -> bool:
        """Ask the server to end it; False: another attempt may succeed."""
        try:
            return self._is_answered(ending, seconds, cancel)
        except RequestRefused:
            return True  # the server was started again, or has no objects any more

    def _is_answered(
        self, ending: Ending | Drop, seconds: float | None, cancel: CancelToken | None = None
    ) -> bool:
        facts = ending.facts()
        try:
            self._link.ask(ending.topic, metadata=facts, timeout=seconds, cancel=cancel).close()
        except ServerBusy:
            return False
        except RequestRefused:
            raise
        except RuntimeError:
            pass  # this client has never been connected
        except StreamlinkError:
            return self._cancel.is_cancelled or self._link.wait(0)
        return True

    def _tell_later(self, ending: Ending | Drop) -> None:
        with self._lock:
            self._untold.append(ending)
            if not self._is_telling:
                threading.Thread(target=self._tell, name="objects-ended", daemon=True).start()
                self._is_telling = True  # not where no thread could be started

    def _tell(self) -> None:
        """Tell the server all that it does not know, as often as it takes."""
        pause = _FIRST_PAUSE_SECONDS
        while (ending := self._next_untold()) is not None:
            if self._is_told(ending, None, self._closing):
                with self._lock, suppress(ValueError):  # dropped meanwhile: there were too many
                    self._untold.remove(ending)
                pause = _FIRST_PAUSE_SECONDS
            else:
                self._closing.pause(pause, self._clock)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _next_untold(self) -> Ending | Drop | None:
        with self._lock:
            self._is_telling = bool(self._untold) and not self._closing.is_cancelled
            return self._untold[0] if self._is_telling else None
