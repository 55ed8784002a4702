"""``StreamMachine``: what both halves of a transfer share; it outlives the channels that carry it.

Channels come and go (``attach``, ``detach``); a stream may have several at once. One that says
nothing is given up (``liveness``), a stream without any waits for another (``grace``), and either
end may say that it is *held*, waiting for a third party. Whenever a stream has moved, the time from
then on is attributed to what limits it (``stalls``).
"""

from __future__ import annotations

from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.protocol.channel import Channel
from streamlink.protocol.events import PeerHeld
from streamlink.protocol.frames import Frame, Held
from streamlink.protocol.grace import Outage
from streamlink.protocol.limits import ATTACH_BURST, ATTACHES_PER_SECOND, Allowance
from streamlink.protocol.liveness import Liveness
from streamlink.protocol.machine import GREETINGS, Machine
from streamlink.protocol.stalls import HELD, NETWORK, NOTHING, READER, Stalls
from streamlink.protocol.stats import SharedStats
from streamlink.protocol.stream_state import State

_NOT_BACK = (
    "its connection was lost and was not back within {:g} s; if that is normal on this link, raise "
    "reconnect_timeout"
)


class StreamMachine(Machine):
    """Base of ``SendStream`` and ``ReceiveStream``: channels come and go, either end may hold."""

    FINAL = frozenset({State.DONE, State.ABORTED})
    ENDED = State.ABORTED
    UNGREETED: ClassVar[State]
    """Where a channel begins, and the stream stands while none is ready."""

    def __init__(self, config: LinkConfig, *, stream_id: int, peer: str, name: str) -> None:
        super().__init__(config, peer=peer, name=name or f"stream {stream_id}", stream_id=stream_id)
        self.resumes = 0
        self.unnoticed_seconds = 0.0
        """How much longer than this end the other may take a broken call for alive (seconds)."""
        self._channels: dict[int, Channel] = {}
        self._outage = Outage()
        self._chunks = self._repairs = 0
        self._attaches = Allowance(ATTACHES_PER_SECOND, burst=ATTACH_BURST)
        self._has_moved = True  # bytes, on the channels of the moment or those before
        self.waits_for = ""
        """Whom this end waits for before it goes on; another thread may set it at any time."""
        self._held_counter = 0
        self._peer_held_counter = 0
        self._peer_waits_for = ""
        self._stalls = Stalls()
        self._has_begun = False
        timeouts = config.timeouts
        self._liveness = Liveness(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
        self._silent_since: float | None = None  # None: nothing is owed over a channel
        self._was_silent = False  # whether that is why the last channel was lost

    state: State

    # --- the verbs -------------------------------------------------------------

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine."""
        if (on := self._channels.get(channel)) is None:
            return  # it was given up: what it still brings is sent again on another
        self._channel = on
        silent_since = self._silent_since
        is_greeting = isinstance(frame, GREETINGS)
        self._outage.heard(is_progress=not is_greeting, now=now)
        super().receive(frame, now=now)
        pause = 0.0 if silent_since is None else now - silent_since
        if is_greeting:
            self._liveness.greeted(pause)
        else:
            self._liveness.moved(pause)
        if self._silent_since is not None:
            self._silent_since = now
        self._account(now)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired; most end the machine with an error that names it."""
        silent_at = self._silent_at()
        is_silent = silent_at is not None and silent_at <= now
        super().handle_timer(now=now)
        lost_at = self._outage.deadline(self.patience)
        if lost_at is not None and lost_at <= now:
            self.abort(AbortCode.SESSION_LOST, _NOT_BACK.format(self.patience))
        if is_silent and not self.is_closed:
            self._give_channels_up(now)
        self._account(now)

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        lost_at = None if self.is_closed else self._outage.deadline(self.patience)
        deadlines = (super().next_deadline(), self._silent_at(), lost_at)
        return min((each for each in deadlines if each is not None), default=None)

    def _move(self, frame: Frame) -> None:
        greeting = self._channel.greeting
        after = self._after(frame, greeting or self.state)
        # The greeting of one channel more moves the channel, not a stream that others carry.
        if greeting is None or self.state is greeting:
            self.state = after

    # --- channels come and go ----------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether any channel carries it."""
        return bool(self._channels)

    def carries(self, channel: int) -> bool:
        """Whether ``channel`` still carries it."""
        return channel in self._channels

    @property
    def patience(self) -> float:
        """How long the stream may be without a channel, in all, since it moved (seconds)."""
        return self.config.timeouts.reconnect_timeout + self.unnoticed_seconds

    def is_lost(self, *, now: float) -> bool:
        """Whether it has been without a channel for longer than that."""
        lost_at = self._outage.deadline(self.patience)
        return lost_at is not None and lost_at < now

    def is_waiting(self, *, now: float) -> bool:
        """Whether it has no channel that works, and that for so long that its owner should know."""
        return not self.is_closed and self._outage.is_news(now=now)

    def attach(self, *, now: float, channel: int = 0) -> None:
        """Begin, or go on, over one channel more. A stream that has failed only says why."""
        on = self._channels[channel] = Channel(channel, self.UNGREETED)
        self._has_begun = True
        self._closed_at = None
        if len(self._channels) == 1:
            self._outbox.clear()
        if not self.is_closed and not self._may_attach(now):
            error = self._violation("opens call after call for this stream, and nothing moves")
            self._fail(error, error.code)
        elif self.state is not State.ABORTED:
            self._attach(on, now)
            self._account(now)
        elif self._last_words is not None:
            on.outbox.append(self._last_words)

    def _may_attach(self, now: float) -> bool:
        has_moved, self._has_moved = self._has_moved, False
        return has_moved or self._attaches.spend(now=now)

    def detach(self, *, now: float, channel: int = 0) -> None:
        """A channel is lost. Nothing else is: the others carry on, or ``attach`` resumes."""
        if (lost := self._channels.pop(channel, None)) is None:
            return
        if not self._channels:
            self._outage.begin(now=now)
            self._outbox.clear()
        if not self.is_closed:
            self._detach(lost, now)
        self._account(now)

    def _give_channels_up(self, now: float) -> None:
        """Let go of channels that say nothing; the stream's own clocks run on."""
        self._liveness.gave_up()
        self._was_silent = True
        for channel in list(self._channels):
            self.detach(now=now, channel=channel)
        self._was_silent = False

    def _attach(self, channel: Channel, now: float) -> None:
        raise NotImplementedError

    def _detach(self, channel: Channel, now: float) -> None:
        raise NotImplementedError

    @property
    def _is_ready(self) -> bool:
        """Whether the greeting of any channel is complete."""
        return any(channel.is_ready for channel in self._channels.values())

    def _controls(self, channel: Channel) -> bool:
        """Whether this channel carries what is said of the stream as a whole: one of them does.

        Control frames of one stream stay in order, since only the loss of a channel moves them to
        another.
        """
        if len(self._channels) == 1:
            return True
        ready = (each for each in self._channels.values() if each.is_ready)
        return channel is next(ready, next(iter(self._channels.values())))

    # --- frames out ------------------------------------------------------------------

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now on ``channel``, in order, and forget it here."""
        if self.observer is not None:
            self.observer.sends(self)
        on = self._channels.get(channel)
        if on is None:
            return []
        frames: list[Frame] = []
        if on.outbox:
            frames.extend(on.outbox)
            on.outbox.clear()
        if self._outbox and self._controls(on):
            frames.extend(self._outbox)
            self._outbox.clear()
        return frames

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        on = self._channels.get(channel)
        return on is not None and (bool(on.outbox) or (bool(self._outbox) and self._controls(on)))

    # --- what limits it ------------------------------------------------------

    def _account(self, now: float) -> None:
        """Attribute the time from ``now`` on to whatever limits the stream as it stands."""
        if not self._has_begun:
            return
        cause = NOTHING if self.state in self.FINAL else self._cause()
        if cause != self._stalls.cause:
            self._stalls.turn(cause, now=now)

    def _cause(self) -> str:
        """Return what limits the stream now (see ``stalls``)."""
        raise NotImplementedError

    def _stalled_by(self) -> str:
        """Return the cause of the stretch that runs, with what was learnt since it began."""
        cause = self._stalls.cause
        return HELD if cause == READER and self.waits_for else cause

    def _go_on_ourselves(self) -> None:
        """We waited for somebody else, up to now."""
        self._stalls.blame(HELD, instead_of=READER)
        self.waits_for = ""

    def _shared_stats(self) -> SharedStats:
        cause = self._stalled_by()
        return {
            "chunks": self._chunks,
            "repairs": self._repairs,
            "resumes": self.resumes,
            "damaged": self.damaged,
            "stall_seconds": self._stalls.ended(),
            "stalled_by": cause,
            "stalled_at": self._stalls.since,
            "held_for": (self.waits_for or self._peer_waits_for) if cause == HELD else "",
        }

    # --- held ----------------------------------------------------------------

    def hold(self, reason: str, waiting_for: str, *, now: float) -> None:
        """Say that this end is alive and waits for ``waiting_for``; say it again while it lasts.

        A clock of ours that watches the waiting part starts again, too.
        """
        if self.is_closed:
            return
        self._held_counter += 1
        self.waits_for = waiting_for
        if self._channels:
            self._outbox.append(Held(self._held_counter, reason, waiting_for))
        self._we_hold(now)

    def _on_held(self, frame: Held, now: float) -> None:
        # Progress is a counter that moved, not an event that happened.
        if frame.counter <= self._peer_held_counter:
            return
        self._peer_held_counter = frame.counter
        self._peer_waits_for = frame.waiting_for
        if frame.waiting_for:
            self._stalls.blame(HELD, instead_of=self._peer_is_to_blame())
        self._peer_holds(now)
        if not (self._events and isinstance(self._events[-1], PeerHeld)):
            self._events.append(PeerHeld(frame.reason, frame.waiting_for))

    def _we_hold(self, now: float) -> None:
        """Start the clocks on our own waiting part again, if there are any."""

    def _peer_holds(self, now: float) -> None:
        raise NotImplementedError

    def _peer_is_to_blame(self) -> str:
        """Return the cause that a peer's being held explains."""
        return NETWORK

    # --- clocks --------------------------------------------------------------

    def _watch_turn(
        self, clock: str, seconds: float, *, is_owed: bool, is_progress: bool, now: float
    ) -> None:
        """Let ``clock`` run, and the channels be silent only so long, while something ``is_owed``.

        Only progress starts a clock again that runs.
        """
        if is_owed and is_progress:
            self._timers.start(clock, seconds, now=now)
        else:
            self._timers.run_while(is_owed, clock, seconds, now=now)
        if not (is_owed and self._channels):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now

    def _silent_at(self) -> float | None:
        """Return when the channels have been silent for too long.

        No timer: each frame moves it.
        """
        if self._silent_since is None or self.is_closed:
            return None
        return self._silent_since + self._liveness.patience(is_greeting=self._is_greeting())

    def _is_greeting(self) -> bool:
        """Whether the peer has not said the first word of the only channel there is."""
        return self.state is self.UNGREETED
