"""A carrier that is lost and comes back: the model arrives all the same, little of it twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from streamlink.errors import RemoteProtocolError
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import MemoryStore
from tests.support.joined_pumps import STREAM, JoinedPumps, Transfer
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL
from tests.support.pumps import pump_of

SPEC = float_spec(60_001, 3, 0, 17_000)
WINDOW = SMALL.stream.window_bytes


class Cutter:
    """Cuts the carrier at every ``every``-th frame of ``kind`` and joins it again at once."""

    def __init__(self, carrier: JoinedPumps, kind: type[Any], every: int, most: int) -> None:
        self._carrier, self._kind = carrier, kind
        self._every, self._left, self._seen = every, most, 0
        self._lock = threading.Lock()

    def __call__(self, frame: f.Frame) -> bool:
        with self._lock:
            self._seen += isinstance(frame, self._kind)
            if not (isinstance(frame, self._kind) and self._seen % self._every == 0 and self._left):
                return True
            self._left -= 1
        self._carrier.cut()
        self._carrier.join()
        return False


@pytest.mark.parametrize(
    ("kind", "every"),
    [(f.Chunk, 5), (f.Chunk, 1), (f.Ack, 1), (f.Accept, 1), (f.Open, 1), (f.SpecPage, 1)],
)
def test_a_model_outlives_many_cuts(kind: type[Any], every: int) -> None:
    source, store = pattern_model(SPEC), MemoryStore()
    with Transfer(SPEC) as transfer:
        transfer.carrier.watch = Cutter(transfer.carrier, kind, every, most=12)
        sent, _ = transfer.run(source, store.begin(SPEC))
        cuts = transfer.carrier.cuts
    assert content(store.open()) == content(source)
    assert cuts == sent.stats.resumes == 12
    assert sent.stats.resent_bytes <= cuts * WINDOW


@pytest.mark.parametrize("kind", [f.Finish, f.Commit])
def test_a_cut_at_the_very_end_is_made_good(kind: type[Any]) -> None:
    source, store = pattern_model(SPEC), MemoryStore()
    with Transfer(SPEC) as transfer:
        transfer.carrier.watch = Cutter(transfer.carrier, kind, 1, most=3)
        transfer.run(source, store.begin(SPEC))
    assert content(store.open()) == content(source)


def test_what_was_received_is_not_sent_again() -> None:
    source, store = pattern_model(SPEC), MemoryStore()
    seen: list[int] = []

    def note(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk):
            seen.append(frame.offset)
        return cutter(frame)

    with Transfer(SPEC) as transfer:
        cutter = Cutter(transfer.carrier, f.Chunk, 30, most=4)
        transfer.carrier.watch = note
        _, received = transfer.run(source, store.begin(SPEC))
    assert received.stats.received_bytes == SPEC.nbytes
    assert len(seen) <= received.stats.chunks + 4 * (WINDOW // 1024) + 4


def test_frames_of_a_call_that_is_over_are_ignored() -> None:
    with Transfer(SPEC) as transfer:
        pump = pump_of(transfer.incoming)
        call = pump.attach(lambda: None)
        pump.incoming([_open()], call)
        pump.accept(wants_spec=False)
        pump.detach(call)
        # A reader may still hold a frame when its call is reported over.
        pump.incoming([f.Chunk(5, 0, (memoryview(b"late"),))], call)
        assert transfer.incoming.error is None


def test_a_sender_that_comes_back_with_another_attempt_is_refused() -> None:
    _comes_back(lambda: _open(attempt=Attempt("job", 1, 2)), "resumed with job 'job' round 1")


def test_a_sender_that_comes_back_with_another_model_is_refused() -> None:
    _comes_back(lambda: _open(total_bytes=1), "resumed with another model")


def _comes_back(reopen: Callable[[], f.Open], why: str) -> None:
    with Transfer(SPEC) as transfer:
        pump = pump_of(transfer.incoming)
        first = pump.attach(lambda: None)
        pump.incoming([_open()], first)
        pump.accept(wants_spec=False)
        second = pump.attach(lambda: None)
        pump.incoming([reopen()], second)
        assert isinstance(transfer.incoming.error, RemoteProtocolError)
        assert why in str(transfer.incoming.error)


def _open(attempt: Attempt = Attempt("job", 1, 1), total_bytes: int = SPEC.nbytes) -> f.Open:
    return f.Open(STREAM, attempt, total_bytes, SPEC.digest, 0, 4096)
