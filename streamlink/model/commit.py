"""Commits of several sinks together, and a sink whose ``commit`` is replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeGuard

from streamlink.model.interfaces import ModelSink, Preparing, Progress
from streamlink.model.spec import ModelSpec

__all__ = ["CommitSink", "commit_together"]


def commit_together(sinks: Sequence[ModelSink], progress: Progress | None = None) -> None:
    """Commit several sinks so that all their models become visible, or none does.

    This is a two-phase commit. First it prepares every sink that can prepare, so that all that may
    fail or be slow is done before the first model becomes visible. Then it commits the sinks that
    cannot prepare, and last the prepared ones. One sink without ``prepare`` is safe in this order
    (the *last resource* of transaction systems): if its commit fails, nothing is visible yet. With
    several of them, or if a disk fails between two renames, some models are visible and others are
    not; a note on the error then counts them.

    Raises:
        StoreError: a model is incomplete or cannot be stored; all that are not visible are
            discarded.
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
            error.add_note(f"{done} of {len(sinks)} models were already committed and stay visible")
        # Also the sink that failed: ``discard`` is harmless after a commit, and removes what a
        # failed one left.
        for sink in ordered[done:]:
            with suppress(Exception):  # the first error is the one to report
                sink.discard()
        raise


def _can_prepare(sink: ModelSink) -> TypeGuard[Preparing]:
    # Looked up on the class: a wrapper's ``__getattr__`` would prepare the wrapped sink, and the
    # wrapper would go on as if it were not prepared.
    return hasattr(type(sink), "prepare") and isinstance(sink, Preparing)


class _Count:
    """Joins the progress counts of consecutive commits into one growing count."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._steps = 0

    def next(self) -> Progress:
        """Return the progress callback of the next commit."""
        # A sink counts its own steps from 1, in ``prepare`` and again in ``commit``; the watchdog
        # wants one number that grows.
        self._done = self._steps
        return self._report

    def _report(self, step: int) -> None:
        self._steps = self._done + step
        if self._progress is not None:
            self._progress(self._steps)


class CommitSink:
    """Wraps a sink and replaces only its ``commit()``."""

    def __init__(self, sink: ModelSink, commit: Callable[[Progress | None], None]) -> None:
        self._sink = sink
        self._commit = commit

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._sink.spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Write to the wrapped sink; raises as it does."""
        self._sink.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        """Call the given function; it commits the wrapped sink."""
        self._commit(progress)

    def discard(self) -> None:
        """Drop everything written."""
        self._sink.discard()
