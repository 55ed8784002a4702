"""A store whose commit takes a while."""

from __future__ import annotations

from collections.abc import Callable

from streamlink.model.interfaces import Progress
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import MemoryStore
from tests.support.peers import initial

__all__ = ["SlowCommit"]


class SlowCommit(MemoryStore):
    """A store whose commit takes a while; ``during`` is called in the middle of it."""

    def __init__(self, during: Callable[[], object], steps: int = 1) -> None:
        super().__init__(initial())
        self._during, self._steps = during, steps

    def begin(self, spec: ModelSpec) -> object:  # type: ignore[override]
        sink = super().begin(spec)
        commit = sink.commit

        def slowly(progress: Progress | None = None) -> None:
            for step in range(self._steps):
                self._during()
                assert progress is not None
                progress(step)
            commit(progress)

        sink.commit = slowly  # type: ignore[method-assign]
        return sink
