"""One model into two places while it is received once."""

from __future__ import annotations

from streamlink.model.committing import commit_together
from streamlink.model.interfaces import ModelSink, Progress
from streamlink.model.spec import ModelSpec, require_same

__all__ = ["TeeSink"]


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
