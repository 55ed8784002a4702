"""What a job knows of its clients when it chooses those of the next round.

What is known changes with the commit of a model, and with nothing else. The ledger gets what will
be known together with the intent of that commit. So a server that is killed before or after it
chooses by the same facts as one that was not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from streamlink.clock import Clock
from streamlink.config.link import MAX_CLIENTS
from streamlink.rounds.events import EventKind, RoundEvent

__all__ = ["ClientBook", "ClientRecord", "updated"]

_METRICS_KEPT = 32
_NAME_WIDTH = 128  # longer names of metrics are left out
_WIDTH = 500  # most of a reason that is kept


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """What is known of one client, from the rounds that gave a new model."""

    name: str
    rounds: int = 0
    """The rounds whose model has its update (count)."""
    last_round: int | None = None
    """Number of the last round that asked it; None: it was not asked yet."""
    weight: float = 0.0
    """The weight of its last update that counted, such as its number of examples."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics of that update: the first 32 by name, without names of over 128 characters."""
    seconds: float = 0.0
    """How long that update took, from the offer of the task to the update's last byte (seconds). In
    lockstep all wait for the slowest. 0: not known."""
    failure: str = ""
    """Why its update does not count in the last round that asked it; empty: it does, or it was not
    asked yet. At most 500 characters."""


class ClientBook:
    """What is known of the clients, and what will be once the round that runs is committed.

    Args:
        clock: measures how long updates take.
        known: from an earlier server of this job.
    """

    def __init__(self, clock: Clock, known: Mapping[str, ClientRecord] | None = None) -> None:
        self._clock = clock
        self._known = self._expected = dict(known or {})
        self._offered: dict[str, float] = {}
        self._seconds: dict[str, float] = {}

    @property
    def expected(self) -> Mapping[str, ClientRecord]:
        """What is known once the model that is computed now is committed."""
        return self._expected

    def of(self, names: Collection[str]) -> list[ClientRecord]:
        """Return what is known of each of ``names``, in alphabetical order."""
        return [self._known.get(name, ClientRecord(name)) for name in sorted(names)]

    def note(self, event: RoundEvent) -> None:
        """Measure how long the updates take."""
        name = event.peer_name
        if event.kind is EventKind.ROUND_STARTED:
            self._offered, self._seconds = {}, {}
        elif event.kind is EventKind.TASK_OFFERED:
            self._offered[name] = self._clock()
        elif event.kind is EventKind.UPDATE_ARRIVED and name in self._offered:
            self._seconds[name] = self._clock() - self._offered[name]

    def expect(
        self,
        number: int,
        weights: Mapping[str, float],
        metrics: Mapping[str, Mapping[str, float]],
        failures: Mapping[str, str],
    ) -> None:
        """Note the outcome of round ``number``, before its model is committed.

        Args:
            number: of the round.
            weights: the contributors, and their weights.
            metrics: the contributors' own.
            failures: clients that were asked and do not contribute, and why.
        """
        now = self._clock()
        # In lockstep all updates end with the slowest one, so there is no event for each.
        seconds = {name: now - began for name, began in self._offered.items()} | self._seconds
        self._expected = updated(self._known, number, weights, metrics, failures, seconds)

    def advance(self) -> None:
        """The model is committed: what was expected is known from now on."""
        self._known = self._expected


def updated(
    known: Mapping[str, ClientRecord],
    number: int,
    weights: Mapping[str, float],
    metrics: Mapping[str, Mapping[str, float]],
    failures: Mapping[str, str],
    seconds: Mapping[str, float],
) -> dict[str, ClientRecord]:
    """Return what is known after round ``number``; at most 4096 clients, those asked last."""
    records = dict(known)
    for name, why in failures.items():
        before = records.get(name, ClientRecord(name))
        records[name] = replace(before, last_round=number, failure=why[:_WIDTH])
    for name, weight in weights.items():
        before = records.get(name, ClientRecord(name))
        records[name] = ClientRecord(
            name, before.rounds + 1, number, weight, _few(metrics.get(name, {})),
            # An update that a restarted server found in its spool was not timed by it.
            seconds.get(name, before.seconds),
        )  # fmt: skip
    return _bounded(records)


def _few(metrics: Mapping[str, float]) -> dict[str, float]:
    # Clients choose these names, and the ledger keeps them: it is written several times a round.
    names = sorted(name for name in metrics if len(name) <= _NAME_WIDTH)
    return {name: metrics[name] for name in names[:_METRICS_KEPT]}


def _bounded(records: dict[str, ClientRecord]) -> dict[str, ClientRecord]:
    if len(records) <= MAX_CLIENTS:
        return records

    def age(name: str) -> tuple[int, str]:
        last = records[name].last_round
        return (-1 if last is None else last, name)

    return {name: records[name] for name in sorted(records, key=age)[-MAX_CLIENTS:]}
