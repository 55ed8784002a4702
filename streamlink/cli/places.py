"""Where models and peers are, as users name them: which store a path is, and what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from streamlink.cli.faults import CommandError
from streamlink.model.digest import HasBlockHashes
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.stores import CompressedSource, CompressedStore, open_store
from streamlink.transport.addresses import require_address

__all__ = [
    "ADDRESS",
    "check_address",
    "is_filled",
    "ledger_of",
    "model_digest",
    "place_at",
    "store_with_a_model",
    "stored_bytes",
]

ADDRESS = "HOST:PORT|unix:PATH"
"""How the help writes what ``check_address`` takes."""

_SUFFIX = ".slz"
_KINDS: dict[str, Literal["none", "zstd"]] = {"none": "none", "zstd": "zstd"}


def check_address(option: str, address: str) -> None:
    """Check that ``address`` is ``HOST:PORT`` or ``unix:PATH``.

    Raises:
        CommandError: it is not of that form; names the option it was given for.
    """
    try:
        require_address(address)
    except ValueError as error:
        raise CommandError(f"{option} {error}") from error


def place_at(path: Path, compress: str | None) -> ModelStore:
    """Return the store that ``path`` and ``--compress`` name, whether or not it holds a model.

    Raises:
        CommandError: there is no such compression, or the path cannot be such a store.
    """
    kind = _kind(path, compress)
    if kind == "none" and (path.is_file() or path.suffix in (".safetensors", _SUFFIX)):
        raise CommandError(f"{path}: name a directory for safetensors, or use --compress zstd")
    if kind == "zstd" and path.is_dir() and path.suffix == _SUFFIX:
        raise CommandError(f"{path}: this is a directory; a compressed model is one file")
    return open_store(path, kind)


def store_with_a_model(path: Path, compress: str | None) -> ModelStore:
    """Return the store at ``path``, which must hold a model that can be read.

    Raises:
        CommandError: it holds none; says how to make one.
        StoreError: it cannot be read.
    """
    store = place_at(path, compress)
    if not is_filled(path, store):
        how = " --compress zstd" if isinstance(store, CompressedStore) else ""
        raise CommandError(
            f"{path}: there is no model here, and a job begins with one; copy it from any "
            f"safetensors file or directory: streamlink export FROM {path}{how}"
        )
    store.open().close()
    return store


def ledger_of(store: Path) -> Path:
    """Return where the ledger of a store's rounds is, unless another place was named."""
    store = store.absolute()
    return store.with_name(store.name + ".rounds.json")


def is_filled(path: Path, store: ModelStore) -> bool:
    """Tell whether something is where the store keeps its model, readable or not."""
    if isinstance(store, CompressedStore):
        return (path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)).exists()
    names = ("model.safetensors.index.json", "model.safetensors")
    return any((path / name).exists() for name in names)


def model_digest(model: ModelSource) -> str | None:
    """Return the model's digest where it is stored beside it; None: one would have to read it."""
    if not isinstance(model, HasBlockHashes) or model.spec.nbytes == 0:
        return None
    return model.digest() if model.block_hash(0) is not None else None


def stored_bytes(model: ModelSource) -> int:
    """Return what the model's payload takes where it is stored (bytes)."""
    return model.stored_bytes if isinstance(model, CompressedSource) else model.spec.nbytes


def _kind(path: Path, compress: str | None) -> Literal["none", "zstd"]:
    if compress is not None and compress in _KINDS:
        return _KINDS[compress]
    if compress is not None:
        raise CommandError(f"--compress is none or zstd, not {compress!r}")
    is_packed = path.suffix == _SUFFIX or (
        not path.exists() and path.with_name(path.name + _SUFFIX).exists()
    )
    return "zstd" if is_packed else "none"
