"""The content of a ledger, and how it is read from its file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, StoreError
from streamlink.rounds.evaluate.best import Standing
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.report import RoundReport
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json

__all__ = [
    "Intent",
    "Page",
    "RecordedJob",
    "encode_page",
    "newest",
    "read_page",
    "recorded_job",
    "report_of",
]

_FORMAT = 1
_IF_DAMAGED = (
    "name another file, or if it was a ledger, restore a copy of it; only if there is no copy "
    "remove it: the job then begins at its first round with the model that is in the store, "
    "updates in the spool are not used, and excluded clients are admitted again"
)
_LISTS = ("part", "clients", "replaced_runs", "reports")
_REPORTS_KEPT = 100
_REPORT_BYTES = 256 << 10  # all reports together: the file is written twice a round


@dataclass(frozen=True, slots=True)
class Intent:
    """Round ``round`` is about to replace model ``replaces`` by ``digest`` (empty: unknown)."""

    round: int
    replaces: str
    digest: str


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of a ledger."""

    run: str
    job: str
    start_round: int
    num_rounds: int
    part: tuple[str, ...]
    train_task_name: str
    clients: tuple[str, ...] = ()
    """The clients of the round that began last."""
    done: int = 0
    """Rounds that are committed (count)."""
    digest: str = ""
    """The model of the last of them; empty: no round is committed."""
    reports: tuple[dict[str, Any], ...] = ()
    """Of the last rounds, without one after whose commit the server was killed."""
    intent: Intent | None = None
    is_over: bool = False
    """Whether all rounds are done and the clients know that."""
    replaced_runs: tuple[str, ...] = ()
    """Earlier runs, which may have left something in the spool."""
    barred: Mapping[str, str] = field(default_factory=dict)
    """Clients that an operator has excluded, and why."""
    aggregator: str = "mean"
    """How updates become the new model; see ``ScatterAndGather``."""
    evaluated_round: int | None = None
    """The last round whose model was evaluated."""
    standing: Standing | None = None
    """The best model so far, where ``best_metric`` says which it is."""
    chosen: Mapping[str, list[str]] = field(default_factory=dict)
    """The clients that the round that began last asks, under its number; empty: all of them."""
    stopped: str = ""
    """Why the job ended early; empty: it did not."""
    records: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What is known of each client; see ``clients``."""
    expected: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What will be known once the intended model is committed."""

    @property
    def is_finished(self) -> bool:
        """Whether no round is left."""
        return self.done >= self.num_rounds or bool(self.stopped)

    def settled(self, present: str) -> Page | None:
        """Return the page after its intent is settled; None: it does not know model ``present``."""
        intent = self.intent
        if intent is not None and present == intent.replaces:  # killed before the commit
            return replace(self, intent=None, expected={})
        # Killed after it. A store that cannot tell its digest before the commit has left the intent
        # without one: then any model but the old one must be the new one.
        if intent is not None and present == (intent.digest or present):
            return self.committed(present)
        return self if intent is None and present == (self.digest or present) else None

    def committed(self, digest: str) -> Page:
        """Return the page after the intended model was committed."""
        return replace(
            self, intent=None, done=self.done + 1, digest=digest,
            records=self.expected, expected={},
        )  # fmt: skip


def encode_page(page: Page) -> bytes:
    """Return the content of a ledger's file."""
    return encode_checked_json({"format": _FORMAT, **asdict(page)})


def read_page(path: Path) -> Page:
    """Read a ledger.

    Raises:
        CorruptStore: it is damaged, or no ledger.
        StoreError: it cannot be read.
    """
    data = _bytes_of(path)
    try:
        facts = decode_checked_json(data, path)
        if (version := facts.pop("format")) != _FORMAT:
            raise ValueError(f"its format is {version!r}, not {_FORMAT}")
        lists = {key: tuple(facts.pop(key)) for key in _LISTS}
        # ``barred`` is missing in ledgers from before clients could be excluded.
        intent, barred = facts.pop("intent"), dict(facts.pop("barred", {}))
        standing = facts.pop("standing", None)
        known: dict[str, Any] = {**facts, **lists, "barred": barred}
        return Page(
            **known,
            intent=Intent(**intent) if intent else None,
            standing=Standing(**standing) if standing else None,
        )
    except (CorruptStore, ValueError, LookupError, TypeError) as error:
        why = error.what if isinstance(error, CorruptStore) else error
        what = f"this is not a ledger of rounds, or a damaged one: {why}; {_IF_DAMAGED}"
        raise CorruptStore(what, path=str(path)) from error


def _bytes_of(path: Path) -> bytes:
    try:
        return patiently(path.read_bytes)
    except OSError as error:
        raise StoreError(
            f"{path}: the ledger cannot be read: {error.strerror or error}; let this process (user "
            f"{os.geteuid()}) read and write it, and do not remove it: it records which rounds "
            "are done"
        ) from error


def newest(reports: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Return the last reports that fit a ledger's limits; always the very last one."""
    first, room = len(reports), _REPORT_BYTES
    while first and len(reports) - first < _REPORTS_KEPT:
        room -= len(json.dumps(reports[first - 1]))
        if room < 0 and first < len(reports):
            break
        first -= 1
    return reports[first:]


def report_of(facts: Mapping[str, Any]) -> RoundReport:
    """Return a report of a ledger."""
    # Ledgers from before evaluations have none.
    evaluation = facts.get("evaluation")
    changed: dict[str, Any] = {
        "recovered": tuple(facts["recovered"]),
        "evaluation": Evaluation(**evaluation) if evaluation else None,
    }
    return RoundReport(**{**facts, **changed})


class RecordedJob(NamedTuple):
    """The job in a ledger, as far as people want to know when its server has ended."""

    name: str
    rounds: int
    """Rounds that are committed (count)."""
    is_over: bool
    """Whether no round is left and the clients know that; else it can be resumed."""
    stopped: str = ""
    """Why it ended early; empty: it did not."""


def recorded_job(path: Path) -> RecordedJob | None:
    """Return the job of the ledger at ``path``; None: there is none, or it cannot be read."""
    try:
        page = read_page(path)
    except StoreError:
        return None
    is_over = page.is_finished and page.is_over
    return RecordedJob(page.job, page.done, is_over, page.stopped)
