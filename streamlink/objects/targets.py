"""Where a fetched object goes: the sink for it, a new one or that of an interrupted transfer."""

from __future__ import annotations

from streamlink.errors import ModelError, SpecMismatch
from streamlink.model.interfaces import (
    Expiring,
    ModelInPlace,
    ModelSink,
    ModelStore,
    ResumableSink,
    ResumableStore,
)
from streamlink.model.spec import ModelSpec, require_same
from streamlink.objects.reference import Reference
from streamlink.stores.coercion import Target

__all__ = ["Place"]


class Place:
    """A target for one object; it may be tried several times.

    Args:
        target: where the object goes.
        reference: what has to arrive.
        partial_expiry: leftovers of interrupted transfers are removed when they are so old.
    """

    def __init__(self, target: Target, reference: Reference, partial_expiry: float) -> None:
        self._target, self._reference = target, reference
        _expire(target, partial_expiry)

    @property
    def is_good_once(self) -> bool:
        """Whether only one try can be made: a plain sink is discarded with it."""
        target = self._target
        return isinstance(target, ModelSink) and not isinstance(target, ModelInPlace)

    def resumed(self, spec_digest: bytes) -> ResumableSink | None:
        """Return the sink of an interrupted transfer of the object; None: there is none.

        Raises:
            SpecMismatch: the server sends another model than the reference states.
        """
        if spec_digest.hex() != self._reference.spec_digest:
            raise SpecMismatch(
                f"the server sends another model than object {self._reference.id[:8]}"
            )
        if isinstance(self._target, ResumableStore):
            return self._target.resume(spec_digest, self._reference.id)
        return None

    def sink(self, spec: ModelSpec) -> ModelSink:
        """Return a sink for the object's tensors.

        Raises:
            ModelError: the target has other tensors, or has no memory for them.
        """
        try:
            return self._sink(spec)
        except (MemoryError, OverflowError) as error:
            raise ModelError(
                f"an object of {spec.nbytes} bytes does not fit into this process's memory"
            ) from error

    def _sink(self, spec: ModelSpec) -> ModelSink:
        target = self._target
        if isinstance(target, ModelSink):
            require_same(target.spec, spec, "the object", "the target")
            return target
        if isinstance(target, ResumableStore):
            return target.begin(spec, self._reference.id)
        return target.begin(spec) if isinstance(target, ModelStore) else target(spec)


def _expire(target: object, seconds: float) -> None:
    if isinstance(target, Expiring):
        target.expire(seconds)
