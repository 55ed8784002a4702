"""The result of an evaluation, as it stands in the round's report and in the ledger."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field

__all__ = ["Evaluation", "log_evaluation"]

logger = logging.getLogger("streamlink.rounds")

_SHOWN = 8  # metrics in one line of the log; its facts have all


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the clients found of the new model of a round."""

    metrics: dict[str, float]
    """The weighted mean of each metric, over the clients that reported it; empty: too few clients
    answered, or every weight is 0."""
    client_metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """The metrics of each client that answered."""
    weights: dict[str, float] = field(default_factory=dict)
    """Their weights, such as numbers of samples."""
    failures: dict[str, str] = field(default_factory=dict)
    """The other clients that were asked, and why they did not answer."""
    seconds: float = 0.0


def log_evaluation(number: int, evaluation: Evaluation) -> None:
    """Log the evaluation of round ``number``, with its facts."""
    shown = [f"{name} {value:.6g}" for name, value in evaluation.metrics.items()]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    found = ", ".join(shown[:_SHOWN]) + more if shown else "no metric"
    text = f"round {number} evaluated by {len(evaluation.weights)} clients"
    extra = {"event": "evaluated", "facts": {"round": number, **asdict(evaluation)}}
    logger.info("%s in %.1f s: %s", text, evaluation.seconds, found, extra=extra)
