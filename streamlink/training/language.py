"""Causal language models of Hugging Face: by a shape of ours, a folder, or a name of the Hub.

Nothing is downloaded unless the operator asks for it, no code of a model's author runs, and weights
are read from safetensors only.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

from streamlink.training.settings import TrainingError

__all__ = ["SHAPES", "load_llm"]

SHAPES: Mapping[str, Mapping[str, int]] = {
    "tiny": {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "1gb": {
        "vocab_size": 32000,
        "hidden_size": 1536,
        "intermediate_size": 4096,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
    },
}
"""Shapes of Llama with random weights: name → configuration."""

_NEEDED = "transformers"
_MAX_LAYERS = 1024  # a server may name a shape: no order makes a client build layers for hours


def load_llm(
    model_name: str = "tiny",
    config: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    is_initial: bool = True,
    downloads: bool = False,
) -> nn.Module:
    """Return a causal language model.

    Args:
        model_name: one of ``SHAPES``, the folder of a model, or a name of the Hugging Face Hub.
        config: changes to the configuration of one of ``SHAPES``, such as ``hidden_size``.
        dtype: of the weights, as PyTorch names it.
        is_initial: with the weights of the folder or the Hub; False: with random ones, which need
            the configuration only.
        downloads: whether files that are not on this machine are fetched.

    Raises:
        TrainingError: there is no such model, it is gated, or ``transformers`` is not installed.
    """
    import torch

    if find_spec(_NEEDED) is None:
        raise TrainingError(f"{_NEEDED} cannot be found; pip install 'streamlink-fl[llm]'")
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise TrainingError(f"dtype {dtype!r} is none of PyTorch; use float32 or bfloat16")
    if model_name in SHAPES:
        return _of_shape({**SHAPES[model_name], **(config or {})}, kind)
    if config:
        raise TrainingError(
            f"config is for the shapes {', '.join(SHAPES)}, and model_name is {model_name!r}"
        )
    return _named(model_name, kind, is_initial=is_initial, downloads=downloads)


def _of_shape(config: Mapping[str, Any], dtype: Any) -> nn.Module:
    from transformers import AutoModelForCausalLM, LlamaConfig

    if not 1 <= (layers := config.get("num_hidden_layers", 1)) <= _MAX_LAYERS:
        raise TrainingError(f"num_hidden_layers is {layers}; it is between 1 and {_MAX_LAYERS}")
    module: nn.Module = AutoModelForCausalLM.from_config(LlamaConfig(**config), dtype=dtype)
    return _quiet(module)


def _named(name: str, dtype: Any, *, is_initial: bool, downloads: bool) -> nn.Module:
    from transformers import AutoConfig, AutoModelForCausalLM

    options = {"local_files_only": not downloads, "trust_remote_code": False}
    try:
        if is_initial:
            return _quiet(
                AutoModelForCausalLM.from_pretrained(
                    name, dtype=dtype, use_safetensors=True, **options
                )
            )
        config = AutoConfig.from_pretrained(name, **options)
        return _quiet(AutoModelForCausalLM.from_config(config, dtype=dtype))
    except (OSError, ValueError) as error:
        raise _refused(name, error, downloads) from error


def _quiet(module: nn.Module) -> nn.Module:
    module.config.use_cache = False
    return module


def _refused(name: str, error: BaseException, downloads: bool) -> TrainingError:
    """Return one sentence for what goes wrong in a library of many."""
    from huggingface_hub.errors import GatedRepoError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GatedRepoError):
            return TrainingError(
                f"model_name {name!r} is gated: accept its license on huggingface.co, and set "
                "HF_TOKEN to your token"
            )
        cause = cause.__cause__ or cause.__context__
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    where = "in that folder" if Path(name).is_dir() else "on this machine"
    hint = "" if downloads else ", allow the Hub with --download"
    return TrainingError(
        f"model_name {name!r}: no such model {where} ({first}); use {', '.join(SHAPES)}, the "
        f"folder of a model with safetensors{hint}"
    )
