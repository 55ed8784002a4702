"""Session calls that keep no thread: their messages are handed in, and sent by workers.

A session says little, and there may be a thousand of them. On such a call nothing waits: whoever
brings a message feeds the pump (``PostedCall.on_message``), and when the pump has something to send
it wakes a writer, which a worker runs until nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from streamlink.protocol.frames import Frame
from streamlink.protocol.session import SessionMachine
from streamlink.timers import start_timer
from streamlink.transport.carriers import ServerCall
from streamlink.transport.pump import Pump
from streamlink.transport.server_calls import LAST_WORDS_SECONDS, end_call
from streamlink.transport.wire import SessionWire
from streamlink.transport.workers import Serial

__all__ = ["PostedCall", "carry_posted"]


class PostedCall(ServerCall, Protocol):
    """A call of which only the first message comes by ``raws``."""

    @property
    def workers(self) -> Executor:
        """Look after events of sessions; they never wait for a peer."""

    @property
    def writers(self) -> Executor:
        """Send what sessions have to say.

        They have as many threads as there may be calls: each may wait for a client.
        """

    def open(self) -> None:
        """Tell the client that it may post, once it was let in.

        Raises:
            RemoteProtocolError: there are too many such calls, or its key is none or taken.
        """

    def on_message(self, take: Callable[[bytes], None]) -> None:
        """Have ``take`` called with each further message, in order, one at a time.

        Before this no further message is taken.
        """

    def send(self, raw: bytes) -> None:
        """Send a message; returns when it has left, and does nothing once the call has ended."""

    def end(self) -> None:
        """End the call once what was sent has left: in order, or as ``break_off`` has said."""


def carry_posted(
    call: PostedCall, pump: Pump[SessionMachine], wire: SessionWire, first: Frame
) -> Callable[[], None]:
    """Let ``call`` carry ``pump`` from now on, beginning with its first message.

    Returns:
        What is to be called once the client was let in, before it hears that: further messages
        are taken from then on.
    """
    number = pump.attach(call.cut)
    if not call.on_over(lambda: _detach(pump, number)):  # it has ended already
        _detach(pump, number)
    pump.incoming((first,), number)

    def take(raw: bytes) -> None:
        if pump.read((raw,), number, wire.decode):
            # Its writer may be stuck in a damaged connection.
            start_timer(pump.clock, LAST_WORDS_SECONDS, call.cut)

    pump.wake_writer(number, Serial(call.writers, _Writer(call, pump, wire, number).write).wake)
    return lambda: call.on_message(take)


def _detach(pump: Pump[SessionMachine], number: int) -> None:
    pump.detach(number)


class _Writer:
    """Sends what the pump has for one call; no two threads at the same time."""

    def __init__(
        self, call: PostedCall, pump: Pump[SessionMachine], wire: SessionWire, number: int
    ) -> None:
        self._call, self._pump, self._wire, self._number = call, pump, wire, number
        self._has_ended = False

    def write(self) -> None:
        """Send what there is, and end the call where nothing more will come."""
        if self._has_ended:
            return
        try:
            while frames := self._pump.due(self._number):
                for frame in frames:
                    self._call.send(self._wire.encode(frame))
        except BaseException:
            self._call.cut()  # what was taken from the machine is lost: another call resumes
            raise
        if frames is None:
            self._has_ended = True
            end_call(self._call, self._pump)
            self._call.end()
