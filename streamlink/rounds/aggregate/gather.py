"""The aggregation loop: it computes the new model as far as the slowest update has arrived.

One pass over the model, range by range. In lockstep the updates are open streams
(``lockstep.source``): what has arrived and cannot be used yet stays in its stream, within the
window that was granted to it. So the server's memory grows by one window for each client, and not
with the model. A client that is ahead is held, and learns for whom; all are held while a lost
client may come back. A spool has stored the updates (``spool.source``): the loop never waits.

The loop decides whom to wait for, and notifies the others. The ``Combiner`` computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from streamlink.clock import Clock
from streamlink.errors import ModelError, RoundError, StreamlinkError
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.aggregators import MEAN
from streamlink.rounds.aggregate.combiner import (
    Combiner,
    ContributorFailed,
    NonFinite,
    Step,
)
from streamlink.rounds.aggregate.mean import weighted_metrics
from streamlink.rounds.aggregate.state import StateKeeper
from streamlink.rounds.aggregate.state_step import StateStep
from streamlink.rounds.aggregate.update_source import UpdateSource
from streamlink.rounds.aggregate.validate import check_metrics, check_weight

__all__ = ["Downstream", "Gather", "GatherRules", "TrainTimeout"]

_CHECK_SECONDS = 1.0  # how soon the loss of one client is seen while the loop waits for another
_OURSELVES = "the server"


class TrainTimeout(RoundError):
    """``train_timeout`` passed while the loop waited for ``peer_name``."""

    def __init__(self, peer_name: str, seconds: float, done: int, total: int) -> None:
        self.peer_name = peer_name
        super().__init__(
            f"train_timeout of {seconds:g} s passed while waiting for {peer_name}, with {done} of "
            f"{total} bytes gathered; raise train_timeout if that is normal for this model"
        )


class Downstream(Protocol):
    """Who reads the new model while it is being computed, and so limits how fast that may go.

    The bytes reach it through the loop's sink; here is only the back-pressure.
    """

    def announced(self) -> None:
        """Note that every update is announced: the first piece is computed next."""

    def wait_room(self, nbytes: int, seconds: float) -> str:
        """Wait up to ``seconds`` for room for ``nbytes`` more of the new model.

        Returns:
            ``""``: there is room; else the name of the slowest reader.
        """


@dataclass(frozen=True, slots=True)
class GatherRules:
    """How the loop waits, what it refuses, and whom it notifies."""

    clock: Clock

    held_interval: float | None = None
    """How often clients that are ahead are notified that they are held (seconds). None: never,
    since all updates are stored."""

    deadline: float | None = None
    """The time after which ``TrainTimeout`` is raised; None: never."""

    train_timeout: float = 0.0
    """The setting behind the deadline, for the error's text."""

    non_finite: NonFinite = "reject"
    """What to do about NaN or infinity in an update, after its filters."""

    aggregator: Aggregator = MEAN
    """Combines the elements of the updates."""

    keeper: StateKeeper | None = None
    """Has the aggregator's state; None: it keeps none."""

    on_whole: Callable[[Gather], None] = lambda _: None
    """Called once all updates are whole, so that their weights and metrics are known, and before
    the commit."""

    on_step: Callable[[Step], None] = lambda _: None
    """Called at each step, in the gathering's thread; what it raises fails the round."""

    downstream: Downstream | None = None
    """Who reads the new model while it is computed; None: nobody."""

    check: Callable[[], None] = lambda: None
    """Called before each wait and each piece; what it raises fails the round."""


