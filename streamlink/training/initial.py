"""The model that a job begins with, written to a store."""

from __future__ import annotations

from streamlink import copy_model
from streamlink.model import ModelStore
from streamlink.training.code import CodeFolder
from streamlink.training.settings import ModelSettings

__all__ = ["write_initial"]


def write_initial(
    settings: ModelSettings,
    store: ModelStore,
    *,
    seed: int = 42,
    code: CodeFolder | None = None,
    downloads: bool = False,
) -> int:
    """Make a model and write it to ``store``; return its size (bytes).

    Args:
        settings: which model.
        store: where.
        seed: of the weights that are drawn.
        code: the operator's files; None: none is loaded.
        downloads: whether files of the Hugging Face Hub that are not here are fetched.

    Raises:
        TrainingError: there is no such model.
        StoreError: it cannot be stored.
    """
    import torch

    from streamlink.training.models import load_model, state_bytes

    torch.manual_seed(seed)
    module = load_model(settings, code=code, downloads=downloads)
    copy_model(module, store)
    return state_bytes(module)
