"""One model from a source into a sink, piece by piece: exports, imports and local copies."""

from __future__ import annotations

from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink, ModelSource, Progress, watch
from streamlink.model.spec import require_same

__all__ = ["copy_model"]


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
