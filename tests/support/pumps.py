"""The pump of a transfer, for tests that carry its frames themselves."""

from __future__ import annotations

from typing import TypeVar

from streamlink.link.transfer import Transfer
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump

__all__ = ["pump_of"]

P = TypeVar("P", bound=SendPump | ReceivePump)


def pump_of(transfer: Transfer[P]) -> P:
    """Return what carries the frames of ``transfer``: it is handed to a carrier that is this."""
    return transfer.hand_to(lambda pump: pump)
