"""``SessionMachine``: requests and replies over an established session (``session_lifecycle``).

The models that a request sends or returns travel on streams of their own; their two stages, sending
and receiving, have those streams' timers. The stage between them, *processing*, is watched here: it
starts when the request is complete at the peer, restarts when a counter of this very request grew,
and ends with the first byte of the reply.

While the session is disconnected the work on a request is not blamed for a lost call: its timer is
paused, and resumes with its remaining time when the session is back. Both sides then repeat what
still matters (``requests``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import CommunicationTimeout, PeerBusy, StreamlinkError
from streamlink.extent import Extent
from streamlink.protocol.events import (
    ReplyReceived,
    RequestCancelled,
    RequestFailed,
    RequestReceived,
)
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
from streamlink.protocol.handshake import agree_open_requests
from streamlink.protocol.requests import OpenRequests, ServedRequests
from streamlink.protocol.session_lifecycle import MAX_EVENTS, SessionLifecycle
from streamlink.protocol.states import SESSION_TRANSITIONS, SessionState, Transitions


class SessionMachine(SessionLifecycle):
    """One end of a session; the one that is given a ``hello`` is the client."""

    TRANSITIONS: ClassVar[Transitions] = SESSION_TRANSITIONS

    def __init__(self, config: LinkConfig, *, peer_name: str, hello: Hello | None = None) -> None:
        super().__init__(config, peer_name=peer_name, hello=hello)
        self._open_requests = OpenRequests()
        self._served = ServedRequests()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now, in order; of each request's progress the latest only."""
        if self.state is SessionState.READY:
            self._outbox.extend(self._served.take_progress())
        return super().frames_to_send(now=now, channel=channel)

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something."""
        has_progress = self.state is SessionState.READY and self._served.has_progress
        return has_progress or super().has_frames(channel)

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
        """Send a request; returns its number. ``ReplyReceived`` or ``RequestFailed`` follows.

        Raises:
            PeerBusy: ``max_open_requests`` of ours are unanswered, those called off included.
        """
        self._require(self._is_established and not self.is_leaving, "request")
        if not self.has_place:
            raise PeerBusy(self.peer_name, self._open_requests.unanswered)
        number = self._open_requests.next_number()
        request = Request(number, topic, attempt, sends, returns, metadata, part, *extents)
        self._open_requests.add(request)
        self._send(request)
        if not sends:
            self.request_complete(number, now=now)
        return number

    @property
    def has_place(self) -> bool:
        """Whether the peer takes another request."""
        return self._welcome is not None and (
            self._open_requests.unanswered < agree_open_requests(self.config, self._welcome)
        )

    def request_complete(self, number: int, *, now: float) -> None:
        """Start the processing timer: the whole request is at the peer.

        Not where the reply has begun: a streaming executor answers while it still receives.
        """
        if self._open_requests.complete(number) and self.state is SessionState.READY:
            self._start_processing(number, now)

    def reply_began(self, number: int) -> None:
        """Note the first byte of the reply: processing has ended."""
        self._open_requests.begin_reply(number)
        self._timers.stop(_processing(number))

    def cancel(self, number: int, reason: str) -> None:
        """Cancel a request, at the peer, too."""
        cancel = self._open_requests.cancel(number, reason)
        if cancel is not None:
            self._send(cancel)
        self._timers.stop(_processing(number))

    def report_progress(self, number: int, counter: int) -> None:
        """Serving side: report that the work on request ``number`` has reached ``counter``."""
        self._require(self._is_established, "progress")
        self._served.report(number, counter)

    def reply(
        self,
        number: int,
        *,
        error: str = "",
        traceback: str = "",
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> None:
        """Serving side: reply to request ``number``."""
        self._require(self._is_established, "reply")
        reply = Reply(number, error, traceback, metadata)
        self._served.reply(reply)
        self._send(reply)

    def _send(self, frame: Frame) -> None:
        # Nothing is queued while it is disconnected, so the outbox is bounded. What still matters
        # is repeated afterwards.
        if self.state is SessionState.READY and not self.is_leaving:
            self._outbox.append(frame)

    # --- frames of the peer --------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Request() | TaskProgress() | Reply() | Cancel() if self.is_leaving:
                pass  # it was in flight when we sent our goodbye
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
        # A number that is not new was repeated after a break: it is answered, and never done again.
        if self._served.is_new(frame):
            if len(self._served) > (most := self.config.limits.max_open_requests):
                raise self._violation(
                    f"has more than {most} requests open at once (max_open_requests)"
                )
            self._is_progress = True
            self._emit(RequestReceived(frame))
        elif (answer := self._served.answer_to(frame.request_id)) is not None:
            if len(self._outbox) >= MAX_EVENTS:
                raise self._violation("repeats requests that were answered, and reads no replies")
            self._outbox.append(answer)

    def _on_cancel(self, frame: Cancel) -> None:
        self._emit(RequestCancelled(frame.request_id, frame.reason))
        # The reply may have been lost; until it has one, the peer counts the request as open. Of
        # those it has as many as it may, and no more: what a flood asks for waits here for nobody.
        answer = self._served.answer_to(frame.request_id)
        if answer is not None and len(self._outbox) < 4 * self.config.limits.max_open_requests:
            self._outbox.append(answer)

    def _on_progress(self, frame: TaskProgress, now: float) -> None:
        if self._open_requests.is_progress(frame):
            self._is_progress = True
            if frame.request_id in self._open_requests.processing:
                self._start_processing(frame.request_id, now)

    def _on_reply(self, frame: Reply) -> None:
        # Also for a reply that is late: its request may have been cancelled while it was in flight.
        self._timers.stop(_processing(frame.request_id))
        if self._open_requests.answer(frame.request_id):  # else cancelled, or answered twice
            self._is_progress = True
            self._events.append(ReplyReceived(frame))

    # --- the processing timers -----------------------------------------------------------

    def _pause_work(self, heard_at: float) -> None:
        for number in self._open_requests.processing:
            self._timers.pause(_processing(number), now=heard_at)

    def _resume_work(self, now: float) -> None:
        for number in self._open_requests.processing:
            # A request that became complete without a call has no paused timer yet.
            if not self._timers.resume(_processing(number), now=now):
                self._start_processing(number, now)
        self._outbox.extend(self._open_requests.to_repeat())
        self._served.repeat()

    def _drop_work(self) -> None:
        for number in self._open_requests.processing:
            self._timers.stop(_processing(number))
        self._open_requests.clear()
        self._served.clear()

    def _timer_expired(self, name: str, now: float) -> None:
        # Timers that expire together: another may have disconnected the session, which paused this
        # one.
        if not name.startswith(_PROCESSING):
            super()._timer_expired(name, now)
        elif self._timers.is_running(name):
            self._request_timed_out(int(name.removeprefix(_PROCESSING)), now)

    def _request_timed_out(self, number: int, now: float) -> None:
        facts = self._idle_facts(_processing(number), now, 0)
        facts["stream"] = f"request {number}"
        self._open_requests.forget(number)
        self._timers.stop(_processing(number))
        error = CommunicationTimeout(**facts, stage="processing")
        self._events.append(RequestFailed(number, error))

    def _start_processing(self, number: int, now: float) -> None:
        seconds = self.config.timeouts.communication_timeout
        self._timers.start(_processing(number), seconds, now=now)

    def _end(self, error: StreamlinkError) -> None:
        super()._end(error)
        self._open_requests.clear()
        self._served.clear()


_PROCESSING = "processing "


def _processing(number: int) -> str:
    return f"{_PROCESSING}{number}"
