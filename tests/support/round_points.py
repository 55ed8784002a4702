"""A server that is killed at a point of its rounds, by what an embedder may give them.

It is told what happens (``on_event``), its store's commit and its filter are ours, and of what goes
out it hears as any process does (``kill_points``); so it dies where it is to, and nothing of it is
another than in a program of a user.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlink as sl
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, ModelSource, Progress
from streamlink.rounds.choice import Choice, choice_of
from tests.support.kill_points import KillPoint
from tests.support.peers import ODD, Array

__all__ = ["NOWHERE", "POINTS", "RoundPoint"]

_EVENTS = {
    sl.rounds.EventKind.TASK_OFFERED: "offering",
    sl.rounds.EventKind.UPDATE_ARRIVED: "arrived",
    sl.rounds.EventKind.AFTER_AGGREGATION: "computed",
    sl.rounds.EventKind.AFTER_PERSIST: "committed",
    sl.rounds.EventKind.ROUND_DONE: "between rounds",
    sl.rounds.EventKind.EVALUATION_STARTED: "evaluating",
    sl.rounds.EventKind.BEST_FOUND: "judged",
    sl.rounds.EventKind.BEST_KEPT: "kept",
}
POINTS = (
    *_EVENTS.values(),
    *("choosing", "stored", "aggregating", "between slots", "intended", "copied", "all done"),
)
"""Where a server dies.

*choosing*: the choice is known, and not recorded.
*offering*: a client was asked. *stored*: an update is in the spool, its client does not know.
*arrived*: and may know. *aggregating*: a part of the mean is computed, *computed*: all of it.
*between slots*: one slot of the aggregator's state is durable, the next is about to be.
*intended*: the ledger knows that the store's commit is next. *committed*: it was; the ledger does
not know. *between rounds*: it does, and nothing is under way. *evaluating*: no client has answered.
*judged*: the ledger knows that the model is the best. *copied*: its copy is about to be committed.
*kept*: it was. *all done*: no client knows.
"""


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """The server dies at ``point`` of round ``round``."""

    point: str
    round: int = 0

    def serve(self, job: Mapping[str, Any]) -> None:
        """Run a job up to the point: what ``streamlink server --resume`` does with these facts."""
        killer = _Killer(self)
        if self.point == "stored":  # its commit is about to leave
            KillPoint("server", "up done", self.round * job["rules"]["min_clients"] + 1).arm()
        if self.point == "between slots":
            sys.addaudithook(killer.audit)
        store = _Store(sl.open_store(job["store"]), killer)
        with sl.Server(job["listen"], sl.LinkConfig.model_validate(job["link"])) as server:
            rules = sl.RoundConfig.model_validate(job["rules"])
            choice = _least_trained if job["is_chosen_by_facts"] else choice_of(rules.choose)
            rounds = sl.ScatterAndGather(
                server,
                store,
                rules,
                choose=killer.choosing(choice) if self.point == "choosing" else choice,
                spool=job["spool"],
                state=job["state"],
                filters_up=[killer.filter],
                on_event=killer.hear,
                ledger=Path(f"{job['store']}.rounds.json"),
                resume=True,
                best=_Store(sl.open_store(job["best"]), killer, "copied") if job["best"] else None,
            )
            rounds.wait_for_clients()
            rounds.run()
            killer.reach("all done", self.round)


NOWHERE = RoundPoint("nowhere")
"""The server reaches the end of its job."""


def _least_trained(
    number: int, clients: Sequence[sl.rounds.ClientRecord]
) -> Sequence[sl.rounds.ClientRecord]:
    """Choose the one that took part in the fewest rounds."""
    return sorted(clients, key=lambda each: (each.rounds, each.name))[:1]


class _Killer:
    """Kills this process where the round's point is reached."""

    def __init__(self, aim: RoundPoint) -> None:
        self._aim = aim
        self._round = -1

    def reach(self, point: str, number: int) -> None:
        if (point, number) == (self._aim.point, self._aim.round):
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: sl.RoundEvent) -> None:
        self._round = event.attempt.round
        self.reach(_EVENTS.get(event.kind, ""), self._round)

    def choosing(self, choice: Choice) -> Choice:
        def choose(
            number: int, clients: Sequence[sl.rounds.ClientRecord]
        ) -> Collection[sl.rounds.ClientRecord | str]:
            chosen = choice(number, clients)
            self.reach("choosing", number)
            return chosen

        return choose

    def audit(self, event: str, facts: tuple[Any, ...]) -> None:
        # Slots are committed in their order, and a commit ends with a file that gets its name.
        if event == "os.rename" and "second_moment" in str(facts[1]):
            self.reach("between slots", self._round)

    def filter(self, tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == ODD.tensors[-1].name:  # the others are averaged
            self.reach("aggregating", self._round)
        return values

    def commit(self, sink: ModelSink, progress: Progress | None, point: str) -> None:
        self.reach(point, self._round)
        sink.commit(progress)


class _Store:
    """A store whose commits the killer knows of."""

    def __init__(self, store: sl.ModelStore, killer: _Killer, point: str = "intended") -> None:
        self._store, self._killer, self._point = store, killer, point

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: sl.ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)
        return CommitSink(sink, lambda progress: self._killer.commit(sink, progress, self._point))
