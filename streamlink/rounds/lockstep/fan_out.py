"""Fan-out of the new model, while it is computed, to the store and to clients that take it early.

Each piece is written to the store first. A copy waits here, in bounded memory, until every such
client has read it. The last block is held back until the store has committed: no client can
complete a model that the server may still discard.
"""

from __future__ import annotations

from collections import deque

from streamlink.clock import Clock
from streamlink.errors import AbortCode, ModelError, StreamAborted
from streamlink.model.interfaces import ModelSink, Payload, Progress
from streamlink.model.spec import BLOCK_ELEMENTS, DTYPES, ModelSpec

__all__ = ["FanOutSink", "FanOutSource"]

# Bytes kept behind every reader. Lossy formats work on whole blocks of elements, so a reader reads
# a block again that the end of its last range has cut.
_MARGIN = BLOCK_ELEMENTS * max(dtype.itemsize for dtype in DTYPES.values())


class FanOutSink:
    """A sink that writes to the store, and keeps a copy of each piece until all readers have it.

    Args:
        sink: the store's; it gets each piece first.
        limit: memory for copies (bytes). One piece is admitted even if it is larger, since no
            reader could make progress otherwise.
        clock: gives the time of its waits.
    """

    def __init__(self, sink: ModelSink, limit: int, clock: Clock) -> None:
        self._sink = sink
        self._limit = limit
        self._clock, self._changed = clock, clock.condition()
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._position = 0
        self._kept = 0
        self._readers: dict[str, int] = {}
        self._is_committed = False
        self._broken: str | None = None

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._sink.spec

    # --- the writing side: the aggregation loop ---------------------------------------------

    def wait_room(self, nbytes: int, seconds: float) -> str:
        """Wait until there is room for ``nbytes`` more; return "", or the slowest reader's name."""
        until = self._clock() + seconds
        with self._changed:
            while not self._has_room(nbytes):
                left = until - self._clock()
                if left <= 0:
                    return min(self._readers, key=self._readers.__getitem__)
                self._changed.wait(left)
        return ""

    def write(self, offset: int, payload: memoryview) -> None:
        """Write ``payload`` to the store, and keep a copy if there are readers."""
        # The store first: no client gets a byte that the store has refused.
        self._sink.write(offset, payload)
        with self._changed:
            if self._readers:
                # A copy, since the loop uses its buffer again for the next piece.
                self._pieces.append((offset, bytes(payload)))
                self._kept += payload.nbytes
            self._position = offset + payload.nbytes
            self._changed.notify_all()

    def commit(self, progress: Progress | None = None) -> None:
        """Commit the store's sink; from then on the last block may be read."""
        # Without the lock: a commit may take long, and readers have pieces to fetch meanwhile.
        self._sink.commit(progress)
        with self._changed:
            self._is_committed = True
            self._changed.notify_all()

    def discard(self) -> None:
        """Discard the store's sink; readers get ``StreamAborted``."""
        self._sink.discard()
        with self._changed:
            if not self._is_committed:
                self._broken = "the round it was computed in failed"
            self._pieces.clear()
            self._changed.notify_all()

    # --- the reading side: one thread for each client ---------------------------------------

    def open(self, peer_name: str) -> FanOutSource:
        """Return the source for ``peer``; only before the first byte is written."""
        with self._changed:
            if self._position:  # earlier pieces are not kept
                raise ModelError(f"{peer_name} is too late for the model that is being computed")
            self._readers[peer_name] = 0
        return FanOutSource(self, peer_name)

    def leave(self, peer_name: str) -> None:
        """Forget the reader ``peer``: the loop no longer waits for it."""
        with self._changed:
            self._readers.pop(peer_name, None)
            self._drop()
            self._changed.notify_all()

    def wait(self, offset: int, seconds: float) -> int:
        """Return how many bytes from ``offset`` on may be read now; 0: none within ``seconds``.

        Raises:
            StreamAborted: the model was discarded.
        """
        until = self._clock() + seconds
        with self._changed:
            while (ready := self._readable - offset) <= 0 and self._broken is None:
                left = until - self._clock()
                if left <= 0:
                    return 0
                self._changed.wait(left)
            self._check()
            return ready

    def read(self, peer_name: str, offset: int, length: int) -> Payload:
        """Return that range; ``wait`` has said that it is there."""
        with self._changed:
            self._check()
            views = []
            for start, piece in self._pieces:
                first, last = max(offset, start), min(offset + length, start + len(piece))
                if first < last:
                    views.append(memoryview(piece)[first - start : last - start])
            # A reader that goes back further than ``_MARGIN``, which no filter does.
            if sum(view.nbytes for view in views) != length:
                raise ModelError(f"bytes {offset} to {offset + length} are not here any more")
            self._readers[peer_name] = max(self._readers.get(peer_name, 0), offset + length)
            self._drop()
            self._changed.notify_all()
        return tuple(views)

    @property
    def _readable(self) -> int:
        """Bytes that may be read: whole blocks of elements, since lossy formats work on those.

        All but the last block until the commit, so that no client completes a model too early.
        """
        if self._position == self.spec.nbytes and self._is_committed:
            return self._position
        return self.spec.block_start(min(self._position, self.spec.nbytes - 1))

    def _has_room(self, nbytes: int) -> bool:
        # Readers that have read all there is free no memory: waiting for them would be a deadlock.
        is_read = min(self._readers.values(), default=self._position) >= self._readable
        return is_read or self._kept + nbytes <= self._limit

    def _drop(self) -> None:
        taken = min(self._readers.values(), default=self._position) - _MARGIN
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= taken:
            self._kept -= len(self._pieces.popleft()[1])

    def _check(self) -> None:
        if self._broken is not None:
            raise StreamAborted(AbortCode.STALE_ATTEMPT, self._broken, by_peer=False)


class FanOutSource:
    """One client's view of a ``FanOutSink``: a source of a model that is still being computed."""

    def __init__(self, fan_out: FanOutSink, peer_name: str) -> None:
        self._fan_out = fan_out
        self._peer = peer_name

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._fan_out.spec

    def read(self, offset: int, length: int) -> Payload:
        """Return bytes that were computed and are still kept."""
        return self._fan_out.read(self._peer, offset, length) if length else ()

    def close(self) -> None:
        """Stop reading; the loop no longer waits for this client."""
        self._fan_out.leave(self._peer)
