"""``KeptSink``: keeps what has arrived of an upload for the next session of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamlink.model.interfaces import Progress, ReadBackSink
from streamlink.model.spec import ModelSpec

__all__ = ["KeptSink"]


class KeptSink:
    """A ``ResumableSink`` over one that can be read back; good for this process only.

    Nothing is forced to the disk for it: references end with the server, and so do its uploads.

    Args:
        sink: where the bytes go; what it has already is not sent again.
        keep: called with the sink when it is cut; None: there is nothing to keep.
    """

    def __init__(self, sink: ReadBackSink, keep: Callable[[ReadBackSink | None], object]) -> None:
        self._sink, self._keep = sink, keep
        self._start = sink.whole

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._sink.spec

    @property
    def durable(self) -> int:
        """What was there when this attempt began: it survives its client, not this process."""
        return self._start

    def saved(self) -> Iterator[memoryview]:
        """Yield what was there, read back and verified."""
        return self._sink.written()

    def write(self, offset: int, payload: memoryview) -> None:
        """Write to the sink; raises as it does."""
        self._sink.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Commit the sink; raises as it does."""
        self._sink.commit(progress)

    def suspend(self) -> None:
        """Keep it as it is."""
        self._keep(self._sink)

    def discard(self) -> None:
        """Drop everything written."""
        self._keep(None)
        self._sink.discard()
