"""What can be set for training: frozen, checked when it is built, the same from YAML and options.

``ClientOrder`` is the part that a server sends to its clients, as JSON in the facts of a task.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from streamlink.config.values import Settings, Size
from streamlink.errors import StreamlinkError

__all__ = [
    "ClientOrder",
    "ClientSettings",
    "CommSettings",
    "DataSettings",
    "LogSettings",
    "ModelSettings",
    "ServerSettings",
    "TrainerSettings",
    "TrainingError",
]

_CHUNKS_HELD = 8
"""Chunks that one end holds of a stream at its bound (count): a window of four, and four copies."""

_MIN_CHUNK_BYTES, _MAX_CHUNK_BYTES = 4096, 2 << 20
_HEADER_BYTES = 8192
"""Room for what stands beside a chunk in its message (bytes)."""


class TrainingError(StreamlinkError, ValueError):
    """A model, data set, loss or configuration cannot be used; says which, where and what to do."""


class ModelSettings(Settings):
    """Which model is trained."""

    name: str = Field(default="resnet18", min_length=1)
    """A model of ours (``resnet18``, ``cnn``, ``llm``, ``synthetic``), or a function or class in
    ``path``."""

    path: str = ""
    """A Python file below the operator's ``--code`` directory; empty: a model of ours."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the model."""


