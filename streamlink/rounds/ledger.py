"""The ledger of a job's rounds: what a server that was killed has to know when it comes back.

A small JSON file beside the model. Before a new model takes the old one's place, the *intent* is
written: which round replaces which model by which. The store's commit is atomic, so whoever comes
after a kill sees by the model that is there whether that round is done or has to be run again.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from streamlink.config import RoundConfig
from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, RoundError, StoreError
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
from streamlink.rounds.durable import aside_of, write_durably
from streamlink.rounds.report import RoundReport
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json
from streamlink.stores.preflight import require_replaceable

__all__ = ["Ledger", "Run", "name_of", "unfinished_job"]

logger = logging.getLogger("streamlink.rounds")

_FORMAT = 1
_NOT_WRITTEN = "the ledger cannot be written"
_IF_DAMAGED = (
    "name another file, or if it was a ledger, put a copy of it back; only where there is none "
    "remove it: the job then begins at its first round with the model that is in the store, "
    "updates in the spool are not used, and clients that were thrown out may come back"
)
_SHOWN = 16  # digits of a digest that a message shows
_LISTS = ("part", "clients", "forgotten", "reports")
_REPORTS_KEPT = 100
_REPORT_BYTES = 256 << 10  # of them all; the file is written twice a round


def name_of(source: ModelSource) -> str:
    """Return what a model is called here: its digest, or what it has for an identity.

    A model whose digest is not stored beside it is not read for that, if it knows its files.
    """
    return source.identity() if isinstance(source, HasIdentity) else digest_of(source)


def unfinished_job(path: Path) -> str | None:
    """Return the name of the job that can go on by the ledger at ``path``; None: none can."""
    try:
        page = _read(path)
    except StoreError:  # there is none, or it cannot be read
        return None
    return None if page.is_finished and page.is_over else page.job


@dataclass(frozen=True, slots=True)
class Run:
    """Which run of a job this is, and what its spooled updates are made from."""

    id: str = ""
    base: str = ""
    """See ``name_of``."""


@dataclass(frozen=True, slots=True)
class _Intent:
    """Round ``round`` is about to replace model ``replaces`` by ``digest`` (empty: not known)."""

    round: int
    replaces: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Page:
    """All that a ledger says."""

    run: str
    job: str
    start_round: int
    num_rounds: int
    part: tuple[str, ...]
    train_task_name: str
    clients: tuple[str, ...] = ()
    """Those who took part in the round that began last."""
    done: int = 0
    """Rounds that are committed (count)."""
    digest: str = ""
    """The model that the last of them left; empty: none is."""
    reports: tuple[dict[str, Any], ...] = ()
    """Of the last rounds; there is none of one after which the server was killed."""
    intent: _Intent | None = None
    is_over: bool = False
    """Whether all rounds are done and the clients were told so."""
    forgotten: tuple[str, ...] = ()
    """Runs before this one, of which the spool may hold something."""
    barred: Mapping[str, str] = field(default_factory=dict)
    """Clients that an operator has thrown out, and why."""

    @property
    def is_finished(self) -> bool:
        return self.done >= self.num_rounds

    def settled(self, present: str) -> _Page | None:
        """Return the page without an intent; None: the model ``present`` fits no line of it."""
        intent = self.intent
        if intent is not None and present == intent.replaces:
            return replace(self, intent=None)
        if intent is not None and present == (intent.digest or present):
            return replace(self, intent=None, done=self.done + 1, digest=present)
        return self if intent is None and present == (self.digest or present) else None


class Ledger:
    """The ledger of one run of a job, for as long as its server lives.

    Args:
        path: the file; written when the first round begins.
        store: holds the job's model.
        rules: of the rounds.
        job: its name.
        resume: go on after the last round that is committed. Where there is none, the job begins at
            the beginning, and says so.

    Raises:
        RoundError: the file tells of another job, or of one that is not over and shall not go on;
            or the store has none of its models. Says what to do.
        CorruptStore: the file is damaged.
        StoreError: it, or the model, cannot be read; or it cannot be written.
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
            raise StoreError(f"{self.path}: there is no such directory for the ledger; make it")
        require_replaceable(self.path, aside_of(self.path), _NOT_WRITTEN)
        self.is_resumed = False
        """Whether this run was begun by a server before this one."""
        self._store = store
        self._is_begun = False
        self._lock = threading.RLock()  # an operator's orders come from another thread
        self._present = self._name_present()
        fresh = _Page(
            secrets.token_hex(8),
            job,
            rules.start_round,
            rules.num_rounds,
            rules.part,
            rules.train_task_name,
        )
        written = _read(self.path) if self.path.exists() else None
        self._page = self._resumed(written, fresh) if resume else self._anew(written, fresh)

    # --- what it says -------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """What updates that are spooled now belong to."""
        return Run(self._page.run, self._present)

    @property
    def forgotten(self) -> tuple[str, ...]:
        """Ids of runs that this one took the place of."""
        return self._page.forgotten

    @property
    def next_round(self) -> int:
        """Number of the round after the last that is committed."""
        return self._page.start_round + self._page.done

    @property
    def is_finished(self) -> bool:
        """Whether all rounds are committed."""
        return self._page.is_finished

    @property
    def is_over(self) -> bool:
        """Whether all rounds are committed and the clients were told so."""
        return self._page.is_finished and self._page.is_over

    @property
    def clients(self) -> tuple[str, ...]:
        """Who took part in the round that began last."""
        return self._page.clients

    @property
    def rounds(self) -> int:
        """How many rounds are committed."""
        return self._page.done

    @property
    def reports(self) -> list[RoundReport]:
        """Return what the last committed rounds gave, at most a hundred.

        There is none of a round after which the server died.
        """
        return [
            RoundReport(**{**each, "recovered": tuple(each["recovered"])})
            for each in self._page.reports
        ]

    @property
    def barred(self) -> dict[str, str]:
        """Clients that an operator has thrown out, and why."""
        return dict(self._page.barred)

    # --- what is written ----------------------------------------------------------------

    def begin(self, clients: Iterable[str]) -> None:
        """Note who takes part in the round that begins."""
        names = tuple(sorted(clients))
        if names != self._page.clients or not self._is_begun:
            self._write(clients=names, is_over=False)
            self._is_begun = True

    def guard(self, store: ModelStore) -> ModelStore:
        """Return ``store``, whose commits are announced here."""
        return _GuardedStore(store, self)

    def intend(self, digest: str) -> None:
        """Note that the next round's model is about to be committed."""
        intent = _Intent(self.next_round, self._present, digest)
        self._write(intent=intent)

    def note(self, report: RoundReport) -> None:
        """Note that a round is done."""
        intent = self._page.intent
        self._present = intent.digest if intent and intent.digest else self._name_present()
        reports = _newest((*self._page.reports, asdict(report)))
        done = self._page.done + 1
        self._write(intent=None, done=done, digest=self._present, reports=reports)

    def bar(self, client: str, reason: str) -> None:
        """Note that no client of that name is let in, by servers after this one too."""
        with self._lock:
            self._hold({client: reason, **self._page.barred})

    def readmit(self, client: str) -> None:
        """Note that a client is let in again."""
        with self._lock:
            self._hold({name: why for name, why in self._page.barred.items() if name != client})

    def _hold(self, barred: Mapping[str, str]) -> None:
        if barred != self._page.barred:
            self._write(barred=barred)

    def close(self) -> None:
        """Note that the job is over, and that its clients know."""
        if self.is_finished and not self.is_over:
            self._write(is_over=True)

    # --- small parts ----------------------------------------------------------------------

    def _name_present(self) -> str:
        with closing(self._store.open()) as source:
            return name_of(source)

    def _anew(self, written: _Page | None, fresh: _Page) -> _Page:
        """Return the page of a run that begins; refuses to forget rounds that are done."""
        if written is None:
            return fresh
        settled = written if written.is_finished else written.settled(self._present)
        if settled is None and written.done:
            raise self._foreign(written)
        if settled is not None and settled.done and not settled.is_finished:
            raise RoundError(
                f"{self.path}: job {written.job!r} was interrupted after {settled.done} of "
                f"{written.num_rounds} rounds; go on with --resume (resume=True), or remove this "
                "file to begin anew with the model that is there"
            )
        return replace(fresh, forgotten=(*written.forgotten[-3:], written.run))

    def _resumed(self, written: _Page | None, fresh: _Page) -> _Page:
        """Return the page to go on with."""
        if written is None:
            logger.info("%s is not there: nothing to resume, the job begins", self.path)
            return fresh
        if written.job != fresh.job and written.is_finished:
            logger.info("%s: job %r is over; %r begins", self.path, written.job, fresh.job)
            return replace(fresh, forgotten=(*written.forgotten[-3:], written.run))
        self._require_same(written, fresh)
        settled = written.settled(self._present)
        if settled is None:
            raise self._foreign(written)
        if not settled.is_finished and settled.done >= fresh.num_rounds:
            raise RoundError(
                f"{self.path}: job {settled.job!r} was interrupted after {settled.done} of "
                f"{settled.num_rounds} rounds, and num_rounds is {fresh.num_rounds} now; give more "
                f"than {settled.done} to go on"
            )
        self.is_resumed = True
        page = replace(settled, num_rounds=fresh.num_rounds, forgotten=written.forgotten)
        self._say(page)
        return page

    def _say(self, page: _Page) -> None:
        done, of = page.done, f"of {page.num_rounds} rounds of job {page.job!r}"
        if page.is_finished:
            logger.info("all %d rounds of job %r are done: nothing to resume", done, page.job)
        elif not done:
            logger.info("no round of job %r is done: it begins at the beginning", page.job)
        else:
            number = page.start_round + done
            logger.info("%d %s are done; it goes on with round %d", done, of, number)

    def _require_same(self, written: _Page, fresh: _Page) -> None:
        for key in ("job", "start_round", "part", "train_task_name"):
            was, now = getattr(written, key), getattr(fresh, key)
            if was != now:
                raise RoundError(
                    f"{self.path}: this is of a run with {key} = {was!r}, and it cannot go on "
                    f"with {now!r}; give the same, or remove this file to begin anew with the "
                    "model that is there"
                )

    def _foreign(self, written: _Page) -> RoundError:
        known = [written.digest]
        if written.intent is not None:
            known = [written.intent.replaces, written.intent.digest]
        shown = " or ".join(_shown(each) for each in known if each)
        return RoundError(
            f"{self.path}: job {written.job!r} left model {shown}, but {_shown(self._present)} is "
            "in the store; bring that model back to go on, or remove this file to begin anew with "
            "the one that is there"
        )

    def _write(self, **changes: Any) -> None:
        with self._lock:
            page = replace(self._page, **changes)
            data = encode_checked_json({"format": _FORMAT, **asdict(page)})
            write_durably(self.path, data, _NOT_WRITTEN)
            self._page = page


