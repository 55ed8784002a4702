"""Models that were sent or received before, kept on a disk: what differences are taken from.

A directory belongs to one process at a time; several of them share a limit
(``stores.shared_space``). Each version is a file: a head of 4,096 bytes, JSON
with a checksum, which names the job that the model belongs to, its digests and its place in time;
then all bytes of the model, end to end. A version is a cache: it is not synced, and whatever is
wrong with one costs only that its model travels whole once more. So a file that is damaged, cut or
written to by somebody else is dropped, with a warning.

A version is proven before it is used: its bytes were hashed while they were written, and a process
that finds it hashes it once again, before it offers it to anybody.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import xxhash

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, SourceChanged, StoreError, StoreFull
from streamlink.model.interfaces import Payload
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json
from streamlink.stores.files import (
    FileIdentity,
    Flusher,
    disk_errors,
    read_bytes,
    require_free,
    write_all,
)
from streamlink.stores.shared_space import (
    HEAD_BYTES,
    PARTIAL,
    SUFFIX,
    WAIT_SECONDS,
    KeptFile,
    SharedSpace,
    is_numbered,
    name_of,
    remove_kept,
)

__all__ = ["KeptVersion", "VersionWriter", "Versions"]

logger = logging.getLogger("streamlink.stores")

_PIECE_BYTES = 1 << 20
_ROOM_SECONDS = 0.5  # the peer of a transfer waits meanwhile


class KeptVersion:
    """One model on the disk; readable as long as anybody refers to it, even once it is dropped.

    Args:
        path: its file.
        fd: the same, open; closed with this object.
        facts: what its head says.
    """

    def __init__(self, path: Path, fd: int, facts: dict[str, Any]) -> None:
        self.path, self._fd = path, fd
        self.owner, self.digest = str(facts["owner"]), str(facts["digest"])
        self.spec_digest = bytes.fromhex(facts["spec"])
        self.nbytes = int(facts["nbytes"])
        self.hash = str(facts["hash"])
        self._identity = FileIdentity.of(fd)
        # Last: if anything above raises, the file is still its opener's. By reference counting:
        # streams share it, and the last one to end closes it.
        self._closing = weakref.finalize(self, os.close, fd)
        self.is_proven_again = False
        """Whether it was hashed again after it had seemed wrong, or will be."""

    @property
    def key(self) -> tuple[str, str, bytes]:
        """What tells it from others: owner, digest and the digest of its tensors."""
        return self.owner, self.digest, self.spec_digest

    def read(self, offset: int, nbytes: int) -> Payload:
        """Return bytes of the model.

        Raises:
            StoreError: the file cannot be read, or is cut.
        """
        with disk_errors(self.path, "reading a kept version"):
            data = read_bytes(self._fd, nbytes, HEAD_BYTES + offset, self.path)
        return (memoryview(data),)

    def require_unchanged(self) -> None:
        """Check that nobody has written to the file since it was proven.

        Raises:
            SourceChanged: somebody has.
        """
        self._identity.require_same(self._fd, self.path)


class Versions:
    """The versions that one end keeps: the newest ``most`` of them.

    Close it, or use it in a ``with`` block. All methods may be called from any thread.

    Args:
        shared: the directory of all ends, in which this one has a folder of its own; both are made
            where they are missing.
        kind: with ``name`` what this end is called among them.
        name: such as that of a job.
        most: how many this end keeps (count).
        most_bytes: all versions in ``shared``, with those that are being written (bytes).

    Raises:
        StoreError: the directory cannot be used, or another process uses it.
    """

    def __init__(
        self,
        shared: Path,
        kind: Literal["server", "kept-client"],
        name: str,
        *,
        most: int,
        most_bytes: int,
    ) -> None:
        self._space = SharedSpace(shared, kind, name, most_bytes)
        self._directory, self._most, self._most_bytes = self._space.own, most, most_bytes
        self._lock = threading.Lock()  # held for no call of the disk: streams begin meanwhile
        self._kept: list[KeptVersion] = []  # the newest first
        self._number, self._has_warned = 0, False
        with disk_errors(self._directory, "keeping versions of models"):
            shared.mkdir(parents=True, exist_ok=True)
            self._unlocking = weakref.finalize(self, os.close, self._space.enter())
            try:
                self._find()
            except BaseException:
                self._unlocking()
                raise
        self._trim()

    def digests(self, owner: str, spec_digest: bytes) -> tuple[str, ...]:
        """Return the digests of the versions of ``owner`` with these tensors, the newest first."""
        with self._lock:
            return tuple(
                each.digest
                for each in self._kept
                if each.owner == owner and each.spec_digest == spec_digest
            )

    def get(self, owner: str, digest: str, spec_digest: bytes) -> KeptVersion | None:
        """Return a version that ``digests`` has named; None: it is not kept any more."""
        key = owner, digest, spec_digest
        with self._lock:
            found = next((each for each in self._kept if each.key == key), None)
        if found is None:
            return None
        try:
            found.require_unchanged()
        except SourceChanged as error:
            self.drop(found, str(error))
            return None
        return found

    def begin(self, owner: str, spec_digest: bytes, nbytes: int) -> VersionWriter | None:
        """Begin to write the next version; None: there is no room for it, which is logged."""
        with self._lock:
            self._number += 1
            path = self._directory / name_of(self._number, PARTIAL)
        facts = {"owner": owner, "spec": spec_digest.hex(), "nbytes": nbytes}
        writer = None
        try:
            with disk_errors(self._directory, "keeping a version of a model"):
                if nbytes > self._most_bytes:
                    raise StoreFull(f"it has {nbytes} bytes, and the limit is {self._most_bytes}")
                require_free(self._directory, HEAD_BYTES + nbytes, 0)
                # Its file counts from here on. Two ends that begin at once see each other's:
                # whoever counts last counts both.
                writer = VersionWriter(path, facts, self._add)
                self._make_room(writer, owner, spec_digest)
        except StoreError as error:
            if writer is not None:
                writer.discard()
            self._warn(str(error))
            return None
        return writer

    def _make_room(self, writer: VersionWriter, owner: str, spec_digest: bytes) -> None:
        """Remove older versions if what ``writer`` has begun fits without them.

        Raises:
            StoreFull: it does not, or others or the disk let that last too long.
        """
        until = time.monotonic() + _ROOM_SECONDS

        def check(missing: int) -> None:
            if missing > 0:
                left = max(0, writer.nbytes - missing)
                why = f"it has {writer.nbytes} bytes, and {left} are left of the limit"
            elif time.monotonic() >= until:
                why = f"making room for it takes more than {_ROOM_SECONDS:g} s"
            else:
                return
            writer.discard()  # before another one counts it, who might fit without
            raise StoreFull(why)

        def own() -> list[KeptVersion]:
            mine = [e for e in self._kept if e.owner == owner and e.spec_digest == spec_digest]
            # The newest stays: until the next one is whole, it is what differences are taken from.
            # Of the others those of other jobs go first, and the oldest of each before the newer
            # ones; before them all, those of ends that do not run.
            others = [each for each in reversed(self._kept) if each not in mine]
            return [*others, *reversed(mine[1:])]

        self._remove_excess(own, check, _ROOM_SECONDS)

    def _trim(self) -> None:
        """Remove what is above the limit, of ends that do not run and then of this one."""
        try:
            with disk_errors(self._directory, "looking for room"):
                self._remove_excess(
                    lambda: list(reversed(self._kept)), lambda missing: None, WAIT_SECONDS
                )
        except StoreError as error:
            logger.warning("stream.kept_bytes may be exceeded: %s", error)

    def _remove_excess(
        self,
        own: Callable[[], list[KeptVersion]],
        check: Callable[[int], None],
        seconds: float,
    ) -> None:
        """Remove what is above the limit, one file at a time: others may start in between.

        Args:
            own: returns the versions of this end that may go, in this order.
            check: called before each with what is above the limit even without all that may go
                (bytes); what it raises ends this.
            seconds: how long to wait for others, for each file.
        """
        while self._space.excess() > 0:
            with self._space.alone(seconds):
                with self._lock:
                    mine = {each.path: each for each in own()}
                files = self._space.removable([_as_file(each) for each in mine.values()])
                if (excess := self._space.excess()) <= 0:
                    return
                check(excess - sum(each.nbytes for each in files))
                if not files:
                    return
                # Whoever reads one has it open, so its bytes stay until then.
                if self._space.remove(files[0]):
                    if version := mine.get(files[0].path):
                        with self._lock, suppress(ValueError):  # a newer one has pushed it out
                            self._kept.remove(version)
                    if files[0].nbytes >= excess:
                        return
            self._space.pause()

    def drop(self, version: KeptVersion, why: str) -> None:
        """Keep ``version`` no longer: something is wrong with it."""
        logger.warning("%s: this version of a model is dropped: %s", version.path, why)
        with self._lock:
            if version not in self._kept:
                return
            self._kept.remove(version)
        remove_kept(version.path)

    def prove_again(self, version: KeptVersion) -> None:
        """Hash ``version`` once more, in a thread of its own, and drop it if it has changed.

        Only once for each version: whoever asks for it may be lying.
        """
        with self._lock:
            if version.is_proven_again:
                return
            version.is_proven_again = True
        work = threading.Thread(target=self._prove, args=(version,), name="prove", daemon=True)
        with suppress(RuntimeError):  # no thread: it stays for those that have not failed with it
            work.start()

    def _prove(self, version: KeptVersion) -> None:
        try:
            if _hash_of(version) != version.hash:
                self.drop(version, "its bytes have changed since they were written")
        except StoreError as error:
            self.drop(version, str(error))

    def close(self) -> None:
        """Let another process use the directory; the versions stay there."""
        with self._lock:
            self._kept.clear()
        self._unlocking()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- for the writer -----------------------------------------------------------------------

    def _add(self, partial: Path, fd: int, facts: dict[str, Any]) -> None:
        path = partial.with_suffix(SUFFIX)
        os.replace(partial, path)
        version = KeptVersion(path, fd, facts)
        with self._lock:
            # The same once more, as in a second attempt, must not push out another one.
            others = [each for each in self._kept if each.key != version.key]
            old, self._kept = self._kept, [version, *others][: self._most]
            gone = [each for each in old if each not in self._kept]
        for each in gone:  # whoever reads one has it open, so its bytes stay until then
            remove_kept(each.path)

    def _warn(self, why: str) -> None:
        # Once: the next round has the same size and the same disk.
        text = "%s: this version of a model is not kept (stream.kept, stream.kept_bytes): %s"
        logger.log(logging.DEBUG if self._has_warned else logging.WARNING, text,
                   self._directory, why)  # fmt: skip
        self._has_warned = True

    # --- the directory ------------------------------------------------------------------------

    def _find(self) -> None:
        """Prove what an earlier process has left; remove what is no whole version."""
        paths = sorted(filter(is_numbered, self._directory.iterdir()), reverse=True)
        # No name is used again: whoever makes room may be about to remove the file that had it.
        self._number = max((int(path.stem) for path in paths), default=0)
        for path in paths:
            if path.suffix == PARTIAL:
                remove_kept(path)
            elif (version := self._proven(path)) is not None:
                self._kept.append(version)
        for each in self._kept[self._most :]:
            remove_kept(each.path)
        del self._kept[self._most :]

    def _proven(self, path: Path) -> KeptVersion | None:
        fd = -1
        try:
            # Without waiting: a pipe of that name would have nobody who writes to it.
            fd = patiently(os.open, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            facts = decode_checked_json(read_bytes(fd, HEAD_BYTES, 0, path), path)
            version = KeptVersion(path, fd, facts)
            fd = -1  # its own now
            if _hash_of(version) != version.hash:
                raise CorruptStore("its bytes have changed since they were written", path=str(path))
            version.require_unchanged()
        except (OSError, KeyError, ValueError) as error:
            logger.warning("%s: this version of a model is dropped: %s", path, error)
            remove_kept(path)
            return None
        finally:
            if fd >= 0:
                os.close(fd)
        return version


class VersionWriter:
    """Writes one version, from its first byte to its last; it fails nobody but itself.

    Its owner moves a model and keeps it beside that: an error of the disk is logged, and the
    version is given up. One that is neither committed nor discarded is removed with this object.
    """

    def __init__(
        self, path: Path, facts: dict[str, Any], add: Callable[[Path, int, dict[str, Any]], None]
    ) -> None:
        self._path, self._facts, self._add = path, facts, add
        self.nbytes = int(facts["nbytes"])
        """Of the whole model."""
        self._fd = patiently(os.open, path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._ending = weakref.finalize(self, _give_up, path, self._fd)
        try:
            # Its whole length, without blocks of the disk yet: that is how others count it.
            os.ftruncate(self._fd, HEAD_BYTES + self.nbytes)
        except BaseException:
            self._ending()
            raise
        self._flusher = Flusher(self._fd, path.parent, 0)
        self._hash = xxhash.xxh3_128()
        self.offset = 0
        """Of the byte that the next ``add`` begins with."""

    @property
    def is_open(self) -> bool:
        """Whether it is still being written."""
        return self._ending.alive

    def add(self, view: memoryview) -> None:
        """Write the next bytes."""
        if not self.is_open:
            return
        try:
            write_all(self._fd, view, HEAD_BYTES + self.offset)
            self._flusher.wrote(HEAD_BYTES + self.offset, view.nbytes)
        except OSError as error:
            self.discard(f"it cannot be written: {error}")
            return
        self._hash.update(view)
        self.offset += view.nbytes

    def commit(self, digest: str) -> None:
        """Keep it, as the model with ``digest``, which the caller has found to be right."""
        if not self.is_open:
            return
        if self.offset != self.nbytes:
            self.discard(f"it has {self.offset} of {self.nbytes} bytes")
            return
        facts = {**self._facts, "digest": digest, "hash": self._hash.hexdigest()}
        try:
            write_all(self._fd, encode_checked_json(facts).ljust(HEAD_BYTES), 0)
            self._add(self._path, self._fd, facts)
            self._ending.detach()
        except OSError as error:
            self.discard(f"it cannot be written: {error}")

    def discard(self, why: str = "") -> None:
        """Give it up; harmless once it has ended."""
        if self.is_open and why:
            logger.warning("%s: this version of a model is not kept: %s", self._path, why)
        self._ending()


def _give_up(path: Path, fd: int) -> None:
    os.close(fd)
    remove_kept(path)


def _as_file(version: KeptVersion) -> KeptFile:
    return KeptFile(version.path, version.nbytes)


def _hash_of(version: KeptVersion) -> str:
    hasher = xxhash.xxh3_128()
    for piece in _pieces(version):
        hasher.update(piece)
    return hasher.hexdigest()


def _pieces(version: KeptVersion) -> Iterator[memoryview]:
    for at in range(0, version.nbytes, _PIECE_BYTES):
        yield from version.read(at, min(_PIECE_BYTES, version.nbytes - at))
