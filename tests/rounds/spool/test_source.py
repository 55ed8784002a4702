"""Stored updates: combined to the same bits as in lockstep, verified as they are read."""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.clock import running_time
from streamlink.errors import CorruptStore, ModelError, NonFiniteUpdate, QuorumNotReached
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.link.send_model import send_model
from streamlink.model.computed import RangeFunction
from streamlink.model.copy import copy_model
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.combiner import ContributorFailed, Step
from streamlink.rounds.aggregate.gather import Gather, GatherRules
from streamlink.rounds.aggregate.update_source import UpdateSource
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.resume import Answer
from streamlink.rounds.spool.source import StoredSource
from streamlink.rounds.spool.stored import StoredUpdate
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.disk import flip, peak_of
from tests.support.examples import examples
from tests.support.joined_pumps import Transfer
from tests.support.models import content, float_spec, model_specs, pattern_model
from tests.support.peers import WAIT, Array, config

MiB = 1 << 20
PLAIN = Update()


def stored(
    path: Path,
    source: ModelSource,
    update: Update = PLAIN,
    metrics: dict[str, float] | None = None,
) -> StoredUpdate:
    """Store an update as a spool would; its client is called as its directory."""
    store = SafetensorsStore(path)
    copy_model(source, store.begin(source.spec))
    return StoredUpdate(path.name, Attempt(), update, metrics or {}, digest_of(source), path, store)


def combined(
    updates: Sequence[StoredUpdate | StoredSource],
    base: ModelSource,
    part: ModelSpec | None = None,
    **rules: Any,
) -> tuple[MemoryStore, Gather]:
    """Return the new model's store, and the gather that has run."""
    store = MemoryStore()
    given = [each if isinstance(each, StoredSource) else StoredSource(each) for each in updates]
    gather = Gather(
        base,
        part or base.spec,
        given,
        store.begin(base.spec),
        GatherRules(**rules, clock=running_time),
    )
    gather.run()
    return store, gather


# --- the same bits as in lockstep -----------------------------------------------------------


def negated(tensor: TensorSpec, start: int, values: Array) -> Array:
    """Depends on the tensor and on every position."""
    if values.dtype == np.bool_:
        return np.logical_not(values)
    places = np.arange(start, start + values.size) % 3 == len(tensor.name) % 3
    with np.errstate(all="ignore"):
        changed: Array = np.where(places, np.negative(values), values).astype(values.dtype)
    return changed


@given(model_specs(), st.data())
@examples(30)
def test_lockstep_and_spool_give_the_same_bits(spec: ModelSpec, data: st.DataObject) -> None:
    chosen = data.draw(
        st.lists(st.booleans(), min_size=len(spec.tensors), max_size=len(spec.tensors))
    )
    part = ModelSpec(tuple(t for t, is_in in zip(spec.tensors, chosen, strict=True) if is_in))
    update = st.builds(Update, st.sampled_from([0.7, 1.0, 3.0]), st.sampled_from(UpdateKind))
    updates = data.draw(st.lists(update, min_size=1, max_size=3))
    filters: list[RangeFunction] = [negated] if data.draw(st.booleans()) else []
    base = pattern_model(spec, seed=9)
    assert _spooled(base, part, updates, filters) == _in_lockstep(base, part, updates, filters)


