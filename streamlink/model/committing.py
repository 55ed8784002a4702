"""A sink as it is, but for its commit."""

from __future__ import annotations

from collections.abc import Callable

from streamlink.model.interfaces import ModelSink, Progress
from streamlink.model.spec import ModelSpec

__all__ = ["CommitSink"]


class CommitSink:
    """Writes to ``sink``; ``commit`` does what has to be done before and after that one's."""

    def __init__(self, sink: ModelSink, commit: Callable[[Progress | None], None]) -> None:
        self._sink = sink
        self._commit = commit

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._sink.spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Take bytes; raises as the sink below does."""
        self._sink.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Do it in the way that was given."""
        self._commit(progress)

    def discard(self) -> None:
        """Forget everything written."""
        self._sink.discard()
