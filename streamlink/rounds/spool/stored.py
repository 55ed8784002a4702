"""A stored update: a store with its bytes, and beside it a manifest that says whose it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.model.digest import HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.rounds.durable import write_durably
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json

__all__ = ["MANIFEST_NAME", "StoreAt", "StoredUpdate", "stored_digest"]

MANIFEST_NAME = "update.json"
"""The file beside a stored update. It is written last, so an update without one is incomplete."""

StoreAt = Callable[[Path], ModelStore]
"""Returns the store in a directory, such as ``SafetensorsStore``."""


@dataclass(frozen=True, slots=True)
class StoredUpdate:
    """An update that is stored, whole and durable."""

    peer_name: str
    attempt: Attempt
    update: Update
    """As its sender announced it: weight, kind, and norm if it was declared."""
    metrics: Mapping[str, float]
    digest: str
    """Of the whole update as it arrived, hexadecimal. Its sender reported the same one, unless the
    update was resumed: then each of two processes knew a part only."""
    path: Path
    """The directory of its store and its manifest."""
    store: ModelStore
    """What is stored there."""
    run: str = ""
    """The run of the job, where that has a ledger (see ``ledger``)."""
    base: str = ""
    """Names the model it was made from, as ``ledger.model_id`` does; empty without a ledger."""

    @classmethod
    def read(cls, path: Path, store_at: StoreAt) -> StoredUpdate:
        """Return the update in directory ``path``, by its manifest.

        Raises:
            CorruptStore: there is no manifest, or it is damaged.
        """
        file = path / MANIFEST_NAME
        try:
            facts = decode_checked_json(patiently(file.read_bytes), file)
            return cls(
                peer_name=str(facts["peer"]),
                attempt=Attempt(facts["job"], facts["round"], facts["attempt"]),
                update=Update(float(facts["weight"]), UpdateKind[facts["kind"]], norm=_norm(facts)),
                metrics={str(name): float(value) for name, value in facts["metrics"].items()},
                digest=str(facts["digest"]),
                path=path,
                store=store_at(path),
                run=str(facts.get("run", "")),
                base=str(facts.get("base", "")),
            )
        # A right checksum proves that nothing is damaged, not that this is a manifest.
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = error.what if isinstance(error, CorruptStore) else error
            what = f"this is no manifest of an update: {why}"
            raise CorruptStore(what, path=str(file)) from error

    def write(self) -> None:
        """Write the manifest: atomic and durable."""
        facts = {
            "peer": self.peer_name,
            "job": self.attempt.job,
            "round": self.attempt.round,
            "attempt": self.attempt.attempt,
            "weight": self.update.weight,
            "kind": self.update.kind.name,
            "norm": self.update.norm,
            "metrics": dict(self.metrics),
            "digest": self.digest,
            "run": self.run,
            "base": self.base,
        }
        write_durably(self.path / MANIFEST_NAME, encode_checked_json(facts))


def _norm(facts: Mapping[str, Any]) -> float | None:
    return None if facts.get("norm") is None else float(facts["norm"])


def stored_digest(source: ModelSource) -> str:
    """Return a model's digest, without reading it where its block hashes are stored."""
    return source.digest() if isinstance(source, HasBlockHashes) else digest_of(source)
