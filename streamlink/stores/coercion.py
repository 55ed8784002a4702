"""Turns what users have into a source, a target or a store.

Users pass a path, a store, a dict of arrays or tensors, a torch module, or an object of their own
with the methods of a model. Anything else is refused here, with an error that lists what is
accepted, before a file is created or a connection is made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from streamlink.errors import ModelError
from streamlink.model.interfaces import ModelInPlace, ModelSink, ModelSource, ModelStore
from streamlink.model.spec import ModelSpec, require_same
from streamlink.stores.memory import ArrayModel
from streamlink.stores.registry import open_model, open_store

__all__ = [
    "SourceLike",
    "Target",
    "TargetLike",
    "as_sink",
    "as_source",
    "as_store",
    "as_target",
    "require_fillable",
]


class TorchModule(Protocol):
    """A ``torch.nn.Module`` for type checkers; at run time only a real module is accepted."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return name → tensor."""


SourceLike = ModelSource | ModelStore | str | os.PathLike[str] | Mapping[str, Any] | TorchModule
"""What can be read as a model.

A source; a store, whose present model is read; a path (see ``open_model``); name → NumPy array or
torch tensor; a torch module.
"""

Target = ModelSink | ModelStore | Callable[[ModelSpec], ModelSink]
"""A store, whose model is replaced; a sink; or a function that makes a sink for a model's spec."""

TargetLike = Target | str | os.PathLike[str] | Mapping[str, Any] | TorchModule
"""What a model can be received into.

A store, whose model is replaced; a path, at which a store is made: one compressed file if it ends
in ``.slz``, else a directory; a sink, or a function that makes one for a model's spec; name → NumPy
array or torch tensor, or a torch module: these are filled in place. A directory also takes the
small files beside the tensors. All others take the tensors alone, and the log says which files stay
behind.
"""

_SOURCES = (
    "a path, a store, a dict of NumPy arrays or torch tensors, a torch module, or an object with "
    "spec, read and close"
)
_TARGETS = (
    "a path, a store, a dict of NumPy arrays or torch tensors, a torch module, an object with "
    "spec, write, commit and discard, or a function that makes one for a ModelSpec"
)


def as_source(what: SourceLike) -> ModelSource:
    """Return ``what`` as a source: itself if it is one, else a new one that the caller closes.

    Raises:
        ModelError: it cannot be read as a model, or a dtype in it is not supported.
        StoreError: there is no model at the path or in the store, or it cannot be read.
    """
    _require_object(what)
    if isinstance(what, str | os.PathLike):
        return open_model(Path(what))
    if isinstance(what, ModelSource):
        return what
    if isinstance(what, ModelStore):
        return what.open()
    if _is_in_memory(what):
        return as_model(what)
    raise ModelError(f"this is {_kind(what)}, which cannot be read as a model; pass {_SOURCES}")


def as_target(what: TargetLike) -> Target:
    """Return ``what`` as a target to receive into; nothing is written or created yet.

    The tensors of a dict or a module are found by name, so a model may have them in another order.

    Raises:
        ModelError: no model can be received into it, or a tensor in it cannot be filled.
        StoreError: no store can be at the path.
    """
    _require_object(what)
    if isinstance(what, str | os.PathLike):
        return open_store(Path(what))
    if isinstance(what, ModelSink | ModelStore):
        return what
    if _is_in_memory(what):
        _require_fillable(what)
        return lambda spec: _in_order_of(spec, what)
    # After modules, which are callable as well. A source that is callable was surely meant as a
    # source, so it is refused rather than called.
    if callable(what) and not isinstance(what, ModelSource):
        function = what
        return lambda spec: _made_by(function, spec)
    raise ModelError(f"this is {_kind(what)}, into which no model can be received; pass {_TARGETS}")


def as_sink(what: TargetLike) -> Callable[[ModelSpec], ModelSink]:
    """Return a function that makes a sink in ``what`` for a spec; raises as ``as_target`` does.

    The function raises ``SpecMismatch`` if a dict or a module has other tensors, and if a function
    made a sink that has others, or the same in another order.
    """
    target = as_target(what)
    if isinstance(target, ModelSink):
        sink = target
        return lambda spec: sink
    return target.begin if isinstance(target, ModelStore) else target


def as_store(what: ModelStore | str | os.PathLike[str]) -> ModelStore:
    """Return ``what`` as a store: itself, or the one at a path, whether or not it holds a model.

    Raises:
        ModelError: it is not a store.
        StoreError: no store can be at the path.
    """
    if isinstance(what, str | os.PathLike):
        return open_store(Path(what))
    _require_object(what)
    if isinstance(what, ModelStore):
        return what
    raise ModelError(
        f"this is {_kind(what)}, which is not a store; pass a path, an object with open and begin, "
        "or for a dict of NumPy arrays MemoryStore(arrays)"
    )


