"""``streamlink profile check``: what is there, and what is to be done about what is not."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from streamlink.profiling.heap.check import check

pytestmark = [
    pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]"),
    pytest.mark.processes,
    pytest.mark.timeout(300),
]


def test_memray_is_tried_and_what_is_missing_does_not_end_the_check(tmp_path: Path) -> None:
    found = {each.what: each for each in check(tmp_path)}
    assert found["memray"].is_well
    assert "profiles and reads" in found["memray"].text
    for name in ("cifar10", "mnist"):
        finding = found[f"{name} in {tmp_path}"]
        assert not finding.is_well
        assert not finding.is_needed
        assert str(tmp_path) in finding.text


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs streamlink-fl[mpi]")
def test_two_ranks_are_profiled() -> None:
    (finding,) = [each for each in check(None) if each.what == "mpiexec"]
    assert finding.is_well, finding.text
    assert "two ranks under memray" in finding.text
