"""A limit on the command line: it is shown, changed while the process runs, and refused if bad."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.support.commands import Command, environment, streamlink
from tests.support.waiting import WAIT

pytestmark = pytest.mark.processes

NBYTES = 30_000_000  # ten minutes at the limit, so that it is not over before that is changed


def ran(*words: object, code: int = 0) -> str:
    done = subprocess.run(
        streamlink(*words), env=environment(), capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def bandwidth(model: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran("status", "--store", model, "--json"))["bandwidth"]
    return found


def test_a_limit_is_shown_and_changed_while_a_model_is_served(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    save_file({"a": np.arange(NBYTES, dtype=np.uint8)}, model / "model.safetensors")
    serve = streamlink("serve", model, "--listen", "127.0.0.1:0", "--count", 1)
    serving = Command([*serve, "--bwlimit", "00:00,50kB"], tmp_path)
    with serving:
        address = serving.until(r"listening on (\S+)")[1]
        fetching = Command(streamlink("fetch", address, tmp_path / "copy"), tmp_path)
        with fetching:
            serving.until("the model begins")
            found = bandwidth(model)
            assert (found["bwlimit"], found["up_limit"]) == ("00:00,50kB", 50_000)
            assert 0 < found["up_rate"] <= 75_000
            text = ran("limit", "1", "--store", model, code=2)
            assert "'1' is no bandwidth limit" in text
            text = ran("limit", "10B", "--store", model, code=1)
            assert "'10B' is too low" in text
            text = ran("limit", "off:1M", "--store", model)
            assert "now sends without a limit, receives at most 1.049 MB/s" in text
            assert fetching.process.wait(WAIT) == 0
        assert serving.process.wait(WAIT) == 0
    assert sum(each.stat().st_size for each in (tmp_path / "copy").iterdir()) > NBYTES


@pytest.mark.parametrize(
    "words", [("serve", "m", "--listen", "127.0.0.1:0"), ("fetch", "127.0.0.1:9", "m")]
)
def test_a_bad_limit_is_refused_with_its_value_and_an_example(words: tuple[str, ...]) -> None:
    text = ran(*words, "--bwlimit", "10Mb", "--check", code=2)
    assert "'10Mb' is no bandwidth limit" in " ".join(text.split())
    assert "10Mbit" in text
