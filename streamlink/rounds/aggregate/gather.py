"""The aggregation loop: updates become the new model, as far as the slowest of them has come.

Range by range, in one pass. In lockstep the updates are open streams: what has arrived and cannot
be used yet stays in its stream, within the window that stream was granted; a client that is ahead
is told that it is held, and for whom; all are, while one that was lost is awaited
(``lockstep.source``). So the server's memory grows with the number of clients by their windows and
not at all with the model. Through a spool they are stored (``spool.source``), and nobody waits.

The loop knows who is waited for and who hears of it. What becomes of a range is the ``Combiner``'s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from streamlink.clock import running_time
from streamlink.errors import ModelError, RoundError, StreamlinkError
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.aggregator import AGGREGATORS, MakeAggregator
from streamlink.rounds.aggregate.combiner import (
    Combiner,
    ContributorFailed,
    NonFinite,
    Step,
)
from streamlink.rounds.aggregate.mean import weighted_metrics
from streamlink.rounds.aggregate.update_source import UpdateSource
from streamlink.rounds.aggregate.validate import check_metrics, check_weight

__all__ = ["Downstream", "Gather", "GatherRules", "OutOfTime"]

_CHECK_SECONDS = 1.0  # a client that is lost while another is waited for is noticed this soon
_OURSELVES = "the server"


class OutOfTime(RoundError):
    """``train_timeout`` passed while ``peer`` was being waited for."""

    def __init__(self, peer: str, seconds: float, done: int, total: int) -> None:
        self.peer = peer
        super().__init__(
            f"train_timeout of {seconds:g} s passed while waiting for {peer}, with {done} of "
            f"{total} bytes gathered; raise train_timeout if that is normal for this model"
        )


class Downstream(Protocol):
    """Where the new model's bytes go on to while it is still being computed.

    It gets the bytes themselves as the loop's sink.
    """

    def announced(self) -> None:
        """Note that every update is announced: the first piece is computed next."""

    def wait_room(self, nbytes: int, seconds: float) -> str:
        """Wait up to ``seconds`` for room for ``nbytes`` more of the new model.

        Returns:
            ``""``: there is room; else the name of whom it waits for.
        """


@dataclass(frozen=True, slots=True)
class GatherRules:
    """How a gathering waits, what it refuses, and who is told of its steps."""

    held_interval: float | None = None
    """How often those ahead are told that they are held (seconds); None: nobody listens, since all
    updates are stored."""

    deadline: float | None = None
    """``running_time`` after which ``OutOfTime`` is raised; None: never."""

    train_timeout: float = 0.0
    """The setting behind the deadline, for the error's sentence."""

    non_finite: NonFinite = "reject"
    """What NaN or infinity in an update leads to, looked for after the filters."""

    aggregator: MakeAggregator = AGGREGATORS["mean"]
    """Makes what combines the elements of the updates."""

    on_step: Callable[[Step], None] = lambda _: None
    """Called at each step, in the gathering's thread; what it raises fails the round."""

    downstream: Downstream | None = None
    """Told when every update is announced, and asked for room before each piece is computed."""

    check: Callable[[], None] = lambda: None
    """Called before each wait and each piece; what it raises fails the round."""


