"""Models with small files beside them, and the directories that hold them."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.numpy

from streamlink.config import LimitsConfig
from streamlink.model.beside import Beside
from streamlink.model.beside_ends import BesideSource
from streamlink.stores.safetensors import SafetensorsSource
from tests.support.models import arrays_of, content, float_spec, pattern_model

__all__ = ["NEW", "OLD", "PT", "SPEC", "beside", "files_in", "theirs", "whole"]

SPEC = float_spec(70_001, 11)
OLD = {"config.json": b'{"v": 1}', "tokenizer.json": b"[1]", "merges.txt": b"old"}
NEW = {"config.json": b'{"v": 22}', "chat_template.jinja": b"", "tokenizer.json": b"[2, 2]"}
PT = {"format": "pt"}


def whole(seed: int, files: dict[str, bytes], metadata: dict[str, str] = PT) -> BesideSource:
    return BesideSource(pattern_model(SPEC, seed=seed), Beside(files, metadata))


def beside(directory: Path) -> Beside:
    return SafetensorsSource(directory).beside(LimitsConfig())


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the small files as any tool sees them."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if not path.name.startswith("model")
    }


def theirs(path: Path, seed: int = 0) -> None:
    """Save a model as other tools do."""
    path.parent.mkdir(exist_ok=True)
    arrays = arrays_of(SPEC, content(pattern_model(SPEC, seed=seed)))
    safetensors.numpy.save_file(arrays, path)
