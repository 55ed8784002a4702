"""``Attempts``: one model over a connection that is made here, in as many attempts as it takes.

What ``send`` and ``fetch`` share: both dial, ask for a stream, and try again where a failure may
pass. How a model moves in one attempt is theirs.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import StreamlinkError
from streamlink.link.transfer import Receipt, TransferProgress, abort_reason
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.transport.connect import dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["Attempts", "Line", "own_name"]

logger = logging.getLogger("streamlink.transfer")


@dataclass(frozen=True, slots=True)
class Line:
    """How the other end is reached, and who hears how far the transfer is."""

    to: str
    """Its ``host:port``, or ``unix:path``."""
    name: str
    """Of this end, at the other."""
    config: LinkConfig
    retry: float
    """How long to retry without any progress (seconds)."""
    progress: TransferProgress
    traffic: TrafficCounter
    cancel: CancelToken
    on_transfer: OnTransfer | None
    clock: Clock

    def notice(self, direction: Direction) -> TransferNotice:
        """Return what reports how one attempt ended."""
        return TransferNotice(self.to, direction, on_transfer=self.on_transfer, clock=self.clock)


class Attempts:
    """Makes one attempt after another, until one succeeds or nothing moves for ``retry`` seconds.

    Args:
        line: how the other end is reached.
        move: moves the model over a session, once.
        role: what this end answers where it is asked for anything.
        can_retry: whether another attempt makes sense after that error.
    """

    def __init__(
        self,
        line: Line,
        move: Callable[[Dialer, Session], Receipt],
        *,
        role: str,
        can_retry: Callable[[BaseException], bool],
    ) -> None:
        self._line, self._move = line, move
        self._role, self._can_retry = role, can_retry
        # -1: to have been given a stream is progress once, even if no byte moved over it.
        self._furthest = -1  # bytes moved in the best attempt so far
        self._since = line.clock()

    def run(self) -> Receipt:
        """Return the receipt of the attempt that succeeds; raises what the last one raised."""
        again = Retrying(
            retry=retry_if_exception(self._can_retry),
            stop=self._is_hopeless,
            # Random on top (jitter): the peers of a server that was restarted must not return in
            # step.
            wait=wait_exponential(multiplier=0.2, max=5.0) + wait_random(0, 0.2),
            before_sleep=_log,
            sleep=lambda seconds: self._line.cancel.pause(seconds, self._line.clock),
            reraise=True,
        )
        return again(self._attempt)

    def has_moved(self, nbytes: int) -> None:
        """Note how far an attempt came (bytes)."""
        # Only more than the best attempt had is progress: attempts that all break at the same byte
        # must come to an end.
        if nbytes > self._furthest:
            self._furthest = nbytes
            self._since = self._line.clock()

    def _attempt(self) -> Receipt:
        try:
            return self._connect_and_move()
        except StreamlinkError:
            # Cancelling causes other errors, which must not cause a retry.
            self._line.cancel.check()
            raise

    def _connect_and_move(self) -> Receipt:
        line = self._line
        client = dial(
            line.to,
            line.config,
            name=line.name,
            clock=line.clock,
            traffic=line.traffic,
            cancel=line.cancel,
        )
        try:
            session = client.connect(
                lambda session, request: session.reply(request, error=self._role),
                # What is left of it: the time that is spent on connecting is time without progress.
                tries_for=line.retry - (line.clock() - self._since),
            )
            try:
                receipt = self._move(client, session)
            except BaseException as error:
                # With the reason: the goodbye may overtake the abort, which has its own connection.
                session.close(abort_reason(error))
                raise
            session.close("done")
            return receipt
        finally:
            client.close()

    def _is_hopeless(self, state: RetryCallState) -> bool:
        return self._line.clock() - self._since >= self._line.retry


def own_name(suffix: str = "") -> str:
    """Return what this process is called where its user gives no name."""
    return f"{socket.gethostname()[:100]}-{os.getpid()}{suffix}"


def _log(state: RetryCallState) -> None:
    if state.outcome is not None:
        logger.warning("%s; retrying", state.outcome.exception())
