"""Which model is the best, and when a job has waited long enough for a better one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streamlink.config import RoundConfig
from streamlink.rounds.evaluate.best import Standing, judged
from streamlink.rounds.evaluate.report import Evaluation


def rules(**given: Any) -> RoundConfig:
    return RoundConfig(**{"evaluate_every": 1, "best_metric": "loss", "patience": 2, **given})


def after(values: list[float | None], of: RoundConfig) -> Standing:
    standing: Standing | None = None
    for number, value in enumerate(values):
        found = Evaluation({} if value is None else {"loss": value})
        standing = judged(standing, of, number, found, f"model {number}")
    assert standing is not None
    return standing


@pytest.mark.parametrize(("mode", "best"), [("max", 2), ("min", 1)])
def test_the_best_model_has_the_largest_or_the_smallest_value(mode: str, best: int) -> None:
    standing = after([0.5, 0.25, 0.75, 0.6], rules(best_mode=mode))
    assert (standing.round, standing.digest) == (best, f"model {best}")


def test_a_tie_keeps_the_earlier_model() -> None:
    assert after([0.5, 0.5], rules()).round == 0


def test_without_the_metric_nothing_changes_and_no_patience_is_used() -> None:
    assert after([None, 0.5, None, None, None], rules()) == after([None, 0.5], rules())


def test_after_enough_evaluations_without_a_better_one_the_job_stops_with_its_reason() -> None:
    of = rules(best_mode="min")
    assert after([0.5, 0.6], of).reason_to_stop(of) == ""
    assert after([0.5, 0.6, 0.5], of).reason_to_stop(of) == (
        "loss has not become better in 2 evaluations; the best is loss 0.5 of round 0"
    )


def test_patience_begins_again_with_each_better_model() -> None:
    assert after([0.5, 0.25, 0.75, 0.6], rules()).waited == 1


def test_small_improvements_are_kept_and_do_not_extend_the_job() -> None:
    of = rules(min_delta=0.1)
    standing = after([0.5, 0.55, 0.59], of)
    assert (standing.round, standing.waited) == (2, 2)
    assert "better by more than 0.1 in 2 evaluations" in standing.reason_to_stop(of)
    # Small steps count together once they exceed the limit.
    assert after([0.5, 0.55, 0.61], of).waited == 0


def test_without_patience_a_job_never_stops() -> None:
    of = rules(patience=0)
    assert after([0.5, *[0.1] * 50], of).reason_to_stop(of) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"best_metric": "loss"}, "no model is evaluated; set evaluate_every"),
        ({"patience": 3}, "patience needs best_metric"),
        ({"evaluate_every": 1, "best_metric": "loss", "best_mode": "least"}, "'max' or 'min'"),
        ({"evaluate_every": 1, "best_metric": "loss", "min_delta": -0.1}, "greater than or equal"),
    ],
)
def test_rules_that_cannot_work_are_refused_at_once(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        RoundConfig(**given)
