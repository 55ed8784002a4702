"""Reads APPFL's YAML files: one table says what each of their keys is here.

A file is read safely (no object but numbers, texts, lists and mappings). Each key is in the table,
or it is refused by its name. Keys that have no meaning here are reported once, by name.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from streamlink.config.files import load_yaml
from streamlink.training.settings import ClientSettings, ServerSettings, TrainingError

__all__ = ["CLIENT_TABLE", "SERVER_TABLE", "Row", "read_client", "read_server"]

logger = logging.getLogger("streamlink.training")

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Row:
    """One key of APPFL's files, and what it is here."""

    key: str
    """Its path in the file; ``*`` at the end: all keys below."""
    ours: str = ""
    """The path of our setting; empty: it has no meaning here."""
    why: str = ""
    """Of a key without a meaning: why, or what does that here."""
    harmless: tuple[Any, ...] = ()
    """Values that change nothing. Other values of a key without a meaning are refused where this is
    not empty, since results would differ."""


_SAME = "every client begins each round with the server's model"
_LOSSLESS = "models travel as they are; stream.encodings compresses them without loss (--set)"
_OWN = "--set security... has certificates and tokens"

_TRAIN = "client_configs.train_configs."
_TRAINER_KEYS = (
    *("trainer", "mode", "num_local_steps", "num_local_epochs", "optim", "optim_args"),
    *("loss_fn", "loss_fn_path", "loss_fn_kwargs", "metric_path", "do_validation"),
    *("do_pre_validation", "train_batch_size", "val_batch_size", "train_data_shuffle"),
    *("val_data_shuffle", "clip_grad", "clip_value", "clip_norm", "optimize_memory"),
)
_WITHOUT_MEANING = (
    Row("use_dp", why="private training: streamlink profile dp, or filter_up", harmless=(False,)),
    Row("send_gradient", why="clients send the trained model", harmless=(False,)),
    Row("epsilon", why="use_dp is not offered"),
    Row("dp_mechanism", why="use_dp is not offered"),
    Row("num_workers", why="samples are in memory"),
    Row("enable_wandb", why="--tensorboard and --events of streamlink server show the metrics"),
    Row("wandb_logging_id", why="see enable_wandb"),
    Row("logging_id", why="a log is named after client_id"),
)


def _grpc(prefix: str) -> Iterator[Row]:
    for key in (
        *("server_uri", "max_message_size", "use_ssl", "use_model_chunking", "model_chunk_size"),
        *("optimize_memory", "server_certificate", "server_certificate_key", "root_certificate"),
    ):
        yield Row(f"{prefix}comm_configs.grpc_configs.{key}", f"comm.{key}")
    for key in ("use_authenticator", "authenticator", "authenticator_args.*", "trusted"):
        harmless = (False,) if key == "use_authenticator" else ()
        yield Row(f"{prefix}comm_configs.grpc_configs.{key}", why=_OWN, harmless=harmless)
    yield Row(f"{prefix}comm_configs.compressor_configs.*", why=_LOSSLESS)
    for key in ("proxystore_configs.*", "s3_configs.*", "mpi_configs.*"):
        yield Row(f"{prefix}comm_configs.{key}", why="models travel over the link itself")


def _model(prefix: str, ours: str) -> Iterator[Row]:
    for key, setting in (("path", "path"), ("name", "name"), ("kwargs", "kwargs")):
        yield Row(f"{prefix}model_configs.model_{key}", f"{ours}model.{setting}")


SERVER_TABLE: tuple[Row, ...] = (
    *(Row(f"{_TRAIN}{key}", f"order.trainer.{key}") for key in _TRAINER_KEYS),
    Row(f"{_TRAIN}loss_fn_name", "order.trainer.loss_fn"),
    Row(f"{_TRAIN}metric_name", "order.trainer.metric"),
    Row(f"{_TRAIN}device", why="each client's own file says where it trains"),
    Row(f"{_TRAIN}logging_output_dirname", why="each client's own file says where it logs"),
    Row(f"{_TRAIN}logging_output_filename", why="each client's own file says where it logs"),
    *(Row(_TRAIN + each.key, "", each.why, each.harmless) for each in _WITHOUT_MEANING),
    *_model("client_configs.", "order."),
    Row("client_configs.optimize_memory", "order.optimize_memory"),
    Row("client_configs.comm_configs.compressor_configs.*", why=_LOSSLESS),
    Row("server_configs.num_clients", "num_clients"),
    Row("server_configs.scheduler_kwargs.num_clients", "num_clients"),
    Row("server_configs.aggregator_kwargs.num_clients", "num_clients"),
    Row("server_configs.num_global_epochs", "num_rounds"),
    Row(
        "server_configs.scheduler",
        why="rounds wait for every client",
        harmless=("SyncScheduler",),
    ),
    Row("server_configs.scheduler_kwargs.same_init_model", why=_SAME, harmless=(True, False)),
    Row(
        "server_configs.aggregator",
        why="updates are averaged (FedAvg); streamlink server has other aggregators",
        harmless=("FedAvgAggregator",),
    ),
    Row("server_configs.aggregator_kwargs.client_weights_mode", "client_weights"),
    Row("server_configs.device", why="the server aggregates on the CPU", harmless=("cpu",)),
    Row("server_configs.logging_output_dirname", "log.logging_output_dirname"),
    Row("server_configs.logging_output_filename", "log.logging_output_filename"),
    Row("server_configs.optimize_memory", "optimize_memory"),
    *_grpc("server_configs."),
)
"""The keys of a server's file."""

