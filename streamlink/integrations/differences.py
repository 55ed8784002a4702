"""A model with a mean of differences added to it, range by range."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from streamlink import ModelSource, TensorSpec
from streamlink.errors import ModelError
from streamlink.integrations.tensors import NUMPY, StoredTensor, stored
from streamlink.model import map_model

__all__ = ["with_differences"]


def with_differences(model: ModelSource, mean: ModelSource) -> ModelSource:
    """Return ``model`` with the differences of all its tensors, or of some, in its own dtypes.

    Raises:
        ModelError: there are differences of something that the model does not have.
    """
    shapes = {each.name: each.shape for each in model.spec.tensors}
    wrong = [each.name for each in mean.spec.tensors if shapes.get(each.name) != each.shape]
    if wrong:
        raise ModelError(
            "differences of the model's tensors are needed from all: they are of "
            f"{', '.join(wrong[:3])}"
        )
    return map_model(model, partial(_added, stored(mean, NUMPY)))


def _added(differences: dict[str, StoredTensor], tensor: TensorSpec, start: int, old: Any) -> Any:
    """Return elements of the model with the differences of the same ones."""
    if (mean := differences.get(tensor.name)) is None:
        return old
    moved = np.empty(len(old), mean.spec.numpy_dtype)
    mean.read_into(start * mean.spec.itemsize, moved.view(np.uint8))
    return np.asarray(old + moved, old.dtype)
