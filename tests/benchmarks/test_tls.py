"""The program that compares with TLS moves a small array by each means, encrypted, and judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tls
from benchmarks.arrays import Load, MiB
from benchmarks.bulk import STREAMLINK
from benchmarks.certificates import make_certificates
from benchmarks.peers import PLAIN, Peer, Run, measure
from benchmarks.processes import Usage, WorkerFailed
from benchmarks.side_by_side import ratios_to

ODD = 3 * MiB + 8 * 1001


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("certificates"))
    make_certificates(folder)
    return folder


@pytest.mark.processes
def test_each_means_moves_an_odd_number_of_bytes_and_one_pair_judges_nothing(
    certificates: str,
) -> None:
    load = Load(ODD, MiB, certificates=certificates)
    found = tls.compare_with_tls(load, pairs=1, peers=(STREAMLINK, PLAIN))
    assert [row[0] for row in found.rows] == [STREAMLINK.name, PLAIN.name]
    assert found.met is None
    assert set(found.facts["ratios"]) == {PLAIN.name}
    assert certificates not in str(found.facts)


@pytest.mark.processes
@pytest.mark.parametrize("peer", [STREAMLINK, PLAIN], ids=lambda peer: peer.name)
def test_a_load_with_certificates_is_moved_with_them_or_not_at_all(
    peer: Peer, tmp_path: Path
) -> None:
    with pytest.raises(WorkerFailed, match="receiver"):
        measure(peer, Load(ODD, MiB, certificates=str(tmp_path)))


@pytest.mark.processes
def test_certificates_that_cannot_be_made_are_an_error_in_words(certificates: str) -> None:
    with pytest.raises(RuntimeError, match="nothing is overwritten"):
        make_certificates(certificates)


@pytest.mark.parametrize(
    ("plain", "raw", "is_met"), [(1.17, 1.24, True), (1.18, 1.24, False), (1.17, 1.26, False)]
)
def test_both_bounds_have_to_be_reached(plain: float, raw: float, is_met: bool) -> None:
    rates = {STREAMLINK.name: 1.0, PLAIN.name: plain, tls.RAW.name: 1.0, "raw TLS, 256 KiB": raw}
    nothing = Usage(0, 0, 0.0, 0)
    runs = {name: [Run(int(rate * 1e9), 1.0, nothing, nothing)] * 5 for name, rate in rates.items()}
    assert tls.is_met(ratios_to(STREAMLINK, runs)) is is_met