class DataSettings(Settings):
    """Which data a client trains on."""

    name: str = Field(default="dummy_cifar10", min_length=1)
    """Data of ours (``dummy_cifar10``, ``cifar10``, ``mnist``), or a function in ``path``."""

    path: str = ""
    """A Python file below the operator's ``--code`` directory; empty: data of ours."""

    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the data set, such as ``client_id`` and ``num_clients``."""


class TrainerSettings(Settings):
    """How a client trains in one round."""

    trainer: Literal["VanillaTrainer", "LLMDummyTrainer"] = "VanillaTrainer"
    """``VanillaTrainer`` trains; ``LLMDummyTrainer`` only receives the model and sends it back."""

    mode: Literal["step", "epoch"] = "step"
    """Whether ``num_local_steps`` or ``num_local_epochs`` counts."""

    num_local_steps: int = Field(default=1, ge=1)
    """Batches of one round in the mode ``step`` (count)."""

    num_local_epochs: int = Field(default=1, ge=1)
    """Passes over the data in one round in the mode ``epoch`` (count)."""

    optim: str = "SGD"
    """An optimiser of ``torch.optim``."""

    optim_args: dict[str, Any] = Field(default_factory=lambda: {"lr": 0.01})
    """Its arguments."""

    loss_fn: str = Field(default="CrossEntropyLoss", min_length=1)
    """A loss of ``torch.nn``, ``CELoss`` for its cross entropy, or a class in ``loss_fn_path``."""

    loss_fn_path: str = ""
    """A Python file below the operator's ``--code`` directory; empty: a loss of PyTorch."""

    loss_fn_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the loss."""

    metric: str = "accuracy"
    """``accuracy``, or a function of (labels, outputs) in ``metric_path``."""

    metric_path: str = ""
    """A Python file below the operator's ``--code`` directory; empty: a metric of ours."""

    do_validation: bool = False
    """Whether the trained model is validated before it is sent."""

    do_pre_validation: bool = False
    """Whether the received model is validated before it is trained."""

    train_batch_size: int = Field(default=32, ge=1)
    """Samples of a training batch (count)."""

    val_batch_size: int = Field(default=32, ge=1)
    """Samples of a validation batch (count)."""

    train_data_shuffle: bool = True
    """Whether the order of the training samples is drawn anew for each pass."""

    val_data_shuffle: bool = False
    """Whether that of the validation samples is. It changes nothing but the order."""

    clip_grad: bool = False
    """Whether the gradient is clipped before each step."""

    clip_value: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The longest gradient (the model's unit)."""

    clip_norm: float = Field(default=2.0, gt=0)
    """Which norm measures its length (p of the p-norm)."""

    device: str = "cpu"
    """Where PyTorch trains, such as ``cpu`` or ``cuda:0``."""

    optimize_memory: bool = True
    """Trainer: the trained module itself is sent. False: a deep copy of its state."""


class ClientOrder(Settings):
    """What a server tells its clients: the same for all of them."""

    trainer: TrainerSettings = TrainerSettings()
    """How they train."""

    model: ModelSettings | None = None
    """What they train; None: what each client's own settings say."""

    optimize_memory: bool | None = None
    """Client: receive into the module. False: into a copy beside it. None: what each client's own
    settings say."""


class CommSettings(Settings):
    """How one end communicates."""

    server_uri: str = "127.0.0.1:50051"
    """Where the server listens, ``HOST:PORT``."""

    max_message_size: Size = Field(default=2 << 20, ge=32 * 1024)
    """Largest message (bytes); larger chunks are split."""

    use_ssl: bool = False
    """Whether connections are encrypted (TLS)."""

    server_certificate: str = ""
    """Server: its certificate (PEM file)."""

    server_certificate_key: str = ""
    """Server: the key of its certificate (PEM file)."""

    root_certificate: str = ""
    """Client: the authority that it trusts (PEM file)."""

    use_model_chunking: bool = True
    """Whether a model is moved and aggregated range by range. False: as one whole message."""

    model_chunk_size: Size = Field(default=16 << 20, ge=_CHUNKS_HELD * _MIN_CHUNK_BYTES)
    """Most bytes of one model that this end holds in a stream (bytes)."""

    optimize_memory: bool = True
    """Communicator: send from where the model is and receive into where it goes. False: as one
    whole message, with a copy for each step of its encoding."""

    @property
    def is_whole(self) -> bool:
        """Whether a model is held as one whole message at this end."""
        return not (self.use_model_chunking and self.optimize_memory)

    def link_settings(self) -> list[str]:
        """Return what this means for a link, each as ``section.key=value``.

        ``model_chunk_size`` is a bound: a window of four chunks and four copies of one fit into it.
        So a value above ``max_message_size`` is split over messages.
        """
        return [*self._sizes(), *self._security()]

    def _sizes(self) -> list[str]:
        held = self.model_chunk_size // _CHUNKS_HELD
        message = self.max_message_size - _HEADER_BYTES
        chunk = max(_MIN_CHUNK_BYTES, min(held, message, _MAX_CHUNK_BYTES))
        window = max(2 * chunk, min(self.model_chunk_size // 2, 8 * _MAX_CHUNK_BYTES))
        return [
            f"grpc.max_message_bytes={self.max_message_size}",
            f"stream.chunk_bytes={chunk}",
            f"stream.min_chunk_bytes={min(chunk, 64 * 1024)}",
            f"stream.window_bytes={window}",
            f"stream.initial_window_bytes={min(window, 1 << 20)}",
            # Beside gRPC there is no other port, as the files that name one expect it.
            "stream.data_listen=none",
        ]

    def _security(self) -> list[str]:
        files = {
            "certificate": self.server_certificate,
            "key": self.server_certificate_key,
            "ca": self.root_certificate,
        }
        return [f"security.{name}={file}" for name, file in files.items() if file and self.use_ssl]

    def require_certificates(self, *names: str) -> None:
        """Check that the files are named that TLS needs at this end, if it is on.

        Raises:
            TrainingError: one is not; plain text instead would be no answer.
        """
        for name in names:
            if self.use_ssl and not getattr(self, name):
                raise TrainingError(
                    f"comm_configs.grpc_configs.use_ssl is True, and {name} names no file; name "
                    "one (streamlink certs makes them), or set use_ssl to False"
                )


class LogSettings(Settings):
    """Where one end writes its log."""

    logging_output_dirname: str = ""
    """The directory of the log; empty: no file."""

    logging_output_filename: str = "result"
    """How its name begins."""

    def file_of(self, who: str) -> str:
        """Return the log file of ``who``; empty: there is none."""
        folder = self.logging_output_dirname
        return f"{folder}/{self.logging_output_filename}_{who}.log" if folder else ""


class ServerSettings(Settings):
    """One server of a training job."""

    num_clients: int = Field(default=2, ge=1)
    """Clients whose updates each round needs (count)."""

    num_rounds: int = Field(default=1, ge=1)
    """Rounds (count): ``num_global_epochs``."""

    client_weights: Literal["equal", "sample_size"] = "equal"
    """The weights of the clients in the mean."""

    optimize_memory: bool = True
    """Server: aggregate range by range as updates arrive. False: every update is held whole, and
    all are aggregated at once."""

    comm: CommSettings = CommSettings()
    """How it communicates."""

    log: LogSettings = LogSettings()
    """Where it logs."""

    order: ClientOrder = ClientOrder()
    """What its clients do."""


class ClientSettings(Settings):
    """One client of a training job."""

    client_id: str = Field(default="Client1", min_length=1)
    """Its name; no two clients share one."""

    data: DataSettings = DataSettings()
    """What it trains on."""

    model: ModelSettings | None = None
    """What it trains, if the server does not say that."""

    device: str = "cpu"
    """Where PyTorch trains, such as ``cpu`` or ``cuda:0``; the client decides, not the server."""

    optimize_memory: bool | None = None
    """Client: receive into the module; None: what the server says, else yes."""

    optimize_trainer: bool | None = None
    """Trainer: send the module itself; None: what the server says, else yes."""

    max_model_bytes: Size = Field(default=0, ge=0)
    """Largest model that a server may name (bytes); 0: the memory of this machine."""

    comm: CommSettings = CommSettings()
    """How it communicates."""

    log: LogSettings = LogSettings()
    """Where it logs."""

    @model_validator(mode="after")
    def _has_a_name_for_a_file(self) -> Self:
        if "/" in self.client_id or self.client_id.startswith("."):
            raise ValueError(
                f"client_id {self.client_id!r} becomes part of a file's name: use no /"
            )
        return self
