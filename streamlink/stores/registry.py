"""Opens models and stores on disk by their path, whatever kind of store is there.

A new kind of store is one new module and one line in ``KINDS``.
"""

from __future__ import annotations

from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import StoreError
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.stores import compressed, safetensors
from streamlink.stores.files import disk_errors
from streamlink.stores.kind import StoreKind

__all__ = ["KINDS", "kind_by_suffix", "kind_named", "kind_of", "open_model", "open_store"]

KINDS: tuple[StoreKind, ...] = (
    safetensors.KIND,
    compressed.KIND,
)
"""Every kind of store on disk. The first takes each file that no other kind recognizes."""

_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80"  # the first byte of every pickle since protocol 2
_HEAD_BYTES = 16

_PICKLED = """\
{path}: this is a pickle, or a zip archive as torch.save() writes it. Reading it means unpickling, \
which can run code that its author chose, so streamlink refuses it. Convert it once, in Python:
  import torch; from safetensors.torch import save_file
  save_file(torch.load({path!r}, weights_only=True, map_location="cpu"), {to!r})"""


def open_model(path: str | Path) -> ModelSource:
    """Open the model at ``path``: a directory or a file of any kind in ``KINDS``.

    The first bytes of a file decide what it is, not its name. Where nothing is at ``path``, a file
    of that name with the suffix of a kind is opened.

    Raises:
        StoreError: no model is there, it cannot be read, or reading it would mean unpickling.
    """
    found = Path(path)
    if not found.exists():
        found = next((each for kind in KINDS if (each := kind.path_for(found)).exists()), found)
    if not found.exists():
        raise StoreError(f"{found}: there is no model here")
    head = _head(found) if found.is_file() else b""
    for kind in KINDS:
        if head and kind.recognizes(head):
            return kind.open_source(found)
    if _needs_pickle(head):
        to = found.with_suffix(".safetensors")
        raise StoreError(_PICKLED.format(path=str(found), to=str(to)))
    # A safetensors file has no magic number: its header is checked when it is opened.
    return KINDS[0].open_source(found)


def open_store(
    path: str | Path,
    compress: str | None = None,
    *,
    reserve_bytes: int | None = None,
) -> ModelStore:
    """Return the store at ``path``, whether or not it holds a model yet.

    Args:
        path: a directory for ``"none"``; for ``"zstd"`` a file: ``.slz`` is added where missing.
        compress: ``"none"`` stores plain safetensors, ``"zstd"`` one compressed file. None: the
            latter if ``path`` ends in ``.slz``, or if only ``path`` plus ``.slz`` exists.
        reserve_bytes: stays free on the disk while a model is stored; None: nothing for
            safetensors, and for compressed stores the default of ``CompressedStore``.

    Raises:
        StoreError: such a store cannot be at ``path``.
        ValueError: there is no such kind.
    """
    kind = kind_of(Path(path)) if compress is None else kind_named(compress)
    place = kind.path_for(Path(path))
    kind.require_path(place)
    _require_no_file_name(kind, place)
    return kind.make_store(place, reserve_bytes)


def kind_of(path: Path) -> StoreKind:
    """Return the kind of store that ``path`` means where the user does not name one."""
    kind = kind_by_suffix(path)
    if kind.suffix or path.exists():
        return kind
    return next((each for each in KINDS if each.path_for(path).exists()), kind)


def kind_by_suffix(path: Path) -> StoreKind:
    """Return the kind that the suffix of ``path`` selects; the first where it selects none."""
    return next((kind for kind in KINDS if kind.suffix and kind.suffix == path.suffix), KINDS[0])


def kind_named(name: str) -> StoreKind:
    """Return the kind that ``compress=`` names; raises ``ValueError`` where there is none."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    names = " or ".join(repr(kind.name) for kind in KINDS)
    raise ValueError(f"compress must be {names}, not {name!r}")


def _require_no_file_name(kind: StoreKind, path: Path) -> None:
    # A directory that is called like a file would be taken for one by every other tool.
    suffixes = {".safetensors", *(each.suffix for each in KINDS if each.suffix)}
    if not kind.suffix and path.suffix in suffixes:
        others = " or ".join(each.suffix for each in KINDS if each.suffix)
        raise StoreError(
            f"{path}: a {kind.title} store is a directory, and this is the name of a file; name a "
            f"directory, or a file that ends in {others}"
        )


def _head(path: Path) -> bytes:
    with disk_errors(path, "opening the model"), patiently(path.open, "rb") as file:
        return file.read(_HEAD_BYTES)


def _needs_pickle(head: bytes) -> bool:
    """Tell a pickle, or a zip archive as PyTorch writes it, by its first bytes."""
    # A safetensors file begins with the length of its header, whose low bytes may look like either.
    # Its header follows: so short that the upper half of the length is zeros, and it opens with {.
    if head[4:9] == b"\0\0\0\0{":
        return False
    return head.startswith((_ZIP, _PICKLE))
