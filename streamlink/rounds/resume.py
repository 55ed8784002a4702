"""Resuming an update within its round: what both ways to gather have in common.

    arriving ──▶ partial ──▶ arriving     its client is back, and sends the rest
                    │
                    └──────▶ failed       its client did not come back, or announced another update

While its client is away, the server holds a ``PartialUpdate``. In lockstep the bytes below its
offset are in the new model already (``lockstep.source``); a spool has them on the disk
(``spool.partial``). The server asks the client for the rest only, and hands over the new stream.

Two processes send the two halves, so the update must be *pure* (``Update.is_pure``): the same range
of the model always gives the same bits. Any other update starts again at its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from streamlink.errors import AbortCode, ModelError, StreamAborted, StreamlinkError
from streamlink.link import Attempt, Update
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.rounds.scatter import Scatter

__all__ = ["Answer", "PartialUpdate", "answer_of", "ask_for_rest", "is_lost", "require_same_update"]

logger = logging.getLogger("streamlink.rounds")


@dataclass(frozen=True, slots=True)
class Answer:
    """The stream on which a client answers a request, and what its exchange knows of it."""

    model: ReceiveTransfer

    on_begin: Callable[[], None] = lambda: None
    """Called once, when the answer has begun."""

    failure: Callable[[], StreamlinkError | None] = lambda: None
    """Returns why the answer cannot come, where the stream itself does not know that."""


class PartialUpdate(Protocol):
    """The part of one client's update that the server has, while the client is away."""

    @property
    def resume_offset(self) -> int:
        """The byte at which the client must resume; only whole elements are below it."""

    def resume(self, answer: Answer) -> None:
        """Continue with ``answer``, which brings the bytes from ``resume_offset`` on."""


def is_lost(peer: Peer, error: StreamlinkError) -> bool:
    """Return whether the client of an update that failed with ``error`` may come back.

    It may if its session is lost. A client that is connected and failed all the same is not lost:
    its task raised an error, or its stream timed out, and would do so again.
    """
    # A stream may learn that the session has ended before the peer object does.
    is_reported = isinstance(error, StreamAborted) and error.code is AbortCode.SESSION_LOST
    return is_reported or peer.is_lost


def answer_of(exchange: PeerRequest) -> Answer:
    """Return what a client answers to a request."""
    # A function: an exchange may learn at any time that its task raised, and its stream does not.
    return Answer(exchange.incoming, exchange.reply_began, lambda: exchange.failure)


def ask_for_rest(
    scatter: Scatter,
    peer: Peer,
    source: ModelSource,
    partial: PartialUpdate,
    attempt: Attempt | None = None,
) -> Answer:
    """Ask a client that is back for the rest of its update; the model is sent from there, too.

    Args:
        scatter: has the requests of the attempt.
        peer: the client, as it came back.
        source: the model of the attempt.
        partial: what the server has of the update.
        attempt: which one; None: that of ``scatter``.

    Raises:
        ContributorFailed: the client is lost again.
    """
    offset = partial.resume_offset
    attempt = attempt or scatter.attempt
    logger.info("%s: %s is back; its update resumes at byte %d", attempt, peer.name, offset)
    return answer_of(scatter.offer(peer, source, attempt, update_start=offset))


def require_same_update(
    peer_name: str, begun: tuple[Update, ModelSpec], announced: tuple[Update, ModelSpec]
) -> None:
    """Raise ``ModelError`` where a client announces another update than the one to be resumed."""
    # Weight and kind, too: what is in the new model already was weighed by those.
    if announced != begun:
        raise ModelError(f"{peer_name} came back with another update than it had begun")
