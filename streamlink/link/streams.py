"""What both ends ask of a stream that they are about to release."""

from __future__ import annotations

from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer

__all__ = ["is_complete"]


def is_complete(transfer: SendTransfer | ReceiveTransfer) -> bool:
    """Whether the receiver has it all, so that an abort would only hide that."""
    if isinstance(transfer, ReceiveTransfer):
        return transfer.is_committed  # a commit may have to be sent again, over another call
    return transfer.received_bytes >= transfer.extent.stop
