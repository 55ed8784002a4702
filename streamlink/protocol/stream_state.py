"""Where a stream stands, and the moves between: what either half may hear in which state."""

from __future__ import annotations

from enum import Enum, auto

from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Chunk,
    Commit,
    Committing,
    Finish,
    Held,
    Open,
    Repair,
    SpecPage,
)
from streamlink.protocol.machine import Moves


class State(Enum):
    """Where a stream stands. WAITING and COMMITTING are a receiver's."""

    __hash__ = object.__hash__  # each is one object; an Enum's own costs a call, for every frame

    WAITING = auto()
    """Receiver: nothing heard yet on this call."""
    OPENING = auto()
    """Sender: open sent. Receiver: open heard, the owner decides."""
    STREAMING = auto()
    FINISHING = auto()
    """Every chunk was sent; some may still be missing or under repair."""
    COMMITTING = auto()
    """Receiver: every byte delivered, the owner makes the model whole."""
    DONE = auto()
    ABORTED = auto()


SENDER_MOVES: Moves = {
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

RECEIVER_MOVES: Moves = {
    (State.WAITING, Open): State.OPENING,
    (State.WAITING, Abort): State.WAITING,
    (State.OPENING, Abort): State.OPENING,
    (State.OPENING, Held): State.OPENING,
    (State.STREAMING, SpecPage): State.STREAMING,
    (State.STREAMING, Chunk): State.STREAMING,
    (State.STREAMING, Held): State.STREAMING,
    (State.STREAMING, Finish): State.FINISHING,
    (State.STREAMING, Abort): State.STREAMING,
    (State.FINISHING, Chunk): State.FINISHING,
    (State.FINISHING, Held): State.FINISHING,
    (State.FINISHING, Abort): State.FINISHING,
    (State.COMMITTING, Finish): State.COMMITTING,  # of a new call
    (State.COMMITTING, Held): State.COMMITTING,
    (State.COMMITTING, Abort): State.COMMITTING,
}
