"""The original way: messages that are copied at each step, and hold what they were made of."""

from __future__ import annotations

import numpy as np
import pytest

from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.stores import ArrayModel
from streamlink.training.original import ReceivedMessage, SentMessage, decoded
from tests.support.models import content
from tests.support.peers import initial
from tests.support.training_job import peak_bytes

MiB = 1 << 20


def model() -> ArrayModel:
    return ArrayModel(initial())


def received(piece: int) -> ReceivedMessage:
    source = model()
    message = ReceivedMessage(source.spec)
    raw = content(source)
    starts = list(range(0, len(raw), piece))
    for start in reversed(starts):  # pieces may arrive in any order
        message.write(start, memoryview(raw)[start : start + piece])
    message.commit()
    return message


def test_a_message_has_the_bytes_of_its_model() -> None:
    message = SentMessage(model())
    assert message.spec == model().spec
    assert content(message) == content(model())


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_a_message_that_arrives_in_pieces_is_the_model_again(piece: int) -> None:
    assert content(received(piece)) == content(model())


def test_a_decoded_model_has_arrays_of_its_own() -> None:
    arrays = decoded(received(100))
    for name, array in initial().items():
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.writeable


def test_both_ends_of_a_message_are_models() -> None:
    assert isinstance(SentMessage(model()), ModelSource)
    assert isinstance(ReceivedMessage(model().spec), ModelSource)
    assert isinstance(ReceivedMessage(model().spec), ModelSink)


def test_a_discarded_message_keeps_no_piece() -> None:
    source = ArrayModel({"a": np.zeros(MiB, np.uint8)})

    def drop() -> None:
        message = ReceivedMessage(source.spec)
        for _ in range(8):
            message.write(0, memoryview(bytes(MiB)))
            message.discard()

    assert peak_bytes(drop) < 4 * MiB


def test_each_step_of_a_message_costs_a_copy() -> None:
    # What is serialised, the request, the buffer it is encoded into, and the copy made of that.
    source = ArrayModel({"a": np.zeros(4 * MiB, np.uint8)})
    assert 4 * 4 * MiB <= peak_bytes(lambda: SentMessage(source)) < 5 * 4 * MiB
