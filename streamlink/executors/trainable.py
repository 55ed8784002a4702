"""What a client trains: the user's arrays, module or model, seen as a model in place.

The server decides the order of the tensors. Files and modules have other orders (safetensors sorts
them), so the user's tensors are received and sent in the server's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamlink.errors import SpecMismatch
from streamlink.model.interfaces import ModelInPlace
from streamlink.model.spec import ModelSpec, require_same
from streamlink.stores import ArrayModel, as_model
from streamlink.stores.coercion import require_fillable
from streamlink.stores.memory import empty_arrays

__all__ = ["KeptArrays", "Trainable"]


class Trainable:
    """The user's model: received into, trained by the work, and read when the work is done.

    The work may train in place, or put other arrays of the same kind into the dict it was given.

    *Tied weights* are sent once, under the one of their names that the server has.

    Args:
        what: see ``as_model``; ``None``: a dict of arrays is made for the first model, and another
            one for a model that has other tensors.

    Raises:
        ModelError: ``what`` cannot be read and filled in place; for example two of its arrays or
            tensors share memory.
    """

    def __init__(self, what: Any = None) -> None:
        self.what = what
        """What the work gets."""
        self._is_ours = what is None
        self._model: ModelInPlace | None = None
        self._entries: dict[str, Any] = {}
        if what is not None:
            model = as_model(what)
            require_fillable(model, what)
            self._hold(model)

    def require(self, spec: ModelSpec) -> None:
        """Raise ``SpecMismatch`` if a model of the server has other tensors than the user's.

        Their order may differ, unless the user passed a model in place.
        """
        model = self._model  # read once: work in another thread may replace it
        if model is None or self._is_ours:
            return
        if model is self.what:
            require_same(model.spec, spec, "the server", "the client")
        else:
            _require_same_tensors(model, spec)

    def place(self, spec: ModelSpec) -> ModelInPlace:
        """Return where a server's model is received, in its order; raises as ``require`` does."""
        self.require(spec)
        if self._is_ours and (self._model is None or self._model.spec != spec):
            # Freed before the new one is allocated: both at once might not fit.
            self._model, self._entries = None, {}
            self.what = None
            self.what = empty_arrays(spec)
            self._hold(as_model(self.what))
        assert self._model is not None
        self._restore()
        is_module = self._model is not self.what and not isinstance(self.what, Mapping)
        # Work that failed may have given a module other memory, such as that of a GPU.
        if is_module or self._model.spec != spec:
            model = _over(self._entries or self.what, spec.names)
            # Work that failed may have changed the dtypes of a module.
            require_same(model.spec, spec, "the server", "the client")
            self._model = model
        return self._model

    def trained(self) -> ModelInPlace:
        """Return the model as the work left it.

        Raises:
            SpecMismatch: the work has changed names, dtypes or shapes.
            ModelError: it put something into the dict that is not an array.
            TornModel: no whole model has been received.
        """
        assert self._model is not None
        if self._model.is_torn:
            self._model.read(0, 0)  # raises
        if isinstance(self.what, Mapping):
            self._adopt(self.what)
        elif self._model is not self.what:  # a module may have been given other memory
            self._exchange(_over(self.what, self._model.spec.names))
        return self._model

    def _hold(self, model: ModelInPlace) -> None:
        self._model = model
        self._entries = dict(self.what) if isinstance(self.what, Mapping) else {}

    def _restore(self) -> None:
        """Put our arrays back into the dict, which work that failed may have changed."""
        if isinstance(self.what, dict) and not _is_same(self.what, self._entries):
            self.what.clear()
            self.what.update(self._entries)

    def _adopt(self, now: Mapping[str, Any]) -> None:
        """Use the arrays that the work has put into the dict."""
        if _is_same(now, self._entries):
            return
        for name in self._entries:
            if name not in now:
                raise SpecMismatch(f"the work removed tensor {name!r} from the model")
        for name in now:
            if name not in self._entries:
                raise SpecMismatch(f"the work added tensor {name!r} to the model")
        assert self._model is not None
        ordered = _in_order(now, self._model.spec.names)
        # Checked before anything is copied.
        self._exchange(as_model(ordered))
        owned = _owned(ordered)
        if not _is_same(owned, ordered):
            self._model = as_model(owned)
        self._entries = owned
        if isinstance(now, dict):
            now.update(owned)

    def _exchange(self, model: ModelInPlace) -> None:
        assert self._model is not None
        before, after = self._model.spec, model.spec
        # Not strict: ``difference`` below has the better words for another number of tensors.
        for old, new in zip(before.tensors, after.tensors, strict=False):
            if old != new and old.name == new.name:
                raise SpecMismatch(
                    f"the work made tensor {new.name!r} {new.dtype} of shape {new.shape}; "
                    f"it was {old.dtype} of shape {old.shape}"
                )
        if difference := after.difference(before, "the model after it", "the one before it"):
            raise SpecMismatch(f"the work made another model: {difference}")
        self._model = model


