"""Duplex rounds: the next model goes down to the clients while updates still come up.

``Duplex`` is all that the rounds know of this. It requests the next round's task early from clients
that have room, and hands those requests over when that round begins. To the aggregation loop it is
a ``Downstream``, which limits how far the loop may run ahead of the clients. The bytes go through a
``FanOutSink``: to the store first, then to the clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from streamlink.errors import AbortCode
from streamlink.link import Attempt
from streamlink.link.peer import Peer
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.interfaces import ModelSink, ModelSource, Payload
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.gather import Downstream
from streamlink.rounds.lockstep.fan_out import FanOutSink
from streamlink.rounds.plan import Plan
from streamlink.rounds.scatter import Scatter

__all__ = ["Duplex"]

logger = logging.getLogger("streamlink.rounds")


class Duplex:
    """Sends the next model while it is computed, and keeps those requests until its round begins.

    Args:
        plan: what all rounds have in common.
        held_interval: how often clients that wait are notified (seconds).
    """

    def __init__(self, plan: Plan, held_interval: float) -> None:
        self._plan = plan
        self._held_interval = held_interval
        self._early: Scatter | None = None

    def take(self, attempt: Attempt) -> Scatter:
        """Return the requests of ``attempt``: those that were made early, or none yet."""
        early = self._early
        # Made for the first attempt of the round after the one that computed the model.
        if early is not None and early.attempt == attempt:
            self._early = None
            return early
        self.forget("another attempt was begun")
        return Scatter(self._plan, attempt)

    def attach(
        self, sink: ModelSink, scatter: Scatter, peers: Sequence[Peer], *, is_last: bool
    ) -> tuple[ModelSink, Downstream | None]:
        """Return the sink for a new model, and who reads it early; None: nobody does.

        Args:
            sink: the store's.
            scatter: the requests of the attempt that computes it.
            peers: the clients of that attempt.
            is_last: no round follows.
        """
        limit = self._plan.rules.duplex_bytes
        if not limit or not sink.spec.nbytes or is_last:
            return sink, None
        fan_out = FanOutSink(sink, limit, self._plan.clock)
        return fan_out, _NextRound(self, fan_out, scatter, peers)

    def forget(self, reason: str) -> None:
        """Cancel the requests that were made early."""
        early, self._early = self._early, None
        if early is not None:
            early.end(reason)
            early.join()

    def offer(self, fan_out: FanOutSink, scatter: Scatter, peers: Sequence[Peer]) -> None:
        """Offer the next round's task to the clients that have room for its model already."""
        attempt = scatter.attempt
        early = self._early = Scatter(self._plan, Attempt(attempt.job, attempt.round + 1, 1))
        # From now on, since a client may begin to answer long before its round does.
        early.hold(self._held_interval)
        for peer in peers:
            # Not to others: a client without room would not read, and the loop would wait for it.
            if not scatter.exchanges[peer.name].incoming.update.takes_next:
                continue
            try:
                self._offer_one(early, peer, fan_out)
            except ContributorFailed as failed:  # the running round detects the loss itself
                logger.debug("%s: not offered to %s: %s", early.attempt, peer.name, failed)

    def _offer_one(self, early: Scatter, peer: Peer, fan_out: FanOutSink) -> None:
        """Ask ``peer``, and send it the new model as ``fan_out`` gets it."""
        source, held_interval = fan_out.open(peer.name), self._held_interval

        def send(model: SendTransfer, seen: ModelSource) -> None:
            def supply(offset: int, nbytes: int) -> Payload:
                ready = fan_out.wait(offset, held_interval)
                if not ready:  # an empty payload lets the writer send the notice
                    model.hold("duplex", "the round before")
                    return ()
                return seen.read(offset, min(nbytes, ready))

            model.measured_by(seen)
            try:
                _send_pulled(model, supply)
            finally:
                source.close()

        try:
            early.offer(peer, source, send=send)
        except BaseException:
            source.close()  # or the loop would wait for this reader for ever
            raise


class _NextRound:
    """The ``Downstream`` of one attempt."""

    def __init__(
        self, early: Duplex, fan_out: FanOutSink, scatter: Scatter, peers: Sequence[Peer]
    ) -> None:
        self._early = early
        self._fan_out = fan_out
        self._scatter = scatter
        self._peers = peers

    def announced(self) -> None:
        """Offer the next round's task: each client that has room has announced it by now."""
        self._early.offer(self._fan_out, self._scatter, self._peers)

    def wait_room(self, nbytes: int, seconds: float) -> str:
        """Wait until there is room for ``nbytes`` more; return "", or the slowest reader's name."""
        return self._fan_out.wait_room(nbytes, seconds)


def _send_pulled(model: SendTransfer, supply: Callable[[int, int], Payload]) -> None:
    try:
        model.pull(supply)
        model.finish()
    except BaseException as error:
        model.abort(AbortCode.STALE_ATTEMPT, str(error))
        raise
    finally:
        model.stop_pulling()
