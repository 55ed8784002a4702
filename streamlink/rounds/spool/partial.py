"""A partial update in a spool: kept on the disk while its client is away, and resumed.

It stays in its open sink, which has the hash of each whole block. Another process of the client
sends the rest, from the last whole block on. First the server reads back what is on the disk and
compares it with those hashes: a bit that flipped there would otherwise count. The digest of the
whole update is computed from the hashes of the blocks as they arrived, from either process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from streamlink.errors import AbortCode, CorruptStore, StoreError, StreamAborted
from streamlink.link import Update
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, Progress, ReadBackSink
from streamlink.rounds.resume import Answer, require_same_update
from streamlink.stores.files import remove_tree

__all__ = ["PartialSink", "StoredPartial"]


class StoredPartial:
    """What is stored of one client's pure update; the ``PartialUpdate`` of a spool.

    Args:
        peer_name: the client.
        update: as the client announced it.
        path: the directory it is stored in.
        sink: writes there.
        receive: called with the answer that brings the rest; it receives that into ``rest_sink``.
    """

    def __init__(
        self,
        peer_name: str,
        update: Update,
        path: Path,
        sink: ReadBackSink,
        receive: Callable[[StoredPartial, Answer], None],
    ) -> None:
        self.peer_name = peer_name
        self.path = path
        self._update = update
        self._sink = sink
        self._receive = receive

    @property
    def resume_offset(self) -> int:
        """The end of the last block that has a hash, or where the elements cut by it begin."""
        # Only such blocks can be verified. And another process computes the rest, with an executor
        # that works on whole elements, which a lossy format may round in blocks of its own.
        return self._sink.spec.block_start(self._sink.whole)

    def resume(self, answer: Answer) -> None:
        """Receive the rest, in a thread of the spool; returns at once."""
        self._receive(self, answer)

    def rest_sink(self, model: ReceiveTransfer) -> ModelSink:
        """Verify what is stored, and return the sink for the rest, which ``model`` brings.

        Raises:
            ModelError: the client announces another update than the one that was begun.
            StreamAborted: what is stored is damaged.
            StoreError: it cannot be read.
        """
        spec = self._sink.spec
        require_same_update(self.peer_name, (self._update, spec), (model.update, model.spec))
        pulse = model.pulse("reading what came before")
        try:
            # Read although its hashes are known: those are of the bytes that arrived, and a disk
            # may return other ones.
            for _ in self._sink.written():
                pulse.beat()
        except CorruptStore as error:
            reason = f"the beginning of the update of {self.peer_name} was damaged here: {error}"
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False) from error
        return _Rest(self._sink)

    def discard(self) -> None:
        """Remove it."""
        with suppress(StoreError):  # all of the directory goes
            self._sink.discard()
        remove_tree(self.path)


class PartialSink(CommitSink):
    """A sink that is kept when its client is lost, and discarded when its bytes are to blame.

    Args:
        sink: where the bytes go.
        commit: makes the update whole.
        forget: removes what is stored.
    """

    durable = 0  # kept for this process only: a server that is killed keeps whole updates

    def __init__(
        self,
        sink: ModelSink,
        commit: Callable[[Progress | None], None],
        forget: Callable[[], None],
    ) -> None:
        super().__init__(sink, commit)
        self._forget = forget

    def saved(self) -> Iterator[memoryview]:
        """Yield what is durable: nothing."""
        return iter(())

    def suspend(self) -> None:
        """Keep it as it is."""

    def discard(self) -> None:
        """Forget all that is stored, also what an earlier process of the client sent."""
        self._forget()


class _Rest(CommitSink):
    """Takes the rest, and skips its first bytes, which are stored already."""

    def __init__(self, sink: ReadBackSink) -> None:
        super().__init__(sink, sink.commit)
        self._start = sink.whole

    def write(self, offset: int, payload: memoryview) -> None:
        known = max(0, self._start - offset)
        if known < payload.nbytes:
            self._sink.write(offset + known, payload[known:])
