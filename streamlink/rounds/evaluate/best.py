"""Which model is the best so far, and whether a job has stopped getting better. Pure.

    no value ──▶ the standing stays; this evaluation does not count
    better   ──▶ the model is the best
    better by more than ``min_delta`` ──▶ patience begins again
    else     ──▶ one evaluation of patience is used

A tie keeps the earlier model. The best model and the reference of ``min_delta`` are apart, as in
Keras: many small improvements are worth keeping, and may still not be worth waiting for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamlink.config import RoundConfig
from streamlink.rounds.evaluate.report import Evaluation

__all__ = ["Standing", "judged"]


@dataclass(frozen=True, slots=True)
class Standing:
    """The best model of a job so far; the ledger keeps it."""

    metric: str
    mode: str
    """``max`` or ``min``."""
    round: int
    """Whose model is the best."""
    value: float
    """Of the metric, for that model."""
    digest: str
    """Identifies that model, as the ledger does; empty: there is no ledger."""
    reference: float
    """What has to be beaten by more than ``min_delta``."""
    waited: int = 0
    """Evaluations in a row that did not (count)."""

    def __str__(self) -> str:
        return f"{self.metric} {self.value:.6g} of round {self.round}"

    def reason_to_stop(self, rules: RoundConfig) -> str:
        """Return why the job ends here; empty: it goes on."""
        if not rules.patience or self.waited < rules.patience:
            return ""
        times = "1 evaluation" if self.waited == 1 else f"{self.waited} evaluations"
        by = f" by more than {rules.min_delta:g}" if rules.min_delta else ""
        return f"{self.metric} has not become better{by} in {times}; the best is {self}"


def judged(
    before: Standing | None, rules: RoundConfig, number: int, found: Evaluation, digest: str
) -> Standing | None:
    """Return the standing after the evaluation of round ``number``.

    Args:
        before: the standing until now; None: no model was judged yet.
        rules: the metric, and what counts as better.
        number: of the round.
        found: what the clients found of its model.
        digest: identifies that model.
    """
    value = found.metrics.get(rules.best_metric)
    if value is None:
        return before
    best = Standing(rules.best_metric, rules.best_mode, number, value, digest, value)
    if before is None:
        return best
    sign = 1.0 if rules.best_mode == "max" else -1.0
    if sign * (value - before.reference) > rules.min_delta:
        return best
    # Within ``min_delta`` a model may still be the best one; the reference stays for the next.
    kept = best if sign * (value - before.value) > 0 else before
    return replace(kept, reference=before.reference, waited=before.waited + 1)
