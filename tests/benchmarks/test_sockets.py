"""Bare sockets move a small array unharmed, with TLS too; the best of each kind is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.arrays import KiB, Load, MiB
from benchmarks.certificates import make_certificates
from benchmarks.peers import Run
from benchmarks.processes import Usage
from benchmarks.sockets import SIZES, best_by_kind, compared, ways

ODD = 3 * MiB + 8 * 1001


@pytest.mark.processes
def test_every_way_moves_an_odd_number_of_bytes_and_the_best_are_named(tmp_path: Path) -> None:
    make_certificates(str(tmp_path / "certificates"))
    used = [
        way
        for way in ways(str(tmp_path / "certificates"), sizes=(256 * KiB,))
        if way.kind.startswith("raw")
    ]
    found = compared(Load(total_bytes=ODD), used, 1, ["something skipped: not here"])
    names = ["raw TCP, 256 KiB", "raw TCP, 256 KiB, MSG_WAITALL", "raw TLS, 256 KiB"]
    assert [row[0] for row in found.rows] == [*names, "something skipped: not here"]
    assert found.facts["best"]["raw TLS"] == "raw TLS, 256 KiB"
    assert found.facts["best"]["raw TCP"] in names[:2]
    assert [cipher.split(",")[0] for cipher in found.facts["ciphers"]] == ["TLSv1.3"]
    assert str(tmp_path) not in str(found.facts)
    assert found.met is None


def test_each_size_is_measured_with_and_without_waiting_and_with_tls() -> None:
    kinds = [way.kind for way in ways("a folder")]
    assert kinds.count("raw TCP") == 2 * len(SIZES)
    assert kinds.count("raw TLS") == len(SIZES)
    assert (min(SIZES), max(SIZES)) == (256 * KiB, 4 * MiB)
    assert not any(way.certificates for way in ways(""))
    names = [way.peer.name for way in ways("a folder")]
    assert len(set(names)) == len(names)


def test_the_best_of_a_kind_has_the_best_median() -> None:
    def runs(*rates: float) -> list[Run]:
        return [Run(1000, 1000 / rate, Usage(0, 0, 0.0), Usage(0, 0, 0.0)) for rate in rates]

    kinds = {"a": "tcp", "b": "tcp", "c": "tls"}
    results = {"a": runs(1, 2, 9), "b": runs(3, 3, 3), "c": runs(1)}
    assert best_by_kind(kinds, results) == {"tcp": "b", "tls": "c"}
