"""Copying a model from a source into a sink, and receiving one model into two sinks at once."""

from __future__ import annotations

from streamlink.model.commit import commit_together
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink, ModelSource, Progress, watch
from streamlink.model.spec import ModelSpec, require_same

__all__ = ["TeeSink", "copy_model"]


def copy_model(
    source: ModelSource,
    sink: ModelSink,
    piece_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
) -> None:
    """Copy every byte and commit. If anything fails, the sink is discarded.

    Args:
        source: where the bytes come from.
        sink: where they go; its spec must be the source's.
        piece_bytes: how much is read at a time (bytes).
        progress: called with the bytes copied, then with that number plus the steps of the commit.

    Raises:
        SpecMismatch: source and sink have different tensors.
        SourceChanged: the source detected that it was modified during the copy.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    require_same(source.spec, sink.spec, "the sink", "the source")
    nbytes = source.spec.nbytes
    report = progress or _ignore
    check = watch(source)  # before the first read, or a change between the two would be missed
    try:
        for offset in range(0, nbytes, piece_bytes):
            _copy_piece(source, sink, offset, min(piece_bytes, nbytes - offset))
            report(min(nbytes, offset + piece_bytes))
        # Before the commit: what was read from a source that changed must not become visible.
        check()
        sink.commit(lambda steps: report(nbytes + steps))
    except BaseException:
        sink.discard()
        raise


def _copy_piece(source: ModelSource, sink: ModelSink, offset: int, length: int) -> None:
    for view in source.read(offset, length):
        sink.write(offset, view)
        offset += view.nbytes


def _ignore(_: int) -> None:
    pass


class TeeSink:
    """Writes everything to two sinks and commits them together, like ``tee``.

    If neither sink can prepare its commit and the second commit fails, the first model is visible
    already (see ``commit_together``). For a sink that takes only some tensors, see ``part_sink``.

    Raises:
        SpecMismatch: the two sinks have different tensors.
    """

    def __init__(self, first: ModelSink, second: ModelSink) -> None:
        require_same(first.spec, second.spec, "the second sink", "the first sink")
        self._first = first
        self._second = second

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._first.spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Write ``payload`` to both sinks."""
        self._first.write(offset, payload)
        self._second.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Commit both sinks."""
        commit_together((self._first, self._second), progress)

    def discard(self) -> None:
        """Discard both sinks, the second also if the first fails."""
        try:
            self._first.discard()
        finally:
            self._second.discard()