class Gather:
    """Combines the updates of ``sources`` into ``sink``, in the order of their clients' names.

    That order is fixed, so the result is the same bits whenever and in whatever order the updates
    arrived, and wherever they are stored.

    Args:
        base: the model the clients were given. Read, never closed.
        part: the tensors every update must have: all of the base's, or an ordered subset. The new
            model has the base's bytes in the others.
        sources: the updates; closed at the end.
        sink: takes the new model from 0 to its end; committed at the very end. On an error the
            caller discards it.
        rules: how it waits, what it refuses, whom it notifies.
    """

    def __init__(
        self,
        base: ModelSource,
        part: ModelSpec,
        sources: Iterable[UpdateSource],
        sink: ModelSink,
        rules: GatherRules,
    ) -> None:
        self._base = base
        self._part = part
        self._sources = sorted(sources, key=lambda each: each.peer_name)
        self._sink = sink
        self._rules = rules
        self._combiner: Combiner | None = None
        self._state: StateStep | None = None
        self._next_notice_at = 0.0
        self._awaited: UpdateSource | None = None  # that the others have been told they wait for

    @property
    def position(self) -> int:
        """Bytes of the new model that are computed."""
        return self._combiner.position if self._combiner is not None else 0

    def run(self) -> None:
        """Gather, and commit the new model.

        Raises:
            ContributorFailed: an update failed, or must not count; there is no new model.
            TrainTimeout: ``train_timeout`` passed.
            QuorumNotReached: every update has weight 0.
            NonFiniteRound: an update has NaN or infinity, and ``non_finite`` is ``"fail"``.
            CorruptStore: a stored update has changed on this side's disk.
            StoreError: an update cannot be read, or the new model cannot be stored.
        """
        try:
            self._run()
        finally:
            # Also after an error: stored updates hold files open.
            for source in self._sources:
                source.close()
            if self._state is not None:
                self._state.close()

    @property
    def weights(self) -> dict[str, float]:
        """Each contributor's weight, by name: the one that counted."""
        return {each.peer_name: each.weight for each in self._sources}

    @property
    def metrics(self) -> dict[str, float]:
        """The contributors' metrics, averaged with the same weights as the model."""
        return weighted_metrics([(each.weight, each.metrics) for each in self._sources])

    @property
    def client_metrics(self) -> dict[str, dict[str, float]]:
        """Each contributor's own metrics, by name."""
        return {each.peer_name: dict(each.metrics) for each in self._sources}

    def _run(self) -> None:
        # All announcements first: weights and kinds of every update decide what the sums are.
        for source in self._sources:
            self._wait(source, source.open)
            self._check_announced(source)
        if self._rules.keeper is not None:
            self._state = self._rules.keeper.begin()
        combiner = self._combiner = Combiner(
            self._base,
            self._part,
            self._sources,
            self._sink,
            non_finite=self._rules.non_finite,
            aggregator=self._rules.aggregator,
            state=self._state,
        )
        with self._notifying(lambda each: each.hold("busy", _OURSELVES)):
            self._rules.on_step(Step.AGGREGATING)
            if self._rules.downstream is not None:
                self._rules.downstream.announced()
        while not combiner.is_done:
            self._advance(combiner)
        # Metrics and the digest follow the last byte: only now is each update known to be whole.
        for source in self._sources:
            self._wait(source, source.finish)
            self._check_metrics(source)
        self._rules.on_whole(self)
        with self._notifying(lambda each: each.committing()):
            self._rules.on_step(Step.AGGREGATED)
        self._commit()

    def _advance(self, combiner: Combiner) -> None:
        """Compute one piece, or wait for the slowest update where nothing can be computed."""
        # The one that has come least far limits the piece, so it is the only one to wait for.
        slowest = min(self._sources, key=lambda each: each.end)
        nbytes = combiner.ahead(slowest.end)
        if not nbytes:
            self._wait(slowest, slowest.fetch)
            return
        self._rules.check()
        self._make_room(nbytes)
        used = combiner.compute(nbytes)
        if used:
            # Only when the sum has them: so no more than a window of each update is in memory.
            for source in self._sources:
                source.release(used)
            self._awaited = None  # a stream waits for nobody once its credit comes back
        else:
            self._notify_of_copying()

    def _commit(self) -> None:
        def moved(_: int) -> None:
            for source in self._sources:
                source.committing()

        # In this order: state that belongs to no model does not count (see ``state``), and a client
        # that gets *commit* may rely on the new model being durable.
        if self._state is not None:
            self._state.commit(moved)
        self._sink.commit(moved)
        if self._rules.keeper is not None:
            self._rules.keeper.advance()
        for source in self._sources:
            source.commit()
        self._rules.on_step(Step.PERSISTED)

    @contextmanager
    def _notifying(self, say: Callable[[UpdateSource], object]) -> Iterator[None]:
        """Notify the clients from another thread while user code or the store's commit runs.

        Such code may take longer than a client's timeouts, and cannot be asked to report progress.
        """
        interval, is_over = self._rules.held_interval, self._rules.clock.event()
        if interval is None:
            yield
            return

        def pulse() -> None:
            while not is_over.wait(interval):
                for source in self._sources:
                    # A stream that has failed is the loop's to report, which looks at it next.
                    with suppress(StreamlinkError):
                        say(source)

        thread = threading.Thread(target=pulse, name="gather-pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            # Joined: no notice may follow what the loop itself sends next, such as *commit*.
            self._rules.clock.join(thread)

    # --- waiting ------------------------------------------------------------------------

    def _wait(self, source: UpdateSource, step: Callable[[float], bool]) -> None:
        """Repeat ``step`` until it is done; meanwhile notify the others whom they wait for."""
        self._note_awaited(source)
        while not step(self._wait_seconds(source.peer_name)):
            self._hold(source.peer_name, source)

    def _note_awaited(self, source: UpdateSource) -> None:
        """Tell the sources whom the loop waits for: the statistics count short waits, too.

        Between two pieces only the two sources that change places are told. The others wait as
        before, and may name a client that has just answered until ``_hold`` corrects that: to tell
        all of them at every wait would cost clients × clients.
        """
        awaited, self._awaited = self._awaited, source
        if awaited is source:
            return
        for each in self._sources if awaited is None else (awaited,):
            each.wait_for(source.peer_name)
        source.wait_for("")

    def _make_room(self, nbytes: int) -> None:
        """Wait until the downstream reader has room; meanwhile all clients are held."""
        downstream = self._rules.downstream
        if downstream is None:
            return
        # First without a wait: nearly always there is room. Only a wait has to look at the
        # deadline, and at an order to stop.
        name = downstream.wait_room(nbytes, 0.0)
        while name:
            name = downstream.wait_room(nbytes, self._wait_seconds(name))
            if name:
                self._hold(name)

    def _notify_of_copying(self) -> None:
        """Notify the clients, now and then, that the base is copied and no update is read."""
        now = self._rules.clock()
        if now >= self._next_notice_at:
            self._next_notice_at = now + self._wait_seconds(_OURSELVES)
            self._hold(_OURSELVES)

    def _hold(self, waiting_for: str, but: UpdateSource | None = None) -> None:
        self._awaited = but
        for each in self._sources:
            if each is not but:
                # Polled, too: its loss is noticed though the loop waits for another.
                each.poll()
                each.hold("lockstep", waiting_for)

    def _wait_seconds(self, waiting_for: str) -> float:
        """Return how long to wait at once; raise if the deadline has passed, or ``check`` does."""
        self._rules.check()
        # Never all of it at once: between two steps the other updates are polled, and their clients
        # are notified.
        seconds = min(self._rules.held_interval or _CHECK_SECONDS, _CHECK_SECONDS)
        if self._rules.deadline is None:
            return seconds
        left = self._rules.deadline - self._rules.clock()
        if left <= 0:
            timeout, total = self._rules.train_timeout, self._base.spec.nbytes
            raise TrainTimeout(waiting_for, timeout, self.position, total)
        return min(seconds, left)

    # --- what is refused ----------------------------------------------------------------

    def _check_announced(self, source: UpdateSource) -> None:
        try:
            source.check_announced(self._part, self._base.spec)
            check_weight(source.peer_name, source.weight)
        except ModelError as error:
            raise ContributorFailed(source.peer_name, error) from error

    @staticmethod
    def _check_metrics(source: UpdateSource) -> None:
        try:
            check_metrics(source.peer_name, source.metrics)
        except ModelError as error:
            raise ContributorFailed(source.peer_name, error) from error