def _spooled(
    base: ModelSource, part: ModelSpec, updates: Sequence[Update], filters: list[RangeFunction]
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        given = [
            StoredSource(
                stored(Path(folder) / f"site-{n}", pattern_model(part, seed=n), update),
                filters=filters,
            )
            for n, update in enumerate(updates)
        ]
        store, _ = combined(given[::-1], base, part, non_finite="accept")
        return content(store.open())


def _in_lockstep(
    base: ModelSource, part: ModelSpec, updates: Sequence[Update], filters: list[RangeFunction]
) -> bytes:
    store = MemoryStore()
    transfers = [Transfer(part, config(), update=update) for update in updates]
    try:
        senders = [
            _sending(transfer, pattern_model(part, seed=number))
            for number, transfer in enumerate(transfers)
        ]
        contributors = [
            LiveSource(f"site-{n}", Answer(transfer.incoming), filters=lambda _: filters)
            for n, transfer in enumerate(transfers)
        ]
        # Bytes that repeat are NaN in places, and those are compared, too.
        rules = GatherRules(held_interval=1.0, non_finite="accept", clock=running_time)
        Gather(base, part, contributors, store.begin(base.spec), rules).run()
        for sender in senders:
            sender.join(WAIT)
        return content(store.open())
    finally:
        for transfer in transfers:
            transfer.__exit__(None, None, None)


def test_an_open_stream_and_a_stored_update_are_combined_together(tmp_path: Path) -> None:
    spec = float_spec(700_000)
    base, sent, kept = (pattern_model(spec, seed=seed) for seed in (9, 1, 2))
    update = stored(tmp_path / "site-2", kept, Update(3.0), {"loss": 0.5})
    also = stored(tmp_path / "site-1", sent, Update(1.0))
    target = MemoryStore()
    with Transfer(spec, config(), update=Update(1.0)) as transfer:
        sender = _sending(transfer, sent)
        live = LiveSource("site-1", Answer(transfer.incoming))
        sources: list[UpdateSource] = [StoredSource(update), live]
        gather = Gather(
            base,
            spec,
            sources,
            target.begin(spec),
            GatherRules(held_interval=1.0, clock=running_time),
        )
        gather.run()
        sender.join(WAIT)
    assert gather.weights == {"site-1": 1.0, "site-2": 3.0}
    assert gather.client_metrics == {"site-1": {}, "site-2": {"loss": 0.5}}
    assert content(target.open()) == content(combined([also, update], base)[0].open())


def _sending(transfer: Transfer, source: ModelSource) -> threading.Thread:
    transfer.carrier.join()
    sender = threading.Thread(target=send_model, args=(transfer.outgoing, source), daemon=True)
    sender.start()
    return sender


# --- what counts ----------------------------------------------------------------------------


def test_updates_are_combined_in_the_order_of_their_names(tmp_path: Path) -> None:
    spec = ModelSpec((TensorSpec("w", "F64", (3,)),))
    sources = {"b": 1e16, "a": -1e16, "c": 1.0}
    updates = [
        stored(tmp_path / name, MemoryStore({"w": np.full(3, value)}).open(), Update(1.0), {"n": 3})
        for name, value in sources.items()
    ]
    store, gather = combined(updates, pattern_model(spec))
    assert store.arrays["w"].tolist() == [(-1e16 + 1e16 + 1.0) / 3] * 3
    assert list(gather.weights) == ["a", "b", "c"]
    assert (gather.metrics, gather.position) == ({"n": 3.0}, spec.nbytes)


def test_weights_may_be_overridden(tmp_path: Path) -> None:
    spec = float_spec(3)
    updates = [stored(tmp_path / name, pattern_model(spec), Update(5.0)) for name in "ab"]
    doubled = [StoredSource(update, weigh=lambda given: 2 * given) for update in updates]
    assert combined(doubled, pattern_model(spec))[1].weights == {"a": 10.0, "b": 10.0}
    wrong = [StoredSource(update, weigh=lambda _: -1.0) for update in updates]
    with pytest.raises(ContributorFailed, match="the update of a failed") as failed:
        combined(wrong, pattern_model(spec))
    assert isinstance(failed.value.__cause__, ModelError)
    with pytest.raises(QuorumNotReached):
        combined([StoredSource(each, weigh=lambda _: 0.0) for each in updates], pattern_model(spec))


def test_bad_values_are_refused_by_rule_and_the_rest_can_be_combined(tmp_path: Path) -> None:
    bad = np.array([0.0, math.nan, 0.0], np.float32)
    updates = [
        stored(tmp_path / "a", MemoryStore({"t0": np.zeros(3, np.float32)}).open()),
        stored(tmp_path / "b", MemoryStore({"t0": bad}).open()),
    ]
    with pytest.raises(ContributorFailed) as failed:
        combined(updates, pattern_model(float_spec(3)), non_finite="reject")
    assert isinstance(failed.value.__cause__, NonFiniteUpdate)
    store, _ = combined(updates[:1], pattern_model(float_spec(3)), non_finite="reject")
    assert store.arrays["t0"].tolist() == [0.0, 0.0, 0.0]


def test_the_steps_are_told_and_may_fail_the_round(tmp_path: Path) -> None:
    update, steps = stored(tmp_path / "a", pattern_model(float_spec(3))), list[Step]()
    combined([update], pattern_model(float_spec(3)), on_step=steps.append)
    assert steps == list(Step)

    def fail(step: Step) -> None:
        raise OSError(step.value)

    with pytest.raises(OSError, match="aggregating"):
        combined([update], pattern_model(float_spec(3)), on_step=fail)


def test_orders_are_looked_at_before_each_piece(tmp_path: Path) -> None:
    spec, seen = float_spec(700_000), list[int]()
    given = [StoredSource(stored(tmp_path / "a", pattern_model(spec)))]
    rules = GatherRules(check=lambda: seen.append(gather.position), clock=running_time)
    gather = Gather(pattern_model(spec), spec, given, Nowhere(spec), rules)
    gather.run()
    assert {0, MiB, 2 * MiB} <= set(seen)


def test_stored_updates_are_closed_whatever_happens(tmp_path: Path) -> None:
    contributor = StoredSource(stored(tmp_path / "a", pattern_model(float_spec(3))))
    for end in (None, OSError("no")):
        with suppress(OSError):
            combined([contributor], pattern_model(float_spec(3)), on_step=Raising(end))
        with pytest.raises(AssertionError, match="open"):
            contributor.take(1)


class Raising:
    """A hook that raises what it was given, if anything."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def __call__(self, step: Step) -> None:
        if self._error is not None:
            raise self._error


def test_a_spool_may_be_combined_twice(tmp_path: Path) -> None:
    contributor = StoredSource(stored(tmp_path / "a", pattern_model(float_spec(3))))
    first, second = (combined([contributor], pattern_model(float_spec(3)))[0] for _ in range(2))
    assert content(first.open()) == content(second.open())


# --- what is not as it was stored -------------------------------------------------------------


def test_a_flipped_byte_is_found_before_it_counts(tmp_path: Path) -> None:
    spec = float_spec(700_000, 400_000)
    update = stored(tmp_path / "a", pattern_model(spec))
    (shard,) = (tmp_path / "a").glob("*.safetensors")
    flip(shard, shard.stat().st_size - 1000)
    sink, given = MemoryStore().begin(spec), [StoredSource(update)]
    gather = Gather(pattern_model(spec), spec, given, sink, GatherRules(clock=running_time))
    with pytest.raises(CorruptStore, match="not what was stored") as corrupt:
        gather.run()
    assert (corrupt.value.tensor, corrupt.value.offset) == ("t1", 4 * MiB)
    assert gather.position == 4 * MiB


def test_without_its_digests_an_update_is_read_before_it_counts(tmp_path: Path) -> None:
    spec = float_spec(700_000)
    update = stored(tmp_path / "a", pattern_model(spec))
    (shard,) = (tmp_path / "a").glob("*.safetensors")
    next((tmp_path / "a").glob("*.digests")).unlink()
    combined([update], pattern_model(spec))
    flip(shard, shard.stat().st_size - 1000)
    with pytest.raises(CorruptStore, match="this is not the update of a that was stored here"):
        combined([update], pattern_model(spec))


def test_another_update_in_its_place_is_noticed(tmp_path: Path) -> None:
    update = stored(tmp_path / "a", pattern_model(float_spec(3)))
    stored(tmp_path / "b", pattern_model(float_spec(3), seed=1))
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(CorruptStore, match="this is not the update of a"):
        combined([update], pattern_model(float_spec(3)))


# --- memory -----------------------------------------------------------------------------------


class Nowhere:
    """A sink that keeps nothing."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None: ...
    def commit(self, progress: object = None) -> None: ...
    def discard(self) -> None: ...


def test_combining_takes_a_few_blocks_of_each_update_and_not_the_model(tmp_path: Path) -> None:
    spec = float_spec(10_000_000)  # 40 MB, thrice on the disk
    for number in range(3):
        copy_model(pattern_model(spec), SafetensorsStore(tmp_path / str(number)).begin(spec))
    stores = [SafetensorsStore(tmp_path / str(n), cache_blocks=2) for n in range(3)]
    digest = digest_of(pattern_model(spec))
    difference = Update(1.0, UpdateKind.DIFFERENCES)
    given = [
        StoredSource(
            StoredUpdate(str(n), Attempt(), difference, {}, digest, tmp_path / str(n), stores[n])
        )
        for n in range(2)
    ]
    base = stores[2].open()
    gather = Gather(base, spec, given, Nowhere(spec), GatherRules(clock=running_time))
    assert peak_of(gather.run) < 20 * MiB
