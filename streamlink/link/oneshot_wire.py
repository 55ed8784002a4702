"""How two ends of a transfer without rounds agree on the stream that carries the model.

The end that dials asks, under one of two topics: ``push``, take my model, or ``pull``, give me
yours. The end that listens offers a stream and answers with its number. The sender's name for its
model goes with the request or with the answer: what arrived is kept under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from streamlink.cancel import CancelToken
from streamlink.errors import AbortCode, ConnectFailed
from streamlink.link.facts import parse_stream_number
from streamlink.protocol.frames import NO_ENTRIES
from streamlink.transport.session import Session

__all__ = ["HEARD_SECONDS", "IDENTITY", "PULL", "PUSH", "STOPPED", "STREAM", "ask", "stream_number"]

PUSH, PULL = "push", "pull"
STREAM, IDENTITY = "stream", "identity"

STOPPED = "interrupted by its user"
HEARD_SECONDS = 2.0
"""How long a peer that was sent an error has to leave by itself."""


def ask(
    session: Session,
    topic: str,
    where: str,
    cancel: CancelToken,
    metadata: Mapping[str, str] = NO_ENTRIES,
) -> Mapping[str, str]:
    """Ask the end that listens for a stream; returns what it answers, the stream's number in it.

    Raises:
        ConnectFailed: it does not answer in time, or refuses; says why.
    """
    seconds = session.config.timeouts.open_timeout
    try:
        asked = session.request(topic, metadata=metadata)
        # The whole session: it was opened for this request, and nothing else runs over it.
        with cancel.calling(lambda _: session.abort(AbortCode.CANCELLED, STOPPED)):
            reply = asked.result(timeout=seconds)
    except FutureTimeout as error:
        raise ConnectFailed(
            f"{where} does not answer within {seconds:g} s (open_timeout)"
        ) from error
    if reply.error or STREAM not in reply.metadata:
        what = "takes" if topic == PUSH else "gives"
        raise ConnectFailed(f"{where} {what} no model: {reply.error or 'no stream'}")
    return reply.metadata


def stream_number(answer: Mapping[str, str], where: str) -> int:
    """Return the number of the stream in the answer to ``ask``.

    Raises:
        RemoteProtocolError: it is no number.
    """
    return parse_stream_number(answer[STREAM], where)
