"""What the rest of streamlink must know of one kind of store to open it by its path.

Each kind of store on disk describes itself in one ``StoreKind`` beside its classes, and is listed
in ``registry``. ``open_model``, ``open_store`` and the command line learn about it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamlink.errors import StoreError
from streamlink.model.interfaces import ModelSource, ModelStore

__all__ = ["StoreKind"]


@dataclass(frozen=True, slots=True)
class StoreKind:
    """One kind of store on disk.

    Attributes:
        name: the value of ``compress=`` and ``--compress`` that selects it.
        title: how messages call it, such as ``compressed``.
        suffix: ends the name of its file, such as ``.slz``; empty: its model is a directory.
        recognizes: tells whether a file that begins with these bytes is such a model. The first 16
            bytes are given, fewer where the file is shorter.
        open_source: opens the model at a path.
        make_store: returns the store at a path; the other argument is ``reserve_bytes``, None for
            its default. It creates nothing.
        holds_model: tells whether the store at a path has a model, readable or not.
    """

    name: str
    title: str
    suffix: str
    recognizes: Callable[[bytes], bool]
    open_source: Callable[[Path], ModelSource]
    make_store: Callable[[Path, int | None], ModelStore]
    holds_model: Callable[[Path], bool]

    def path_for(self, path: Path) -> Path:
        """Return ``path`` with the suffix of this kind, which is added where it is missing."""
        if not self.suffix or path.suffix == self.suffix:
            return path
        return path.with_name(path.name + self.suffix)

    def require_path(self, path: Path) -> None:
        """Check that a store of this kind can be at ``path``, which is from ``path_for``.

        Raises:
            StoreError: a file is where the directory should be, or the other way round.
        """
        if self.suffix and path.is_dir():
            raise StoreError(
                f"{path}: this is a directory; a {self.title} store is one file, so name a file"
            )
        if not self.suffix and path.is_file():
            raise StoreError(
                f"{path}: this is a file; a {self.title} store is a directory, so name a directory"
            )