class KeptArrays:
    """A store of one set of arrays, overwritten by each model; the old model is not kept."""

    def __init__(self) -> None:
        self._model: ArrayModel | None = None

    def begin(self, spec: ModelSpec) -> ArrayModel:
        """Return the arrays to fill; new ones if the tensors differ from those before."""
        if self._model is None or self._model.spec != spec:
            self._model = None  # free the old ones before the new ones are allocated
            self._model = ArrayModel(empty_arrays(spec))
        return self._model

    def open(self) -> ArrayModel:
        """Return the arrays that were filled last."""
        assert self._model is not None, "begin() comes first"
        return self._model


class _Ordered:
    """A module whose ``state_dict()`` begins with given names, in a given order.

    Not a reordered dict: ``TorchModel`` calls ``state_dict()`` again and again, to see whether the
    module has moved to other memory.
    """

    def __init__(self, module: Any, names: Iterable[str]) -> None:
        self._module = module
        self._names = tuple(names)

    def state_dict(self) -> dict[str, Any]:
        return _in_order(self._module.state_dict(), self._names)


def _over(what: Any, names: Iterable[str]) -> ModelInPlace:
    """Return a model over a mapping or a module, in the order of the names.

    Tied weights are sent under the first of their names, so the order chooses that.
    """
    if isinstance(what, Mapping):
        return as_model(_in_order(what, names))
    # Imported here: PyTorch is optional; where there is a module, it is installed.
    from streamlink.stores.torch import TorchModel

    module: Any = _Ordered(what, names)
    return TorchModel(module)


def _in_order(entries: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return all entries, those in ``names`` first and in that order."""
    return {**{name: entries[name] for name in names if name in entries}, **entries}


def _require_same_tensors(ours: ModelInPlace, theirs: ModelSpec) -> None:
    """Raise ``SpecMismatch`` unless the server has our tensors, in any order, tied ones once."""
    if ours.spec == theirs:
        return
    names = _their_names(getattr(ours, "tied", {}), theirs)
    here = {names.get(tensor.name, tensor.name): tensor for tensor in ours.spec.tensors}
    for name in theirs.names:
        if name not in here:
            raise SpecMismatch(f"the server has another model: the client lacks tensor {name!r}")
    arranged = _in_order(here, theirs.names).items()
    renamed = tuple(replace(tensor, name=name) for name, tensor in arranged)
    require_same(ModelSpec(renamed), theirs, "the server", "the client")


def _their_names(tied: Mapping[str, str], theirs: ModelSpec) -> dict[str, str]:
    """Return our name of each tensor of the server → the server's name."""
    names: dict[str, str] = {}
    for name in theirs.names:
        other = names.setdefault(tied.get(name, name), name)
        if other != name:
            raise SpecMismatch(
                f"the server has both {other!r} and {name!r}, which are one tied weight at the "
                "client and travel once; keep only one of them in the server's model "
                "(safetensors.torch.save_model does), or untie them at the client"
            )
    return names


def _is_same(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    return len(now) == len(before) and all(now.get(name) is each for name, each in before.items())


def _owned(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays, copied where they cannot be filled in place.

    A view may share memory with another entry, and arrays of other libraries may be read-only.
    """
    owned: dict[str, Any] = {}
    seen: set[int] = set()
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            # ``id``: one array under two names would be filled twice, with two tensors.
            is_own = array.flags.owndata and array.flags.writeable and id(array) not in seen
            owned[name] = array if is_own else array.copy()
            seen.add(id(array))
        else:
            owned[name] = array
    return owned
