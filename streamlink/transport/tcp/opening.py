"""The first exchange of a connection: each end proves itself before a frame moves."""

from __future__ import annotations

from streamlink.transport.carriers import DataSession
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.proof import Opening
from streamlink.transport.tcp.sockets import Socket

__all__ = ["NotProven", "open_as", "receive_opening"]


class NotProven(Exception):
    """Who is at the other end does not prove that it belongs to the session; says how.

    No ``StreamlinkError``: the stream goes on without this connection.
    """


def open_as(
    connection: Socket,
    session: DataSession,
    stream_id: int,
    number: int,
    *,
    is_lane: bool = False,
) -> None:
    """Client: prove that this connection is the session's, and have the server prove the same.

    Args:
        connection: nothing was sent on it yet.
        session: that it belongs to.
        stream_id: what it carries; 0: nothing.
        number: no other connection of the session has it.
        is_lane: it carries beside the stream's other connections.

    Raises:
        NotProven: it answers something else.
        OSError: the connection has ended.
        EOFError: it was closed, as by a server that does not believe us.
    """
    try:
        opening = Opening(session.session_id, session.epoch, stream_id, number, is_lane)
        raw = opening.encode(session.key)
    except ValueError as error:
        raise NotProven(str(error)) from None
    connection.send((raw,))
    if not proof.is_answer(connection.receive(proof.ANSWER_BYTES), raw, session.key):
        raise NotProven("it does not know this session's key")


def receive_opening(connection: Socket) -> tuple[Opening, bytes]:
    """Server: return what a connection says first, and its bytes; nothing of it is proven yet.

    Raises:
        NotProven: it is no opening.
        OSError: the connection has ended.
        EOFError: it was closed.
    """
    try:
        head = connection.receive(proof.HEAD_BYTES)
        raw = head + connection.receive(Opening.rest_bytes(head))
        return Opening.decode(raw), raw
    except ValueError as error:
        raise NotProven(str(error)) from None
