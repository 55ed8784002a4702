"""``StreamMachine``: what both halves of a transfer share; it outlives the calls that carry it.

Calls come and go (``attach``, ``detach``), one that says nothing is given up (``silence``), and
either end may say that it is *held*, waiting for somebody else. Wherever a stream has moved, the
time from then on is put down to what limits it (``stalls``).
"""

from __future__ import annotations

from streamlink.config import LinkConfig
from streamlink.protocol.events import PeerHeld
from streamlink.protocol.frames import Frame, Held
from streamlink.protocol.limits import ATTACH_BURST, ATTACHES_PER_SECOND, Allowance
from streamlink.protocol.machine import GREETINGS, Machine
from streamlink.protocol.silence import Silence
from streamlink.protocol.stalls import HELD, NETWORK, NOTHING, READER, Stalls
from streamlink.protocol.stats import SharedStats
from streamlink.protocol.stream_state import State


class StreamMachine(Machine):
    """Base of ``SendStream`` and ``ReceiveStream``: calls come and go, and either end may hold."""

    FINAL = frozenset({State.DONE, State.ABORTED})
    ENDED = State.ABORTED

    def __init__(self, config: LinkConfig, *, stream_id: int, peer: str, name: str) -> None:
        super().__init__(config, peer=peer, name=name or f"stream {stream_id}", stream_id=stream_id)
        self.resumes = 0
        self._chunks = self._repairs = 0
        self._attaches = Allowance(ATTACHES_PER_SECOND, burst=ATTACH_BURST)
        self._has_moved = True  # bytes, on the call of the moment or the one before
        self.waits_for = ""
        """Whom this end waits for before it goes on; another thread may set it at any time."""
        self._held_counter = 0
        self._peer_held_counter = 0
        self._peer_waits_for = ""
        self._stalls = Stalls()
        self._has_begun = False
        timeouts = config.timeouts
        self._silence = Silence(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
        self._silent_since: float | None = None  # None: nothing is owed over a call
        self._was_silent = False  # whether that is why the last call was lost

    state: State

    # --- what limits it ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine."""
        silent_since = self._silent_since
        super().receive(frame, now=now)
        pause = 0.0 if silent_since is None else now - silent_since
        if isinstance(frame, GREETINGS):
            self._silence.greeted(pause)
        else:
            self._silence.moved(pause)
        if self._silent_since is not None:
            self._silent_since = now
        self._account(now)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired; most end the machine with an error that names it."""
        silent_at = self._silent_at()
        is_silent = silent_at is not None and silent_at <= now
        super().handle_timer(now=now)
        if is_silent and not self.is_closed:
            self._give_call_up(now)
        self._account(now)

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        deadline, silent_at = super().next_deadline(), self._silent_at()
        if deadline is None or silent_at is None:
            return silent_at if deadline is None else deadline
        return min(deadline, silent_at)

    def _account(self, now: float) -> None:
        """Put the time from ``now`` on down to whatever limits the stream as it stands."""
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

    # --- the carrier comes and goes ------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call. A stream that has failed only says why."""
        self.is_attached = self._has_begun = True
        self._outbox.clear()
        if not self.is_closed and not self._may_attach(now):
            error = self._violation("opens call after call for this stream, and nothing moves")
            self._fail(error, error.code)
        elif self.state is not State.ABORTED:
            self._attach(now)
            self._account(now)
        elif self._last_words is not None:
            self._outbox.append(self._last_words)

    def _may_attach(self, now: float) -> bool:
        has_moved, self._has_moved = self._has_moved, False
        return has_moved or self._attaches.spend(now=now)

    def detach(self, *, now: float) -> None:
        """The call is lost. Nothing is: ``attach`` goes on from what the receiver has."""
        self.is_attached = False
        self._outbox.clear()
        if not self.is_closed:
            self._detach(now)
        self._account(now)

    def _give_call_up(self, now: float) -> None:
        """Let go of a call that says nothing; the stream's own clocks run on."""
        self._silence.gave_up()
        self._was_silent = True
        self.detach(now=now)
        self._was_silent = False

    def _attach(self, now: float) -> None:
        raise NotImplementedError

    def _detach(self, now: float) -> None:
        raise NotImplementedError

    # --- held ----------------------------------------------------------------

    def hold(self, reason: str, waiting_for: str, *, now: float) -> None:
        """Say that this end is alive and waits for ``waiting_for``; say it again while it lasts.

        A clock of ours that watches the waiting part starts again, too.
        """
        if self.is_closed:
            return
        self._held_counter += 1
        self.waits_for = waiting_for
        if self.is_attached:
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
        """Let ``clock`` run, and the call be silent only so long, while something ``is_owed``.

        Only progress starts a clock again that runs.
        """
        if is_owed and is_progress:
            self._timers.start(clock, seconds, now=now)
        else:
            self._timers.run_while(is_owed, clock, seconds, now=now)
        if not (is_owed and self.is_attached):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now

    def _silent_at(self) -> float | None:
        """Return when the call has been silent for too long. No timer: each frame moves it."""
        if self._silent_since is None or self.is_closed:
            return None
        return self._silent_since + self._silence.patience(is_greeting=self._is_greeting())

    def _is_greeting(self) -> bool:
        """Whether the peer has not said the first word of this call."""
        raise NotImplementedError
