"""The bandwidth limit of this process: ``protocol.pacing`` for each direction, and a thread.

One number bounds a process, so its servers and clients share it, as they share their memory
(``process_memory``). The thread gives streams what they may move next, and looks every second
whether the time of day has brought another limit; it runs only where there is a limit. Streams are
paced above their carrier, so every carrier is limited. Frames that are no chunk ask nobody.

Lock order: ``_changing``, then a stream's pump, then ``_lock``.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamlink.clock import Clock
from streamlink.config import LinkConfig, check_bwlimit
from streamlink.config.bandwidth import (
    DEBT_SECONDS,
    NO_LIMIT,
    BandwidthLimit,
    Timetable,
    parse_bwlimit,
)
from streamlink.protocol.pacing import Pacer, Portion
from streamlink.transport.transfer_pump import PacedDirection

__all__ = [
    "BandwidthFacts",
    "BandwidthUse",
    "OneBandwidth",
    "ProcessBandwidth",
    "bandwidth_facts",
    "change_bandwidth",
    "forget_bandwidth",
    "join_bandwidth",
    "open_bandwidth",
]

logger = logging.getLogger("streamlink.transport")

LOOK_SECONDS = 1.0
"""How often the time of day is looked at (seconds)."""

_CLOSE_SECONDS = 5.0


class Stream(Hashable, Protocol):
    """A stream that can keep to the limit; the pumps of transfers do."""

    @property
    def is_sending(self) -> bool:
        """Whether this end sends the model."""

    def pace(self, direction: PacedDirection | None, portion: Portion) -> None:
        """Move only what ``direction`` permits from now on; None: whatever the link carries."""

    def allow(self, nbytes: int, portion: Portion) -> None:
        """Move ``nbytes`` more; its direction was asked for them."""


@dataclass(frozen=True, slots=True)
class BandwidthFacts:
    """What limits this process."""

    bwlimit: str = ""
    """The limit as it was set; empty: none was."""
    limit: BandwidthLimit = NO_LIMIT
    """What is in force now."""


class _Direction:
    """What this process sends, or receives; see ``PacedDirection``."""

    def __init__(self, bandwidth: ProcessBandwidth) -> None:
        self._bandwidth = bandwidth
        self.pacer: Pacer[Stream] = Pacer()
        # Weakly: where there is no limit, no stream says that it has ended.
        self.streams: weakref.WeakSet[Stream] = weakref.WeakSet()

    def ask(self, pump: Stream, wanted: int, uncharged: int) -> None:
        """Note what a stream wants to move, and what it has moved unasked (bytes)."""
        self._bandwidth.ask(self.pacer, pump, wanted, uncharged)

    def leave(self, pump: Stream) -> None:
        """Note that a stream has ended."""
        self._bandwidth.leave(self, pump)

    @property
    def portion(self) -> Portion:
        """What each of its streams may have."""
        return self.pacer.portion(len(self.streams))

    def pace(self, pump: Stream) -> None:
        """Have a stream keep to the limit that there is now, if any."""
        pump.pace(None if self.pacer.rate is None else self, self.portion)


class BandwidthUse:
    """One server or client that has the limit of its process open, to be closed.

    Args:
        config: its settings.
        close: is called once.
    """

    def __init__(self, config: LinkConfig, close: Callable[[BandwidthUse], None]) -> None:
        self.bwlimit = config.stream.bwlimit
        """The limit that it asks for; empty: none."""
        self.least = config.least_bwlimit
        """The lowest limit at which it works (bytes per second), and why."""
        self.debt_seconds = config.bwlimit_debt_seconds
        """How long a debt may hold up streams at most (seconds)."""
        self._close = close

    def close(self) -> None:
        """Note that it has closed: it does not count any more. Harmless when called twice."""
        self._close(self)


class ProcessBandwidth:
    """The limit that streams of this process share.

    Args:
        clock: the time, also that of the day.
    """

    def __init__(self, clock: Clock) -> None:
        self._configured = ""  # what a user has asked for last
        self._users: list[BandwidthUse] = []
        self._clock = clock
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._changed = clock.condition(self._lock)
        self._up, self._down = _Direction(self), _Direction(self)
        self._facts = BandwidthFacts()
        self._timetable = Timetable()
        self._looked_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def facts(self) -> BandwidthFacts:
        """What is in force now."""
        return self._facts

    def enter(self, user: BandwidthUse) -> None:
        """Have one more user, and the limit that it asks for, if any.

        Raises:
            ValueError: another user asks for another limit, or the one in force is too low for this
                user's timeouts; nothing changes.
        """
        with self._changing:
            wanted = user.bwlimit
            others = {each.bwlimit for each in self._users} - {"", wanted}
            if wanted and others:
                raise ValueError(
                    f"stream.bwlimit is {wanted!r}, and {others.pop()!r} at another server or "
                    "client of this process: one limit bounds a process; give all of them the same"
                )
            # One that comes back with the same limit does not undo what the operator has set.
            if wanted and wanted != self._configured:
                self._change(wanted, [*self._users, user])
                self._configured = wanted
            else:
                check_bwlimit(self._facts.bwlimit, *user.least)
            self._users.append(user)
            self._bound_debt()

    def exit(self, user: BandwidthUse) -> bool:
        """Count a user no more; returns whether any is left.

        What nobody asks for any more ends, unless the operator has set it.
        """
        with self._changing:
            if user in self._users:
                self._users.remove(user)
                self._bound_debt()
            is_asked_for = any(each.bwlimit for each in self._users)
            if self._users and not is_asked_for and self._facts.bwlimit == self._configured != "":
                self._change("", self._users)
                self._configured = ""
            return bool(self._users)

    def change(self, text: str) -> None:
        """Have another limit from now on, until the next change.

        Raises:
            ValueError: it is none, or too low for the timeouts of a user; nothing changes.
        """
        with self._changing:
            self._change(text, self._users)

    def _change(self, text: str, users: Sequence[BandwidthUse]) -> None:
        """See ``change``; ``_changing`` is held."""
        check_bwlimit(text, *max((each.least for each in users), default=(0.0, "")))
        timetable = parse_bwlimit(text)
        if timetable.slots:
            self._start_thread()  # first: where it cannot run, nothing changes
        self._timetable = timetable
        self._facts = BandwidthFacts(text, self._facts.limit)
        self._look()

    def _bound_debt(self) -> None:
        """Let no debt outlast a timeout of any user; ``_changing`` is held."""
        seconds = min((each.debt_seconds for each in self._users), default=DEBT_SECONDS)
        with self._lock:
            for each in (self._up, self._down):
                each.pacer.bound_debt(seconds)

    def _start_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="streamlink-bandwidth", daemon=True)
            thread.start()
            self._thread = thread

    def join(self, pump: Stream) -> None:
        """Have a stream keep to the limit, now and after each change, until it ends."""
        direction = self._up if pump.is_sending else self._down
        with self._changing:
            with self._lock:
                direction.streams.add(pump)
            if direction.pacer.rate is not None:
                direction.pace(pump)

    def ask(self, pacer: Pacer[Stream], pump: Stream, wanted: int, uncharged: int) -> None:
        """See ``PacedDirection``."""
        with self._lock:
            if uncharged:
                pacer.charge(uncharged)
            if wanted > 0:
                pacer.ask(pump, wanted)
                self._changed.notify_all()

    def leave(self, direction: _Direction, pump: Stream) -> None:
        """See ``PacedDirection``."""
        with self._lock:
            direction.pacer.leave(pump)
            direction.streams.discard(pump)

    def close(self) -> None:
        """End its thread; its last user has closed."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._clock.join(self._thread, _CLOSE_SECONDS)

    # --- the thread ---------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._turn()
            except Exception:
                # And no more than that: without this thread all paced streams would starve.
                logger.exception("the bandwidth limit of this process failed for a moment")
                self._clock.event().wait(LOOK_SECONDS)  # what fails at once must not fill the log

    def _turn(self) -> None:
        with self._changing:
            if self._clock() - self._looked_at >= LOOK_SECONDS:
                self._look()
        for direction, pump, nbytes in self._next():
            with _failing_alone("a stream could not be given its part of the bandwidth"):
                pump.allow(nbytes, direction.portion)

    def _next(self) -> list[tuple[_Direction, Stream, int]]:
        """Wait for streams that may move now, or for the next look; returns those."""
        with self._lock:
            now = self._clock()
            found = [
                (each, *part)
                for each in (self._up, self._down)
                if (part := each.pacer.next(now=now)) is not None
            ]
            if not found and not self._is_closed:
                waits = (each.pacer.wait(now=now) for each in (self._up, self._down))
                self._changed.wait(
                    min(LOOK_SECONDS, *(LOOK_SECONDS if w is None else w for w in waits))
                )
            return found

    def _look(self) -> None:
        """Have the limit of this time of day; ``_changing`` is held."""
        now = self._looked_at = self._clock()
        # Local time without a zone: the system knows when its clock changes.
        limit = self._timetable.at(datetime.fromtimestamp(self._clock.wall()))
        if limit == self._facts.limit:
            return
        logger.info("by its bandwidth limit this process now %s", limit)
        self._facts = BandwidthFacts(self._facts.bwlimit, limit)
        for direction, rate in ((self._up, limit.up), (self._down, limit.down)):
            with self._lock:
                direction.pacer.limit(rate, now=now)
                streams = list(direction.streams)
            for pump in streams:
                with _failing_alone("a stream could not be given the new bandwidth limit"):
                    direction.pace(pump)


