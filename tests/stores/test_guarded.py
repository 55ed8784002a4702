from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from streamlink.errors import SourceChanged
from streamlink.model.digest import BLOCK_BYTES, HasBlockHashes, digest_of
from streamlink.model.interfaces import Check, HasIdentity, ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.stores.guarded import GuardedSource
from streamlink.stores.memory import ArrayModel
from tests.support.models import (
    Array,
    SourceContract,
    arrays_of,
    content,
    float_spec,
    pattern_model,
    random_bytes,
)

SPEC = float_spec(3, BLOCK_BYTES // 2, 7)
"""Two MiB and a little: blocks begin inside of t1, and the last one ends in t2."""


def guarded() -> tuple[dict[str, Array], GuardedSource]:
    arrays = arrays_of(SPEC, random_bytes(SPEC.nbytes))
    return arrays, GuardedSource(ArrayModel(arrays))


class TestGuardedSource(SourceContract):
    @pytest.fixture
    def source(self) -> ModelSource:
        return GuardedSource(pattern_model(self.spec))


def test_it_knows_its_digest_and_a_name() -> None:
    arrays, source = guarded()
    assert isinstance(source, HasBlockHashes)
    assert isinstance(source, HasIdentity)
    assert source.digest() == source.identity() == digest_of(ArrayModel(arrays))
    assert len(source.block_hash(2)) == 16


def test_what_changed_is_told_with_the_tensor_and_the_byte_where_its_block_begins() -> None:
    arrays, source = guarded()
    arrays["t2"][6] = 3
    source.read(0, 2 * BLOCK_BYTES)
    with pytest.raises(SourceChanged, match="up to tensor 't2'") as caught:
        source.read(2 * BLOCK_BYTES, 1)
    assert (caught.value.tensor, caught.value.inside) == ("t1", 2 * BLOCK_BYTES - 12)


def test_a_write_does_not_reach_what_was_read() -> None:
    arrays, source = guarded()
    (view,) = source.read(12, 4)
    before = bytes(view)
    arrays["t1"][0] = 3
    assert bytes(view) == before


def test_a_block_that_changes_back_is_given_out() -> None:
    arrays, source = guarded()
    old = arrays["t2"].copy()
    arrays["t2"][:] = 0
    with pytest.raises(SourceChanged):
        source.read(SPEC.nbytes - 1, 1)
    arrays["t2"][:] = old
    assert content(source) == b"".join(each.tobytes() for each in arrays.values())


def test_a_source_that_notices_by_itself_is_asked_after_the_first_pass() -> None:
    class Noticing(ArrayModel):
        def watch(self) -> Check:
            def check() -> None:
                raise SourceChanged("it was written to", tensor="w")

            return check

    told: list[int] = []
    with pytest.raises(SourceChanged):
        GuardedSource(Noticing({"w": np.zeros(5)}), told.append)
    assert told == [40]


def test_a_model_without_a_byte_can_be_guarded() -> None:
    source = GuardedSource(pattern_model(ModelSpec(())))
    assert source.read(0, 0) == ()
    source.close()


def test_it_holds_a_few_blocks() -> None:
    spec = float_spec(32 << 20 >> 2)
    model = ArrayModel(arrays_of(spec, bytes(spec.nbytes)))
    tracemalloc.start()
    try:
        source = GuardedSource(model)
        for offset in range(0, spec.nbytes, BLOCK_BYTES):
            source.read(offset, BLOCK_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
