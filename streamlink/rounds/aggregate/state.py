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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import RoundError, StoreError
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink, ModelSource, Progress
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import ModelSpec, TensorSpec, dtype_name
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.validate import state_dtype
from streamlink.rounds.durable import spool_errors, sync_directory
from streamlink.stores.files import remove_tree
from streamlink.stores.preflight import require_writable
from streamlink.stores.safetensors import SafetensorsStore

__all__ = ["StateKeeper", "StateStep", "check_state_directory", "keeper_of", "state_bytes"]

_UNUSABLE = "the state of the aggregator cannot be stored"
_STEP = re.compile(r"step-\d+-\w+")
_CACHED_BLOCKS = 2  # read once, from front to back

# The elements of a piece, as float32 for each of 8 bits; what is read of them; the store's blocks.
_SLOT_BYTES = 2 * 4 * BLOCK_BYTES + (_CACHED_BLOCKS + 6) * BLOCK_BYTES

_Array = npt.NDArray[Any]


def state_bytes(aggregator: Aggregator) -> int:
    """Return the memory that the state of an aggregator takes in a round (bytes)."""
    return len(aggregator.slots) * _SLOT_BYTES


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

    def _sources(self) -> list[ModelSource]:
        """Return the step that counts, one source for each slot."""
        with ExitStack() as opened:
            sources = [
                opened.enter_context(closing(self._source(self._place(self.steps, name))))
                for name in self._slots
            ]
            opened.pop_all()  # they stay open: none of them failed
            return sources

    def _source(self, place: Path) -> ModelSource:
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


class StateStep:
    """One step: the state is read and written once, from its first element to its last.

    Args:
        sources: the state before, one for each slot; none: each slot has its first value.
        sinks: take the state after it.
        first: the first value of each slot.
        places: the directories that the sinks write to.
    """

    def __init__(
        self,
        sources: Sequence[ModelSource],
        sinks: Sequence[ModelSink],
        first: Sequence[float],
        places: Sequence[Path],
    ) -> None:
        self._sources, self._sinks = sources, sinks
        self._first, self._places = first, places
        self._rooms = [np.empty(0, np.uint8) for _ in sinks]
        self._position = 0

    def take(self, dtype: np.dtype[Any], count: int) -> list[_Array]:
        """Return the state of the next ``count`` elements of ``dtype``, one array for each slot.

        They are to be replaced in place, and given to ``put`` before the next call. Integers and
        booleans have no state: no arrays.

        Raises:
            CorruptStore: what is stored is damaged.
        """
        kept = state_dtype(dtype)
        if kept is None:
            return []
        return [self._taken(slot, kept, count) for slot in range(len(self._sinks))]

    def put(self, state: Sequence[_Array]) -> None:
        """Store the new state of the elements that ``take`` has returned.

        Raises:
            StoreFull: the disk has no room.
        """
        for sink, values in zip(self._sinks, state, strict=False):  # none of an integer
            sink.write(self._position, as_bytes_view(values))
        self._position += state[0].nbytes if state else 0

    def commit(self, progress: Progress | None = None) -> None:
        """Make the step durable; it counts once the model is committed.

        Raises:
            StoreError: it cannot be stored.
        """
        for sink in self._sinks:
            sink.commit(progress)
        # The names of the directories, too: nothing of it may be lost once the model is committed.
        for place in self._places[:1]:
            for directory in (place.parent, place.parent.parent):
                sync_directory(directory)

    def close(self) -> None:
        """Close what is read, and discard what is not committed."""
        for source in self._sources:
            source.close()
        for sink in self._sinks:
            with suppress(StoreError):  # the next step removes it
                sink.discard()

    def _taken(self, slot: int, dtype: np.dtype[Any], count: int) -> _Array:
        nbytes = count * dtype.itemsize
        if self._rooms[slot].size < nbytes:
            self._rooms[slot] = np.empty(nbytes, np.uint8)
        room = self._rooms[slot][:nbytes]
        values = room.view(dtype)
        if not self._sources:
            values.fill(self._first[slot])
            return values
        done = 0
        for view in self._sources[slot].read(self._position, nbytes):
            room[done : done + view.nbytes] = np.frombuffer(view, np.uint8)
            done += view.nbytes
        return values


def _spec_of(part: ModelSpec) -> ModelSpec:
    """Return the tensors of a slot: those of the model that have a state."""
    kept = ((tensor, state_dtype(tensor.dtype)) for tensor in part.tensors)
    return ModelSpec(
        tuple(TensorSpec(each.name, dtype_name(dtype), each.shape) for each, dtype in kept if dtype)
    )


def _store_at(place: Path) -> SafetensorsStore:
    return SafetensorsStore(place, cache_blocks=_CACHED_BLOCKS)
