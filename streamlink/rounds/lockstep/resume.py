"""Resuming in lockstep: the client rejoins the running attempt, while the others are held."""

from __future__ import annotations

from typing import Protocol

from streamlink.errors import AbortCode, StreamlinkError
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.model.interfaces import ModelSource
from streamlink.rounds.lockstep.rule import LockstepRule
from streamlink.rounds.resume import PartialUpdate, ask_for_rest, is_lost
from streamlink.rounds.scatter import Scatter

__all__ = ["LockstepResume", "Resume"]


class Resume(Protocol):
    """How a client that was lost gets back into the attempt it was lost from."""

    @property
    def grace_seconds(self) -> float:
        """How long the attempt waits for the client."""

    def is_possible(self, error: StreamlinkError) -> bool:
        """Return whether a client whose stream failed with ``error`` may resume its update."""

    def try_resume(self, partial: PartialUpdate, seconds: float) -> bool:
        """Wait up to ``seconds`` for the client, and let it continue ``partial``.

        Returns:
            False: the client is not back yet.

        Raises:
            ContributorFailed: it came back, and is lost again.
        """


class LockstepResume:
    """Waits for one client by name, and asks it for the rest of its update.

    Args:
        server: where the client comes back to.
        scatter: the attempt's requests; the new one replaces the lost one.
        source: the model of the attempt.
        peer: the client as it was.
        rule: says how long the attempt waits, and how often one client may resume.
    """

    def __init__(
        self,
        server: Server,
        scatter: Scatter,
        source: ModelSource,
        peer: Peer,
        rule: LockstepRule,
    ) -> None:
        self.grace_seconds = rule.grace
        self._server = server
        self._scatter = scatter
        self._source = source
        self._peer = peer
        self._rule = rule

    def is_possible(self, error: StreamlinkError) -> bool:
        """Return whether the client is lost, is not excluded, and has not resumed too often."""
        name = self._peer.name
        # It is not admitted any more, so to wait for it would only hold the others.
        if self._server.is_barred(name):
            return False
        return is_lost(self._peer, error) and self._rule.may_resume(name)

    def try_resume(self, partial: PartialUpdate, seconds: float) -> bool:
        """Wait up to ``seconds`` for the client, and let it continue ``partial``.

        Raises:
            ContributorFailed: it came back, and is lost again.
        """
        # ``unless``: the lost session stays in the list until its thread has removed it.
        peer = self._server.wait_for_peer(self._peer.name, seconds, unless=self._peer)
        if peer is None:
            return False
        self._peer = peer
        # Before it is asked: a client that is lost again at once has used one of its returns.
        self._rule.resume(peer.name)
        lost = self._scatter.exchanges[peer.name]
        # Now, since the new request takes its place in ``exchanges``.
        lost.end(AbortCode.STALE_ATTEMPT, f"{peer.name} was asked again in its place")
        partial.resume(ask_for_rest(self._scatter, peer, self._source, partial))
        return True
