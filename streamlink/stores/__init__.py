"""Where models live: in memory, as safetensors files, or in one compressed file.

``open_model`` reads whatever is at a path; ``open_store`` gives a place that can be replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from streamlink.errors import StoreError
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.stores.compressed import CompressedSource, CompressedStore
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from streamlink.stores.slz import MAGIC

__all__ = [
    "ArrayModel",
    "CompressedSource",
    "CompressedStore",
    "MemoryStore",
    "SafetensorsSource",
    "SafetensorsStore",
    "open_model",
    "open_store",
]

_SUFFIX = ".slz"


def open_model(path: str | Path) -> ModelSource:
    """Open the model at ``path``, by what is there: a directory, a safetensors or an ``.slz`` file.

    Raises:
        StoreError: there is nothing, or it cannot be read.
    """
    found = Path(path)
    if not found.exists() and (packed := _with_suffix(found)).exists():
        found = packed
    if not found.exists():
        raise StoreError(f"{found}: there is no model here")
    if found.is_file() and _begins_with_magic(found):
        return CompressedSource(found)
    return SafetensorsSource(found)


def open_store(path: str | Path, compress: Literal["none", "zstd"] = "none") -> ModelStore:
    """Return the store at ``path``, whether or not it holds a model yet.

    Args:
        path: a directory for ``"none"``; for ``"zstd"`` a file, ``.slz`` is added where missing.
        compress: ``"none"`` keeps plain safetensors, ``"zstd"`` one compressed file.
    """
    if compress == "none":
        return SafetensorsStore(path)
    if compress == "zstd":
        return CompressedStore(_with_suffix(Path(path)))
    raise ValueError(f"compress must be 'none' or 'zstd', not {compress!r}")


def _with_suffix(path: Path) -> Path:
    return path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)


def _begins_with_magic(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