class Gather:
    """Combines the updates of ``sources`` into ``sink``, in the order of their clients' names.

    The order of accumulation is fixed, so that the result is the same bits each time, whenever the
    updates arrived and wherever they are.

    Args:
        base: the model the clients were given. Read, never closed.
        part: the tensors every update must have: all of the base's, or an ordered subset. The new
            model has the base's bytes in the others.
        sources: whose updates count; closed at the end.
        sink: takes the new model from 0 to its end; committed at the very end, discarded by the
            caller otherwise.
        rules: how it waits, what it refuses, who is told.
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
        self._sources = sorted(sources, key=lambda each: each.peer)
        self._sink = sink
        self._rules = rules
        self._combiner: Combiner | None = None
        self._excused_until = 0.0

    @property
    def position(self) -> int:
        """Bytes of the new model that are computed."""
        return self._combiner.position if self._combiner is not None else 0

    def run(self) -> None:
        """Gather, and commit the new model.

        Raises:
            ContributorFailed: an update cannot be had, or cannot count; nothing of the new model
                counts.
            OutOfTime: ``train_timeout`` passed.
            QuorumNotReached: every update has weight 0.
            NonFiniteRound: an update has NaN or infinity, and the rules say that this fails all.
            CorruptStore: a stored update is not what was stored: this side's fault.
            StoreError: something cannot be read, or the new model not be stored.
        """
        try:
            self._run()
        finally:
            for source in self._sources:
                source.close()

    @property
    def weights(self) -> dict[str, float]:
        """Each contributor's weight, by name: the one that counted."""
        return {each.peer: each.weight for each in self._sources}

    @property
    def metrics(self) -> dict[str, float]:
        """The contributors' metrics, averaged with the same weights as the model."""
        return weighted_metrics([(each.weight, each.metrics) for each in self._sources])

    @property
    def client_metrics(self) -> dict[str, dict[str, float]]:
        """Each contributor's own metrics, by name."""
        return {each.peer: dict(each.metrics) for each in self._sources}

    def _run(self) -> None:
        for source in self._sources:
            self._wait(source, source.open)
            self._check_announced(source)
        combiner = self._combiner = Combiner(
            self._base,
            self._part,
            self._sources,
            self._sink,
            non_finite=self._rules.non_finite,
            aggregator=self._rules.aggregator,
        )
        with self._pulsing(lambda each: each.hold("busy", _OURSELVES)):
            self._rules.on_step(Step.AGGREGATING)
            if self._rules.downstream is not None:
                self._rules.downstream.announced()
        while not combiner.is_done:
            self._advance(combiner)
        for source in self._sources:
            self._wait(source, source.finish)
            self._check_metrics(source)
        with self._pulsing(lambda each: each.committing()):
            self._rules.on_step(Step.AGGREGATED)
        self._commit()

    def _advance(self, combiner: Combiner) -> None:
        """Compute one piece, or wait for the slowest where nothing can be computed."""
        slowest = min(self._sources, key=lambda each: each.end)
        nbytes = combiner.ahead(slowest.end)
        if not nbytes:
            self._wait(slowest, slowest.fetch)
            return
        self._rules.check()
        self._make_room(nbytes)
        used = combiner.compute(nbytes)
        if used:
            for source in self._sources:
                source.release(used)
        else:
            self._excuse_copying()

    def _commit(self) -> None:
        def moved(_: int) -> None:
            for source in self._sources:
                source.committing()

        self._sink.commit(moved)
        for source in self._sources:
            source.commit()
        self._rules.on_step(Step.PERSISTED)

    @contextmanager
    def _pulsing(self, say: Callable[[UpdateSource], object]) -> Iterator[None]:
        """While somebody else's code runs, say for it that this side lives."""
        interval, is_over = self._rules.held_interval, threading.Event()
        if interval is None:
            yield
            return

        def pulse() -> None:
            while not is_over.wait(interval):
                for source in self._sources:
                    with suppress(StreamlinkError):
                        say(source)

        thread = threading.Thread(target=pulse, name="gather-pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    # --- waiting ------------------------------------------------------------------------

    def _wait(self, source: UpdateSource, step: Callable[[float], bool]) -> None:
        """Repeat ``step`` until it is done; meanwhile the others are told whom they wait for."""
        for each in self._sources:  # waits too short to be told, but not to be counted
            each.wait_for("" if each is source else source.peer)
        while not step(self._patience(source.peer)):
            self._hold(source.peer, source)

    def _make_room(self, nbytes: int) -> None:
        """Wait until what the new model goes on to has room; meanwhile all are held."""
        downstream = self._rules.downstream
        if downstream is None:
            return
        name = downstream.wait_room(nbytes, 0.0)
        while name:
            name = downstream.wait_room(nbytes, self._patience(name))
            if name:
                self._hold(name)

    def _excuse_copying(self) -> None:
        """Tell all now and then that nothing of theirs is taken while the base is copied."""
        now = time.monotonic()
        if now >= self._excused_until:
            self._excused_until = now + self._patience(_OURSELVES)
            self._hold(_OURSELVES)

    def _hold(self, waiting_for: str, but: UpdateSource | None = None) -> None:
        for each in self._sources:
            if each is not but:
                each.look_after()
                each.hold("lockstep", waiting_for)

    def _patience(self, waiting_for: str) -> float:
        self._rules.check()
        patience = min(self._rules.held_interval or _CHECK_SECONDS, _CHECK_SECONDS)
        if self._rules.deadline is None:
            return patience
        left = self._rules.deadline - running_time()
        if left <= 0:
            timeout, total = self._rules.train_timeout, self._base.spec.nbytes
            raise OutOfTime(waiting_for, timeout, self.position, total)
        return min(patience, left)

    # --- what is refused ----------------------------------------------------------------

    def _check_announced(self, source: UpdateSource) -> None:
        try:
            source.check_announced(self._part, self._base.spec)
            check_weight(source.peer, source.weight)
        except ModelError as error:
            raise ContributorFailed(source.peer, error) from error

    @staticmethod
    def _check_metrics(source: UpdateSource) -> None:
        try:
            check_metrics(source.peer, source.metrics)
        except ModelError as error:
            raise ContributorFailed(source.peer, error) from error
