"""One open model that several exchanges read, and which is closed after the last of them.

An exchange that is cancelled is over at once, while its thread may still read for a moment. So each
reader is counted from when it is opened until the exchange releases it.
"""

from __future__ import annotations

from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.model.interfaces import Check, ModelSink, ModelSource, Payload, watch
from streamlink.model.rounding import RoundingMeter, meter_of
from streamlink.model.spec import ModelSpec

__all__ = ["SharedModel"]


class SharedModel:
    """Counts who reads ``source``; who owns it calls ``join`` before closing it."""

    def __init__(self, source: ModelSource, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._changed = clock.condition()
        self._readers = 0

    def through(self, see: Callable[[ModelSource], ModelSource]) -> _View:
        """Return a store that opens the model as ``see`` shows it."""
        return _View(self, see(self._source))

    def join(self) -> None:
        """Wait until nobody reads any more."""
        # Without a limit of its own: a source that is closed while it is read would fail in ways
        # that no error describes, and the streams of those who read have deadlines.
        with self._changed:
            while self._readers:
                self._changed.wait()

    def count(self, change: int) -> None:
        """Count a reader that comes or goes."""
        with self._changed:
            self._readers += change
            self._changed.notify_all()


class _View:
    """A store of which there is only ``open``: so who is given it opens and closes it."""

    def __init__(self, shared: SharedModel, source: ModelSource) -> None:
        self._shared, self._source = shared, source

    def open(self) -> ModelSource:
        self._shared.count(1)
        return _Reader(self._shared, self._source)

    def begin(self, spec: ModelSpec) -> ModelSink:
        raise NotImplementedError("an evaluated model is only read")


class _Reader:
    """The model as one exchange reads it."""

    def __init__(self, shared: SharedModel, source: ModelSource) -> None:
        self._shared, self._source = shared, source

    @property
    def spec(self) -> ModelSpec:
        return self._source.spec

    @property
    def meter(self) -> RoundingMeter | None:
        return meter_of(self._source)

    def watch(self) -> Check:
        return watch(self._source)

    def read(self, offset: int, length: int) -> Payload:
        return self._source.read(offset, length)

    def close(self) -> None:
        self._shared.count(-1)
