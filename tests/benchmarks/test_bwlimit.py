"""The model that crosses the limited line, and the shares of the limit that are found of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bwlimit import shares, write_model
from streamlink.stores import open_model


def test_the_model_is_noise_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    write_model(tmp_path / "model", 5000)
    model = open_model(tmp_path / "model")
    assert model.spec.nbytes == 5000
    assert len(set(b"".join(model.read(0, 5000)))) == 256
    model.close()


def test_a_steady_flow_at_the_limit_has_all_of_it_in_any_span() -> None:
    moved = [(at / 100, 10) for at in range(1000)]
    least, most = shares(moved, 1000.0, 1.0)
    assert least == pytest.approx(0.99, abs=0.011)
    assert most == pytest.approx(1.0, abs=0.011)
