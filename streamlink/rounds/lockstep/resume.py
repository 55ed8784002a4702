"""How a client that was lost in lockstep is asked again: the same attempt, from the mark on."""

from __future__ import annotations

import logging

from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.link.server import Exchange, Peer, Server
from streamlink.model.interfaces import ModelSource
from streamlink.rounds.lockstep.rule import LockstepRule
from streamlink.rounds.lockstep.source import Answer
from streamlink.rounds.scatter import Scatter

__all__ = ["LockstepResume", "answer_to", "is_lost"]

logger = logging.getLogger("streamlink.rounds")


class LockstepResume:
    """One client's way back into an attempt: it is waited for by name, and asked for the rest.

    Args:
        server: where it comes back to.
        scatter: the attempt's requests; the new one takes the place of the lost one.
        source: the model of the attempt.
        peer: the client as it was.
        rule: tells how long and how often it is waited for.
    """

    def __init__(
        self,
        server: Server,
        scatter: Scatter,
        source: ModelSource,
        peer: Peer,
        rule: LockstepRule,
    ) -> None:
        self.seconds = rule.grace
        self._server = server
        self._scatter = scatter
        self._source = source
        self._peer = peer
        self._rule = rule

    def is_open(self, error: StreamlinkError) -> bool:
        """Whether the client is lost, and did not only fail; and has not come back too often."""
        name = self._peer.name
        if self._server.is_barred(name):
            return False
        return is_lost(self._peer, error) and self._rule.may_resume(name)

    def ask(self, mark: int, seconds: float) -> Answer | None:
        """Wait up to ``seconds`` for the client, and ask it for its update from byte ``mark`` on.

        Raises:
            ContributorFailed: it came, and is lost again.
        """
        peer = self._server.wait_for_peer(self._peer.name, seconds, unless=self._peer)
        if peer is None:
            return None
        self._peer = peer
        self._rule.resume(peer.name)
        attempt = self._scatter.attempt
        logger.info("%s: %s is back; its update goes on at byte %d", attempt, peer.name, mark)
        lost = self._scatter.exchanges[peer.name]
        lost.end(AbortCode.STALE_ATTEMPT, f"{peer.name} was asked again in its place")
        return answer_to(self._scatter.offer(peer, self._source, mark=mark))


def is_lost(peer: Peer, error: StreamlinkError) -> bool:
    """Whether a client whose update failed with ``error`` is lost, and did not only fail."""
    # Of a session's end its streams may hear first.
    is_told = isinstance(error, StreamAborted) and error.code is AbortCode.SESSION_LOST
    return is_told or peer.is_lost


def answer_to(exchange: Exchange) -> Answer:
    """Return what a client answers to a request."""
    return Answer(exchange.incoming, exchange.reply_began, lambda: exchange.failure)
