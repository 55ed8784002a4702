from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlink.errors import SourceChanged, StoreError
from streamlink.link import UpdateKind
from streamlink.model.computed import GeneratedModel, map_model
from streamlink.model.copy import copy_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import Check, ModelSource, Watched, payload_bytes, watch
from streamlink.model.part import part_of, part_source
from streamlink.rounds.aggregate.combiner import Combiner
from streamlink.stores.memory import MemoryStore
from tests.support.models import float_spec, pattern_model

SPEC = float_spec(3, 5)


def test_a_payload_is_as_long_as_its_views() -> None:
    assert payload_bytes(()) == 0
    assert payload_bytes((memoryview(b"abc"), memoryview(b""), memoryview(b"de"))) == 5


class Noticing(GeneratedModel):
    """A source that can be told that somebody wrote to it."""

    is_changed = False

    def watch(self) -> Check:
        return self._check

    def _check(self) -> None:
        if self.is_changed:
            raise SourceChanged("it was written to")


def noticing() -> Noticing:
    return Noticing(SPEC, lambda tensor, start, out: None)


def test_a_source_without_a_check_has_one_that_passes() -> None:
    assert not isinstance(pattern_model(SPEC), Watched)
    watch(pattern_model(SPEC))()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda source: source,
        lambda source: map_model(source, lambda tensor, start, values: values),
        lambda source: part_source(source, part_of(SPEC, ["t1"])),
        lambda source: DifferenceSource(source, pattern_model(SPEC)),
        lambda source: DifferenceSource(pattern_model(SPEC), source),
    ],
)
def test_what_is_made_of_a_source_notices_what_it_notices(
    wrap: Callable[[ModelSource], ModelSource],
) -> None:
    source = noticing()
    check = watch(wrap(source))
    check()
    source.is_changed = True
    with pytest.raises(SourceChanged):
        check()


def test_a_changed_source_is_not_copied_and_has_no_digest() -> None:
    source, target = noticing(), MemoryStore()

    def change(done: int) -> None:
        source.is_changed = True

    with pytest.raises(SourceChanged):
        copy_model(source, target.begin(SPEC), progress=change)
    with pytest.raises(StoreError, match="holds no model"):
        target.open()
    with pytest.raises(SourceChanged):
        digest_of(source)


class Zeros:
    """A client's update that is zero."""

    peer_name, weight, kind, filters = "site-1", 1.0, UpdateKind.VALUES, ()

    def take(self, nbytes: int) -> memoryview:
        return memoryview(bytes(nbytes))


def test_a_base_that_changed_is_told_with_the_last_byte_of_the_new_model() -> None:
    source = noticing()
    combiner = Combiner(source, part_of(SPEC, ["t0"]), [Zeros()], MemoryStore().begin(SPEC))
    combiner.compute(combiner.ahead(SPEC.nbytes))
    source.is_changed = True
    with pytest.raises(SourceChanged):
        combiner.compute(combiner.ahead(SPEC.nbytes))
    assert combiner.is_done
