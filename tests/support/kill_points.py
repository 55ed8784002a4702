"""A process that is killed the moment it reaches a state of the protocol.

The states are those of the machines in ``streamlink/protocol``, of the session and of the two
streams of a task: *down* carries the model to the client, *up* the update back. For the server
*down* is a sender and *up* a receiver; for a client it is the other way round.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from streamlink.protocol.frames import Finish, Frame
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.session_state import SessionState
from streamlink.protocol.stream import StreamMachine
from streamlink.protocol.stream_state import State

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
        left = [self.count]

        def strike() -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        direction, _, state = self.state.rpartition(" ")
        if not direction:
            _watch_session(state, strike)
        else:
            is_sender = (direction == "down") == (self.side == "server")
            _watch_stream(SendStream if is_sender else ReceiveStream, state, strike)


def _watch_session(state: str, strike: Callable[[], None]) -> None:
    if state == "goodbye":
        _watch_state(SessionMachine, {SessionState.CLOSED}, strike)
    elif state == "ready":
        _watch_state(SessionMachine, {SessionState.READY}, strike)
    else:
        _watch_state(SessionMachine, {SessionState.GREETED}, strike)
        _after(SessionMachine, "attach", lambda machine, _: machine.is_client, strike)


def _watch_stream(kind: type[StreamMachine], state: str, strike: Callable[[], None]) -> None:
    is_sender = kind is SendStream
    if state == "half":
        _at_half(kind, strike)
    elif state == "committing" and is_sender:
        _after_finish(strike)
    elif state == "finishing" and not is_sender:
        _after(kind, "receive", lambda machine, frame: isinstance(frame, Finish), strike)
    elif state == "opening":
        _after(kind, "attach", lambda machine, _: True, strike)
    else:
        _watch_state(kind, {State[state.upper()]}, strike)


def _at_half(kind: type[StreamMachine], strike: Callable[[], None]) -> None:
    seen: set[Any] = set()

    def is_first(machine: Any, _: object) -> bool:
        total = machine.stats.total_bytes
        is_there = bool(total) and machine.stats.sent_bytes >= total // 2 and machine not in seen
        seen.update({machine} if is_there else ())
        return is_there

    _after(kind, "frames_to_send" if kind is SendStream else "receive", is_first, strike)


def _after_finish(strike: Callable[[], None]) -> None:
    finished: set[Any] = set()

    def note(machine: Any, frames: list[Frame]) -> bool:
        if any(isinstance(frame, Finish) for frame in frames):
            finished.add(machine)
        return False

    def is_first(machine: Any, _: object) -> bool:
        was_there = machine in finished
        finished.discard(machine)
        return was_there

    _after(SendStream, "frames_to_send", note, strike)
    _after(SendStream, "receive", is_first, strike)


def _watch_state(kind: type, states: set[Any], strike: Callable[[], None]) -> None:
    """Strike whenever a machine of that kind moves into one of ``states``."""

    def put(machine: Any, state: Any) -> None:
        is_new = machine.__dict__.get("state") is not state
        machine.__dict__["state"] = state
        if is_new and state in states:
            strike()

    kind.state = property(lambda machine: machine.__dict__["state"], put)  # type: ignore[attr-defined]


def _after(
    kind: type, method: str, is_there: Callable[[Any, Any], bool], strike: Callable[[], None]
) -> None:
    """Strike after a call where ``is_there(machine, what)``: its argument, or what it returned."""
    original = getattr(kind, method)

    def wrapped(machine: Any, *given: Any, **named: Any) -> Any:
        result = original(machine, *given, **named)
        if is_there(machine, given[0] if given else result):
            strike()
        return result

    setattr(kind, method, wrapped)
