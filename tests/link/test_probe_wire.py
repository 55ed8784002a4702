"""The model of a probe: its bytes travel once, and those that are asked for again are counted."""

from __future__ import annotations

import threading
from contextlib import suppress

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.link.probe_wire import Discard, SentOnce, probe_model
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol import frames as f
from tests.support.joined_pumps import STREAM, Transfer, failure
from tests.support.peers import SMALL, WAIT
from tests.support.pumps import pump_of

MODEL = probe_model(50_000)


def test_only_what_is_read_again_is_told() -> None:
    again: list[int] = []
    model = SentOnce(MODEL, again.append)
    for offset, length in ((0, 100), (100, 50), (90, 20), (140, 40), (0, 180), (180, 1)):
        assert b"".join(model.read(offset, length)) == b"".join(MODEL.read(offset, length))
    assert again == [20, 10, 180]


def test_receivers_that_ask_from_the_start_again_and_again_are_stopped() -> None:
    again: list[int] = []

    def spend(nbytes: int) -> None:
        again.append(nbytes)
        if sum(again) > MODEL.spec.nbytes:
            raise StreamAborted(AbortCode.REFUSED, "enough was sent again", by_peer=False)

    with Transfer(MODEL.spec) as transfer:
        carrier, is_cut = transfer.carrier, threading.Event()

        def watch(frame: f.Frame) -> bool:
            if isinstance(frame, f.Chunk) and frame.end == MODEL.spec.nbytes:
                carrier.cut()
                is_cut.set()
            return True

        carrier.watch = watch
        sent, _ = transfer.start(SentOnce(MODEL, spend), Discard(MODEL.spec))
        receivers = []
        for _ in range(2):
            assert is_cut.wait(WAIT)
            is_cut.clear()
            receivers.append(_another(transfer))
        assert "enough was sent again" in str(failure(sent))
        assert sum(again) > MODEL.spec.nbytes
        for each in receivers:
            each.abort(AbortCode.CANCELLED, "the test is over")


def _another(transfer: Transfer) -> ReceiveTransfer:
    """Let another receiver, which has nothing yet, take the place of the first one."""
    receiver = ReceiveTransfer(
        SMALL, clock=running_time, stream_id=STREAM, peer_name="site-s", name="the model"
    )

    def receive() -> None:
        with suppress(StreamlinkError):
            receive_model(receiver, lambda model: Discard(model.spec))

    transfer.carrier.right = pump_of(receiver)
    threading.Thread(target=receive, daemon=True).start()
    transfer.join()
    return receiver
