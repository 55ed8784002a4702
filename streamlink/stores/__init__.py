"""Where models live: in memory, as safetensors files, or in one compressed file.

``open_model`` reads whatever is at a path; ``open_store`` gives a place that can be replaced;
``as_model`` takes the arrays or tensors a program already has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from streamlink.descriptors import patiently
from streamlink.errors import ModelError, StoreError
from streamlink.model.interfaces import ModelInPlace, ModelSource, ModelStore
from streamlink.stores.compressed import CompressedSource, CompressedStore
from streamlink.stores.compressed.format import MAGIC
from streamlink.stores.files import disk_errors
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore

__all__ = [
    "ArrayModel",
    "CompressedSource",
    "CompressedStore",
    "MemoryStore",
    "SafetensorsSource",
    "SafetensorsStore",
    "as_model",
    "open_model",
    "open_store",
]

_SUFFIX = ".slz"
_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80"  # the first byte of every pickle since protocol 2
_LOOK_BYTES = 16

_PICKLED = """\
{path}: this is a pickle, or a zip archive as torch.save() writes it. Reading it means unpickling, \
which can run code that its author chose, so nothing is unpickled here. Convert it once, in Python:
  import torch; from safetensors.torch import save_file
  save_file(torch.load({path!r}, weights_only=True, map_location="cpu"), {to!r})"""


def open_model(path: str | Path) -> ModelSource:
    """Open the model at ``path``, by what is there: a directory, a safetensors or an ``.slz`` file.

    What is there is told by its first bytes, not by its name.

    Raises:
        StoreError: there is nothing, or it cannot be read, or only by unpickling.
    """
    found = Path(path)
    if not found.exists() and (packed := _with_suffix(found)).exists():
        found = packed
    if not found.exists():
        raise StoreError(f"{found}: there is no model here")
    beginning = _beginning(found) if found.is_file() else b""
    if beginning.startswith(MAGIC):
        return CompressedSource(found)
    if _needs_pickle(beginning):
        to = found.with_suffix(".safetensors")
        raise StoreError(_PICKLED.format(path=str(found), to=str(to)))
    return SafetensorsSource(found)


def open_store(
    path: str | Path,
    compress: Literal["none", "zstd"] | None = None,
    *,
    reserve_bytes: int | None = None,
) -> ModelStore:
    """Return the store at ``path``, whether or not it holds a model yet.

    Args:
        path: a directory for ``"none"``; for ``"zstd"`` a file, ``.slz`` is added where missing.
        compress: ``"none"`` keeps plain safetensors, ``"zstd"`` one compressed file; ``None``: the
            latter where ``path`` ends in ``.slz``, or where there is such a file and no ``path``.
        reserve_bytes: must stay free on the disk while a model is stored; ``None``: nothing for
            safetensors, see ``CompressedStore`` for the other.

    Raises:
        StoreError: no such store can be at ``path``.
    """
    place = Path(path)
    if compress is None:
        compress = "zstd" if _names_packed(place) else "none"
    if compress == "none":
        _require_directory(place)
        return SafetensorsStore(place, reserve_bytes=reserve_bytes or 0)
    if compress == "zstd":
        packed = _with_suffix(place)
        if packed.is_dir():
            raise StoreError(f"{packed}: this is a directory; a compressed model is one file")
        return CompressedStore(packed, reserve_bytes=reserve_bytes)
    raise ValueError(f"compress must be 'none' or 'zstd', not {compress!r}")


def _names_packed(path: Path) -> bool:
    return path.suffix == _SUFFIX or (not path.exists() and _with_suffix(path).exists())


def _require_directory(path: Path) -> None:
    if path.is_file() or path.suffix in (".safetensors", _SUFFIX):
        raise StoreError(
            f"{path}: a store of safetensors is a directory; name one, or a file that ends in "
            f"{_SUFFIX}"
        )


def as_model(what: Any) -> ModelInPlace:
    """Return a model over the memory of ``what``: read from there, received into there.

    Args:
        what: name → NumPy array, a ``torch.nn.Module``, name → ``torch.Tensor``, or what is a
            model in place already, which is returned as it is.

    Raises:
        ModelError: it is none of these, or something in it cannot travel.
    """
    if isinstance(what, ModelInPlace):
        return what
    if _has_tensors(what):
        from streamlink.stores.torch import TorchModel

        return TorchModel(what)
    if isinstance(what, Mapping):
        return ArrayModel(what)
    raise ModelError(
        f"a {type(what).__name__} is no model that can be read and filled in place; pass a dict of "
        "NumPy arrays, a torch module, a dict of torch tensors, or an object with spec, read, "
        "write, commit, discard, close and is_torn"
    )


def _has_tensors(what: Any) -> bool:
    """Tell a module, and a mapping with a tensor in it, without importing PyTorch."""
    torch: Any = sys.modules.get("torch")
    if torch is None:  # then nobody can have made a tensor
        return False
    entries = what.values() if isinstance(what, Mapping) else ()
    return isinstance(what, torch.nn.Module) or any(isinstance(e, torch.Tensor) for e in entries)


def _with_suffix(path: Path) -> Path:
    return path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)


def _beginning(path: Path) -> bytes:
    with disk_errors(path, "opening the model"), patiently(path.open, "rb") as file:
        return file.read(max(len(MAGIC), _LOOK_BYTES))


def _needs_pickle(beginning: bytes) -> bool:
    """Tell a pickle, or a zip archive as PyTorch writes it, by its first bytes."""
    # A safetensors file begins with the length of its header, which may look like either, and goes
    # on with the header itself: so short that the upper half is zeros, and opened by a brace.
    if beginning[4:9] == b"\0\0\0\0{":
        return False
    return beginning.startswith((_ZIP, _PICKLE))
