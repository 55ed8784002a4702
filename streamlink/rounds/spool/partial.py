"""The beginning of an update whose client was lost: kept in the spool, and gone on with.

It stays in its open sink, which has the hash of each whole block. Another process of the client
sends the rest, from the last whole block on: that is the *mark*. What is here is read back first;
the digest of the whole is that of the blocks as they arrived, from either process.

Only an update that is *pure* can go on, as in lockstep (see ``lockstep.source``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from streamlink.errors import AbortCode, CorruptStore, ModelError, StoreError, StreamAborted
from streamlink.link import Update
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, Progress
from streamlink.stores.files import remove_tree

__all__ = ["PartialSink", "ReadBackSink", "StoredPartial"]


@runtime_checkable
class ReadBackSink(ModelSink, Protocol):
    """A sink that can tell whether what was written is still there."""

    @property
    def whole(self) -> int:
        """All blocks below came whole and without a gap (bytes)."""

    def written(self) -> Iterator[memoryview]:
        """Yield the bytes below ``whole`` in order, read back.

        Raises:
            CorruptStore: they are not what was written.
        """


class StoredPartial:
    """What has come of one client's pure update.

    Args:
        peer: the client.
        update: what it said of it.
        path: the directory it is stored in.
        sink: what takes it there.
    """

    def __init__(self, peer: str, update: Update, path: Path, sink: ReadBackSink) -> None:
        self.path = path
        self._peer = peer
        self._update = update
        self._sink = sink

    @property
    def mark(self) -> int:
        """The byte of the update that the rest is asked for from: whole elements lie before it."""
        spec, whole = self._sink.spec, self._sink.whole
        if whole == spec.nbytes:
            return whole
        index, inside = spec.locate(whole)
        return whole - inside % spec.tensors[index].itemsize

    def go_on(self, model: ReceiveTransfer) -> ModelSink:
        """Read back what is here, and return where the rest goes, which ``model`` brings.

        Raises:
            ModelError: the client announces another update than the one that was begun.
            StreamAborted: what is here is damaged.
            StoreError: it cannot be read.
        """
        if model.update != self._update:
            raise ModelError(f"{self._peer} came back with another update than it had begun")
        pulse = model.pulse("reading what came before")
        try:
            for _ in self._sink.written():
                pulse.beat()
        except CorruptStore as error:
            reason = f"the beginning of the update of {self._peer} was damaged here: {error}"
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False) from error
        return _Rest(self._sink)

    def discard(self) -> None:
        """Remove it."""
        with suppress(StoreError):  # all of the directory goes
            self._sink.discard()
        remove_tree(self.path)


class PartialSink(CommitSink):
    """One that is left as it is where its client is lost; unless its bytes are to blame.

    Args:
        sink: where the bytes go.
        commit: makes the update whole.
        forget: removes what has come.
    """

    durable = 0  # it is kept for this process only

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
        """Leave it as it is."""

    def discard(self) -> None:
        """Forget everything that has come, from processes before this stream's too."""
        self._forget()


class _Rest(CommitSink):
    """Takes what comes from the mark on, but for the part of an element that is here already."""

    def __init__(self, sink: ReadBackSink) -> None:
        super().__init__(sink, sink.commit)
        self._start = sink.whole

    def write(self, offset: int, payload: memoryview) -> None:
        known = max(0, self._start - offset)
        if known < payload.nbytes:
            self._sink.write(offset + known, payload[known:])
