"""``StateStep``: one step of an aggregator's state, read and written beside the arithmetic.

The state of an optimizer is up to four times as large as the model, counting what is read and what
is written. So the thread that computes the new model does not wait for it: for each slot one thread
reads ahead of it, and one writes behind it, a few blocks each. The slots have threads of their own
because many disks carry twice as much with two requests at a time as with one.

    old step ──reader──▶ room ──take, put──▶ the same room ──writer──▶ new step

A *room* has one block of a slot. It goes round in this circle without a copy, and how many rooms
there are bounds both threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import StoreError
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink, Progress
from streamlink.model.payloads import aligned
from streamlink.rounds.aggregate.validate import state_dtype
from streamlink.rounds.durable import sync_directory
from streamlink.stores.safetensors import SafetensorsSource

__all__ = ["SLOT_BYTES", "StateStep"]

_Array = npt.NDArray[Any]
_Room = npt.NDArray[np.uint8]

_AHEAD = 2  # rooms that are read, or to be read
_BEHIND = 2  # rooms that are written, or to be written
_OF_STORES = 2  # blocks: those that a sink is about to write
_LARGEST_ELEMENT_BYTES = 8

SLOT_BYTES = (_AHEAD + 1 + _BEHIND + _OF_STORES) * BLOCK_BYTES
"""Memory of one slot (bytes): its rooms, that of the arithmetic included, and what stores hold."""


class StateStep:
    """One step: the state is read and written once, from its first element to its last.

    Args:
        sources: the state before, one for each slot; none: each slot has its first value.
        sinks: take the state after it; all of one spec.
        first: the first value of each slot.
        places: the directories that the sinks write to.
    """

    def __init__(
        self,
        sources: Sequence[SafetensorsSource],
        sinks: Sequence[ModelSink],
        first: Sequence[float],
        places: Sequence[Path],
    ) -> None:
        before: Sequence[SafetensorsSource | None] = sources or [None] * len(sinks)
        self._slots = [_Slot(*each) for each in zip(before, sinks, first, strict=True)]
        self._places = places
        self._nbytes = sinks[0].spec.nbytes if sinks else 0
        self._position = 0

    def take(self, dtype: np.dtype[Any], count: int) -> list[_Array]:
        """Return the state of the next elements of ``dtype``, one array for each slot.

        They are at most ``count``, and those of one block. They are to be replaced in place, and
        ``put`` is to be called before the next call. Integers and booleans have no state: no
        arrays.

        Raises:
            CorruptStore: what is stored is damaged.
            StoreFull: the disk has no room for what was put before.
        """
        kept = state_dtype(dtype)
        if kept is None:
            return []
        start = self._position % BLOCK_BYTES
        # At least one element, although the end of the block may cut it.
        count = min(count, max(1, (BLOCK_BYTES - start) // kept.itemsize))
        return [slot.take(kept, start, start + count * kept.itemsize) for slot in self._slots]

    def put(self, state: Sequence[_Array]) -> None:
        """Note that ``state``, which ``take`` has returned, has the new state.

        Raises:
            StoreFull: the disk has no room for what was put before.
        """
        if not state:
            return
        start = self._position % BLOCK_BYTES
        self._position += state[0].nbytes
        for slot in self._slots:
            slot.put(start + state[0].nbytes, is_last=self._position == self._nbytes)

    def commit(self, progress: Progress | None = None) -> None:
        """Make the step durable; it counts once the model is committed.

        Raises:
            StoreError: it cannot be stored.
        """
        for slot in self._slots:
            slot.commit(progress)
        # The names of the directories, too: nothing of it may be lost once the model is committed.
        for place in self._places[:1]:
            for directory in (place.parent, place.parent.parent):
                sync_directory(directory)

    def close(self) -> None:
        """Close what is read, and discard what is not committed."""
        for slot in self._slots:
            slot.close()


class _Slot:
    """One slot of the state, its rooms and its two threads."""

    def __init__(self, source: SafetensorsSource | None, sink: ModelSink, first: float) -> None:
        self._source, self._sink, self._first = source, sink, first
        self._nbytes = sink.spec.nbytes
        self._reader = ThreadPoolExecutor(1, "state-read")
        self._writer = ThreadPoolExecutor(1, "state-write")
        self._read = deque[Future[_Room]]()  # the first one has the block of the arithmetic
        self._written = deque[Future[_Room]]()
        self._next_block = 0  # to be read
        self._handed_over = 0  # blocks

    def take(self, dtype: np.dtype[Any], start: int, stop: int) -> _Array:
        """Return the present block from ``start`` to ``stop``, which may be in the next one."""
        room = self._room(0)
        if stop > BLOCK_BYTES:
            room[BLOCK_BYTES:stop] = self._room(1)[: stop - BLOCK_BYTES]
        state = room[start:stop].view(dtype)
        if self._source is None:
            # A complex number is treated as its two parts, and both begin with it.
            state.view(state.real.dtype).fill(self._first)
        return state

    def put(self, stop: int, *, is_last: bool) -> None:
        """Note that the present block has its new state as far as ``stop``."""
        if stop > BLOCK_BYTES:
            self._room(1)[: stop - BLOCK_BYTES] = self._room(0)[BLOCK_BYTES:stop]
        if stop >= BLOCK_BYTES:
            self._hand_over()
        if is_last and self._read:
            self._hand_over()

    def commit(self, progress: Progress | None) -> None:
        while self._written:
            self._written.popleft().result()
        self._sink.commit(progress)

    def close(self) -> None:
        for executor in (self._reader, self._writer):
            executor.shutdown(cancel_futures=True)
        if self._source is not None:
            self._source.close()
        with suppress(StoreError):  # the next step removes it
            self._sink.discard()

    # --- rooms ----------------------------------------------------------------------------

    def _room(self, ahead: int) -> _Room:
        """Return the room of a block: 0 for the present one, 1 for the one behind it."""
        while len(self._read) <= _AHEAD and self._next_block * BLOCK_BYTES < self._nbytes:
            self._read_next()
        return self._read[ahead].result()

    def _read_next(self) -> None:
        free: Callable[[], _Room] = _new_room
        if len(self._written) >= _BEHIND or (self._written and self._written[0].done()):
            free = self._written.popleft().result
        self._read.append(self._reader.submit(self._filled, free(), self._next_block))
        self._next_block += 1

    def _hand_over(self) -> None:
        room, block = self._read.popleft().result(), self._handed_over
        self._written.append(self._writer.submit(self._stored, room, block))
        self._handed_over += 1

    # --- the threads ----------------------------------------------------------------------

    def _filled(self, room: _Room, block: int) -> _Room:
        if self._source is None:  # before the first step: ``take`` knows the dtype of the values
            return room
        start, stop = block_range(block, self._nbytes)
        self._source.read_block(block, room[: stop - start].data)
        return room

    def _stored(self, room: _Room, block: int) -> _Room:
        start, stop = block_range(block, self._nbytes)
        self._sink.write(start, room[: stop - start].data)
        return room


def _new_room() -> _Room:
    return aligned(BLOCK_BYTES + _LARGEST_ELEMENT_BYTES)
