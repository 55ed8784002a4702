"""The model that crosses the limited line, and the shares of the limit that are found of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.bwlimit import Case, Heard, shares, write_model
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


@pytest.mark.parametrize(
    ("least", "gap", "met"), [(0.95, 0.75, True), (0.94, 0.7, False), (0.95, 0.85, False)]
)
def test_a_limit_is_judged_by_its_share_and_by_how_late_heartbeats_are(
    least: float, gap: float, met: bool
) -> None:
    heard = Heard(Case("tcp", "serve"), least, 1.0, 0.97, gap)
    assert heard.late(0.7) == pytest.approx(gap - 0.7)
    assert heard.is_met(0.7) is met
    assert Heard.from_json(asdict(heard)) == heard


def test_without_a_limit_there_is_nothing_to_be_late_for() -> None:
    assert Heard(Case("tcp", ""), 0.0, 9.0, 9.0, 0.7).late(0.7) is None
