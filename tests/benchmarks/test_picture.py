"""Pictures of a run: a real PNG, small, with the limits that the report states."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.picture import _percent_of_a_core, _thinned, draw, limits
from tests.benchmarks.reports import MIB, report

PNG = b"\x89PNG\r\n\x1a\n"


def test_memory_is_drawn_as_a_small_png(tmp_path: Path) -> None:
    path = tmp_path / "run.png"
    draw(report(), path)
    drawn = path.read_bytes()
    assert drawn.startswith(PNG)
    assert 1000 < len(drawn) < 150_000


@pytest.mark.slow
def test_cpu_is_drawn_beside_memory_where_it_was_recorded(tmp_path: Path) -> None:
    without, with_cpu = report(), report()
    for process in with_cpu["processes"]:
        process["cpu"] = [[at, 0.8 * at] for at, _ in process["rss"]]
    draw(without, tmp_path / "without.png")
    draw(with_cpu, tmp_path / "with.png")
    assert _width(tmp_path / "with.png") > 1.5 * _width(tmp_path / "without.png")


@pytest.mark.slow
def test_a_long_run_stays_a_small_picture(tmp_path: Path) -> None:
    long = report(clients=1)
    for process in long["processes"]:
        process["rss"] = [[n * 0.02, process["base_rss_bytes"]] for n in range(200_000)]
    draw(long, tmp_path / "long.png")
    assert (tmp_path / "long.png").stat().st_size < 150_000


def test_thinning_keeps_the_peak() -> None:
    pairs = [[float(n), 1.0] for n in range(100_000)]
    pairs[54_321][1] = 9.0
    at, values = _thinned(pairs)
    assert len(at) <= 1500
    assert at[values.index(max(values))] == 54_321


def test_cpu_is_drawn_as_the_rate_of_its_seconds() -> None:
    at, percent = _percent_of_a_core([[0.0, 1.0], [0.5, 1.4], [0.5, 1.4], [1.5, 2.9]])
    assert at == [0.5, 1.5]
    assert percent == pytest.approx([80.0, 150.0])


def test_the_servers_limit_is_its_base_and_its_computed_peak() -> None:
    assert limits(report(budget_mib=150)) == {"server": (80 + 150) * MIB}


def test_a_limit_stated_by_the_process_itself_comes_first() -> None:
    stated = report()
    stated["processes"][0]["limit_bytes"] = 99 * MIB
    assert limits(stated)["server"] == 99 * MIB


def _width(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[16:20], "big")
