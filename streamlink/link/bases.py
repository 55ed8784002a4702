"""Bases: the kept versions of models that the streams of one job may send differences from.

Which one, if any, is agreed on with each stream: its sender names the digests of those that it has,
and its receiver answers with one that it has, too. Both have proven theirs (``stores.versions``),
and what is decoded with it is hashed as ever, so a base that is not what it should be costs an
attempt and never gives a wrong model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from streamlink.model.interfaces import Payload
from streamlink.model.part import part_source
from streamlink.model.spec import ModelSpec
from streamlink.protocol.limits import MAX_BASES
from streamlink.stores.versions import KeptVersion, Versions, VersionWriter

__all__ = ["Base", "Bases"]

logger = logging.getLogger("streamlink.transfer")


@dataclass(frozen=True, slots=True)
class Base:
    """The base that both ends of a stream have."""

    version: KeptVersion
    read: Callable[[int, int], Payload]
    """``read(offset, nbytes)`` of it, by the offsets of the stream's model."""


@dataclass(frozen=True, slots=True)
class Bases:
    """What one end has kept of one job.

    Args:
        versions: all that this end has kept.
        owner: the job, and with whom it is done: versions of another one are never named.
        whole: the model, where a stream may have only the tensors of ``part`` of it.
        part: those tensors.
        doubted: digests that are not named any more, where versions are shared with other peers;
            None: they are not shared.
    """

    versions: Versions
    owner: str
    whole: ModelSpec | None = None
    part: ModelSpec | None = None
    doubted: set[str] | None = None

    def for_part(self, whole: ModelSpec, part: ModelSpec) -> Bases:
        """Return the same for streams that have the tensors of ``part`` of ``whole``."""
        return replace(self, whole=whole, part=part)

    def digests(self, spec_digest: bytes) -> tuple[str, ...]:
        """Return the digests of what is kept of a stream's model, the newest first."""
        kept = self.versions.digests(self.owner, self._whole_of(spec_digest))
        return tuple(each for each in kept if not self._is_doubted(each))[:MAX_BASES]

    def first_of(self, digests: Sequence[str], spec_digest: bytes) -> Base | None:
        """Return the first of ``digests`` that is kept; None: none of them is."""
        for digest in digests:
            if (found := self.get(digest, spec_digest)) is not None:
                return found
        return None

    def get(self, digest: str, spec_digest: bytes) -> Base | None:
        """Return the version with ``digest``; None: it is not kept, or not any more."""
        if self._is_doubted(digest):
            return None
        version = self.versions.get(self.owner, digest, self._whole_of(spec_digest))
        if version is None:
            return None
        if version.spec_digest == spec_digest or self.whole is None or self.part is None:
            return Base(version, version.read)
        return Base(version, part_source(_Source(self.whole, version), self.part).read)

    def begin(self, spec_digest: bytes, nbytes: int) -> VersionWriter | None:
        """Begin to keep a model; None: there is no room for it."""
        return self.versions.begin(self.owner, spec_digest, nbytes)

    def doubt(self, base: Base, why: str) -> None:
        """Build no more on ``base`` with this peer: what was made with it had another digest.

        A version that others use, too, stays for them unless it turns out to have changed: else one
        peer could have the models of all others travel whole, again and again.
        """
        version = base.version
        if self.doubted is None:
            self.versions.drop(version, why)
            return
        logger.warning("%s: not used with this peer any more: %s", version.path, why)
        self.doubted.add(version.digest)
        self.versions.prove_again(version)

    def _is_doubted(self, digest: str) -> bool:
        return self.doubted is not None and digest in self.doubted

    def _whole_of(self, spec_digest: bytes) -> bytes:
        if self.whole is None or self.part is None or self.part.digest != spec_digest:
            return spec_digest
        return self.whole.digest


@dataclass(frozen=True, slots=True)
class _Source:
    """A kept version as a source, for the reader of a part of it."""

    spec: ModelSpec
    version: KeptVersion

    def read(self, offset: int, length: int) -> Payload:
        return self.version.read(offset, length)

    def close(self) -> None:
        pass
