"""The benchmark over MPI: each way moves a small model right, and the claim is judged by both."""

from __future__ import annotations

import pytest

from benchmarks.arrays import Load
from benchmarks.mpi import WAYS, is_met, measure, mpiexec
from benchmarks.stats import compare


@pytest.mark.processes
@pytest.mark.parametrize("way", WAYS)
def test_every_way_moves_the_model_and_ends_with_the_same_one(way: str) -> None:
    if mpiexec() is None:
        pytest.skip("needs the extra mpi: pip install 'streamlink-fl[mpi]'")
    run = measure(way, Load(total_bytes=1_000_000, tensors=5, tuned=True), rounds=1)
    assert run.payload_bytes == 2 * 2 * 1_000_000
    assert run.rate > 0


@pytest.mark.parametrize(
    ("raw", "pickled", "met"), [(1.6, 0.3, True), (1.7, 0.3, False), (1.6, 0.4, False)]
)
def test_the_claim_needs_both_comparisons(raw: float, pickled: float, met: bool) -> None:
    rates = {"raw": [raw], "pickled": [pickled]}
    assert is_met({way: compare("ours", [1.0], way, rates[way]) for way in rates}) is met
