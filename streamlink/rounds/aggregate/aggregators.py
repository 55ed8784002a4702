"""The aggregators by name, and their settings as text: ``mean``, ``NAME:SETTING=VALUE,...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.aggregator import Aggregation, Aggregator
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.rounds.aggregate.named import NamedSettings, named_of
from streamlink.rounds.aggregate.optimizers import FedAdam, FedAvgM
from streamlink.rounds.aggregate.order import Median, TrimmedMean

__all__ = ["AGGREGATORS", "MEAN", "Mean", "aggregator_of"]


class Mean(NamedSettings):
    """The weighted mean of the updates (FedAvg)."""

    name = "mean"

    @property
    def slots(self) -> Mapping[str, float]:
        """No state."""
        return {}

    def scratch_bytes(self, clients: int) -> int:
        """Return the memory of one aggregation (bytes)."""
        return WeightedMean([1.0]).scratch_bytes

    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        """Return the mean with these weights.

        Raises:
            ModelError: a weight is not allowed, or all are 0.
        """
        return WeightedMean(weights, kinds)


MEAN = Mean()
"""The default."""

AGGREGATORS: dict[str, type[Aggregator]] = {
    each.name: each for each in (Mean, Median, TrimmedMean, FedAvgM, FedAdam)
}
"""Every aggregator, by the name that ``RoundConfig.aggregator`` takes; made from its settings."""


def aggregator_of(text: str) -> Aggregator:
    """Return the aggregator of a text such as ``"mean"`` or ``"NAME:SETTING=VALUE,..."``.

    Raises:
        ValueError: there is no such aggregator, or it has no such setting; names those there are.
    """
    made: Aggregator = named_of(text, AGGREGATORS, "aggregator")
    return made
