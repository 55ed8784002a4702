"""``TwoStepSink``: what the sinks on a disk share. A model is prepared first, then made visible."""

from __future__ import annotations

from pathlib import Path

from streamlink.errors import StoreError
from streamlink.model.interfaces import Progress
from streamlink.model.ranges import RangeSet, require_complete
from streamlink.model.spec import ModelSpec
from streamlink.stores.files import Steps, disk_errors

__all__ = ["TwoStepSink"]


class TwoStepSink:
    """Base of the sinks that write files: open, perhaps prepared, then committed or discarded.

    A subclass makes the model durable (``_make_durable``), makes it visible (``_publish``), and
    lets go of its files (``_close``, which may be called twice).

    Args:
        path: of the store, for errors.
        spec: the tensors.
    """

    def __init__(self, path: Path, spec: ModelSpec) -> None:
        self._path = path
        self._spec = spec
        self._written = RangeSet()
        self._is_open = True
        self._is_prepared = False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the model durable and complete, but not visible yet.

        Raises:
            StoreFull: the disk has no room. StoreError: part of the model was never written, or the
            disk failed. The old model stays.
        """
        self._prepare(Steps(progress))

    def commit(self, progress: Progress | None = None) -> None:
        """Prepare the model if it is not prepared, and make it visible in the place of the old one.

        Raises:
            StoreFull: the disk has no room. StoreError: part of the model was never written, or the
            disk failed. The old model stays.
        """
        steps = Steps(progress)
        self._prepare(steps)
        with disk_errors(self._path, "committing the model"):
            self._publish()
        # Only after a success: a sink whose commit failed is still to be discarded.
        self._close()
        steps.done()

    def _prepare(self, steps: Steps) -> None:
        self._require_open()
        require_complete(self._written, self._spec)
        if self._is_prepared:
            return
        with disk_errors(self._path, "committing the model"):
            self._make_durable(steps)
        self._is_prepared = True

    def _require_writable(self, offset: int, nbytes: int) -> None:
        self._spec.check_range(offset, nbytes)
        self._require_open()
        if self._is_prepared:
            raise StoreError(
                f"{self._path}: this model is prepared and accepts no more bytes: commit or "
                "discard it"
            )

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreError(f"{self._path}: this sink was already committed or discarded")

    def _make_durable(self, steps: Steps) -> None:
        raise NotImplementedError

    def _publish(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError
