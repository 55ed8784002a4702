"""Contents: opened for the first reader, closed after the last, read once for all in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamlink.copying import copy_model
from streamlink.errors import UnknownObject
from streamlink.model.digest import HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.objects.content import Content, shared
from streamlink.stores import ArrayModel, SafetensorsStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.objects import some_arrays

SPEC = float_spec(400_000, 3, 300_000)  # three blocks of 1 MiB


class Opened:
    """A model that notes what happens to it."""

    def __init__(self) -> None:
        self._model = pattern_model(SPEC)
        self.spec = SPEC
        self.read_bytes = self.closed = 0
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
        with self._lock:
            self.read_bytes += length
        return self._model.read(offset, length)

    def close(self) -> None:
        self.closed += 1


class Made:
    """Contents whose sources are noted."""

    def __init__(self, *, closes: bool = True) -> None:
        self.sources: list[Opened] = []
        self.released = 0
        self.content = Content(
            SPEC, self._open, closes=closes, shared_bytes=1 << 20, release=self._release
        )

    def _open(self) -> ModelSource:
        self.sources.append(Opened())
        return self.sources[-1]

    def _release(self) -> None:
        self.released += 1


def test_readers_at_a_time_share_one_source_which_the_last_of_them_closes() -> None:
    made = Made()
    for number in (1, 2):
        with made.content.reading() as one, made.content.reading() as other:
            assert one is other
            assert made.sources[-1].closed == 0
        assert [source.closed for source in made.sources] == [1] * number


def test_a_source_of_the_callers_own_is_never_closed() -> None:
    made = Made(closes=False)
    with made.content.reading() as source:
        assert content(source) == content(pattern_model(SPEC))
    assert made.sources[0].closed == 0


def test_what_is_released_is_released_once_and_has_no_more_readers() -> None:
    made = Made()
    with made.content.reading() as source:
        made.content.release()
        made.content.release()
        assert content(source) == content(pattern_model(SPEC))
    assert made.released == 1
    with pytest.raises(UnknownObject), made.content.reading():
        pass


def test_readers_that_run_side_by_side_read_the_source_once() -> None:
    made = Made()
    with made.content.reading() as source:
        for start in range(0, SPEC.nbytes, 100_000):
            wanted = min(100_000, SPEC.nbytes - start)
            with ThreadPoolExecutor(4) as pool:
                found = {
                    b"".join(each) for each in pool.map(source.read, [start] * 4, [wanted] * 4)
                }
            assert len(found) == 1
    assert made.sources[0].read_bytes == SPEC.nbytes


def test_arrays_are_shared_without_a_second_place() -> None:
    model = ArrayModel(some_arrays())
    assert shared(model, 1 << 20, closes=True) is model


def test_a_store_that_knows_its_digest_keeps_knowing_it(tmp_path: Path) -> None:
    copy_model(pattern_model(SPEC), tmp_path / "model")
    source = shared(SafetensorsStore(tmp_path / "model").open(), 1 << 20, closes=True)
    assert isinstance(source, HasBlockHashes)
    assert source.digest() == digest_of(pattern_model(SPEC))
    assert source.block_hash(0)
    source.close()
