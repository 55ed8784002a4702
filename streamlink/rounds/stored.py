"""Stored updates: whose they are, and how those that count become the new model.

The second phase of a spooled round. Updates are read side by side, piece by piece, with the code of
the lockstep gather and so to the same bits.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, ModelError, StoreError, StoreFull
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.model.digest import HasLeaves, digest_of
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.model.mapped import RangeFunction
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec
from streamlink.rounds.combine import (
    Combiner,
    ContributorFailed,
    NonFinite,
    Step,
    check_weight,
    weighted_metrics,
)
from streamlink.stores.files import said
from streamlink.stores.sealed import seal, unseal

__all__ = [
    "MANIFEST_NAME",
    "SpoolGather",
    "SpooledContributor",
    "SpooledUpdate",
    "StoreAt",
    "aside_of",
    "spool_errors",
    "stored_digest",
    "sync_directory",
    "write_durably",
]

MANIFEST_NAME = "update.json"
"""The file beside a stored update that says whose it is; it is there only once the update is."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

StoreAt = Callable[[Path], ModelStore]
"""Gives a store in a directory, such as ``SafetensorsStore``."""


@dataclass(frozen=True, slots=True)
class SpooledUpdate:
    """An update that is stored, whole and durable."""

    peer: str
    attempt: Attempt
    update: Update
    """What its sender said of it: weight and kind."""
    metrics: Mapping[str, float]
    digest: str
    """Of the whole update, hexadecimal, as it arrived; as its sender gave it, too, unless another
    process of it had sent the beginning."""
    path: Path
    """The directory of its store and its manifest."""
    store: ModelStore
    """What is stored there."""
    run: str = ""
    """Which run of a job it was stored for, where that has a ledger (see ``ledger``)."""
    base: str = ""
    """Names the model it was made from, as ``ledger.name_of`` does; empty without a ledger."""

    @classmethod
    def read(cls, path: Path, store_at: StoreAt) -> SpooledUpdate:
        """Return what the manifest in directory ``path`` tells.

        Raises:
            CorruptStore: there is none, or it is not as it was written.
        """
        file = path / MANIFEST_NAME
        try:
            facts = unseal(patiently(file.read_bytes), file)
            return cls(
                peer=str(facts["peer"]),
                attempt=Attempt(facts["job"], facts["round"], facts["attempt"]),
                update=Update(float(facts["weight"]), UpdateKind[facts["kind"]]),
                metrics={str(name): float(value) for name, value in facts["metrics"].items()},
                digest=str(facts["digest"]),
                path=path,
                store=store_at(path),
                run=str(facts.get("run", "")),
                base=str(facts.get("base", "")),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = error.what if isinstance(error, CorruptStore) else error
            what = f"this is no manifest of an update: {why}"
            raise CorruptStore(what, path=str(file)) from error

    def write(self) -> None:
        """Write the manifest: durable, at once or not at all."""
        facts = {
            "peer": self.peer,
            "job": self.attempt.job,
            "round": self.attempt.round,
            "attempt": self.attempt.attempt,
            "weight": self.update.weight,
            "kind": self.update.kind.name,
            "metrics": dict(self.metrics),
            "digest": self.digest,
            "run": self.run,
            "base": self.base,
        }
        write_durably(self.path / MANIFEST_NAME, seal(facts))


class SpooledContributor:
    """One client's stored update, read from front to back.

    Args:
        update: what the spool says has arrived.
        filters: applied to its elements, one after the other, before they are combined.
        weigh: gives the weight that counts for the one the client announced.
    """

    def __init__(
        self,
        update: SpooledUpdate,
        *,
        filters: Sequence[RangeFunction] = (),
        weigh: Callable[[float], float] = lambda weight: weight,
    ) -> None:
        self.peer = update.peer
        self.kind = update.update.kind
        self.filters = tuple(filters)
        self.weight = weigh(update.update.weight)
        self.metrics = update.metrics
        self._update = update
        self._source: ModelSource | None = None
        self._position = 0

    def open(self, part: ModelSpec) -> None:
        """Open the stored update.

        Raises:
            CorruptStore: it is not the one that was stored.
            StoreError: it cannot be read.
        """
        self.close()
        self._source, self._position = self._update.store.open(), 0
        digest = stored_digest(self._source)
        if self._source.spec != part or digest != self._update.digest:
            raise CorruptStore(
                f"this is not the update of {self.peer} that was stored here: its digest is "
                f"{digest}, not {self._update.digest}",
                path=str(self._update.path),
            )

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, verified where the store can.

        Raises:
            CorruptStore: they are not what was stored.
        """
        assert self._source is not None, "open() comes first"
        payload = self._source.read(self._position, nbytes)
        self._position += nbytes
        return join(payload)

    def close(self) -> None:
        """Close the store. Harmless when called twice."""
        if self._source is not None:
            self._source.close()
            self._source = None


class SpoolGather:
    """Combines stored updates into ``sink``, in the order of their clients' names.

    Args:
        base: the model the clients were given. Read, never closed.
        part: the tensors every update has.
        contributors: whose updates count.
        sink: takes the new model from 0 to its end; committed at the very end, discarded by the
            caller otherwise.
        non_finite: what NaN or infinity in an update leads to, looked for after the filters.
        on_step: called at each step; what it raises fails the round.
        check: called before each piece is computed; what it raises fails the round.
    """

    def __init__(
        self,
        base: ModelSource,
        part: ModelSpec,
        contributors: Sequence[SpooledContributor],
        sink: ModelSink,
        *,
        non_finite: NonFinite = "reject",
        on_step: Callable[[Step], None] = lambda _: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._base = base
        self._part = part
        self._contributors = sorted(contributors, key=lambda each: each.peer)
        self._sink = sink
        self._non_finite: NonFinite = non_finite
        self._on_step = on_step
        self._check = check
        self._combiner: Combiner | None = None

    @property
    def position(self) -> int:
        """Bytes of the new model that are computed."""
        return self._combiner.position if self._combiner is not None else 0

    def run(self) -> None:
        """Combine, and commit the new model.

        Raises:
            ContributorFailed: an update cannot count, for its weight or by ``non_finite``.
            QuorumNotReached: every update has weight 0.
            NonFiniteRound: an update has NaN or infinity, and ``non_finite`` is ``"fail"``.
            CorruptStore: an update is not what was stored: this side's fault.
            StoreError: something cannot be read, or the new model not be stored.
        """
        try:
            for contributor in self._contributors:
                self._open(contributor)
            combiner = self._combiner = Combiner(
                self._base,
                self._part,
                self._contributors,
                self._sink,
                non_finite=self._non_finite,
            )
            self._on_step(Step.AGGREGATING)
            while not combiner.is_done:
                self._check()
                combiner.compute(combiner.ahead(self._part.nbytes))
            self._on_step(Step.AGGREGATED)
            self._sink.commit()
            self._on_step(Step.PERSISTED)
        finally:
            for contributor in self._contributors:
                contributor.close()

    @property
    def weights(self) -> dict[str, float]:
        """Each contributor's weight, by name: the one that counted."""
        return {each.peer: each.weight for each in self._contributors}

    @property
    def metrics(self) -> dict[str, float]:
        """The contributors' metrics, averaged with the same weights as the model."""
        return weighted_metrics([(each.weight, each.metrics) for each in self._contributors])

    @property
    def client_metrics(self) -> dict[str, dict[str, float]]:
        """Each contributor's own metrics, by name."""
        return {each.peer: dict(each.metrics) for each in self._contributors}

    def _open(self, contributor: SpooledContributor) -> None:
        try:
            check_weight(contributor.peer, contributor.weight)
        except ModelError as error:
            raise ContributorFailed(contributor.peer, error) from error
        contributor.open(self._part)


def stored_digest(source: ModelSource) -> str:
    """Return a model's digest, without reading it where its leaves are stored."""
    return source.digest() if isinstance(source, HasLeaves) else digest_of(source)


# --- files ----------------------------------------------------------------------------------


@contextmanager
def spool_errors(path: Path, what: str = "the spool cannot be used") -> Iterator[None]:
    """Turn the system's errors into ones that name ``path`` and say ``what`` that means."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreError
        raise kind(f"{path}: {what}: {said(error, path)}") from error


def write_durably(path: Path, data: bytes, what: str = "the spool cannot be used") -> None:
    """Write a small file that is there whole or not at all, and stays once this returns.

    Raises:
        StoreError: the disk does not take it.
    """
    aside = aside_of(path)
    with spool_errors(path, what):
        try:
            with patiently(aside.open, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError:
            with suppress(OSError):
                aside.unlink()
            raise
        sync_directory(path.parent)


def aside_of(path: Path) -> Path:
    """Return where ``write_durably`` writes a file before it takes its name."""
    return path.with_name(f"{path.name}.part")


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = patiently(os.open, directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
