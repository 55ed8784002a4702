"""A resumed transfer first reads what came before, and that may take longer than any timeout."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from streamlink.link.oneshot import receive, send
from streamlink.link.transfer import Receipt
from streamlink.model.interfaces import Payload
from streamlink.stores import SafetensorsStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, config

MiB = 1 << 20
SPEC = float_spec(5, 2 * MiB)
TIMEOUT = 1.2
TIGHT = config(
    stream={"chunk_bytes": 64 << 10, "min_chunk_bytes": 64 << 10, "window_bytes": 256 << 10},
    streaming_read_timeout=TIMEOUT,
    streaming_ack_wait=TIMEOUT,
    communication_timeout=TIMEOUT,
    call_timeout=TIMEOUT,
)


class Slow:
    """A model that is cut off at 6 MiB, or is slow up to there."""

    def __init__(self, *, is_cut: bool) -> None:
        self._model, self._is_cut = pattern_model(SPEC), is_cut
        self.spec = SPEC
        self.seconds = 0.0

    def read(self, offset: int, length: int) -> Payload:
        if self._is_cut and offset >= 6 * MiB:
            raise OSError("the cable is out")
        if not self._is_cut and offset < 5 * MiB:
            time.sleep(0.5)  # for each block
            self.seconds += 0.5
        return self._model.read(offset, length)

    def identity(self) -> str:
        return "m"

    def close(self) -> None:
        pass


def resumed(store: SafetensorsStore, source: Slow) -> Receipt:
    """Send half of the model, and then ``source`` to whoever has that half."""
    port, done = Future[int](), Future[Receipt]()

    def take() -> None:
        try:
            done.set_result(
                receive(store, config=TIGHT, on_listening=port.set_result, timeout=WAIT)
            )
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=take, daemon=True).start()
    address = f"127.0.0.1:{port.result(WAIT)}"
    with pytest.raises(OSError, match="cable"):
        send(Slow(is_cut=True), address, config=TIGHT, retry=0)
    send(source, address, config=TIGHT, retry=0)
    return done.result(WAIT)


def test_hold_pulses_keep_both_ends_clocks_during_a_long_catch_up(tmp_path: Path) -> None:
    source, store = Slow(is_cut=False), SafetensorsStore(tmp_path / "store")
    receipt = resumed(store, source)
    assert receipt.resumed_at >= 4 * MiB
    assert source.seconds > 1.5 * TIMEOUT
    assert content(store.open()) == content(pattern_model(SPEC))
