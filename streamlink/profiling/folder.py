"""Where results are written: a new folder for each run, named by its time, never overwritten."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["new_run_folder", "write_json", "write_text"]


def new_run_folder(parent: Path, now: datetime | None = None) -> Path:
    """Create ``run_YYYYMMDD_HHMMSS`` in ``parent``; a second run of that second gets ``_2``.

    Raises:
        OSError: it cannot be created.
    """
    parent.mkdir(parents=True, exist_ok=True)
    name = (now or datetime.now().astimezone()).strftime("run_%Y%m%d_%H%M%S")
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}_{number}")
        try:
            folder.mkdir()  # one of two programs that start in the same second wins
        except FileExistsError:
            number += 1
        else:
            return folder


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a JSON file that is there as a whole or not at all; see ``write_text``."""
    write_text(path, json.dumps(facts, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a file that is there as a whole or not at all.

    Raises:
        FileExistsError: it is there, and ``overwrite`` is false.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if overwrite:
            os.replace(name, path)
        else:
            os.link(name, path)  # unlike a rename, it never replaces a file
    finally:
        Path(name).unlink(missing_ok=True)
