from __future__ import annotations

import pytest

from streamlink.errors import SpecMismatch
from streamlink.model.copy import copy_model
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel, MemoryStore, empty_arrays
from tests.support.models import content, float_spec, pattern_model

SPEC = float_spec(100, 0, 33)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_every_byte_is_copied(piece: int) -> None:
    told: list[int] = []
    target = ArrayModel(empty_arrays(SPEC))
    copy_model(pattern_model(SPEC), target, piece, told.append)
    assert content(target) == content(pattern_model(SPEC))
    assert told == sorted(told)
    assert told[-1] == SPEC.nbytes


def test_another_spec_is_refused() -> None:
    with pytest.raises(SpecMismatch, match="the sink has another model"):
        copy_model(pattern_model(SPEC), ArrayModel({}))


def test_pieces_must_have_bytes() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        copy_model(pattern_model(SPEC), ArrayModel(empty_arrays(SPEC)), 0)


def test_a_source_that_fails_makes_the_sink_discard() -> None:
    class Failing(ArrayModel):
        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            raise OSError("gone")

    discarded: list[bool] = []

    class Target(ArrayModel):
        def discard(self) -> None:
            discarded.append(True)

    with pytest.raises(OSError, match="gone"):
        copy_model(Failing(empty_arrays(SPEC)), Target(empty_arrays(SPEC)))
    assert discarded == [True]


def test_a_commit_tells_its_steps_beyond_the_bytes() -> None:
    class Slow(ArrayModel):
        def commit(self, progress: object = None) -> None:
            assert callable(progress)
            progress(1)
            progress(2)

    told: list[int] = []
    copy_model(pattern_model(SPEC), Slow(empty_arrays(SPEC)), progress=told.append)
    assert told[-2:] == [SPEC.nbytes + 1, SPEC.nbytes + 2]


def test_a_model_without_tensors_is_copied() -> None:
    store = MemoryStore()
    copy_model(ArrayModel({}), store.begin(ModelSpec(())))
    assert store.arrays == {}
