"""The paths and addresses that users give: which store a path means, and what it holds."""

from __future__ import annotations

from pathlib import Path

from streamlink.cli.errors import CommandError
from streamlink.model.digest import HasBlockHashes
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.stores import open_store
from streamlink.stores.kind import StoreKind
from streamlink.stores.registry import KINDS, kind_of
from streamlink.transport.addresses import require_address

__all__ = [
    "ADDRESS",
    "COMPRESS",
    "check_address",
    "holds_model",
    "ledger_of",
    "model_digest",
    "store_at",
    "store_with_a_model",
    "stored_bytes",
]

ADDRESS = "HOST:PORT|unix:PATH"
"""How the help writes what ``check_address`` accepts."""

COMPRESS = "|".join(kind.name for kind in KINDS)
"""How the help writes the values of ``--compress``."""


def check_address(option: str, address: str) -> None:
    """Check that ``address`` is ``HOST:PORT`` or ``unix:PATH``.

    Raises:
        CommandError: it is not of that form; names the option it was given for.
    """
    try:
        require_address(address)
    except ValueError as error:
        raise CommandError(f"{option} {error}") from error


def store_at(path: Path, compress: str | None) -> ModelStore:
    """Return the store that ``path`` and ``--compress`` name, whether or not it holds a model.

    Raises:
        CommandError: ``--compress`` has an unknown value.
        StoreError: such a store cannot be at the path.
    """
    return open_store(path, _kind(path, compress).name)


def store_with_a_model(path: Path, compress: str | None) -> ModelStore:
    """Return the store at ``path``, which must hold a model that can be read.

    Raises:
        CommandError: it holds none; the message says how to make one.
        StoreError: it cannot be read.
    """
    store, kind = store_at(path, compress), _kind(path, compress)
    if not holds_model(path, compress):
        option = "" if kind is KINDS[0] else f" --compress {kind.name}"
        raise CommandError(
            f"{path}: there is no model here, and a job begins with one; copy it from any "
            f"safetensors file or directory: streamlink export FROM {path}{option}"
        )
    # Opened and closed now: a model that cannot be read is reported before the clients connect.
    store.open().close()
    return store


def ledger_of(store: Path) -> Path:
    """Return the default path of the ledger of a store's rounds."""
    store = store.absolute()  # ``.`` has no name of its own to add to
    return store.with_name(store.name + ".rounds.json")


def holds_model(path: Path, compress: str | None) -> bool:
    """Tell whether a model is where the store would keep it, readable or not."""
    kind = _kind(path, compress)
    return kind.holds_model(kind.path_for(path))


def model_digest(model: ModelSource) -> str | None:
    """Return the model's digest where it is stored; None: computing it means to read the model."""
    # An empty model has no block that could be asked for.
    if not isinstance(model, HasBlockHashes) or model.spec.nbytes == 0:
        return None
    return model.digest() if model.block_hash(0) is not None else None


def stored_bytes(model: ModelSource) -> int:
    """Return how many bytes the model's payload takes on the disk."""
    return int(getattr(model, "stored_bytes", model.spec.nbytes))


def _kind(path: Path, compress: str | None) -> StoreKind:
    if compress is None:
        return kind_of(path)
    for kind in KINDS:
        if kind.name == compress:
            return kind
    names = " or ".join(kind.name for kind in KINDS)
    raise CommandError(f"--compress is {names}, not {compress!r}")
