"""The forecast of a round: what it is made of, and what makes it longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.probing.forecast import EncodingCost, Round, forecast
from streamlink.probing.measured import Measured
from tests.probing.lines import a_line, lines

SIZES = st.integers(1, 10**12)
PLANES = EncodingCost("planes", 0.7, 300e6, 400e6)
ZSTD = EncodingCost("zstd", 0.9, 600e6, 900e6)


def rounds(nbytes: int, measured: Measured) -> dict[tuple[str, str], Round]:
    found = forecast(nbytes, measured, [ZSTD, PLANES])
    return {(each.executor, each.encoding): each for each in found}


@given(SIZES, lines())
def test_every_executor_has_every_encoding(nbytes: int, measured: Measured) -> None:
    encodings = ("plain", "zstd", "planes", "auto")
    every = {(e, c) for e in ("streaming", "whole", "on disk") for c in encodings}
    assert rounds(nbytes, measured).keys() == every


@given(SIZES, lines())
def test_auto_is_never_slower_than_plain_or_planes(nbytes: int, measured: Measured) -> None:
    found = rounds(nbytes, measured)
    for executor in ("streaming", "whole", "on disk"):
        best = min(found[executor, each].seconds for each in ("plain", "planes"))
        assert found[executor, "auto"].seconds == best


@given(SIZES, SIZES, lines())
def test_a_larger_model_never_takes_less(one: int, other: int, measured: Measured) -> None:
    small, large = rounds(min(one, other), measured), rounds(max(one, other), measured)
    assert all(small[key].seconds <= large[key].seconds for key in small)


def test_a_streaming_round_takes_one_traverse_and_a_whole_one_two() -> None:
    found = rounds(125 * 10**6, a_line(12.5e6, 0.05))
    assert found["whole", "plain"].seconds == pytest.approx(20.2)
    assert found["streaming", "plain"].seconds == pytest.approx(10.0 + 4 * 0.05, abs=0.11)


def test_an_encoding_helps_a_slow_line_and_costs_a_fast_one() -> None:
    slow, fast = rounds(10**9, a_line(1e6)), rounds(10**9, a_line(5e9, 1e-4))
    assert slow["whole", "planes"].seconds == pytest.approx(
        0.7 * slow["whole", "plain"].seconds, rel=0.01
    )
    # Then the processor is what is waited for.
    assert fast["whole", "planes"].down_seconds == pytest.approx(10**9 / 300e6)
