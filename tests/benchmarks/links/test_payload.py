"""The model that all peers move."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.links.payload import Payload, digest


@pytest.mark.parametrize(("size", "arrays"), [(0, 1), (12, 0), (12, 5), (10, 1), (8, 4)])
def test_bytes_that_no_equal_arrays_fill_are_refused(size: int, arrays: int) -> None:
    with pytest.raises(ValueError, match="array"):
        Payload(size, arrays)


def test_two_processes_make_the_same_model() -> None:
    payload = Payload(4096, 4)
    model = payload.model()
    assert digest(model) == digest(payload.model())
    assert sum(array.nbytes for array in model.values()) == payload.size_bytes


def test_the_digest_sees_a_bit_a_name_and_a_shape() -> None:
    model = Payload(64, 2).model()
    found = {digest(model)}
    flipped = {name: array.copy() for name, array in model.items()}
    flipped["layer_0001"].view(np.uint8)[3] ^= 1
    found.add(digest(flipped))
    found.add(digest({"other": model["layer_0000"], "layer_0001": model["layer_0001"]}))
    found.add(digest({name: array.reshape(2, -1) for name, array in model.items()}))
    assert len(found) == 4


def test_the_digest_does_not_depend_on_the_order() -> None:
    model = Payload(64, 4).model()
    assert digest(dict(reversed(model.items()))) == digest(model)
