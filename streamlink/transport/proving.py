"""``ProvenCarrier``: a carrier of streams alone, tried beside the streams until it works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.transport.carriers import CallEnd, ClientCall, ProvableCarrier
from streamlink.transport.log import noted
from streamlink.transport.proof_schedule import ProofSchedule

__all__ = ["PROVE_SECONDS", "ProvenCarrier"]

logger = logging.getLogger("streamlink.client")

PROVE_SECONDS = 10.0
"""How long one try may take (seconds): a handshake of TLS over a line of seconds fits in."""

_MOVES_NOTHING = "it accepts connections, but streams move nothing over them"


class ProvenCarrier:
    """Tries ``carrier`` in a thread of its own, and carries streams while it is proven.

    Args:
        carrier: closed with this.
        clock: what tries and waits go by.
        on_proven: called in that thread each time a try has succeeded.
    """

    def __init__(
        self, carrier: ProvableCarrier, *, clock: Clock, on_proven: Callable[[], object]
    ) -> None:
        self._carrier, self._clock, self._on_proven = carrier, clock, on_proven
        self._schedule = ProofSchedule(clock())
        self._changed = clock.condition()
        self._is_closed = self._is_trying = self._is_running = False
        with self._changed:
            self._start()

    def is_of(self, carrier: ProvableCarrier) -> bool:
        """Return whether it is ``carrier`` that this tries."""
        return carrier is self._carrier

    def is_ready(self, seconds: float) -> bool:
        """Return whether streams may use it; wait up to ``seconds`` for a try under way."""
        with self._changed:
            if not self._schedule.is_proven:
                # After a break it was not tried again until a stream asks: before that the whole
                # line may be down, and the failure would say nothing about the port.
                self._start()
                self._changed.wait_for(lambda: self._is_closed or not self._is_trying, seconds)
            return self._schedule.is_proven and not self._is_closed

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        end = self._carrier.carry(call)
        with self._changed:
            if has_moved := call.pump.has_moved:
                self._schedule.moved()
            if end is CallEnd.ENDED or self._is_closed:
                return end
            was_silent = end is CallEnd.CUT and not has_moved
            if self._schedule.broke(self._clock(), was_silent=was_silent):
                self._report(_MOVES_NOTHING)
        return end

    def renew(self) -> None:
        """See ``DataCarrier``."""
        self._carrier.renew()

    def close(self) -> None:
        """See ``DataCarrier``."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        # Without the lock: it ends calls, whose threads are about to take it in ``carry``.
        self._carrier.close()

    # --- trying -------------------------------------------------------------------------

    def _start(self) -> None:
        """Have a thread try from when that is due on; it ends with its first success."""
        if self._is_closed or self._is_running:
            return
        self._is_running = True
        self._is_trying = (self._schedule.due or 0.0) <= self._clock()
        try:
            threading.Thread(target=self._run, name="prove-data-port", daemon=True).start()
        except RuntimeError:  # no more threads here: the next stream asks again
            self._is_running = self._is_trying = False

    def _run(self) -> None:
        is_proven = False
        while not is_proven and self._wait_until_due():
            is_proven = self._note(self._try())
        if is_proven:
            self._on_proven()

    def _try(self) -> str:
        """Return why a try has failed; empty: it has not."""
        try:
            return self._carrier.prove(PROVE_SECONDS)
        except Exception as error:  # or nobody would try again, and each stream would wait for it
            logger.exception("%s could not be tried", self._carrier.where)
            return f"{type(error).__name__}: {error}"

    def _wait_until_due(self) -> bool:
        """Return whether a try is due; False: it was closed."""
        with self._changed:
            while not self._is_closed and (left := self._left()) > 0:
                self._changed.wait(left)
            self._is_trying = not self._is_closed
            return self._is_trying

    def _left(self) -> float:
        return (self._schedule.due or 0.0) - self._clock()

    def _note(self, why: str) -> bool:
        """Note how a try has ended; returns whether it is proven now."""
        with self._changed:
            self._is_trying = False
            is_proven = not why and not self._is_closed
            if is_proven:
                self._is_running = False
                self._succeed()
            elif not self._is_closed:
                self._fail(why)
            self._changed.notify_all()
        return is_proven

    def _succeed(self) -> None:
        if self._schedule.failures:
            extra = noted("data port reached", where=self._carrier.where)
            logger.info("%s can be reached now; streams use it", self._carrier.where, extra=extra)
        self._schedule.succeeded()

    def _fail(self, why: str) -> None:
        self._schedule.failed(self._clock())
        self._report(why)

    def _report(self, why: str) -> None:
        where, pause = self._carrier.where, self._schedule.pause
        logger.log(
            logging.WARNING if self._schedule.is_news else logging.DEBUG,
            "%s cannot be used from here: %s; streams use the connection of the session instead, "
            "which is slower. Let connections to this port through, here and at the server; it is "
            "tried again in %g s",
            where,
            why,
            pause,
            extra=noted("data port failed", where=where, reason=why, next_try_seconds=pause),
        )
