"""Commits other than a sink's own: with something around it, or of several sinks at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeGuard

from streamlink.model.interfaces import ModelSink, Preparing, Progress
from streamlink.model.spec import ModelSpec

__all__ = ["CommitSink", "commit_together"]


def commit_together(sinks: Sequence[ModelSink], progress: Progress | None = None) -> None:
    """Commit several sinks so that all their models appear, or none does.

    All that can are prepared first, so that what may fail or take long is behind them when the
    first model becomes visible; then come the commits of the others, which have no such step, and
    the cheap ones of the prepared last. With at most one that cannot prepare, only a disk that
    fails between two renames leaves some visible and others not; a note at the error says so.

    Raises:
        StoreError: one of them cannot be made whole; all that are not visible are discarded.
    """
    able = [sink for sink in sinks if _can_prepare(sink)]
    ordered: list[ModelSink] = [*(sink for sink in sinks if sink not in able), *able]
    count, done = _Count(progress), 0
    try:
        for preparing in able:
            preparing.prepare(count.next())
        for sink in ordered:
            sink.commit(count.next())
            done += 1
    except BaseException as error:
        if done:
            error.add_note(f"{done} of {len(sinks)} models are visible already")
        for sink in ordered[done:]:
            with suppress(Exception):  # what went wrong first is what is told
                sink.discard()
        raise


def _can_prepare(sink: ModelSink) -> TypeGuard[Preparing]:
    # A wrapper's ``__getattr__`` would prepare the sink below behind the wrapper's back.
    return hasattr(type(sink), "prepare") and isinstance(sink, Preparing)


class _Count:
    """Joins the counts of steps that follow each other into one that grows."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._steps = 0

    def next(self) -> Progress:
        """Return what the next one tells its steps."""
        self._done = self._steps
        return self._tell

    def _tell(self, step: int) -> None:
        self._steps = self._done + step
        if self._progress is not None:
            self._progress(self._steps)


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
