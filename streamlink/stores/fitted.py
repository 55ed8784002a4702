"""What a target takes of a model: all of it, or its tensors without the small files beside them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from streamlink.model.beside import keeps_beside, split
from streamlink.model.beside_ends import TensorsOnly
from streamlink.model.interfaces import ModelSink
from streamlink.model.spec import ModelSpec

__all__ = ["fitted"]

logger = logging.getLogger("streamlink.stores")

_SHOWN = 3


def fitted(
    spec: ModelSpec, target: object, make_sink: Callable[[ModelSpec], ModelSink]
) -> ModelSink:
    """Return a sink in ``target`` for a model of ``spec``, which may have small files behind it.

    Only a store that ``KeepsBeside`` gets them. Others never see them, and the log says so.

    Args:
        spec: of the model with its files.
        target: where the model goes.
        make_sink: makes a sink there.

    Raises:
        ModelError: what is beside the tensors is not allowed.
    """
    model, entries = split(spec)
    if not entries or keeps_beside(target):
        return make_sink(spec)
    if entries.files:  # metadata alone is worth no line: nearly every file has some
        logger.info("only tensors are stored here, which leaves behind %s", _listed(entries.files))
    return TensorsOnly(spec, make_sink(model))


def _listed(names: Collection[str]) -> str:
    shown, more = [*names][:_SHOWN], len(names) - _SHOWN
    rest = f" and {more} more" if more > 0 else ""
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} small file{plural} ({', '.join(shown)}{rest})"
