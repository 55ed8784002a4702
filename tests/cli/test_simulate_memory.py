"""``streamlink simulate`` with one memory for all streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from streamlink import copy_model, open_store
from streamlink.cli import app
from streamlink.stores import ArrayModel

TASK = "def add(tensor, start, values):\n    return values\n"


def test_a_memory_that_is_too_small_for_all_clients_is_refused_before_a_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks.py").write_text(TASK)
    copy_model(ArrayModel({"a": np.zeros(1000, np.float32)}), open_store(tmp_path / "m"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = "simulate --store m --task tasks.py:add --set rounds.min_clients=1"
    result = CliRunner().invoke(app, [*words.split(), "--set", "stream.memory_bytes=2MiB"])
    assert result.exit_code == 2
    assert (
        "(2097152) is enough for 1 clients, and there are 2 (--clients); set it to 2359296 or"
        in result.stderr
    )