# --- memory -----------------------------------------------------------------


def as_model(what: Any) -> ModelInPlace:
    """Return a source and sink over the memory of ``what``.

    Args:
        what: name → NumPy array, a ``torch.nn.Module``, name → ``torch.Tensor``, or a
            ``ModelInPlace``, which is returned itself.

    Raises:
        ModelError: it is none of these, or a dtype in it is not supported.
    """
    if isinstance(what, ModelInPlace):
        return what
    if _has_tensors(what):
        # Imported here, since PyTorch is optional. There is a tensor, so it is installed and
        # loaded.
        from streamlink.stores.torch import TorchModel

        return TorchModel(what)
    if isinstance(what, Mapping):
        return ArrayModel(what)
    raise ModelError(
        f"a {type(what).__name__} is not a model that can be read and filled in place; pass a dict "
        "of NumPy arrays, a torch module, a dict of torch tensors, or an object with spec, read, "
        "write, commit, discard, close and is_torn"
    )


def _has_tensors(what: Any) -> bool:
    """Recognize a module, or a mapping with a tensor in it, without importing PyTorch."""
    entries = what.values() if isinstance(what, Mapping) else ()
    tensor = _torch_type("Tensor")
    return _is_module(what) or any(isinstance(each, tensor) for each in entries)


def _is_in_memory(what: Any) -> bool:
    return isinstance(what, Mapping) or _is_module(what)


def _is_module(what: Any) -> bool:
    """Recognize a module without importing PyTorch."""
    return isinstance(what, _torch_type("nn.Module"))


def _torch_type(name: str) -> Any:
    """Return a type of PyTorch; what fits nothing where PyTorch is not imported.

    Another thread may be importing it just now, so that a part of it is not there yet. Then no
    object of that type is there either.
    """
    found: Any = sys.modules.get("torch")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found or ()


def _require_fillable(what: Any) -> None:
    """Refuse what cannot be filled now, not when the first byte arrives."""
    model = as_model(what)
    if not model.spec.tensors:
        raise ModelError(
            f"this {type(what).__name__} has no tensors to fill; pass one with the model's "
            "tensors, or a MemoryStore(), which allocates them"
        )
    require_fillable(model, what)


def require_fillable(model: ModelInPlace, what: Any) -> None:
    """Check that all of ``model``, a model over the memory of ``what``, can be filled.

    Raises:
        ModelError: an array or tensor is read-only, or shares memory with another or with itself.
    """
    if isinstance(model, ArrayModel):
        model.write(0, memoryview(b""))  # checks all arrays, and writes nothing
    elif _is_in_memory(what):
        from streamlink.stores.torch.tensors import (
            obstacle,  # there are tensors, so there is PyTorch
        )

        if why := obstacle(dict(_entries(what))):
            raise ModelError(why)


def _in_order_of(spec: ModelSpec, what: Any) -> ModelInPlace:
    """Return a model over memory, with its tensors in the order of ``spec``.

    Of tied weights only the first name travels, so the order chooses which name that is.
    """
    model = as_model(what)
    if model.spec != spec:
        model = as_model(_ordered(_entries(what), spec.names))
        require_same(model.spec, spec, "the source", "the target")
    return model


def _entries(what: Any) -> Mapping[str, Any]:
    """Return name → array or tensor over the memory of ``what``.

    For a module that is ``state_dict()``; ``TorchModel`` has checked that no entry is a copy.
    """
    entries: Mapping[str, Any] = what if isinstance(what, Mapping) else what.state_dict()
    return entries


def _ordered(entries: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    # Entries that the model lacks stay, at the end: the comparison of the specs names them.
    first = {name: entries[name] for name in names if name in entries}
    return {**first, **entries}


# --- functions, and everything else -----------------------------------------


def _made_by(function: Callable[[ModelSpec], ModelSink], spec: ModelSpec) -> ModelSink:
    sink: object = function(spec)
    if not isinstance(sink, ModelSink):
        raise TypeError(
            f"the function that makes a sink returned {_kind(sink)}, which is none; return "
            "ArrayModel(arrays), or store.begin(spec)"
        )
    # Bytes are written by their place in the model: in another order they would fill other tensors.
    try:
        require_same(spec, sink.spec, "the function's sink", "the model")
    except BaseException:
        sink.discard()
        raise
    return sink


def _require_object(what: object) -> None:
    """Raise for a class: it has the methods of its instances, so a runtime protocol accepts it."""
    if isinstance(what, type):
        raise ModelError(
            f"{what.__name__} is a class; pass an instance of it, or a function that makes one"
        )


def _kind(what: object) -> str:
    name = type(what).__name__
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"
