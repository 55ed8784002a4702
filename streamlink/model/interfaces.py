"""The interfaces of sources, sinks and stores. Duck typing is enough: nothing has to inherit.

A *source* returns the bytes of any logical range, a *sink* takes bytes, a *store* holds one whole
model and replaces it atomically. What only some of them can do is a protocol of its own
(``Lending``, ``Preparing``, ``ResumableStore``, ...), which callers look for at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from streamlink.model.spec import ModelSpec

__all__ = [
    "Check",
    "ChecksWriting",
    "Expiring",
    "HasIdentity",
    "Lending",
    "ModelInPlace",
    "ModelSink",
    "ModelSource",
    "ModelStore",
    "Payload",
    "Preparing",
    "Progress",
    "Prompt",
    "ReadBackSink",
    "ResumableSink",
    "ResumableStore",
    "Watched",
    "is_prompt",
    "lends",
    "payload_bytes",
    "watch",
]

Payload = tuple[memoryview, ...]
"""Consecutive logical bytes as flat, C-contiguous ``memoryview``s of format ``B``."""

Progress = Callable[[int], None]
"""Called with a growing count during a long step, so that a watchdog sees that it progresses."""

Check = Callable[[], None]
"""Raises ``SourceChanged`` if a model was modified. It may be called any number of times, and it
does not read the model."""


def payload_bytes(payload: Payload) -> int:
    """Return the payload's length in bytes."""
    return sum(view.nbytes for view in payload)


@runtime_checkable
class ModelSource(Protocol):
    """Returns the bytes of a model, range by range. Several threads may read at the same time."""

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""

    def read(self, offset: int, length: int) -> Payload:
        """Return logical bytes ``[offset, offset + length)``, as views where that saves a copy.

        The views stay valid and unchanged for as long as the caller holds them.

        Raises:
            ValueError: the range is not inside the model.
            CorruptStore: the stored bytes were damaged since they were stored.
        """

    def close(self) -> None:
        """Close files and drop caches. Harmless when called twice."""


@runtime_checkable
class Watched(Protocol):
    """A source that detects when somebody modifies what it reads from."""

    def watch(self) -> Check:
        """Return a check for changes since this call, or since an earlier moment."""


def watch(source: ModelSource) -> Check:
    """Return a source's check, or one that always passes where the source cannot detect changes.

    Call this before the first read. If the check passes after the last read, all bytes that were
    read belong to the same model.
    """
    return source.watch() if isinstance(source, Watched) else _pass


def _pass() -> None:
    pass


@runtime_checkable
class ModelSink(Protocol):
    """Takes the bytes of a model. One writer at a time."""

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""

    def write(self, offset: int, payload: memoryview) -> None:
        """Store ``payload`` at logical ``offset``; the caller may reuse the buffer afterwards.

        Raises:
            ValueError: the range is not inside the model.
            StoreFull: the disk has no room.
        """

    def commit(self, progress: Progress | None = None) -> None:
        """Make the model visible atomically, and durable where the sink is on a disk.

        Raises:
            StoreError: part of the model was never written, or the disk failed.
        """

    def discard(self) -> None:
        """Drop everything written. Harmless after ``commit`` and when called twice."""


@runtime_checkable
class Preparing(ModelSink, Protocol):
    """A sink with a two-phase commit, so that several models can be committed together.

    ``commit`` without ``prepare`` does both phases. Between the two the model is not visible,
    nothing can be written, and ``discard`` is still possible.
    """

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that the model is complete and make it durable: all that may fail or be slow.

        The following ``commit`` is cheap: it only makes the model visible (a rename or a swap).
        Harmless when called twice.

        Raises:
            StoreError: part of the model was never written, or the disk failed.
        """


@runtime_checkable
class Prompt(Protocol):
    """A sink that states whether its ``write`` only copies within memory and never blocks."""

    @property
    def is_prompt(self) -> bool:
        """Whether ``write`` never blocks, so that the thread that reads the network may call it."""


def is_prompt(sink: ModelSink) -> bool:
    """Tell whether ``sink.write`` is known not to block: on no disk, no device, no user code."""
    # Looked up on the class: a wrapper's ``__getattr__`` would answer for the wrapped sink, whose
    # ``write`` may not block although the wrapper's does.
    return hasattr(type(sink), "is_prompt") and isinstance(sink, Prompt) and sink.is_prompt


@runtime_checkable
class Lending(ModelSink, Protocol):
    """A sink that lends its memory, so that a carrier reads bytes directly into it (zero copy).

    Several ranges may be lent at the same time to several threads, also while another thread is in
    ``write`` or ``filled``. A lent range counts as torn, as if its first byte had been written,
    because the borrower may write to it at any time.
    """

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the memory of logical bytes ``[offset, offset + nbytes)``, flat and writable.

        None: the range has no contiguous memory of its own. Lending a range again returns the same
        memory.

        Raises:
            ValueError: the range is not inside the model.
            ModelError: the memory cannot be written to, as ``write`` raises it.
        """

    def filled(self, offset: int, nbytes: int) -> None:
        """Record that a lent range now holds verified bytes: the counterpart of ``write``.

        One thread at a time calls ``write`` and ``filled``.
        """


