"""The clocks of offered streams: the peer has ``open_timeout`` to open each, while it is here."""

from __future__ import annotations

from collections.abc import Iterable

from streamlink.protocol.session import SessionMachine
from streamlink.transport.pump import Pump
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump

__all__ = ["expect", "pause", "renew", "start"]


def start(session: Pump[SessionMachine], stream: SendPump) -> None:
    """Start the clock of a stream that the peer is to open, unless the peer is away."""
    # One inside the other: after a break in between, the clock of the offer would run while nobody
    # can open it, since ``pause`` has been there before.
    with session.locked() as (machine, _):
        if not machine.is_disconnected:
            with stream.locked() as (sender, now):
                sender.offer(now=now)


def expect(session: Pump[SessionMachine], stream: ReceivePump) -> None:
    """The same for a stream that the peer is to send over."""
    with session.locked() as (machine, _), stream.locked() as (receiver, now):
        receiver.expect(now=now)
        if machine.is_disconnected:
            receiver.retract_offer()


def pause(streams: Iterable[SendPump | ReceivePump]) -> None:
    """Stop the clocks of streams not yet opened: without a session the peer cannot."""
    for pump in streams:
        with pump.locked() as (machine, _):
            machine.retract_offer()


def renew(streams: Iterable[SendPump | ReceivePump]) -> None:
    """Give the peer its time again to open streams: it may hear of an offer only now."""
    for pump in streams:
        with pump.locked() as (machine, now):
            machine.offer(now=now)