CLIENT_TABLE: tuple[Row, ...] = (
    Row("client_id", "client_id"),
    Row("optimize_memory", "optimize_memory"),
    Row("train_configs.device", "device"),
    Row("train_configs.logging_output_dirname", "log.logging_output_dirname"),
    Row("train_configs.logging_output_filename", "log.logging_output_filename"),
    Row("train_configs.optimize_memory", "optimize_trainer"),
    *(Row(f"train_configs.{each.key}", "", each.why, each.harmless) for each in _WITHOUT_MEANING),
    Row("data_configs.dataset_path", "data.path"),
    Row("data_configs.dataset_name", "data.name"),
    Row("data_configs.dataset_kwargs", "data.kwargs"),
    *_model("", ""),
    *_grpc(""),
)
"""The keys of a client's file."""


def read_server(path: Path) -> ServerSettings:
    """Return what a server's file says.

    Raises:
        TrainingError: a key is unknown or a value not allowed; names the file and the key.
        ValueError: it is no YAML, or no mapping.
        OSError: it cannot be read.
    """
    return _read(path, SERVER_TABLE, ServerSettings, CLIENT_TABLE)


def read_client(path: Path) -> ClientSettings:
    """Return what a client's file says; raises as ``read_server``."""
    return _read(path, CLIENT_TABLE, ClientSettings, SERVER_TABLE)


def _read(path: Path, table: tuple[Row, ...], kind: type[S], other: tuple[Row, ...]) -> S:
    loaded = load_yaml(path)
    if foreign := {_top(row.key) for row in other} & loaded.keys():
        raise TrainingError(
            f"{path}: {min(foreign)!r} is a key of the other role's file; give this file to that "
            "role"
        )
    rows = {row.key: row for row in table}
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    ignored: list[str] = []
    for key, value in _leaves(loaded, rows, path):
        row = _row(rows, key, path)
        if not row.ours:
            ignored += _without_meaning(row, key, value, path)
            continue
        if (before := keys.get(row.ours)) and _at(values, row.ours) != value:
            raise TrainingError(f"{path}: {key} is {value!r}, and {before} says otherwise")
        keys[row.ours] = key
        _put(values, row.ours, value)
    if ignored:
        logger.warning("%s: without a meaning here: %s", path, "; ".join(ignored))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise TrainingError(_faults(error, keys, path)) from error


def _leaves(
    loaded: Mapping[str, Any], rows: Mapping[str, Row], path: Path, above: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield each key with its value; a mapping that the table takes whole is a value."""
    for name, value in loaded.items():
        key = f"{above}{name}"
        is_section = any(each.startswith(f"{key}.") and each != f"{key}.*" for each in rows)
        if not is_section:
            yield key, value
        elif isinstance(value, Mapping):
            yield from _leaves(value, rows, path, f"{key}.")
        elif value is not None:  # a section without keys is empty, as in our own files
            raise TrainingError(f"{path}: {key} is {value!r}, and it has keys of its own")


def _row(rows: Mapping[str, Row], key: str, path: Path) -> Row:
    for known in (key, f"{key}.*"):
        if known in rows:
            return rows[known]
    # The right key in the wrong place is likelier than a typing error.
    moved = [each for each in rows if each.rpartition(".")[2] == key.rpartition(".")[2]]
    close = moved or difflib.get_close_matches(key, rows, n=1, cutoff=0.8)
    hint = f"; did you mean {close[0]}?" if close else "; docs/training.md lists all keys"
    raise TrainingError(f"{path}: there is no key {key!r}{hint}")


def _top(key: str) -> str:
    return key.partition(".")[0]


def _without_meaning(row: Row, key: str, value: Any, path: Path) -> list[str]:
    if value in row.harmless:
        return []
    if row.harmless:
        allowed = " or ".join(map(str, row.harmless))
        raise TrainingError(f"{path}: {key} is {value!r}, and here it is {allowed}: {row.why}")
    return [f"{key} ({row.why})"]


def _put(values: dict[str, Any], ours: str, value: Any) -> None:
    *sections, name = ours.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value


def _at(values: Mapping[str, Any], ours: str) -> Any:
    found: Any = values
    for name in ours.split("."):
        found = found[name]
    return found


def _faults(error: ValidationError, keys: Mapping[str, str], path: Path) -> str:
    sentences = []
    for fault in error.errors(include_url=False):
        ours = ".".join(map(str, fault["loc"]))
        key = next((keys[each] for each in keys if ours == each or ours.startswith(f"{each}.")), "")
        text = str(fault["msg"]).removeprefix("Value error, ")
        given = "" if fault["type"] == "value_error" else f", not {fault['input']!r}"
        sentences.append(f"{key or ours}: {text[:1].lower()}{text[1:]}{given}")
    return f"{path}: {'; '.join(sentences)}"