def lends(sink: ModelSink) -> Lending | None:
    """Return ``sink`` if it lends memory; None if it does not, or if its ``write`` does more."""
    # The MRO is searched for two reasons. A wrapper's ``__getattr__`` would find ``lend`` of the
    # wrapped sink. And a subclass that overrides only ``write`` (to filter, to count) would not see
    # bytes that are filled in place, so ``lend`` must be defined at the same level or below.
    kinds = type(sink).__mro__
    writing = next((at for at, kind in enumerate(kinds) if "write" in vars(kind)), -1)
    lending = next((at for at, kind in enumerate(kinds) if "lend" in vars(kind)), len(kinds))
    return sink if lending <= writing and isinstance(sink, Lending) else None


@runtime_checkable
class ModelInPlace(ModelSource, ModelSink, Protocol):
    """A source and sink over the same memory, so that receiving a model needs no second copy.

    From the first byte written until ``commit`` the model is *torn* (a torn write: part old, part
    new), and ``read`` raises ``TornModel``. ``discard`` cannot restore the old bytes; only
    receiving a whole model repairs it.
    """

    @property
    def is_torn(self) -> bool:
        """Whether a model began to arrive and is not committed: part old, part new."""


@runtime_checkable
class ModelStore(Protocol):
    """Holds one whole model under one name."""

    def open(self) -> ModelSource:
        """Return the last committed model.

        The source stays readable until it is closed, also while a later model replaces it.

        Raises:
            StoreError: there is no model, or it cannot be read.
        """

    def begin(self, spec: ModelSpec) -> ModelSink:
        """Return a sink for the next model; its ``commit`` replaces the present one atomically."""


@runtime_checkable
class ChecksWriting(Protocol):
    """A store that can check, before a transfer begins, whether a model could be written."""

    def check_writable(self) -> None:
        """Raise if a model could not be written. The check leaves nothing behind.

        Raises:
            StoreError: this process may not write there, or the path cannot be a store.
            StoreFull: the disk has no room for a single file.
        """


# --- resuming after the process was restarted --------------------------------------------------


@runtime_checkable
class HasIdentity(Protocol):
    """A source with a name for its content, by which an interrupted transfer is resumed."""

    def identity(self) -> str:
        """Return a short text that changes with the content; found without reading the model."""


@runtime_checkable
class ResumableSink(ModelSink, Protocol):
    """A sink that can be suspended and resumed, also by another process."""

    @property
    def durable(self) -> int:
        """The high-water mark: all bytes below it survive a crash of this process (bytes)."""

    def saved(self) -> Iterator[memoryview]:
        """Yield the durable bytes in order, read back; a view is valid until the next one.

        Raises:
            CorruptStore: they were damaged since they were written.
        """

    def suspend(self) -> None:
        """Close the sink and keep what was received, for ``ResumableStore.resume``."""


@runtime_checkable
class ReadBackSink(ModelSink, Protocol):
    """A sink that can read back and verify what was written."""

    @property
    def whole(self) -> int:
        """All blocks below came whole and without a gap (bytes)."""

    def written(self) -> Iterator[memoryview]:
        """Yield the bytes below ``whole`` in order, read back.

        Raises:
            CorruptStore: they are not what was written.
        """


@runtime_checkable
class ResumableStore(ModelStore, Protocol):
    """A store that keeps the received part of an interrupted transfer."""

    def begin(self, spec: ModelSpec, identity: str = "") -> ResumableSink:
        """Return a sink for the next model; ``resume`` finds it again by ``identity``."""

    def resume(self, spec_digest: bytes, identity: str) -> ResumableSink | None:
        """Return the sink of an interrupted transfer of the same model; None: there is none."""


@runtime_checkable
class Expiring(Protocol):
    """A store that removes what interrupted transfers left in it."""

    def expire(self, seconds: float) -> None:
        """Remove leftovers that nobody changed for ``seconds`` and no running process uses.

        Raises:
            StoreError: it cannot be removed.
        """
