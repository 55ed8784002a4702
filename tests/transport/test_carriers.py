"""How a call has ended, as the client counts it."""

from __future__ import annotations

import pytest

from streamlink.clock import running_time
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.wire import TransferWire
from tests.support.peers import SMALL
from tests.support.pumps import pump_of


@pytest.mark.parametrize(
    ("end", "counts"), [(CallEnd.BROKEN, CallEnd.CUT), (CallEnd.ENDED, CallEnd.ENDED)]
)
def test_a_call_that_was_given_up_was_cut_however_its_carrier_noticed(
    end: CallEnd, counts: CallEnd
) -> None:
    model = ReceiveTransfer(SMALL, stream_id=1, peer_name="hub", name="model", clock=running_time)
    pump = pump_of(model)
    call = ClientCall(pump, TransferWire(1))
    cuts: list[int] = []
    number = call.attach(lambda: cuts.append(1))
    pump.cut()
    assert cuts == [1]
    assert call.detach(number, end) is counts
    number = call.attach(lambda: None)
    assert call.detach(number, end) is end
