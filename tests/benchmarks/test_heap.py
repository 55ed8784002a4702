"""What the command beside APPFL says of figures; it runs APPFL itself where that is installed."""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]")


def said(*, optimized: tuple[int, float], memray: bool = False) -> dict[str, bool]:
    from benchmarks.heap.__main__ import verdicts
    from benchmarks.heap.measure import Run

    server, seconds = optimized
    runs = {
        "off": [Run(1000, 500, 30.0)],
        "chunked": [Run(800, 400, 20.0)],
        "tuned": [Run(800, 400, 3.0)],
        "original": [Run(900, 550, 10.0)],
        "optimized": [Run(server, 120, seconds)],
    }
    return {text.partition(":")[0]: is_met for text, is_met in verdicts(runs, is_timed=not memray)}


def test_claims_are_met_from_their_bounds_on() -> None:
    assert said(optimized=(80, 2.0)) == {
        "original server": True,
        "original client": True,
        "server": True,
        "rounds": True,
    }


def test_a_claim_that_is_missed_is_said() -> None:
    assert not said(optimized=(81, 2.0))["server"]
    assert not said(optimized=(80, 2.1))["rounds"]


def test_under_memray_no_time_is_judged() -> None:
    assert said(optimized=(80, 99.0), memray=True).keys() == {"original server", "original client"}
