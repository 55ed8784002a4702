"""``SessionMachine``: requests and replies over a standing session (see ``standing``).

The models a request sends or returns travel on streams of their own; their two stages, sending and
receiving, are those streams' clocks. The stage between them, *processing*, is watched here: it
starts when the request is complete at the peer, restarts when a counter of this very request moved,
and ends with the first byte of the reply.

While the session is away the work on a request is not blamed for a lost call: its clock runs on
where it stood when the session is back. Both sides then say again what still matters
(``requests``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import CommunicationTimeout, StreamlinkError
from streamlink.extent import Extent
from streamlink.protocol.events import Answered, Asked, CalledOff, RequestFailed
from streamlink.protocol.frames import (
    NO_ENTRIES,
    Attempt,
    Cancel,
    Frame,
    Hello,
    Reply,
    Request,
    TaskProgress,
)
from streamlink.protocol.machine import Moves
from streamlink.protocol.requests import OpenRequests, ServedRequests
from streamlink.protocol.session_state import SESSION_MOVES, SessionState
from streamlink.protocol.standing import MOST_EVENTS, StandingMachine


class SessionMachine(StandingMachine):
    """One end of a session; ``hello`` given makes it the client's."""

    MOVES: ClassVar[Moves] = SESSION_MOVES

    def __init__(self, config: LinkConfig, *, peer: str, hello: Hello | None = None) -> None:
        super().__init__(config, peer=peer, hello=hello)
        self._asked = OpenRequests()
        self._served = ServedRequests()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now, in order; of each request's progress the latest only."""
        if self.state is SessionState.READY:
            self._outbox.extend(self._served.take_news())
        return super().frames_to_send(now=now, channel=channel)

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something."""
        has_news = self.state is SessionState.READY and self._served.has_news
        return has_news or super().has_frames(channel)

    # --- requests and replies --------------------------------------------------------

    def request(
        self,
        topic: str,
        *,
        attempt: Attempt = Attempt(),
        sends: int = 0,
        returns: int = 0,
        metadata: Mapping[str, str] = NO_ENTRIES,
        part: tuple[str, ...] = (),
        extents: tuple[Extent | None, Extent | None] = (None, None),
        now: float,
    ) -> int:
        """Ask the peer; returns the request's number. ``Answered`` or ``RequestFailed`` follows."""
        self._require(self._is_standing and not self.is_leaving, "request")
        number = self._asked.next_number()
        request = Request(number, topic, attempt, sends, returns, metadata, part, *extents)
        self._asked.add(request)
        self._say(request)
        if not sends:
            self.request_complete(number, now=now)
        return number

    def request_complete(self, number: int, *, now: float) -> None:
        """The whole request is at the peer: the processing clock starts.

        Unless the reply has begun already: a peer may answer while it is still being asked.
        """
        if self._asked.complete(number) and self.state is SessionState.READY:
            self._start_processing(number, now)

    def reply_began(self, number: int) -> None:
        """The first byte of the reply is here: processing is over."""
        self._asked.begin_reply(number)
        self._timers.stop(_processing(number))

    def cancel(self, number: int, reason: str) -> None:
        """Give up a request whose answer nobody wants any more, and tell the peer so."""
        cancel = self._asked.cancel(number, reason)
        if cancel is not None:
            self._say(cancel)
        self._timers.stop(_processing(number))

    def report_progress(self, number: int, counter: int) -> None:
        """Serving side: say that the work on request ``number`` has moved."""
        self._require(self._is_standing, "progress")
        self._served.report(number, counter)

    def reply(
        self,
        number: int,
        *,
        error: str = "",
        traceback: str = "",
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> None:
        """Serving side: answer request ``number``."""
        self._require(self._is_standing, "reply")
        reply = Reply(number, error, traceback, metadata)
        self._served.reply(reply)
        self._say(reply)

    def _say(self, frame: Frame) -> None:
        # While it is away nothing piles up here: what still matters is repeated once it is back.
        if self.state is SessionState.READY and not self.is_leaving:
            self._outbox.append(frame)

    # --- the peer speaks ---------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Request() | TaskProgress() | Reply() | Cancel() if self.is_leaving:
                pass  # it was on its way when we said goodbye
            case Request():
                self._on_request(frame)
            case TaskProgress():
                self._on_progress(frame, now)
            case Reply():
                self._on_reply(frame)
            case Cancel():
                self._on_cancel(frame)
            case _:
                super()._dispatch(frame, now)

    def _on_request(self, frame: Request) -> None:
        if self._served.is_new(frame):
            if len(self._served) > (most := self.config.limits.max_open_requests):
                raise self._violation(f"asks for more than {most} things at once")
            self._is_news = True
            self._tell(Asked(frame))
        elif (answer := self._served.answer_to(frame.request_id)) is not None:
            if len(self._outbox) >= MOST_EVENTS:
                raise self._violation("asks again what was answered and does not listen")
            self._outbox.append(answer)

    def _on_cancel(self, frame: Cancel) -> None:
        self._tell(CalledOff(frame.request_id, frame.reason))

    def _on_progress(self, frame: TaskProgress, now: float) -> None:
        if self._asked.has_moved(frame):
            self._is_news = True
            if frame.request_id in self._asked.processing:
                self._start_processing(frame.request_id, now)

    def _on_reply(self, frame: Reply) -> None:
        self._timers.stop(_processing(frame.request_id))
        if self._asked.answer(frame.request_id):  # else: given up, or answered twice
            self._is_news = True
            self._events.append(Answered(frame))

    # --- the processing clocks -----------------------------------------------------------

    def _pause_work(self, heard_at: float) -> None:
        for number in self._asked.processing:
            self._timers.pause(_processing(number), now=heard_at)

    def _resume_work(self, now: float) -> None:
        for number in self._asked.processing:
            if not self._timers.resume(_processing(number), now=now):
                self._start_processing(number, now)
        self._outbox.extend(self._asked.to_repeat())
        self._served.repeat()

    def _drop_work(self) -> None:
        for number in self._asked.processing:
            self._timers.stop(_processing(number))
        self._asked.clear()
        self._served.clear()

    def _expire(self, name: str, now: float) -> None:
        # Another that expired with it may have taken the session away, and so paused this one.
        if not name.startswith(_PROCESSING):
            super()._expire(name, now)
        elif self._timers.is_running(name):
            self._request_expired(int(name.removeprefix(_PROCESSING)), now)

    def _request_expired(self, number: int, now: float) -> None:
        facts = self._idle_facts(_processing(number), now, 0)
        facts["stream"] = f"request {number}"
        self._asked.forget(number)
        self._timers.stop(_processing(number))
        error = CommunicationTimeout(**facts, stage="processing")
        self._events.append(RequestFailed(number, error))

    def _start_processing(self, number: int, now: float) -> None:
        seconds = self.config.timeouts.communication_timeout
        self._timers.start(_processing(number), seconds, now=now)

    def _end(self, error: StreamlinkError) -> None:
        super()._end(error)
        self._asked.clear()
        self._served.clear()


_PROCESSING = "processing "


def _processing(number: int) -> str:
    return f"{_PROCESSING}{number}"
