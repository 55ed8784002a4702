"""Aggregators: how the updates of a round become the new model.

Each is given to ``ScatterAndGather(aggregator=...)`` as an object, or by its text: in
``RoundConfig.aggregator``, in a configuration file, or with ``--aggregator``. One of your own is a
class with the methods of ``Aggregator``.
"""

from streamlink.rounds.aggregate.aggregator import Aggregation, Aggregator
from streamlink.rounds.aggregate.aggregators import Mean, aggregator_of
from streamlink.rounds.aggregate.optimizers import FedAdam, FedAvgM
from streamlink.rounds.aggregate.order import Median, TrimmedMean

__all__ = [
    "Aggregation",
    "Aggregator",
    "FedAdam",
    "FedAvgM",
    "Mean",
    "Median",
    "TrimmedMean",
    "aggregator_of",
]
