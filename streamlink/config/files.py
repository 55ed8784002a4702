"""Reads settings from YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["load_yaml", "sections"]


def sections(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mutable copy of a file's sections; a section without keys is empty, not an error."""
    return {
        # Anything else is passed on as it is: pydantic refuses it with the section's name.
        name: dict(section) if isinstance(section, dict) else {} if section is None else section
        for name, section in loaded.items()
    }


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; an empty file has none of its keys.

    Raises:
        ValueError: it is not YAML, or no mapping; names the file.
        OSError: it cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        try:
            # ``yaml.load`` with other loaders can make any Python object, as unpickling can.
            loaded = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: this is not YAML: {_one_line(error)}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: expected a mapping of settings, found {type(loaded).__name__}")
    return loaded


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
