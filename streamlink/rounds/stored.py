"""Stored updates: whose they are, and how they are read back.

In the second phase of a spooled round those that count are sources of the aggregation loop, side by
side (``gather``): the same code as in lockstep, and so the same bits.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, StoreError, StoreFull
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.model.computed import RangeFunction
from streamlink.model.digest import HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json
from streamlink.stores.files import said

__all__ = [
    "MANIFEST_NAME",
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
            facts = decode_checked_json(patiently(file.read_bytes), file)
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
        write_durably(self.path / MANIFEST_NAME, encode_checked_json(facts))


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

    @property
    def end(self) -> int:
        """Bytes of the update that are here: all of them."""
        return self._opened.spec.nbytes

    def open(self, seconds: float = 0.0) -> bool:
        """Open the stored update, from its beginning; True, without a wait.

        Raises:
            StoreError: it cannot be read.
        """
        self.close()
        self._source, self._position = self._update.store.open(), 0
        return True

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check that it is still what was stored: an update that has the tensors of ``part``.

        Raises:
            CorruptStore: it is not.
            StoreError: it cannot be read.
        """
        digest = stored_digest(self._opened)
        if self._opened.spec != part or digest != self._update.digest:
            raise CorruptStore(
                f"this is not the update of {self.peer} that was stored here: its digest is "
                f"{digest}, not {self._update.digest}",
                path=str(self._update.path),
            )

    def fetch(self, seconds: float) -> bool:
        """Return False: nothing is to come."""
        return False

    def finish(self, seconds: float) -> bool:
        """Return True: it was finished before it was stored."""
        return True

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, verified where the store can.

        Raises:
            CorruptStore: they are not what was stored.
        """
        payload = self._opened.read(self._position, nbytes)
        self._position += nbytes
        return join(payload)

    def close(self) -> None:
        """Close the store. Harmless when called twice."""
        if self._source is not None:
            self._source.close()
            self._source = None

    @property
    def _opened(self) -> ModelSource:
        assert self._source is not None, "open() comes first"
        return self._source

    # --- its client heard all when the update was stored ---------------------------------------

    def look_after(self) -> None:
        """Do nothing: it cannot be lost any more."""

    def release(self, nbytes: int) -> None:
        """Do nothing: nobody waits for credit."""

    def wait_for(self, name: str) -> None:
        """Do nothing."""

    def hold(self, reason: str, waiting_for: str) -> None:
        """Do nothing."""

    def committing(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""


def stored_digest(source: ModelSource) -> str:
    """Return a model's digest, without reading it where its hashes are stored."""
    return source.digest() if isinstance(source, HasBlockHashes) else digest_of(source)


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
