"""What the tests of commands that are invoked in this process begin with."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.invoked import TASKS, fill


@pytest.fixture(autouse=True)
def _log_is_left_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("streamlink")
    level = logger.level
    yield
    for output in logger.handlers[:]:
        logger.removeHandler(output)
        output.close()
    logger.setLevel(level)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: ``tasks.py``, a safetensors store ``g``, a compressed ``z.slz``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tasks.py").write_text(TASKS)
    fill(tmp_path / "g")
    fill(tmp_path / "z.slz", "zstd")
    return tmp_path
