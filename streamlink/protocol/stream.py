"""``StreamMachine``: what both halves of a transfer share; it outlives the channels that carry it.

Channels come and go (``attach``, ``detach``); a stream may have several at once. Silent ones are
closed (``Liveness``), a stream without any waits for another (``StreamOutage``), and either end may
report that it is *held*: alive, but waiting for a third party, like an application-level
keep-alive. Whenever a stream has changed, the time from then on is attributed to what limits it
(``Stalls``).
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamAborted
from streamlink.protocol.events import PeerHeld
from streamlink.protocol.frames import Frame, Held
from streamlink.protocol.limits import ATTACH_BURST, ATTACHES_PER_SECOND, TokenBucket
from streamlink.protocol.liveness import Liveness, StreamOutage
from streamlink.protocol.machine import HANDSHAKE_FRAMES, Machine
from streamlink.protocol.states import State
from streamlink.protocol.stats import HELD, NETWORK, NOTHING, READER, SharedStats, Stalls

_NOT_RECONNECTED = (
    "its connection was lost and was not restored within {:g} s; if that is normal on this link, "
    "raise reconnect_timeout"
)


class Channel:
    """One channel of a stream: an ordered pipe to the peer, such as a gRPC call or a socket.

    Each begins with the same handshake, ``Open`` and ``Accept``, which says up to where the stream
    has come; after it any of them may carry any chunk.
    """

    __slots__ = (
        "acked", "asked_at", "chunks", "damaged_in_a_row", "handshake", "is_beside", "is_retiring",
        "number", "outbox", "reserved_at",
    )  # fmt: skip

    def __init__(
        self, number: int, handshake: State, *, now: float, is_beside: bool = False
    ) -> None:
        self.number = number
        self.asked_at: float | None = now
        """Sender: when ``Open`` was queued (monotonic seconds). None: the receiver has reported
        since that it is held, so the time until its ``Accept`` is not the round-trip time."""
        self.is_beside = is_beside
        """Whether another channel was ready when it came: both end at the same peer process."""
        self.handshake: State | None = handshake
        """How far the handshake has come; None: it is complete."""
        self.is_retiring = False
        """Whether it only brings to its end what it carries already."""
        self.outbox: deque[Frame] = deque()
        """What only this channel may carry: its handshake, and repairs of frames it brought."""
        self.chunks = 0
        """Receiver: chunk frames that arrived on it, damaged ones included (count)."""
        self.damaged_in_a_row = 0
        """Receiver: chunk frames that arrived damaged since the last intact one (count)."""
        self.reserved_at: int | None = None
        """Receiver: where the payload belongs that is being read from it (byte)."""
        self.acked = (0, 0, 0, 0)
        """Sender: received, consumed, durable and limit of its last ack (bytes)."""

    @property
    def is_ready(self) -> bool:
        """Whether the handshake is complete, so that chunks and acks may travel."""
        return self.handshake is None


class StreamMachine(Machine):
    """Base of ``SendStream`` and ``ReceiveStream``."""

    FINAL = frozenset({State.DONE, State.ABORTED})
    ENDED = State.ABORTED
    INITIAL_STATE: ClassVar[State]
    """Where each channel begins, and the state of the stream while none is ready."""

    def __init__(self, config: LinkConfig, *, stream_id: int, peer_name: str, name: str) -> None:
        name = name or f"stream {stream_id}"
        super().__init__(config, peer_name=peer_name, name=name, stream_id=stream_id)
        self.resumes = 0
        self.extra_grace_seconds = 0.0
        """How much longer than ``reconnect_timeout`` to wait: the peer may notice a break late."""
        self._channels: dict[int, Channel] = {}
        self._heard = -1  # the channel that has brought the last frame
        self._outage = StreamOutage()
        self._chunks = self._repairs = 0
        self._attach_budget = TokenBucket(ATTACHES_PER_SECOND, burst=ATTACH_BURST)
        self._has_progressed = True  # since the last channel was attached; the first one is free
        self.waits_for = ""
        """Whom this end waits for before it continues; another thread may set it at any time."""
        self._held_counter = 0
        self._peer_held_counter = 0
        self._peer_waits_for = ""
        self._stalls = Stalls()
        self._has_begun = False
        timeouts = config.timeouts
        self._liveness = Liveness(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
        self._silent_since: float | None = None  # None: the peer owes nothing over a channel
        self._was_silent = False  # whether that is why the last channel was closed

    state: State

    # --- the verbs -------------------------------------------------------------

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Process one frame from the peer. A frame the state does not allow ends the machine."""
        if (on := self._channels.get(channel)) is None:
            return  # the channel was closed: what it still brings is sent again on another
        self._channel = on
        if not (self.is_closed or on.is_retiring):
            # Not after the end: the last words would move, perhaps to where nobody writes any more.
            self._heard = channel
        # Kept, since processing the frame may end the silence or begin another.
        silent_since = self._silent_since
        is_handshake = isinstance(frame, HANDSHAKE_FRAMES)
        self._outage.end(is_progress=not is_handshake, now=now)
        super().receive(frame, now=now)
        pause = 0.0 if silent_since is None else now - silent_since
        if is_handshake:
            self._liveness.record_handshake(pause)
        else:
            self._liveness.record_progress(pause)
        if self._silent_since is not None:
            self._silent_since = now
        self._account(now)

    def handle_timer(self, *, now: float) -> None:
        """Act on every expired timer; most end the machine with an error that names the setting."""
        # Taken before the timers run: one of them may end the silence, or the stream.
        silence_deadline = self._silence_deadline()
        is_silent = silence_deadline is not None and silence_deadline <= now
        super().handle_timer(now=now)
        lost_at = self._outage.deadline(self.grace_seconds)
        if lost_at is not None and lost_at <= now:
            self.abort(AbortCode.SESSION_LOST, _NOT_RECONNECTED.format(self.grace_seconds))
        if is_silent and not self.is_closed:
            self._close_channels(now)
        self._account(now)

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` has to be called (monotonic seconds), or None."""
        lost_at = None if self.is_closed else self._outage.deadline(self.grace_seconds)
        deadlines = (super().next_deadline(), self._silence_deadline(), lost_at)
        return min((each for each in deadlines if each is not None), default=None)

    def _transition(self, frame: Frame) -> None:
        handshake = self._channel.handshake
        following = self._next_state(frame, handshake or self.state)
        # The handshake of one more channel changes the channel, not a stream that others carry.
        if handshake is None or self.state is handshake:
            self.state = following

    # --- channels come and go ----------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether any channel carries it."""
        return bool(self._channels)

    def carries(self, channel: int) -> bool:
        """Whether ``channel`` still carries it."""
        return channel in self._channels

    @property
    def grace_seconds(self) -> float:
        """How long the stream may be without a channel, in all, since its last progress."""
        return self.config.timeouts.reconnect_timeout + self.extra_grace_seconds

    def is_lost(self, *, now: float) -> bool:
        """Whether it has been without a channel for longer than that."""
        lost_at = self._outage.deadline(self.grace_seconds)
        return lost_at is not None and lost_at < now

    @property
    def ended_as(self) -> str:
        """What a peer is told that opens it after its end: its name, and why it ended."""
        reason = self.error.reason if isinstance(self.error, StreamAborted) else self.error
        return f"{self.name}, which has ended" + (f": {reason}" if reason else "")

    def is_waiting(self, *, now: float) -> bool:
        """Whether it has had no working channel for so long that its owner should report it."""
        return not self.is_closed and self._outage.is_notable(now=now)

    def attach(self, *, now: float, channel: int = 0) -> None:
        """Begin, or resume, over a new channel. A failed stream only sends the reason."""
        on = Channel(channel, self.INITIAL_STATE, now=now, is_beside=self._is_ready)
        self._channels[channel] = on
        self._has_begun = True
        self._closed_at = None  # a machine that has ended gets time to repeat its last frames
        if len(self._channels) == 1:
            # The handshake says up to where both have come: older acks and reports are outdated.
            self._outbox.clear()
        if not self.is_closed and not self._may_attach(now):
            error = self._violation("opens call after call for this stream without any progress")
            self._fail(error, error.code)
        elif self.state is not State.ABORTED:
            self._attach(on, now)
            self._account(now)
        elif self._closing_abort is not None:
            on.outbox.append(self._closing_abort)

    def _may_attach(self, now: float) -> bool:
        # A call that follows progress is free. A peer that only opens calls pays a token for each,
        # since every call costs a thread and a handshake.
        has_progressed, self._has_progressed = self._has_progressed, False
        return has_progressed or self._attach_budget.take_token(now=now)

    def detach(self, *, now: float, channel: int = 0) -> None:
        """Note that a channel is lost: the others continue, or ``attach`` resumes."""
        if (lost := self._channels.pop(channel, None)) is None:
            return
        if not self._channels:
            self._outage.begin(now=now)
            self._outbox.clear()  # there is no channel for it, and the next handshake replaces it
        if not self.is_closed:
            self._detach(lost, now)
        self._account(now)

    def retire(self, channel: int) -> bool:
        """Give ``channel`` nothing more to carry; False: no other could carry it instead."""
        on = self._channels.get(channel)
        if on is None or not self._has_other(on):
            return False
        on.is_retiring = True
        return True

    def is_retiring(self, channel: int) -> bool:
        """Whether ``channel`` gets nothing more to carry."""
        return (on := self._channels.get(channel)) is not None and on.is_retiring

    def is_through(self, channel: int) -> bool:
        """Whether ``channel`` is retiring, and what it carries is done with."""
        return self.is_retiring(channel) and not self.has_frames(channel)

    def _has_other(self, channel: Channel) -> bool:
        """Whether a channel beside this one may carry anything that comes."""
        channels = self._channels.values()
        return any(each.is_ready and not each.is_retiring for each in channels if each != channel)

    def _close_channels(self, now: float) -> None:
        """Close the channels, all of them silent; the stream's own timers keep running.

        If they were stopped, a peer could keep a stream for ever by never answering.
        """
        self._liveness.record_replacement()
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
        """Whether the handshake of any channel is complete."""
        return any(channel.is_ready for channel in self._channels.values())

    def _is_control_channel(self, channel: Channel) -> bool:
        """Whether this channel carries the frames about the stream as a whole: one of them does.

        It is the one that has brought the last frame: whatever leaves on another may be lost in a
        channel that is dead without either end knowing. So these frames may overtake each other,
        and none of them takes back what another has said.
        """
        if len(self._channels) == 1:
            return True
        heard = self._channels.get(self._heard)
        if heard is not None and heard.is_ready and not heard.is_retiring:
            return channel is heard
        # The oldest one whose handshake is complete, if possible one that is not retiring.
        channels = self._channels.values()
        return channel is min(channels, key=lambda each: (not each.is_ready, each.is_retiring))

    # --- frames out ------------------------------------------------------------------

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now on ``channel``, in order, and forget it here."""
        if self.observer is not None:
            self.observer.before_send(self)
        on = self._channels.get(channel)
        if on is None:
            return []
        frames: list[Frame] = []
        if on.outbox:
            frames.extend(on.outbox)
            on.outbox.clear()
        if self._outbox and self._is_control_channel(on):
            frames.extend(self._outbox)
            self._outbox.clear()
        return frames

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        on = self._channels.get(channel)
        if on is None:
            return False
        return bool(on.outbox) or (bool(self._outbox) and self._is_control_channel(on))

    # --- what limits it ------------------------------------------------------

    def _account(self, now: float) -> None:
        """Attribute the time from ``now`` on to whatever limits the stream now."""
        if not self._has_begun:
            return
        cause = NOTHING if self.state in self.FINAL else self._cause()
        if cause != self._stalls.cause:
            self._note_end_of(self._stalls.cause, now)
            self._stalls.switch_to(cause, now=now)

    def _note_end_of(self, cause: str, now: float) -> None:
        """Take what ``cause`` has shown, which limits the stream no longer."""

    def _cause(self) -> str:
        """Return what limits the stream now (see ``Stalls``)."""
        raise NotImplementedError

    def _stalled_by(self) -> str:
        """Return the cause of the running interval, with what is known by now."""
        cause = self._stalls.cause
        return HELD if cause == READER and self.waits_for else cause

    def _stop_waiting(self) -> None:
        """Note that this end has waited for a third party, and continues."""
        self._stalls.reattribute(HELD, instead_of=READER)
        self.waits_for = ""

    def _shared_stats(self) -> SharedStats:
        cause = self._stalled_by()
        return {
            "chunks": self._chunks,
            "repairs": self._repairs,
            "resumes": self.resumes,
            "damaged": self.damaged,
            "carrier": self.carrier,
            "stall_seconds": self._stalls.finished(),
            "stalled_by": cause,
            "stalled_at": self._stalls.since,
            "held_for": (self.waits_for or self._peer_waits_for) if cause == HELD else "",
        }

    # --- held ----------------------------------------------------------------

    def hold(self, reason: str, waiting_for: str, *, now: float) -> None:
        """Report that this end is alive and waits for ``waiting_for``; repeat it while that lasts.

        It restarts the peer's timers, and the timer of ours that watches the waiting part.
        """
        if self.is_closed:
            return
        self._held_counter += 1
        self.waits_for = waiting_for
        if self._channels:
            self._outbox.append(Held(self._held_counter, reason, waiting_for))
        self._on_own_hold(now)

    def _on_held(self, frame: Held, now: float) -> None:
        # Only a counter that has grown is news: a repeated frame proves nothing about the peer.
        if frame.counter <= self._peer_held_counter:
            return
        self._peer_held_counter = frame.counter
        self._peer_waits_for = frame.waiting_for
        if frame.waiting_for:
            self._stalls.reattribute(HELD, instead_of=self._cause_of_a_held_peer())
        self._on_peer_hold(now)
        # One event is enough for an owner that is busy; the stats have the latest reason.
        if not (self._events and isinstance(self._events[-1], PeerHeld)):
            self._events.append(PeerHeld(frame.reason, frame.waiting_for))

    def _on_own_hold(self, now: float) -> None:
        """Restart the timers of our own waiting part, if there are any."""

    def _on_peer_hold(self, now: float) -> None:
        raise NotImplementedError

    def _cause_of_a_held_peer(self) -> str:
        """Return the cause that a held peer explains."""
        return NETWORK

    # --- timers --------------------------------------------------------------

    def _watch_turn(
        self, timer: str, seconds: float, *, is_owed: bool, is_progress: bool, now: float
    ) -> None:
        """Run ``timer``, and count the silence of the channels, while the peer owes something.

        Only progress restarts a running timer.
        """
        # A handshake, a repeated report or an ack without news must not extend the peer's time.
        if is_owed and is_progress:
            self._timers.start(timer, seconds, now=now)
        else:
            self._timers.run_while(is_owed, timer, seconds, now=now)
        if not (is_owed and self._channels):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now

    def _silence_deadline(self) -> float | None:
        """Return when the channels have been silent for too long.

        Computed on demand, not kept as a timer: every frame would have to restart it.
        """
        if self._silent_since is None or self.is_closed:
            return None
        is_handshake = self.state is self.INITIAL_STATE
        return self._silent_since + self._liveness.timeout(is_handshake=is_handshake)
