"""What the pumps of both directions share: the window that grows on a long and fast line."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.protocol import frames as f
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.long_windows import long_windows
from streamlink.transport.receive_pump import ReceivePump
from tests.support.virtual_clock import VirtualClock

MIB = 1 << 20
CHUNK = memoryview(bytes(2 * MIB))
TOTAL = 40 * len(CHUNK)
AT_ONCE = 8  # chunks: the window of the settings
LONG = LinkConfig.model_validate({"stream": {"initial_window_bytes": "16MiB"}})


class Arriving:
    """A receiving stream; its sender sends one initial window per round trip of 0.5 s."""

    def __init__(self) -> None:
        self.time = VirtualClock(100.0)
        machine = ReceiveStream(LONG, stream_id=7, peer_name="here", name="in")
        self.pump = ReceivePump(machine, clock=self.time)
        self.call = self.pump.attach(lambda: None)
        opening = f.Open(7, f.Attempt(), TOTAL, b"d" * 16, 1, len(CHUNK))
        self.pump.incoming([opening], self.call)
        self.pump.poll(0)
        self.pump.accept(wants_spec=False)
        self.pump.due(self.call)
        self.number = 0

    def round_trip(self) -> None:
        self.time.now += 0.5
        for _ in range(AT_ONCE):
            chunk = f.Chunk(self.number, self.number * len(CHUNK), (CHUNK,))
            self.number += 1
            self.pump.incoming([chunk], self.call)
            self.pump.poll(0)
            self.pump.release(len(CHUNK))
            self.pump.due(self.call)


@pytest.fixture
def arriving() -> Arriving:
    assert long_windows.dealt_bytes == 0
    return Arriving()


def test_frames_alone_make_the_window_grow(arriving: Arriving) -> None:
    arriving.round_trip()
    arriving.round_trip()
    assert long_windows.dealt_bytes > 8 * MIB
    arriving.pump.abort(AbortCode.CANCELLED, "the test is over")
    assert long_windows.dealt_bytes == 0


def test_what_it_grew_by_is_returned_before_the_commit(arriving: Arriving) -> None:
    while arriving.number * len(CHUNK) < TOTAL:
        assert arriving.pump.stream.received == arriving.number * len(CHUNK)
        arriving.round_trip()
    assert long_windows.dealt_bytes > 8 * MIB
    arriving.pump.incoming([f.Finish(TOTAL, "digest")], arriving.call)
    assert long_windows.dealt_bytes == 0
    assert not arriving.pump.is_closed
