"""What a client answers to an evaluation: metrics and their weight, checked at both ends.

At the server it is hostile input: it goes into reports, into the ledger and onto terminals. So the
number of metrics is bounded, their names are short and printable, and a value is finite or is not
there. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from streamlink.errors import ModelError
from streamlink.rounds.aggregate.validate import WEIGHTS_ALLOWED, is_weight

__all__ = ["MAX_METRICS", "MAX_NAME_BYTES", "parse_answer", "to_answer"]

MAX_METRICS = 256
"""Most metrics of one evaluation (count)."""
MAX_NAME_BYTES = 128
"""Longest name of one (bytes)."""

_WEIGHT = "weight"
_LONGEST = 64  # characters of a weight; float() of a longer text is work for nothing
_SHOWN = 40  # characters of what a peer sent, in a message


def to_answer(weight: float, metrics: Mapping[str, float]) -> dict[str, str]:
    """Return the small facts that travel beside ``metrics``: their weight.

    Raises:
        ModelError: there are too many metrics, or a name is not allowed.
    """
    _check_names("the evaluation", metrics)
    return {_WEIGHT: repr(weight)}


def parse_answer(
    peer_name: str, facts: Mapping[str, str], metrics: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """Return the weight and the metrics that a client has answered; its other facts are dropped.

    Raises:
        ModelError: there are no metrics or too many, a name or the weight is not allowed, or a
            metric is not finite.
    """
    if not metrics:
        raise ModelError(f"{peer_name} answered without a metric")
    _check_names(peer_name, metrics)
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise ModelError(f"{peer_name} reported {name} = {value}; a metric is a finite number")
    return _weight(peer_name, facts.get(_WEIGHT, "")), dict(metrics)


def _check_names(who: str, metrics: Mapping[str, float]) -> None:
    if len(metrics) > MAX_METRICS:
        raise ModelError(f"{who} reported {len(metrics)} metrics; at most {MAX_METRICS} are taken")
    for name in metrics:
        if not name or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
            raise ModelError(
                f"{who} reported a metric called {name[:_SHOWN]!r}; a name is 1 to "
                f"{MAX_NAME_BYTES} bytes of printable text"
            )


def _weight(peer_name: str, text: str) -> float:
    try:
        weight = float(text) if len(text) <= _LONGEST else math.nan
    except ValueError:
        weight = math.nan
    if not is_weight(weight):
        raise ModelError(
            f"{peer_name} gave its metrics the weight {text[:_SHOWN]!r}; {WEIGHTS_ALLOWED}"
        )
    return weight
