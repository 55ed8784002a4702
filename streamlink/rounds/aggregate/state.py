"""The state of an aggregator, such as the momentum of an optimizer, stored beside the model.

Each slot of the state is a model of its own, in a safetensors store, with the names and shapes of
the tensors that clients send:

    DIRECTORY/step-7-<run>/momentum/       the state after 7 rounds of this run
    DIRECTORY/step-7-<run>/second_moment/

A round reads one step and writes the next, range by range as it computes the model. The next step
is durable before the model is committed, and does not count yet: *the commit of the model is the
commit of the state*, since which step counts is the number of rounds that are committed. The ledger
knows that number, also when the server is killed right after a commit. So both appear or neither,
although they are in several files. The step before is kept until the next round begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from streamlink.errors import RoundError
from streamlink.model.interfaces import ModelSink
from streamlink.model.spec import ModelSpec, TensorSpec, dtype_name
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.state_step import SLOT_BYTES, StateStep
from streamlink.rounds.aggregate.validate import state_dtype
from streamlink.rounds.durable import spool_errors
from streamlink.stores.files import remove_tree
from streamlink.stores.preflight import require_writable
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore

__all__ = ["StateKeeper", "check_state_directory", "keeper_of", "state_bytes"]

_UNUSABLE = "the state of the aggregator cannot be stored"
_STEP = re.compile(r"step-\d+-\w+")
_ONE_SHARD = 1 << 62  # bytes


def state_bytes(aggregator: Aggregator) -> int:
    """Return the memory that the state of an aggregator takes in a round (bytes)."""
    return len(aggregator.slots) * SLOT_BYTES


def check_state_directory(aggregator: Aggregator, directory: Path | None) -> None:
    """Check that the state of ``aggregator``, if it keeps one, can be stored in ``directory``.

    Raises:
        ValueError: it keeps one, and there is no directory for it.
        StoreError: this process may not write there, or it is no directory.
    """
    if not aggregator.slots:
        return
    if directory is None:
        slots = " and ".join(aggregator.slots)
        raise ValueError(
            f"{aggregator} keeps its {slots} from round to round, and there is no directory for "
            "that: give one with room for as many models (state, --state DIR)"
        )
    require_writable(directory, _UNUSABLE)


def keeper_of(
    aggregator: Aggregator, directory: Path | None, part: ModelSpec, *, run: str, steps: int
) -> StateKeeper | None:
    """Return what keeps the state of ``aggregator``; None: it has none.

    Raises:
        ValueError: there is no directory for it.
        StoreError: it cannot be stored there.
        RoundError: the state of the last round is not there.
    """
    check_state_directory(aggregator, directory)
    if directory is None or not aggregator.slots:
        return None
    return StateKeeper(directory, aggregator.slots, part, run=run, steps=steps)


class StateKeeper:
    """Keeps the state of one job from round to round.

    Args:
        directory: of this job alone; made if it is missing.
        slots: the names, and what each begins with.
        part: the tensors that clients send.
        run: of the ledger; empty: there is none, and what is kept serves this process only.
        steps: the rounds of this run that are committed.

    Raises:
        RoundError: the state after ``steps`` rounds is missing, or is that of another model.
        StoreError: it cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        slots: Mapping[str, float],
        part: ModelSpec,
        *,
        run: str = "",
        steps: int = 0,
    ) -> None:
        self._directory = directory
        self._slots = dict(slots)
        self._run = run or "unrecorded"
        self.steps = steps
        """The rounds that are committed (count): the number of the step that counts."""
        self._spec = _spec_of(part)
        if steps and self._spec.nbytes:
            for source in self._sources():
                source.close()

    def begin(self) -> StateStep:
        """Begin the next step from the one that counts; other steps are removed.

        Raises:
            RoundError: the one that counts is missing.
            StoreError: it cannot be read, or the next one not be stored.
        """
        self._sweep()
        if not self._spec.nbytes:
            return StateStep((), (), (), ())
        sources, sinks = self._sources() if self.steps else [], list[ModelSink]()
        first, places = tuple(self._slots.values()), list[Path]()
        try:
            for name in self._slots:
                places.append(self._place(self.steps + 1, name))
                sinks.append(_store_at(places[-1]).begin(self._spec))
        except BaseException:
            StateStep(sources, sinks, first, places).close()
            raise
        return StateStep(sources, sinks, first, places)

    def advance(self) -> None:
        """Note that the model of the round is committed: from now on the next step counts."""
        self.steps += 1

    def _sources(self) -> list[SafetensorsSource]:
        """Return the step that counts, one source for each slot."""
        with ExitStack() as opened:
            sources = [
                opened.enter_context(closing(self._source(self._place(self.steps, name))))
                for name in self._slots
            ]
            opened.pop_all()  # they stay open: none of them failed
            return sources

    def _source(self, place: Path) -> SafetensorsSource:
        if not place.is_dir():
            raise RoundError(
                f"{place}: the state after round {self.steps} of this run is missing; give the "
                "directory that was given before (state, --state), restore a copy of it, or remove "
                "the ledger to begin again with the model that is in the store"
            )
        source = _store_at(place).open()
        if source.spec != self._spec:
            difference = self._spec.difference(source.spec, "the model", "it")
            source.close()
            raise RoundError(f"{place}: this state does not fit the model: {difference}")
        return source

    def _sweep(self) -> None:
        """Remove steps that do not count: of rounds that were not committed, or long ago."""
        if not self._directory.is_dir():
            return
        present = self._place(self.steps).name
        with spool_errors(self._directory, _UNUSABLE):
            for entry in list(self._directory.iterdir()):
                if _STEP.fullmatch(entry.name) and (entry.name != present or not self.steps):
                    remove_tree(entry)

    def _place(self, step: int, *slot: str) -> Path:
        return self._directory.joinpath(f"step-{step}-{self._run}", *slot)


def _spec_of(part: ModelSpec) -> ModelSpec:
    """Return the tensors of a slot: those of the model that have a state."""
    kept = ((tensor, state_dtype(tensor.dtype)) for tensor in part.tensors)
    return ModelSpec(
        tuple(TensorSpec(each.name, dtype_name(dtype), each.shape) for each, dtype in kept if dtype)
    )


def _store_at(place: Path) -> SafetensorsStore:
    # One file, whose data begin with a page: so all whole blocks can go past the page cache.
    return SafetensorsStore(place, shard_bytes=_ONE_SHARD, is_direct=True)
