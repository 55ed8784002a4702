"""Python files of the user: models, losses, data sets and metrics, from one directory alone.

A server's configuration names files that its clients load, so the name alone must never decide
what runs. Only what the local operator has put below ``--code DIR`` is loaded, and of such a file
only what it defines itself: no name that it has imported, such as ``os.system``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from streamlink.training.settings import TrainingError

__all__ = ["CodeFolder"]


class CodeFolder:
    """The directory of the local operator's Python files.

    Args:
        folder: the directory; None: there is none, and no file is loaded.

    Raises:
        TrainingError: it is no directory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise TrainingError(f"--code {folder}: there is no such directory")
        self._folder = folder.resolve() if folder is not None else None
        self._loaded: dict[Path, ModuleType] = {}

    def has(self, path: str) -> bool:
        """Tell whether ``path`` names a file below the directory."""
        return self._found(path) is not None

    def load(self, path: str, name: str, row: str) -> Callable[..., Any]:
        """Return the function or class ``name`` that the file ``path`` defines.

        Args:
            path: the file, relative to the directory.
            name: of the function or class.
            row: of the configuration, for the error.

        Raises:
            TrainingError: there is no such file below the directory, it does not define that name,
                or running it raised.
        """
        found = self._found(path)
        if found is None:
            raise TrainingError(self._refusal(path, name, row))
        module = self._module(found, row)
        what = getattr(module, name, None) if _is_plain(name) else None
        # What the file has only imported is not its author's offer: ``from os import system``.
        if not callable(what) or getattr(what, "__module__", None) != module.__name__:
            raise TrainingError(
                f"{row}: {found} defines no function or class {name!r}; define it in that file "
                "itself"
            )
        return what  # type: ignore[no-any-return]

    def _found(self, path: str) -> Path | None:
        if self._folder is None or not path.endswith(".py"):
            return None
        try:
            # Resolved, so that neither ``..`` nor a symbolic link leads elsewhere.
            found = (self._folder / path).resolve()
            is_there = found.is_relative_to(self._folder) and found.is_file()
        except (OSError, ValueError):  # too long, a loop of links, or a null byte
            return None
        return found if is_there else None

    def _refusal(self, path: str, name: str, row: str) -> str:
        what = f"{row}: {path!r} ({name!r})"
        if self._folder is None:
            return (
                f"{what} is a Python file, and none is loaded unless the operator of this machine "
                "names its directory: --code DIR"
            )
        return f"{what} is no Python file below {self._folder} (--code); put it there, or name it"

    def _module(self, path: Path, row: str) -> ModuleType:
        if path in self._loaded:
            return self._loaded[path]
        # A name of its own: a file may be called like a module that is loaded already.
        name = f"streamlink_code_{len(self._loaded)}_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and others look their module up there
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise TrainingError(
                f"{row}: {path} raised {type(error).__name__}: {error}; mend that file"
            ) from error
        self._loaded[path] = module
        return module


def _is_plain(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_")
