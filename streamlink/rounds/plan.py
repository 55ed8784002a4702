"""What all rounds of a job have in common: its rules, its filters, and who hears of its events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from streamlink.clock import Clock
from streamlink.config import RoundConfig
from streamlink.link import Attempt
from streamlink.rounds.aggregate.aggregator import AGGREGATORS, MakeAggregator
from streamlink.rounds.aggregate.combiner import Step
from streamlink.rounds.events import Happening, RoundEvent
from streamlink.rounds.filters import Filter
from streamlink.rounds.job_state import JobTracker
from streamlink.rounds.report import RoundReport
from streamlink.rounds.stop import StopSignal

__all__ = ["Metadata", "Plan"]

logger = logging.getLogger("streamlink.rounds")

Metadata = Callable[[Attempt, str], Mapping[str, str]]
"""``metadata(attempt, peer)`` returns the small facts that go with a client's task."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What all rounds of a job have in common."""

    job: str
    rules: RoundConfig
    filters_down: Sequence[Filter]
    filters_up: Sequence[Filter]
    metadata: Metadata
    on_event: Callable[[RoundEvent], None]
    weights: Mapping[str, float] | None = None
    aggregator: MakeAggregator = AGGREGATORS["mean"]
    clock: Clock = field(kw_only=True)
    tracker: JobTracker = field(kw_only=True)
    stop: StopSignal = field(default_factory=StopSignal)

    def weigh(self, peer: str, given: float) -> float:
        """Return the weight that counts for ``peer``, which gave ``given``."""
        if self.rules.weights == "equal":
            return 1.0
        return (self.weights or {}).get(peer, given)

    def emit(
        self,
        what: Happening,
        attempt: Attempt,
        peer: str = "",
        detail: str = "",
        *,
        report: RoundReport | None = None,
    ) -> None:
        """Tell the embedder what happened; what it raises ends the round, unless that is over.

        Raises:
            JobAborted: an operator wants no more of this job.
        """
        event = RoundEvent(what, attempt, peer, detail, report)
        self.tracker.note(event)
        if what not in _PAST:
            self.stop.check()
        try:
            self.on_event(event)
        except Exception:
            if what not in _PAST:
                raise
            logger.exception("%s: a listener raised at %s", attempt, what.value)

    def emit_step(self, step: Step, attempt: Attempt) -> None:
        """Tell the embedder how far the gathering is."""
        for happening in _HAPPENINGS[step]:
            self.emit(happening, attempt)


_PAST = (Happening.AFTER_PERSIST, Happening.ROUND_DONE, Happening.ROUND_FAILED)
"""What cannot be undone by raising."""

_HAPPENINGS = {
    Step.AGGREGATING: (Happening.BEFORE_AGGREGATION,),
    Step.AGGREGATED: (Happening.AFTER_AGGREGATION, Happening.BEFORE_PERSIST),
    Step.PERSISTED: (Happening.AFTER_PERSIST,),
}
