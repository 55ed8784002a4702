"""What is written once is in both places."""

from __future__ import annotations

import pytest

from streamlink.errors import SpecMismatch
from streamlink.model.copy import TeeSink, copy_model
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, float_spec, pattern_model

SPEC = float_spec(700, 0, 3)


def test_both_places_have_the_model_once_it_is_committed() -> None:
    first, second = MemoryStore(), MemoryStore()
    copy_model(pattern_model(SPEC), TeeSink(first.begin(SPEC), second.begin(SPEC)), 1000)
    assert content(first.open()) == content(second.open()) == content(pattern_model(SPEC))


class Slow:
    """A sink whose commit takes two steps."""

    spec = SPEC

    def write(self, offset: int, payload: memoryview) -> None:
        pass

    def commit(self, progress: object = None) -> None:
        assert callable(progress)
        progress(1)
        progress(2)

    def discard(self) -> None:
        pass


def test_steps_of_both_commits_are_told_as_one_growing_count() -> None:
    told: list[int] = []
    TeeSink(Slow(), Slow()).commit(told.append)
    assert told == [1, 2, 3, 4]


def test_nobody_has_to_ask_for_the_steps() -> None:
    TeeSink(Slow(), Slow()).commit()


def test_both_are_discarded_even_if_one_cannot_be() -> None:
    discarded: list[str] = []
    first, second = MemoryStore().begin(SPEC), MemoryStore().begin(SPEC)

    def fail() -> None:
        raise OSError("first")

    first.discard = fail  # type: ignore[method-assign]
    second.discard = lambda: discarded.append("second")  # type: ignore[method-assign]
    with pytest.raises(OSError, match="first"):
        TeeSink(first, second).discard()
    assert discarded == ["second"]


def test_places_for_other_tensors_are_refused() -> None:
    with pytest.raises(SpecMismatch, match="the second sink has another model"):
        TeeSink(MemoryStore().begin(SPEC), MemoryStore().begin(float_spec(1)))
