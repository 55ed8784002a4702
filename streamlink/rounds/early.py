"""The next round's requests that are made early, and the model that goes down with them.

One object for all of it. Of the aggregation loop it is the ``Outlet``: it hears when every update
is announced, offers the next round's task to the clients that have room, and is asked for room
before each piece. Of the rounds it is asked for the requests of each attempt: those it has made
already, or new ones. ``duplex.Tap`` stands between: bytes go to the store first, then to clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from streamlink.errors import AbortCode
from streamlink.link import Attempt
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.server import Peer
from streamlink.model.interfaces import ModelSink, ModelSource, Payload
from streamlink.rounds.combine import ContributorFailed
from streamlink.rounds.duplex import Tap
from streamlink.rounds.gather import Outlet
from streamlink.rounds.scatter import Plan, Scatter

__all__ = ["EarlyRequests"]

logger = logging.getLogger("streamlink.rounds")


class EarlyRequests:
    """Keeps the requests of the next round from when they are made until that round begins.

    Args:
        plan: what all rounds have in common.
        held_interval: how often the clients that wait are told so (seconds).
    """

    def __init__(self, plan: Plan, held_interval: float) -> None:
        self._plan = plan
        self._held_interval = held_interval
        self._early: Scatter | None = None

    def take(self, belongs: Attempt) -> Scatter:
        """Return the requests of ``belongs``: those made early, or none yet."""
        early = self._early
        if early is not None and early.belongs == belongs:
            self._early = None
            return early
        self.forget("another attempt was begun")
        return Scatter(self._plan, belongs)

    def attach(
        self, sink: ModelSink, scatter: Scatter, peers: Sequence[Peer], *, is_last: bool
    ) -> tuple[ModelSink, Outlet | None]:
        """Return where a new model is written, and what it goes on to; None: nobody takes it early.

        Args:
            sink: the store's.
            scatter: the requests of the attempt it is computed in.
            peers: who takes part in that.
            is_last: no round follows.
        """
        limit = self._plan.rules.duplex_bytes
        if not limit or not sink.spec.nbytes or is_last:
            return sink, None
        tap = Tap(sink, limit)
        return tap, _NextRound(self, tap, scatter, peers)

    def forget(self, reason: str) -> None:
        """Give up what the next round was given already."""
        early, self._early = self._early, None
        if early is not None:
            early.end(reason)
            early.join()

    def offer(self, tap: Tap, scatter: Scatter, peers: Sequence[Peer]) -> None:
        """Offer the next round's task to those who have room for its model already."""
        belongs = scatter.belongs
        early = self._early = Scatter(self._plan, Attempt(belongs.job, belongs.round + 1, 1))
        early.hold(self._held_interval)
        for peer in peers:
            if not scatter.exchanges[peer.name].incoming.update.takes_next:
                continue
            try:
                self._offer_one(early, peer, tap)
            except ContributorFailed as failed:  # this round will notice by itself
                logger.debug("%s: not offered to %s: %s", early.belongs, peer.name, failed)

    def _offer_one(self, early: Scatter, peer: Peer, tap: Tap) -> None:
        """Ask ``peer``, and feed it what ``tap`` gives as it is computed."""
        source, held_interval = tap.open(peer.name), self._held_interval

        def send(model: SendTransfer, seen: ModelSource) -> None:
            def supply(offset: int, nbytes: int) -> Payload:
                ready = tap.wait(offset, held_interval)
                if not ready:  # an empty answer lets the word of it leave
                    model.hold("duplex", "the round before")
                    return ()
                return seen.read(offset, min(nbytes, ready))

            try:
                _send_drawn(model, supply)
            finally:
                source.close()

        try:
            early.offer(peer, source, send=send)
        except BaseException:
            source.close()  # or everybody would wait for this reader
            raise


class _NextRound:
    """The outlet of one attempt."""

    def __init__(
        self, early: EarlyRequests, tap: Tap, scatter: Scatter, peers: Sequence[Peer]
    ) -> None:
        self._early = early
        self._tap = tap
        self._scatter = scatter
        self._peers = peers

    def announced(self) -> None:
        """Offer the next round's task: who has room has said so with its update."""
        self._early.offer(self._tap, self._scatter, self._peers)

    def wait_room(self, nbytes: int, seconds: float) -> str:
        """Wait until ``nbytes`` more have room; returns "" then, else whom they wait for."""
        return self._tap.wait_room(nbytes, seconds)


def _send_drawn(model: SendTransfer, supply: Callable[[int, int], Payload]) -> None:
    try:
        model.pull(supply)
        model.finish()
    except BaseException as error:
        model.abort(AbortCode.STALE_ATTEMPT, str(error))
        raise
    finally:
        model.stop_pulling()
