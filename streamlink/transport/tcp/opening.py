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


def open_as(connection: Socket, session: DataSession, stream_id: int, number: int) -> None:
    """Client: prove that this connection is the session's, and have the server prove the same.

    Raises:
        NotProven: it answers something else.
        OSError: the connection has ended.
        EOFError: it was closed, as by a server that does not believe us.
    """
    try:
        raw = Opening(session.session_id, session.epoch, stream_id, number).encode(session.key)
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