def _read(path: Path) -> _Page:
    data = _bytes_of(path)
    try:
        facts = decode_checked_json(data, path)
        if (version := facts.pop("format")) != _FORMAT:
            raise ValueError(f"its format is {version!r}, not {_FORMAT}")
        lists = {key: tuple(facts.pop(key)) for key in _LISTS}
        intent, barred = facts.pop("intent"), dict(facts.pop("barred", {}))
        known: dict[str, Any] = {**facts, **lists}
        return _Page(**known, barred=barred, intent=_Intent(**intent) if intent else None)
    except (CorruptStore, ValueError, LookupError, TypeError) as error:
        why = error.what if isinstance(error, CorruptStore) else error
        what = f"this is no ledger of rounds, or a damaged one: {why}; {_IF_DAMAGED}"
        raise CorruptStore(what, path=str(path)) from error


def _bytes_of(path: Path) -> bytes:
    try:
        return patiently(path.read_bytes)
    except OSError as error:
        raise StoreError(
            f"{path}: the ledger cannot be read: {error.strerror or error}; let this process (user "
            f"{os.geteuid()}) read and write it, and do not remove it: it knows which rounds are "
            "done"
        ) from error


def _newest(reports: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Return the last of these, as many as a ledger keeps; always the very last one."""
    first, room = len(reports), _REPORT_BYTES
    while first and len(reports) - first < _REPORTS_KEPT:
        room -= len(json.dumps(reports[first - 1]))
        if room < 0 and first < len(reports):
            break
        first -= 1
    return reports[first:]


def _shown(digest: str) -> str:
    return f"{digest[:_SHOWN]}..." if len(digest) > _SHOWN else digest


@runtime_checkable
class _KnowsDigest(Protocol):
    """A sink that knows the digest of its model before the commit."""

    def digest(self) -> str | None:
        """Return it, or ``None``."""


class _GuardedStore:
    """A store whose commits are announced in a ledger."""

    def __init__(self, store: ModelStore, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)

        def commit(progress: Progress | None) -> None:
            digest = sink.digest() if isinstance(sink, _KnowsDigest) else None
            self._ledger.intend(digest or "")
            sink.commit(progress)

        return CommitSink(sink, commit)
