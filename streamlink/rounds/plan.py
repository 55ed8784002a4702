"""What all rounds of a job have in common: its rules, filters, aggregator and event listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from streamlink.clock import Clock
from streamlink.config import RoundConfig
from streamlink.encodings.rounder import RoundedSource, Rounder, formats_of
from streamlink.errors import RoundError
from streamlink.filters import Filter, FilterContext, filtered, functions_of
from streamlink.link import Attempt
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.aggregators import MEAN
from streamlink.rounds.aggregate.combiner import Step
from streamlink.rounds.aggregate.state import StateKeeper
from streamlink.rounds.clients import ClientBook
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.job_state import JobTracker
from streamlink.rounds.kept import KeptModels
from streamlink.rounds.report import RoundReport
from streamlink.rounds.schedule import Schedules
from streamlink.rounds.stop import StopSignal

__all__ = ["Metadata", "Plan"]

logger = logging.getLogger("streamlink.rounds")

Metadata = Callable[[Attempt, str], Mapping[str, str]]
"""``metadata(attempt, peer_name)`` returns the small facts that go with a client's task."""


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
    lossy_down: Sequence[str] = ()
    """Rules for the lossy formats of models that are sent to clients."""
    aggregator: Aggregator = MEAN
    schedules: Schedules = field(default_factory=Schedules)
    keeper: StateKeeper | None = field(default=None, kw_only=True)
    """Has the state of the aggregator, if it keeps one."""
    kept: KeptModels | None = field(default=None, kw_only=True)
    """Keeps the models of its rounds, which travel as differences then."""
    clock: Clock = field(kw_only=True)
    tracker: JobTracker = field(kw_only=True)
    book: ClientBook = field(kw_only=True)
    """What is known of the clients, for the choice of those of the next round."""
    stop: StopSignal = field(default_factory=StopSignal)

    def weigh(self, peer_name: str, given: float) -> float:
        """Return the weight that counts for a client whose update declares ``given``."""
        if self.rules.weights == "equal":
            return 1.0
        # The table of this server first: what a client declares counts only where it has no entry.
        return (self.weights or {}).get(peer_name, given)

    def sent_to(self, peer_name: str, attempt: Attempt, source: ModelSource) -> ModelSource:
        """Return the model as a client gets it: through the filters, then rounded.

        Raises:
            ModelError: a rule for lossy formats matches no tensor.
        """
        context = FilterContext(attempt, peer_name)
        seen = filtered(source, functions_of(self.filters_down, context))
        formats = formats_of(self.lossy_down, seen.spec)
        return RoundedSource(seen, Rounder(seen.spec, formats)) if formats else seen

    def keeping(self, sink: ModelSink) -> ModelSink:
        """Return the sink for a new model: the store's, and what is kept beside it."""
        return sink if self.kept is None else self.kept.keeping(sink)

    def facts(self, attempt: Attempt, peer_name: str) -> Mapping[str, str]:
        """Return the small facts that go with the task of a client, the scheduled ones first.

        A fact for one client (``metadata``) replaces a scheduled one of the same name.

        Raises:
            RoundError: one of them is no text, or a schedule gave no number.
        """
        facts = {**self.scheduled(attempt.round), **self.metadata(attempt, peer_name)}
        for name, value in facts.items():
            if not all(isinstance(text, str) for text in (name, value)):
                raise RoundError(
                    f"the metadata for {peer_name} has {name!r}: {value!r}; both must be text (str)"
                )
        return facts

    def scheduled(self, number: int) -> dict[str, str]:
        """Return the scheduled facts of round ``number``, which all clients get.

        Raises:
            RoundError: a schedule gave no number.
        """
        return self.schedules.facts(number - self.rules.start_round)

    def emit(
        self,
        kind: EventKind,
        attempt: Attempt,
        peer_name: str = "",
        detail: str = "",
        *,
        report: RoundReport | None = None,
    ) -> None:
        """Record an event, and call ``on_event``; its exception fails the round.

        After the commit it cannot: the new model is there, and the exception is only logged.

        Raises:
            JobAborted: an operator has aborted the job.
        """
        event = RoundEvent(kind, attempt, peer_name, detail, report)
        # Noted first: the state shows how far the round was, whatever ends it here.
        self.tracker.note(event)
        self.book.note(event)
        # Where the round is over already, done or failed, the order takes effect at the next event.
        if kind not in _PAST:
            self.stop.check()
        try:
            self.on_event(event)
        except Exception:
            if kind not in _PAST:
                raise
            logger.exception("%s: on_event raised at %s", attempt, kind.value)

    def emit_step(self, step: Step, attempt: Attempt) -> None:
        """Emit the events of a step of the gathering."""
        for kind in _EVENTS[step]:
            self.emit(kind, attempt)


_PAST = (
    *(EventKind.AFTER_PERSIST, EventKind.ROUND_DONE, EventKind.ROUND_FAILED),
    *(EventKind.EVALUATION_STARTED, EventKind.CLIENT_EVALUATED),
    *(EventKind.CLIENT_NOT_EVALUATED, EventKind.EVALUATED),
    *(EventKind.BEST_FOUND, EventKind.BEST_KEPT, EventKind.STOPPED_EARLY),
)
"""Events after which an exception can no longer fail the round."""

_EVENTS = {
    Step.AGGREGATING: (EventKind.BEFORE_AGGREGATION,),
    Step.AGGREGATED: (EventKind.AFTER_AGGREGATION, EventKind.BEFORE_PERSIST),
    Step.PERSISTED: (EventKind.AFTER_PERSIST,),
}