@contextmanager
def _failing_alone(what: str) -> Iterator[None]:
    """Log what one stream raises: the others need their part all the same."""
    try:
        yield
    except Exception:
        logger.exception(what)


class OneBandwidth:
    """The one limit of a process: made by its first server or client, dropped with the last."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._bandwidth: ProcessBandwidth | None = None

    def open(self, config: LinkConfig, clock: Clock) -> BandwidthUse:
        """See ``open_bandwidth``."""
        user = BandwidthUse(config, self._close)
        with self._opening:
            bandwidth = self._bandwidth or ProcessBandwidth(clock)
            try:
                bandwidth.enter(user)
            except BaseException:
                if bandwidth is not self._bandwidth:
                    bandwidth.close()
                raise
            self._bandwidth = bandwidth
        return user

    def _close(self, user: BandwidthUse) -> None:
        with self._opening:
            bandwidth = self._bandwidth
            if bandwidth is None or bandwidth.exit(user):
                return
            self._bandwidth = None
        bandwidth.close()

    def join(self, pump: Stream) -> None:
        """See ``join_bandwidth``."""
        if (bandwidth := self._bandwidth) is not None:
            bandwidth.join(pump)

    @property
    def facts(self) -> BandwidthFacts:
        """See ``bandwidth_facts``."""
        return BandwidthFacts() if (bandwidth := self._bandwidth) is None else bandwidth.facts

    def change(self, text: str) -> BandwidthFacts:
        """See ``change_bandwidth``."""
        if (bandwidth := self._bandwidth) is None:
            raise ValueError("no server or client of this process is open: nothing can be limited")
        bandwidth.change(text)
        return bandwidth.facts


_process = OneBandwidth()


def open_bandwidth(config: LinkConfig, clock: Clock) -> BandwidthUse:
    """Have streams of this process share its limit, until what this returns is closed.

    Raises:
        ValueError: a server or client of this process is open with another ``bwlimit``, or what is
            in force is too low for the timeouts of ``config``.
    """
    return _process.open(config, clock)


def join_bandwidth(pump: Stream) -> None:
    """Have a stream keep to the limit of this process, if a server or client is open."""
    _process.join(pump)


def bandwidth_facts() -> BandwidthFacts:
    """Return what limits this process now."""
    return _process.facts


def change_bandwidth(text: str) -> BandwidthFacts:
    """Have another limit in this process from now on, until its servers and clients have closed.

    Raises:
        ValueError: it is none, it is too low for the timeouts, or no server or client is open.
    """
    return _process.change(text)


def forget_bandwidth() -> None:
    """Begin without a limit, and with nobody that shares one: what moved before is not of here.

    In a forked child, in which no stream of its parent moves.
    """
    global _process
    _process = OneBandwidth()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_bandwidth)
