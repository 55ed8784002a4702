"""The server's side of the rounds: scatter a model to the clients, aggregate their updates.

``controller`` runs the rounds, ``ledger`` records which are done. ``aggregate`` turns updates into
the new model; ``lockstep`` does so while they arrive, ``spool`` after it has stored them.
``evaluate`` has the clients evaluate it, and ``judge`` keeps the best.
``averaged`` is the mean alone, for programs that have their own rounds.
"""

from streamlink.rounds.averaged import AveragedModel
from streamlink.rounds.choice import Choice
from streamlink.rounds.clients import ClientRecord
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.evaluate.best import Standing
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.job_state import JobState, MetricsNote, RoundNote, Trouble
from streamlink.rounds.ledger import Ledger, Run
from streamlink.rounds.plan import Metadata
from streamlink.rounds.report import ClientProgress, RoundReport

__all__ = [
    "AveragedModel",
    "Choice",
    "ClientProgress",
    "ClientRecord",
    "Evaluation",
    "EventKind",
    "JobState",
    "Ledger",
    "Metadata",
    "MetricsNote",
    "RoundEvent",
    "RoundNote",
    "RoundReport",
    "Run",
    "ScatterAndGather",
    "Standing",
    "Trouble",
]
