"""A client's answer to an evaluation is checked as what a stranger sent."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError
from streamlink.link.facts import own, parse_metrics, to_metadata
from streamlink.rounds.evaluate.answer import MAX_METRICS, MAX_NAME_BYTES, parse_answer, to_answer

NAMES = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=30)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WEIGHTS = st.just(0.0) | st.floats(1e-100, 1e100)


@given(st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=20), WEIGHTS)
def test_what_is_allowed_arrives_bit_for_bit(metrics: dict[str, float], weight: float) -> None:
    facts = to_metadata(to_answer(weight, metrics), metrics)
    found = parse_answer("site-1", own(facts), parse_metrics(facts))
    assert repr(found) == repr((weight, metrics))


@given(st.dictionaries(st.text(max_size=200), st.floats(), max_size=300), st.text(max_size=80))
def test_any_answer_is_either_within_the_bounds_or_refused_by_name(
    metrics: dict[str, float], weight: str
) -> None:
    refused = ""
    try:
        found, names = parse_answer("site-1", {"weight": weight}, metrics)
    except ModelError as error:
        refused = str(error)
    if refused:
        assert refused.startswith("site-1 ")
        assert refused.isprintable()
        return
    assert 0 <= found <= 1e100
    assert 0 < len(names) <= MAX_METRICS
    assert all(map(math.isfinite, names.values()))
    assert all(name.isprintable() and len(name.encode()) <= MAX_NAME_BYTES for name in names)


@pytest.mark.parametrize("weight", ["", "many", "nan", "inf", "-1", "1e101", "9" * 65])
def test_a_weight_that_is_none_is_refused(weight: str) -> None:
    with pytest.raises(ModelError, match="site-1 gave its metrics the weight"):
        parse_answer("site-1", {"weight": weight}, {"accuracy": 0.5})


def test_an_answer_without_a_metric_is_refused() -> None:
    with pytest.raises(ModelError, match="answered without a metric"):
        parse_answer("site-1", {"weight": "1.0"}, {})


def test_a_client_is_told_of_too_many_metrics_before_it_sends_them() -> None:
    many = {f"m{number}": 0.0 for number in range(MAX_METRICS + 1)}
    with pytest.raises(ModelError, match="reported 257 metrics; at most 256 are taken"):
        to_answer(1.0, many)
