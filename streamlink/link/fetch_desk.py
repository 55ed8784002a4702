"""``FetchDesk``: limits how many fetch at a time, and waits until all that were wanted have."""

from __future__ import annotations

from streamlink.clock import Clock, running_time
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError, code_of, to_raise
from streamlink.link.oneshot_wire import PULL
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import abort_reason
from streamlink.link.visit import Visit
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Fetch", "FetchDesk"]


class Fetch(Visit[SendTransfer]):
    """One fetcher that was admitted."""

    @property
    def is_away(self) -> bool:
        """Whether it has left, or lost its connection."""
        is_waiting = self.transfer is not None and self.transfer.is_waiting
        return is_waiting or self.session.closed.is_set() or self.session.is_disconnected


class FetchDesk:
    """Admits fetchers; the sessions' threads call ``admit``, each fetch's own ``release``.

    A fetcher for which there is no room is refused, and tries again by itself. One that has lost
    its connection gives up its place to a newer one, if there is no other. A session has one place.

    Args:
        count: how many fetches to serve in all; None: without an end.
        most: how many at a time.
        clock: of its waits.
    """

    def __init__(
        self, *, count: int | None = None, most: int = 8, clock: Clock = running_time
    ) -> None:
        if most < 1 or (count is not None and count < 1):
            raise ValueError(f"count ({count}) and fetchers ({most}) must be positive")
        self._count, self._most = count, most
        self._changed = clock.condition()
        self._here: list[Fetch] = []
        self._served = 0
        self._error: BaseException | None = None

    @property
    def count(self) -> int | None:
        """How many fetches it serves in all; None: without an end."""
        return self._count

    @property
    def served(self) -> int:
        """How many fetches are done: the fetcher has committed the model (count)."""
        return self._served

    @property
    def fetches(self) -> list[Fetch]:
        """Those that are being served."""
        with self._changed:
            return list(self._here)

    def admit(self, session: Session, request: Request) -> Fetch | None:
        """Admit a fetcher, or reply why it is refused."""
        if request.topic != PULL:
            reason = f"this server gives one model and does not answer {request.topic!r}"
            session.reply(request, error=reason)
            return None
        fetch, replaced = Fetch(session, request), None
        with self._changed:
            if refused := self._obstacle(session):
                replaced = self._replaceable(session)
            is_free = not refused or replaced is not None
            if is_free:
                if replaced is not None:
                    self._here.remove(replaced)
                self._here.append(fetch)
                self._changed.notify_all()
        # Without the lock: replies and aborts take those of sessions and pumps.
        if not is_free:
            session.reply(request, error=refused)
            return None
        if replaced is not None:
            replaced.end(AbortCode.REFUSED, f"away, and {session.peer_name} took its place")
        return fetch

    def _obstacle(self, session: Session) -> str:
        if self._error is not None:
            return "it has stopped serving"
        if any(each.session is session for each in self._here):
            return "it serves this client already"
        here = len(self._here)
        # Those that are served now count, too: otherwise more could commit than were asked for.
        if self._count is not None and self._served + here >= self._count:
            return f"it is busy with the last of {self._count} fetches; try again later"
        if here >= self._most:
            return f"it is busy with {here} fetchers, the most at a time; try again later"
        return ""

    def _replaceable(self, session: Session) -> Fetch | None:
        """Return the fetch whose place ``session`` may take; None: it has to try again."""
        if self._error is not None:
            return None
        # A session has one place: its second request never takes another fetcher's.
        own = [each for each in self._here if each.session is session]
        return next((each for each in own or self._here if each.is_away), None)

    def release(self, fetch: Fetch, *, is_served: bool) -> None:
        """Let another fetcher have the place."""
        with self._changed:
            self._served += is_served
            # A fetch that was replaced has lost its place already, and a newer one may have it.
            if fetch in self._here:
                self._here.remove(fetch)
            self._changed.notify_all()

    def wait_done(self, idle_seconds: float | None = None) -> bool:
        """Wait until all fetches are served; False: nobody fetched for ``idle_seconds``.

        Raises:
            StreamAborted: the desk was closed.
            BaseException: the model cannot be read any more; what ``fail`` was given.
        """
        with self._changed:
            while not self._is_over():
                here, served = len(self._here), self._served
                # A change ends the wait, which then begins anew: its limit is one of idleness.
                moved = self._changed.wait_for(
                    lambda: self._is_over() or (len(self._here), self._served) != (here, served),  # noqa: B023
                    None if here else idle_seconds,
                )
                if not moved:
                    return False
            if isinstance(self._error, StreamlinkError):
                raise to_raise(self._error)
            if self._error is not None:
                raise self._error
            return True

    def _is_over(self) -> bool:
        is_done = self._count is not None and self._served >= self._count
        return is_done or self._error is not None

    def wait_empty(self) -> None:
        """Wait until no thread reads the model any more. Each was aborted, or is about to end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._here)

    def close(self, reason: str, code: AbortCode = AbortCode.BY_OPERATOR) -> None:
        """Admit nobody any more, and end the fetches that run; any thread may call this."""
        self._end(StreamAborted(code, reason, by_peer=False), code, reason)

    def fail(self, error: BaseException) -> None:
        """End all fetches: the model cannot be read any more."""
        self._end(error, code_of(error), abort_reason(error))

    def _end(self, error: BaseException, code: AbortCode, reason: str) -> None:
        with self._changed:
            # The first one counts: the others may be its consequence.
            self._error = self._error or error
            here = list(self._here)
            self._changed.notify_all()
        for each in here:
            each.end(code, reason)
