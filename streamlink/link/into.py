"""Where a model goes that arrives without rounds, and whether another attempt can fill it."""

from __future__ import annotations

from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import CorruptStore, ModelError, StoreError, StreamlinkError
from streamlink.link.receive_model import Resume
from streamlink.model.beside import require_bounded, split
from streamlink.model.interfaces import (
    Expiring,
    ModelInPlace,
    ModelSink,
    ModelStore,
    ResumableStore,
)
from streamlink.model.spec import ModelSpec, require_same
from streamlink.stores.coercion import Target
from streamlink.stores.fitted import fitted

__all__ = ["Into", "expire", "is_plain", "may_go_on", "resume_in", "sink_in"]

Into = Target
"""Where a model goes: a store, whose model it replaces; a sink whose tensors it must have; or a
function that makes a sink for its tensors."""


def expire(into: object, config: LinkConfig) -> None:
    """Remove partial models from ``into`` that are older than ``partial_expiry``."""
    if isinstance(into, Expiring):
        into.expire(config.timeouts.partial_expiry)


def resume_in(into: Into, identity: str) -> Resume:
    """Return what finds the sink that an interrupted transfer has left in ``into``."""
    if isinstance(into, ResumableStore):
        # A name of its own: inside of the lambda ``into`` would have its wider type again.
        store = into
        return lambda spec_digest: store.resume(spec_digest, identity)
    return lambda spec_digest: None


def sink_in(spec: ModelSpec, into: Into, identity: str, limits: LimitsConfig) -> ModelSink:
    """Return where a model of ``spec`` goes, or raise the error that the sender gets.

    Raises:
        ModelError: it has other tensors than ``into`` takes, or does not fit into memory.
    """
    try:
        require_bounded(split(spec)[1], limits, "the sender", " at the receiver")
        return fitted(spec, into, lambda taken: _sink_in(taken, into, identity))
    except (MemoryError, OverflowError) as error:
        raise ModelError(
            f"a model of {spec.nbytes} bytes does not fit into the receiver's memory"
        ) from error


def _sink_in(spec: ModelSpec, into: Into, identity: str) -> ModelSink:
    if isinstance(into, ModelSink):
        require_same(into.spec, spec, "the sender", "the receiver")
        return into
    if isinstance(into, ResumableStore):
        return into.begin(spec, identity)
    return into.begin(spec) if isinstance(into, ModelStore) else into(spec)


def is_plain(into: Into) -> bool:
    """Return whether ``into`` is a sink that is discarded with a failed attempt."""
    # A model in place can be filled again.
    return isinstance(into, ModelSink) and not isinstance(into, ModelInPlace)


def may_go_on(into: Into, error: StreamlinkError) -> bool:
    """Return whether another sender may succeed after this error."""
    if isinstance(error, ModelError):
        return True  # refused before its first byte
    if isinstance(error, StoreError) and not isinstance(error, CorruptStore):
        return False  # the next sender would meet the same disk
    return not is_plain(into)
