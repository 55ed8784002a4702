"""The ledger of a job's rounds: what a restarted server must know to resume the job.

A small JSON file beside the model, written ahead of each commit, as in a write-ahead log: before a
new model replaces the old one, the ledger records the *intent*, which round replaces which model by
which. The store's commit is atomic. So after a kill the model in the store shows whether that round
is done or must be run again, and no transaction over both files is needed.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from streamlink.config import RoundConfig
from streamlink.errors import RoundError, StoreError
from streamlink.model.commit import CommitSink
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import (
    HasIdentity,
    ModelSink,
    ModelSource,
    ModelStore,
    Progress,
)
from streamlink.model.spec import ModelSpec
from streamlink.rounds.clients import ClientRecord
from streamlink.rounds.durable import aside_of, write_durably
from streamlink.rounds.evaluate.best import Standing
from streamlink.rounds.ledger_page import Intent, Page, encode_page, newest, read_page, report_of
from streamlink.rounds.report import RoundReport
from streamlink.stores.preflight import require_replaceable

__all__ = ["Ledger", "Run", "model_id"]

logger = logging.getLogger("streamlink.rounds")

_NOT_WRITTEN = "the ledger cannot be written"
_SHOWN = 16  # digits of a digest in a message


def model_id(source: ModelSource) -> str:
    """Return what identifies a model here: its digest, or the identity of its files.

    The latter for a model without a stored digest: it would have to be read completely.
    """
    return source.identity() if isinstance(source, HasIdentity) else digest_of(source)


@dataclass(frozen=True, slots=True)
class Run:
    """Identifies a run of a job, and the model that its spooled updates are made from."""

    id: str = ""
    base: str = ""
    """See ``model_id``."""


class Ledger:
    """The ledger of one run of a job, for as long as its server lives.

    Args:
        path: the file; written when the first round begins.
        store: holds the job's model.
        rules: the settings of the rounds.
        job: the name of the job.
        resume: continue after the last committed round. If there is none, the job begins, and that
            is logged.

    Raises:
        RoundError: the file is of another job, or of one that was interrupted while ``resume`` is
            not set; or the store has none of its models. Says what to do.
        CorruptStore: the file is damaged.
        StoreError: the file or the model cannot be read, or the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        store: ModelStore,
        rules: RoundConfig,
        *,
        job: str = "job",
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: the directory of the ledger does not exist; make it")
        require_replaceable(self.path, aside_of(self.path), _NOT_WRITTEN)
        self.is_resumed = False
        """Whether an earlier server began this run."""
        self._store = store
        self._is_begun = False
        # An operator excludes clients from another thread; ``bar`` writes while it holds the lock.
        self._lock = threading.RLock()
        # Once: a model whose digest is not stored has to be read completely for its name.
        self._present = self._name_present()
        fresh = Page(
            secrets.token_hex(8),
            job,
            rules.start_round,
            rules.num_rounds,
            rules.part,
            rules.train_task_name,
        )
        written = read_page(self.path) if self.path.exists() else None
        page = self._resumed(written, fresh, rules) if resume else self._anew(written, fresh)
        self._page = page

    # --- contents -------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The run and the model that updates spooled now belong to."""
        return Run(self._page.run, self._present)

    @property
    def replaced_runs(self) -> tuple[str, ...]:
        """Ids of runs that this one replaced."""
        return self._page.replaced_runs

    @property
    def next_round(self) -> int:
        """Number of the round after the last that is committed."""
        return self._page.start_round + self._page.done

    @property
    def is_finished(self) -> bool:
        """Whether no round is left: all are committed, or the job ended early."""
        return self._page.is_finished

    @property
    def is_over(self) -> bool:
        """Whether no round is left and the clients know that."""
        return self._page.is_finished and self._page.is_over

    @property
    def stopped(self) -> str:
        """Why the job ended early; empty: it did not."""
        return self._page.stopped

    @property
    def standing(self) -> Standing | None:
        """The best model so far; None: no model was judged."""
        return self._page.standing

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients of the round that began last."""
        return self._page.clients

    @property
    def rounds(self) -> int:
        """How many rounds are committed."""
        return self._page.done

    @property
    def reports(self) -> list[RoundReport]:
        """Return the reports of the last committed rounds, at most a hundred.

        A round has none if the server was killed right after its commit.
        """
        return [report_of(each) for each in self._page.reports]

    @property
    def evaluated_round(self) -> int | None:
        """Number of the last round whose model was evaluated; None: of no round."""
        return self._page.evaluated_round

    @property
    def barred(self) -> dict[str, str]:
        """Clients that an operator has excluded, and why."""
        return dict(self._page.barred)

    @property
    def records(self) -> dict[str, ClientRecord]:
        """What is known of each client, from the rounds that are committed."""
        return {name: ClientRecord(**facts) for name, facts in self._page.records.items()}

    # --- changes ----------------------------------------------------------------

    def use_aggregator(self, name: str) -> None:
        """Note how updates are aggregated, before the first round.

        Raises:
            RoundError: this run was resumed, and its rounds so far were aggregated otherwise.
        """
        if self.is_resumed:
            self._require_same("aggregator", self._page.aggregator, name)
        self._page = replace(self._page, aggregator=name)

    def begin(self, clients: Iterable[str]) -> None:
        """Record the clients of the round that begins."""
        names = tuple(sorted(clients))
        # Rounds mostly have the same clients, and each write waits for the disk twice.
        if names != self._page.clients or not self._is_begun:
            self._write(clients=names, is_over=False)
            self._is_begun = True

    def choose(self, number: int, names: Collection[str]) -> None:
        """Record which clients round ``number`` asks, before any is asked."""
        self._write(chosen={str(number): sorted(names)})

    def chosen(self, number: int) -> frozenset[str] | None:
        """Return which clients round ``number`` asks; None: they are not chosen yet."""
        names = self._page.chosen.get(str(number))
        return frozenset(names) if names is not None else None

    def guard(
        self,
        store: ModelStore,
        expected: Callable[[], Mapping[str, ClientRecord] | None] = lambda: None,
    ) -> ModelStore:
        """Wrap ``store``, so that each commit first records its intent here.

        Args:
            store: to be wrapped.
            expected: called before each commit; returns what ``intend`` gets.
        """
        return _GuardedStore(store, self, expected)

    def intend(self, digest: str, expected: Mapping[str, ClientRecord] | None = None) -> None:
        """Record that the next round's model is about to be committed.

        Args:
            digest: of that model; empty: unknown.
            expected: what will be known of the clients once it is; None: what is known now.
        """
        intent, facts = Intent(self.next_round, self._present, digest), self._page.records
        if expected is not None:
            facts = {name: asdict(record) for name, record in expected.items()}
        # In one write: a restarted server that finds the model there knows the clients, too.
        self._write(intent=intent, expected=facts)

    def complete(self, report: RoundReport) -> None:
        """Record that a round is done."""
        intent = self._page.intent
        # The digest of the intent saves reading the model that was just written.
        self._present = intent.digest if intent and intent.digest else self._name_present()
        reports = newest((*self._page.reports, asdict(report)))
        with self._lock:
            self._put(replace(self._page.committed(self._present), reports=reports))

    def evaluated(self, report: RoundReport, standing: Standing | None = None) -> None:
        """Record the evaluation of the last committed model, in its round's report.

        In one write with what follows from it: the best model so far, and whether the job ends.
        """
        earlier = self._page.reports
        if earlier and earlier[-1]["round"] == report.round:
            earlier = earlier[:-1]
        reports = newest((*earlier, asdict(report)))
        self._write(
            evaluated_round=report.round,
            reports=reports,
            standing=standing,
            stopped=report.stopped,
        )

    def bar(self, client: str, reason: str) -> None:
        """Record that a client is excluded, by later servers too."""
        with self._lock:
            # In this order the first reason stays.
            self._write_barred({client: reason, **self._page.barred})

    def readmit(self, client: str) -> None:
        """Record that a client is admitted again."""
        with self._lock:
            self._write_barred(
                {name: why for name, why in self._page.barred.items() if name != client}
            )

    def _write_barred(self, barred: Mapping[str, str]) -> None:
        if barred != self._page.barred:
            self._write(barred=barred)

    def close(self) -> None:
        """Record that the job is over, and that its clients know."""
        if self.is_finished and not self.is_over:
            self._write(is_over=True)

    # --- small parts ----------------------------------------------------------------------

    def _name_present(self) -> str:
        with closing(self._store.open()) as source:
            return model_id(source)

    def _anew(self, written: Page | None, fresh: Page) -> Page:
        """Return the page of a new run; refuse if that would lose an interrupted job."""
        if written is None:
            return fresh
        # A job that is over claims no model: the one in its store may have been replaced since.
        settled = written if written.is_finished else written.settled(self._present)
        if settled is None and written.done:
            raise self._unknown_model(written)
        # Before its first commit an interrupted job has nothing to lose: it may be begun anew.
        if settled is not None and settled.done and not settled.is_finished:
            raise RoundError(
                f"{self.path}: job {written.job!r} was interrupted after {settled.done} of "
                f"{written.num_rounds} rounds; continue it with --resume (resume=True), or remove "
                "this file to begin again with the model that is in the store"
            )
        # The last four are enough: what older runs have left in the spool expires.
        return replace(fresh, replaced_runs=(*written.replaced_runs[-3:], written.run))

    def _resumed(self, written: Page | None, fresh: Page, rules: RoundConfig) -> Page:
        """Return the page of a run that is resumed."""
        if written is None:
            logger.info("%s does not exist: nothing to resume, the job begins", self.path)
            return fresh
        if written.job != fresh.job and written.is_finished:
            logger.info("%s: job %r is over; %r begins", self.path, written.job, fresh.job)
            return replace(fresh, replaced_runs=(*written.replaced_runs[-3:], written.run))
        for key in ("job", "start_round", "part", "train_task_name"):
            self._require_same(key, getattr(written, key), getattr(fresh, key))
        settled = written.settled(self._present)
        if settled is None:
            raise self._unknown_model(written)
        if settled.stopped and settled.standing is not None:
            # With more patience, or none, the job goes on where it stopped.
            settled = replace(settled, stopped=settled.standing.reason_to_stop(rules))
        if not settled.is_finished and settled.done >= fresh.num_rounds:
            raise RoundError(
                f"{self.path}: job {settled.job!r} was interrupted after {settled.done} of "
                f"{settled.num_rounds} rounds, and num_rounds is {fresh.num_rounds} now; give more "
                f"than {settled.done} to continue"
            )
        self.is_resumed = True
        # Of the settings only this may change: a job may be prolonged, also after it was over.
        page = replace(settled, num_rounds=fresh.num_rounds, replaced_runs=written.replaced_runs)
        self._log_resumed(page)
        return page

    def _log_resumed(self, page: Page) -> None:
        done, of = page.done, f"of {page.num_rounds} rounds of job {page.job!r}"
        if page.stopped:
            logger.info(
                "job %r stopped early after %d rounds, and is over: %s; to continue it, raise "
                "rounds.patience", page.job, done, page.stopped,
            )  # fmt: skip
        elif page.is_finished:
            logger.info("all %d rounds of job %r are done: nothing to resume", done, page.job)
        elif not done:
            logger.info("no round of job %r is done: it begins with the first", page.job)
        else:
            number = page.start_round + done
            logger.info("%d %s are done; it continues with round %d", done, of, number)

    def _require_same(self, key: str, was: object, now: object) -> None:
        if was != now:
            raise RoundError(
                f"{self.path}: this run has {key} = {was!r}, and it cannot continue with {now!r}; "
                "give the same, or remove this file to begin again with the model that is in the "
                "store"
            )

    def _unknown_model(self, written: Page) -> RoundError:
        known = [written.digest]
        if written.intent is not None:
            known = [written.intent.replaces, written.intent.digest]
        shown = " or ".join(_shown(each) for each in known if each)
        return RoundError(
            f"{self.path}: job {written.job!r} left model {shown}, but {_shown(self._present)} is "
            "in the store; restore that model to continue, or remove this file to begin again with "
            "the one that is in the store"
        )

    def _write(self, **changes: Any) -> None:
        with self._lock:
            self._put(replace(self._page, **changes))

    def _put(self, page: Page) -> None:
        with self._lock:
            write_durably(self.path, encode_page(page), _NOT_WRITTEN)
            # Only once the disk has it: after a write that failed, memory and file still agree.
            self._page = page


def _shown(digest: str) -> str:
    return f"{digest[:_SHOWN]}..." if len(digest) > _SHOWN else digest


@runtime_checkable
class _KnowsDigest(Protocol):
    """A sink that knows the digest of its model before the commit."""

    def digest(self) -> str | None:
        """Return it, or ``None``."""


class _GuardedStore:
    """A store that records the intent of each commit in a ledger."""

    def __init__(
        self,
        store: ModelStore,
        ledger: Ledger,
        expected: Callable[[], Mapping[str, ClientRecord] | None],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._expected = expected

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)

        def commit(progress: Progress | None) -> None:
            digest = sink.digest() if isinstance(sink, _KnowsDigest) else None
            # Write-ahead: a kill between the two lines leaves an intent whose round is run again.
            self._ledger.intend(digest or "", self._expected())
            sink.commit(progress)

        return CommitSink(sink, commit)
