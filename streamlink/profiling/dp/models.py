"""The models: classifiers with three labels, by shape with random weights, or by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlink.profiling.dp.experiment import ExperimentError
from streamlink.profiling.dp.shapes import LABELS, SHAPES, Shape

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from transformers import LlamaConfig

__all__ = ["build", "shape_of", "synthetic_batch"]

# Functions import PyTorch and transformers, which take seconds: what would not fit into memory, or
# is of a shape of ours, is told without them.


def shape_of(model_name: str, token: str | None = None) -> Shape:
    """Return the shape of a model; one of ours is known without a look at a file or the network.

    Raises:
        ExperimentError: there is no such model, or it is gated and the token does not open it.
    """
    if model_name in SHAPES:
        return SHAPES[model_name]
    config = _configuration(model_name, token)
    try:
        return Shape(
            vocabulary=config.vocab_size,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            key_value_heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
            is_tied=bool(getattr(config, "tie_word_embeddings", False)),
        )
    except AttributeError as error:
        raise ExperimentError(f"{model_name} does not have Llama's shape: {error}") from error


def build(model_name: str, seq_length: int, token: str | None = None) -> nn.Module:
    """Return the model on the CPU in float32.

    Weights of our shapes are random (torch's global seed); others are loaded.

    Raises:
        ExperimentError: as ``shape_of``.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    if model_name in SHAPES:
        model = AutoModelForSequenceClassification.from_config(
            _of_shape(SHAPES[model_name], seq_length), dtype=torch.float32
        )
    else:
        config = _configuration(model_name, token)
        if config.pad_token_id is None:  # without it only batches of one sample are classified
            config.pad_token_id = 0
        model = _loading(
            model_name,
            lambda: AutoModelForSequenceClassification.from_pretrained(
                model_name, config=config, token=token, dtype=torch.float32
            ),
        )
    model.config.use_cache = False
    classifier: nn.Module = model
    return classifier


def synthetic_batch(
    samples: int,
    seq_length: int,
    vocabulary: int,
    *,
    generator: torch.Generator,
    lengths: list[int] | None = None,
    padding: int = 0,
) -> dict[str, Tensor]:
    """Return random tokens and labels on the CPU; no token is the padding's.

    Args:
        samples: how many.
        seq_length: tokens of each.
        vocabulary: how many different tokens there are.
        generator: what they are drawn with.
        lengths: tokens of each sample before it is padded on the right; ``None``: all.
        padding: the token that pads; tokens are drawn above it.
    """
    import torch

    shape = (samples, seq_length)
    ids = torch.randint(padding + 1, vocabulary, shape, generator=generator)
    labels = torch.randint(0, LABELS, (samples,), generator=generator)
    mask = torch.ones(shape, dtype=torch.long)
    for row, length in enumerate(lengths or []):
        ids[row, length:], mask[row, length:] = padding, 0
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def _of_shape(shape: Shape, seq_length: int) -> LlamaConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=seq_length,
        num_labels=LABELS,
        pad_token_id=0,
    )


def _configuration(model_name: str, token: str | None) -> Any:
    from transformers import AutoConfig

    return _loading(
        model_name,
        lambda: AutoConfig.from_pretrained(model_name, num_labels=LABELS, token=token),
    )


def _loading(model_name: str, load: Any) -> Any:
    """Call ``load``, and turn what goes wrong into one sentence with a remedy."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return load()
    except (OSError, ValueError) as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, GatedRepoError):
                raise ExperimentError(
                    f"{model_name} is gated: accept its license on huggingface.co, and pass your "
                    "token with --token or in HF_TOKEN"
                ) from error
            if isinstance(cause, RepositoryNotFoundError):
                break
            cause = cause.__cause__
        where = "there is no such folder" if not Path(model_name).exists() else "the folder"
        raise ExperimentError(
            f"{model_name} cannot be loaded ({where}; {_first_line(error)}); use one of "
            f"{', '.join(SHAPES)}, which need no network, the folder of a model, or a name of the "
            "Hugging Face Hub that your token may read"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
