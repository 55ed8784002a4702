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
    """Copy every byte and commit; whatever fails, the sink has been told to discard.

    Args:
        source: where the bytes come from.
        sink: where they go; its spec must be the source's.
        piece_bytes: how much is read at a time (bytes).
        progress: told the bytes copied, then that number plus the steps of the commit.

    Raises:
        SpecMismatch: source and sink have different tensors.
        SourceChanged: somebody wrote to the source meanwhile, and it noticed.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    require_same(source.spec, sink.spec, "the sink", "the source")
    nbytes = source.spec.nbytes
    tell = progress or _ignore
    check = watch(source)
    try:
        for offset in range(0, nbytes, piece_bytes):
            _copy_piece(source, sink, offset, min(piece_bytes, nbytes - offset))
            tell(min(nbytes, offset + piece_bytes))
        check()
        sink.commit(lambda steps: tell(nbytes + steps))
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
    """Writes everything to ``first`` and to ``second``, and commits them together.

    Where neither can prepare its commit, the first has its model already when the second one fails
    (see ``commit_together``). For a place that takes some of the tensors only there is
    ``part_sink``.

    Raises:
        SpecMismatch: the two have different tensors.
    """

    def __init__(self, first: ModelSink, second: ModelSink) -> None:
        require_same(first.spec, second.spec, "the second place", "the first place")
        self._first = first
        self._second = second

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._first.spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Take ``payload`` into both places."""
        self._first.write(offset, payload)
        self._second.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Make the model whole in both places."""
        commit_together((self._first, self._second), progress)

    def discard(self) -> None:
        """Forget what was written to either place."""
        try:
            self._first.discard()
        finally:
            self._second.discard()
