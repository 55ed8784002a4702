"""The aggregators by name, and their settings as text: ``mean``, ``NAME:SETTING=VALUE,...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.aggregator import Aggregation, Aggregator
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.rounds.aggregate.named import NamedSettings
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

AGGREGATORS: dict[str, type[Aggregator]] = {each.name: each for each in (Mean, Median, TrimmedMean)}
"""Every aggregator, by the name that ``RoundConfig.aggregator`` takes; made from its settings."""


def aggregator_of(text: str) -> Aggregator:
    """Return the aggregator of a text such as ``"mean"`` or ``"NAME:SETTING=VALUE,..."``.

    Raises:
        ValueError: there is no such aggregator, or it has no such setting; names those there are.
    """
    name, _, settings = text.partition(":")
    if (kind := AGGREGATORS.get(name.strip())) is None:
        known = ", ".join(map(repr, sorted(AGGREGATORS)))
        raise ValueError(f"no aggregator is called {name.strip()!r}; there are: {known}")
    given = {}
    for setting in filter(None, settings.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: {setting!r} is not of the form SETTING=VALUE")
        given[key.strip()] = value.strip()
    try:
        return kind(**given)
    except ValidationError as error:
        raise ValueError(f"{text!r}: {_first_fault(error)}") from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}, not {fault['input']!r}"
