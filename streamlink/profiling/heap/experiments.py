"""The experiments: the settings that each begins with, as the seeds' YAML files have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind
from streamlink.training.settings import (
    ClientOrder,
    ClientSettings,
    CommSettings,
    DataSettings,
    ModelSettings,
    ServerSettings,
    TrainerSettings,
)

__all__ = ["DEFAULT_BYTES", "changed", "default_client", "default_server", "llama_config"]

S = TypeVar("S", bound=BaseModel)

DEFAULT_BYTES = 256 << 20
"""Of a synthetic model."""

_MESSAGE_BYTES = 10 << 20
_DUMMY = TrainerSettings(trainer="LLMDummyTrainer")
_VANILLA = TrainerSettings(
    mode="step",
    num_local_steps=10,
    optim="Adam",
    optim_args={"lr": 0.01},
    loss_fn="CELoss",
    do_validation=True,
    train_batch_size=16,
    val_batch_size=16,
)


def default_server(
    kind: Kind, *, model_bytes: int | None = None, tensors: int = 1, model_name: str = ""
) -> ServerSettings:
    """Return what the server of an experiment does.

    Args:
        kind: which experiment.
        model_bytes: the size of a synthetic model, or of one with the shapes of an LLM.
        tensors: how many a synthetic model has.
        model_name: of a language model; see ``streamlink.training.language``.

    Raises:
        ExperimentError: an option that the experiment does not have.
    """
    _require(kind, model_bytes, tensors, model_name)
    models: dict[Kind, tuple[str, dict[str, Any]]] = {
        Kind.RESNET: ("resnet18", {}),
        Kind.CIFAR10: ("resnet18", {}),
        Kind.MNIST: ("cnn", {}),
        Kind.LLM: ("llm", _llm(model_bytes, model_name)),
        Kind.SYNTHETIC: (
            "synthetic",
            {"nbytes": model_bytes or DEFAULT_BYTES, "tensors": tensors},
        ),
    }
    name, kwargs = models[kind]
    trainer = _DUMMY if kind in (Kind.LLM, Kind.SYNTHETIC) else _VANILLA
    order = ClientOrder(trainer=trainer, model=ModelSettings(name=name, kwargs=kwargs))
    return ServerSettings(
        num_clients=2, num_rounds=3, comm=CommSettings(max_message_size=_MESSAGE_BYTES), order=order
    )


def default_client(kind: Kind, *, data: Path | None = None) -> ClientSettings:
    """Return what all clients of an experiment have in common.

    Raises:
        ExperimentError: the experiment needs a folder with data, and none is named.
    """
    if kind in (Kind.CIFAR10, Kind.MNIST):
        if data is None:
            raise ExperimentError(
                f"{kind} reads its data from a folder, and nothing is downloaded: name it with "
                "--data DIR, or use --data dummy for random images of the same shape"
            )
        chosen = _images(kind, data)
    else:
        chosen = DataSettings(name="dummy_cifar10", kwargs={"samples_per_client": 64})
    return ClientSettings(data=chosen, comm=CommSettings(max_message_size=_MESSAGE_BYTES))


def changed(
    experiment: Experiment,
    *,
    clients: int | None = None,
    rounds: int | None = None,
    chunk_bytes: int | None = None,
    client_chunk_bytes: int | None = None,
    message_bytes: int | None = None,
) -> Experiment:
    """Return the experiment with the changes that are not ``None``.

    Args:
        experiment: the one to change.
        clients: of the job (count).
        rounds: of the job (count).
        chunk_bytes: ``model_chunk_size`` of both ends.
        client_chunk_bytes: that of the clients alone.
        message_bytes: ``max_message_size`` of both ends.

    Raises:
        ExperimentError: a value that is not allowed; names it.
    """
    comm = {"model_chunk_size": chunk_bytes, "max_message_size": message_bytes}
    own = {**comm, "model_chunk_size": client_chunk_bytes or chunk_bytes}
    server = _with(experiment.server, num_clients=clients, num_rounds=rounds)
    server = _with(server, comm=_with(server.comm, **comm))
    client = _with(experiment.client, comm=_with(experiment.client.comm, **own))
    return experiment.model_copy(update={"server": server, "client": client})


def _with(settings: S, **values: Any) -> S:
    """Return settings with the values that are not ``None``, checked."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return type(settings).model_validate({**dict(settings), **given})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc']))} = {each['input']!r}: {each['msg']}"
            for each in error.errors()
        )
        raise ExperimentError(faults) from error


def _images(kind: Kind, data: Path) -> DataSettings:
    if str(data) != "dummy":
        return DataSettings(name=kind.value, kwargs={"folder": str(data.resolve())})
    if kind is Kind.MNIST:
        raise ExperimentError(
            "--data dummy: there are no dummy images of MNIST's shape; name the folder of MNIST"
        )
    return DataSettings(name="dummy_cifar10", kwargs={"samples_per_client": 64})


def _llm(model_bytes: int | None, model_name: str) -> dict[str, Any]:
    if model_name:
        return {"model_name": model_name}
    return {"model_name": "tiny", "config": llama_config(model_bytes)} if model_bytes else {}


def llama_config(nbytes: int) -> dict[str, int]:
    """Return a configuration of Llama whose float32 weights have about ``nbytes``, never more.

    Its proportions are those of Llama 3.1 8B: feed-forward 3.5 times the width, keys and values a
    quarter of it, a layer for each 128 of it. The vocabulary has 8 rows for each of it, where 8B
    has 31: in a small model that would outweigh everything else.
    """
    width = 64
    while _llama_bytes(width + 64) <= nbytes:
        width += 64
    return {
        "vocab_size": 8 * width,
        "hidden_size": width,
        "intermediate_size": width * 7 // 2,
        "num_hidden_layers": _layers(width),
        "num_attention_heads": width // 16,
        "num_key_value_heads": width // 64,
    }


def _layers(width: int) -> int:
    return max(1, width // 128)


def _llama_bytes(width: int) -> int:
    attention = 2 * width * width + 2 * (width // 4) * width
    feed_forward = 3 * width * (width * 7 // 2)
    layer = attention + feed_forward + 2 * width
    return 4 * (2 * 8 * width * width + width + _layers(width) * layer)


def _require(kind: Kind, model_bytes: int | None, tensors: int, model_name: str) -> None:
    wrong = [
        ("--model-size", model_bytes is not None and kind not in (Kind.LLM, Kind.SYNTHETIC)),
        ("--tensors", tensors != 1 and kind is not Kind.SYNTHETIC),
        ("--model-name", bool(model_name) and kind is not Kind.LLM),
    ]
    for option, is_wrong in wrong:
        if is_wrong:
            raise ExperimentError(
                f"{option} is no option of {kind}: its model has one size; use llm or synthetic"
            )
