"""A resumed transfer first reads what came before, and that may take longer than any timeout."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from streamlink.clock import Clock
from streamlink.link.oneshot import receive, send
from streamlink.link.transfer import Receipt
from streamlink.model.interfaces import Payload
from streamlink.stores import SafetensorsStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, config
from tests.support.virtual_clock import VirtualClock

MiB = 1 << 20
SPEC = float_spec(5, 2 * MiB)
TIMEOUT = 10.0
AT = "memory://catch-up"
TIGHT = config(
    stream={"chunk_bytes": 64 << 10, "min_chunk_bytes": 64 << 10, "window_bytes": 256 << 10},
    streaming_read_timeout=TIMEOUT,
    streaming_ack_wait=TIMEOUT,
    communication_timeout=TIMEOUT,
    call_timeout=TIMEOUT,
)


class Slow:
    """A model that is cut off at 6 MiB, or is slow up to there."""

    def __init__(self, clock: Clock, *, is_cut: bool) -> None:
        self._model, self._is_cut, self._clock = pattern_model(SPEC), is_cut, clock
        self.spec = SPEC
        self.seconds = 0.0

    def read(self, offset: int, length: int) -> Payload:
        if self._is_cut and offset >= 6 * MiB:
            raise OSError("the cable is out")
        if not self._is_cut and offset < 5 * MiB:
            self._clock.wait(self._clock.event(), 4.0)  # for each block
            self.seconds += 4.0
        return self._model.read(offset, length)

    def identity(self) -> str:
        return "m"

    def close(self) -> None:
        pass


def resumed(store: SafetensorsStore, source: Slow, clock: Clock) -> Receipt:
    """Send half of the model, and then ``source`` to whoever has that half."""
    listens, done = clock.event(), Future[Receipt]()

    def take() -> None:
        try:
            done.set_result(
                receive(store, AT, config=TIGHT, clock=clock, on_listening=lambda _: listens.set())
            )
        except BaseException as error:
            done.set_exception(error)

    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    listens.wait()
    with pytest.raises(OSError, match="cable"):
        send(Slow(clock, is_cut=True), AT, config=TIGHT, retry=0, clock=clock)
    send(source, AT, config=TIGHT, retry=0, clock=clock)
    clock.join(taking)
    return done.result(WAIT)


def test_hold_pulses_keep_both_ends_clocks_during_a_long_catch_up(tmp_path: Path) -> None:
    clock, store = VirtualClock(), SafetensorsStore(tmp_path / "store")
    source = Slow(clock, is_cut=False)
    with clock.running():
        receipt = resumed(store, source, clock)
    assert receipt.resumed_at >= 4 * MiB
    assert source.seconds > 1.5 * TIMEOUT
    assert content(store.open()) == content(pattern_model(SPEC))
