"""A process that is killed the moment it reaches a state of the protocol.

The states are those of the machines in ``streamlink/protocol``, of the session and of the two
streams of a task: *down* carries the model to the client, *up* the update back. For the server
*down* is a sender and *up* a receiver; for a client it is the other way round.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any, Literal

from streamlink.protocol.frames import Finish, Frame
from streamlink.protocol.machine import Machine
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState, State

__all__ = ["STATES", "KillPoint", "Side"]

Side = Literal["server", "client"]

_STREAM_STATES = ("opening", "streaming", "half", "finishing", "committing", "done")
STATES = (
    "greeting",
    "ready",
    *(f"down {state}" for state in _STREAM_STATES),
    *(f"up {state}" for state in _STREAM_STATES),
    "goodbye",
)
"""Where a process of a job can be killed.

*greeting*: the server has heard a hello, or the client says its own. *ready*: welcomed. *opening*:
the stream has a call, and nothing is agreed. *streaming*: accepted. *half*: half of the model was
written or received. *finishing*: every byte was written, or the finish was heard. *committing*: the
receiver's sink commits; the sender has heard the first word after its finish left. *done*: the
commit was said or heard. *goodbye*: the job is over.
"""


@dataclass(frozen=True, slots=True)
class KillPoint:
    """Where a process is killed: when it comes to ``state`` for the ``count``-th time."""

    side: Side
    state: str
    count: int = 1

    def arm(self) -> None:
        """Arrange for it, in the process that is to die."""
        direction, _, state = self.state.rpartition(" ")
        if not direction:
            Machine.observer = _OfSession(state, self.count)
        else:
            is_sender = (direction == "down") == (self.side == "server")
            kind = _OfSender if is_sender else _OfReceiver
            Machine.observer = kind(state, self.count)


class _Killer:
    """Kills this process when the ``count``-th machine of a kind comes to ``state``.

    A machine comes to a state once, however many frames it takes or sends there, and again when it
    has left it for another.
    """

    KIND: type[Machine]

    def __init__(self, state: str, count: int) -> None:
        self.state = state
        self._left = count
        self._there: set[Machine] = set()

    def frame_received(self, machine: Any, frame: Frame) -> None:
        self._look(machine, frame)

    def before_send(self, machine: Any) -> None:
        self._look(machine, None)

    def before_event(self, machine: Any) -> None:
        # A receiver may commit, and be done, before its next frame comes or leaves.
        if isinstance(machine, ReceiveStream):
            self._look(machine, None)

    def _look(self, machine: Any, frame: Frame | None) -> None:
        if not isinstance(machine, self.KIND):
            return
        is_there = self.is_there(machine, frame)
        if is_there and machine not in self._there:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        (self._there.add if is_there else self._there.discard)(machine)

    def is_there(self, machine: Any, frame: Frame | None) -> bool:
        """Whether ``machine`` is at the point; it has taken ``frame``, or is about to send."""
        raise NotImplementedError


class _OfSession(_Killer):
    KIND = SessionMachine
    STATES = {  # noqa: RUF012
        "greeting": {SessionState.HELLO_RECEIVED, SessionState.HELLO_SENT},
        "ready": {SessionState.READY},
        "goodbye": {SessionState.CLOSED},
    }

    def is_there(self, machine: Any, frame: Frame | None) -> bool:
        is_leaving = self.state == "goodbye" and machine.is_leaving
        return is_leaving or machine.state in self.STATES[self.state]


class _OfStream(_Killer):
    def is_there(self, machine: Any, frame: Frame | None) -> bool:
        if self.state == "half":
            total = machine.stats.total_bytes
            return bool(total) and machine.stats.sent_bytes >= total // 2
        return machine.state is State[self.state.upper()]


class _OfReceiver(_OfStream):
    KIND = ReceiveStream

    def is_there(self, machine: Any, frame: Frame | None) -> bool:
        if self.state == "finishing":
            return isinstance(frame, Finish)
        return super().is_there(machine, frame)


class _OfSender(_OfStream):
    KIND = SendStream

    def __init__(self, state: str, count: int) -> None:
        super().__init__(state, count)
        self._finished: set[Machine] = set()

    def is_there(self, machine: Any, frame: Frame | None) -> bool:
        if self.state != "committing":
            return super().is_there(machine, frame)
        if frame is None and machine.state is State.FINISHING:
            self._finished.add(machine)  # its finish leaves
        is_heard = frame is not None and machine in self._finished
        if is_heard:
            self._finished.discard(machine)
        return is_heard
