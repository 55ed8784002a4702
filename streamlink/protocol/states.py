"""The states of streams and sessions, and the legal transitions: which frame is allowed when.

Each table maps ``(state, frame type)`` to the next state. A frame that is not in the table is a
violation by the peer and ends the machine. The tables are all there is to check: no code anywhere
else asks whether a frame is allowed in a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Cancel,
    Chunk,
    Commit,
    Committing,
    Finish,
    Goodbye,
    Heartbeat,
    Held,
    Hello,
    Open,
    Repair,
    Reply,
    Request,
    SpecPage,
    TaskProgress,
    Welcome,
)

Transitions = Mapping[tuple[Enum, type], Enum]


class State(Enum):
    """The state of a stream. AWAITING_OPEN and COMMITTING are a receiver's."""

    # Members are singletons, so identity will do. Enum's own hash is a Python function, and every
    # frame looks its state up in a table.
    __hash__ = object.__hash__

    AWAITING_OPEN = auto()
    """Receiver: the call is there, its open has not arrived."""
    OPENING = auto()
    """Sender: open sent, no accept yet. Receiver: open received, the owner has not decided."""
    STREAMING = auto()
    FINISHING = auto()
    """Every chunk was sent; some may still be missing or under repair."""
    COMMITTING = auto()
    """Receiver: every byte was delivered, and the owner commits the model."""
    DONE = auto()
    ABORTED = auto()


SENDER_TRANSITIONS: Transitions = {
    (State.OPENING, Accept): State.STREAMING,
    (State.OPENING, Held): State.OPENING,
    (State.OPENING, Abort): State.OPENING,
    (State.STREAMING, Ack): State.STREAMING,
    (State.STREAMING, Held): State.STREAMING,
    (State.STREAMING, Repair): State.STREAMING,
    (State.STREAMING, Abort): State.STREAMING,
    (State.FINISHING, Ack): State.FINISHING,
    (State.FINISHING, Held): State.FINISHING,
    (State.FINISHING, Repair): State.FINISHING,
    (State.FINISHING, Committing): State.FINISHING,
    (State.FINISHING, Commit): State.DONE,
    (State.FINISHING, Abort): State.FINISHING,
}

RECEIVER_TRANSITIONS: Transitions = {
    (State.AWAITING_OPEN, Open): State.OPENING,
    (State.AWAITING_OPEN, Abort): State.AWAITING_OPEN,
    (State.OPENING, Abort): State.OPENING,
    (State.OPENING, Held): State.OPENING,
    (State.STREAMING, SpecPage): State.STREAMING,
    (State.STREAMING, Chunk): State.STREAMING,
    (State.STREAMING, Held): State.STREAMING,
    (State.STREAMING, Finish): State.FINISHING,
    (State.STREAMING, Abort): State.STREAMING,
    (State.FINISHING, Chunk): State.FINISHING,  # a repair, or one that another channel carries
    (State.FINISHING, Finish): State.FINISHING,  # repeated: its channel was lost, or held for lost
    (State.FINISHING, Held): State.FINISHING,
    (State.FINISHING, Abort): State.FINISHING,
    (State.COMMITTING, Finish): State.COMMITTING,  # repeated on a new call
    (State.COMMITTING, Chunk): State.COMMITTING,  # late, from a channel that the sender gave up
    (State.COMMITTING, Held): State.COMMITTING,
    (State.COMMITTING, Abort): State.COMMITTING,
}


class SessionState(Enum):
    """The state of a session."""

    __hash__ = object.__hash__  # as for ``State``

    HELLO_SENT = auto()
    """Client: its hello is on the way, no welcome yet on this call."""
    AWAITING_HELLO = auto()
    """Server: the call is there, its hello has not arrived."""
    HELLO_RECEIVED = auto()
    """Server: the owner has not decided yet."""
    READY = auto()
    DISCONNECTED = auto()
    """The call is lost; another may take over within ``reconnect_timeout``."""
    CLOSED = auto()


SESSION_TRANSITIONS: Transitions = {
    (SessionState.HELLO_SENT, Welcome): SessionState.READY,
    (SessionState.AWAITING_HELLO, Hello): SessionState.HELLO_RECEIVED,
    (SessionState.READY, Heartbeat): SessionState.READY,
    (SessionState.READY, Request): SessionState.READY,
    (SessionState.READY, TaskProgress): SessionState.READY,
    (SessionState.READY, Reply): SessionState.READY,
    (SessionState.READY, Cancel): SessionState.READY,
    (SessionState.HELLO_SENT, Goodbye): SessionState.CLOSED,
    (SessionState.AWAITING_HELLO, Goodbye): SessionState.CLOSED,
    (SessionState.HELLO_RECEIVED, Goodbye): SessionState.CLOSED,
    (SessionState.READY, Goodbye): SessionState.CLOSED,
    (SessionState.HELLO_SENT, Abort): SessionState.CLOSED,
    (SessionState.AWAITING_HELLO, Abort): SessionState.CLOSED,
    (SessionState.HELLO_RECEIVED, Abort): SessionState.CLOSED,
    (SessionState.READY, Abort): SessionState.CLOSED,
}
