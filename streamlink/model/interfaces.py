"""What the rest of streamlink asks of a place where models live.

A *source* gives the bytes of any logical range, a *sink* takes them, a *store* holds one whole
model and swaps in the next one atomically. Anything with these methods will do; nothing has to
inherit.
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
"""Called with a growing count while a long step goes on, so that nobody takes it for a stall."""

Check = Callable[[], None]
"""Raises ``SourceChanged`` where a model is not what it was; it may be called any number of times,
and costs no read of the model."""


def payload_bytes(payload: Payload) -> int:
    """Return the payload's length in bytes."""
    return sum(view.nbytes for view in payload)


@runtime_checkable
class ModelSource(Protocol):
    """Gives the bytes of a model, range by range. Reads may come from several threads at once."""

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""

    def read(self, offset: int, length: int) -> Payload:
        """Return logical bytes ``[offset, offset + length)``, as views where that saves a copy.

        The views stay valid and unchanged for as long as the caller holds them.

        Raises:
            ValueError: the range is not inside the model.
            CorruptStore: stored bytes are not what was stored.
        """

    def close(self) -> None:
        """Let go of files and caches. Harmless when called twice."""


@runtime_checkable
class Watched(Protocol):
    """A source that notices when somebody writes to what it reads from."""

    def watch(self) -> Check:
        """Return a check for changes from now on, or from an earlier moment."""


def watch(source: ModelSource) -> Check:
    """Return the check of a source, for whoever reads all of it; one that passes where it has none.

    What was read is of one model if the check passes after the last read.
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
        """Take logical bytes from ``offset`` on; ``payload`` may be reused after the return.

        Raises:
            ValueError: the range is not inside the model.
            StoreFull: the disk has no room.
        """

    def commit(self, progress: Progress | None = None) -> None:
        """Make the model whole and visible, at once or not at all, and durable where that applies.

        Raises:
            StoreError: part of the model was never written, or the disk failed.
        """

    def discard(self) -> None:
        """Forget everything written. Harmless after ``commit`` and when called twice."""


@runtime_checkable
class Preparing(ModelSink, Protocol):
    """A sink whose commit has two steps, so that several models can appear at once.

    ``commit`` alone does both. Between them nothing of the model is visible, nothing can be
    written, and ``discard`` is still possible.
    """

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that the model is whole, and make it as durable as the commit would.

        The commit that follows is cheap: it waits for nothing but what makes the model visible.
        Harmless when called twice.

        Raises:
            StoreError: part of the model was never written, or the disk failed.
        """


@runtime_checkable
class Prompt(Protocol):
    """A sink that says whether its ``write`` copies within memory only, and so waits for nobody."""

    @property
    def is_prompt(self) -> bool:
        """Whether it does: then the thread that reads the network may call it."""


def is_prompt(sink: ModelSink) -> bool:
    """Tell whether ``sink.write`` is known to wait for nobody: no disk, no device, no user."""
    # A wrapper's ``__getattr__`` would find that of the sink below, which may wait less.
    return hasattr(type(sink), "is_prompt") and isinstance(sink, Prompt) and sink.is_prompt


@runtime_checkable
class Lending(ModelSink, Protocol):
    """A sink that lends its memory, so that bytes are read straight into where they belong.

    Several ranges may be lent at once, to threads of their own, also while another one is in
    ``write`` or ``filled``. What is lent is torn from then on, whatever becomes of it, as if its
    first byte had been written.
    """

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the memory of logical bytes ``[offset, offset + nbytes)``, flat and writable.

        None: it has no contiguous memory for just these. What is lent again is the same memory.

        Raises:
            ValueError: the range is not inside the model.
            ModelError: it cannot be written to; ``write`` says the same.
        """

    def filled(self, offset: int, nbytes: int) -> None:
        """Take note that lent bytes are in their place and verified: instead of their ``write``.

        Like ``write`` it is called by one thread at a time, and decides what was there last.
        """


def lends(sink: ModelSink) -> Lending | None:
    """Return the sink as one that lends; None where it is none, or its ``write`` does more."""
    # A wrapper's ``__getattr__`` would find the methods of the sink below, and a subclass that
    # overrides ``write`` alone would not see what is filled in place.
    kinds = type(sink).__mro__
    writing = next((at for at, kind in enumerate(kinds) if "write" in vars(kind)), -1)
    lending = next((at for at, kind in enumerate(kinds) if "lend" in vars(kind)), len(kinds))
    return sink if lending <= writing and isinstance(sink, Lending) else None


@runtime_checkable
class ModelInPlace(ModelSource, ModelSink, Protocol):
    """Source and sink over the same memory, so that receiving a model costs no second one.

    From the first byte written until the commit it is *torn*, and ``read`` raises ``TornModel``;
    ``discard`` does not mend it, only a whole model does.
    """

    @property
    def is_torn(self) -> bool:
        """Whether a model has begun to arrive and is not committed: part old, part new."""


@runtime_checkable
class ModelStore(Protocol):
    """Holds one whole model under one name."""

    def open(self) -> ModelSource:
        """Return the last whole model.

        The source stays readable while a later model replaces it, until it is closed.

        Raises:
            StoreError: there is none, or it cannot be read.
        """

    def begin(self, spec: ModelSpec) -> ModelSink:
        """Return a sink for the next model; its ``commit`` replaces the present one atomically."""


@runtime_checkable
class ChecksWriting(Protocol):
    """A store that can tell, before a model is there, whether the next one could be written."""

    def check_writable(self) -> None:
        """Raise where it could not; nothing stays behind.

        Raises:
            StoreError: this process may not write there, or the place cannot be a store.
            StoreFull: the disk takes no file.
        """


# --- what outlives the process that receives it ------------------------------------------------


@runtime_checkable
class HasIdentity(Protocol):
    """A source that knows its bytes by a name, so that an interrupted transfer finds them again."""

    def identity(self) -> str:
        """Return a short text that stays as long as the bytes do, found without reading them."""


@runtime_checkable
class ResumableSink(ModelSink, Protocol):
    """A sink that can be left and taken up again, by another process too."""

    @property
    def durable(self) -> int:
        """All bytes below would survive this process (bytes)."""

    def saved(self) -> Iterator[memoryview]:
        """Yield the durable bytes in order, read back; a view is valid until the next one.

        Raises:
            CorruptStore: they are not what was written.
        """

    def suspend(self) -> None:
        """Let go, and keep what has come for ``ResumableStore.resume``."""


@runtime_checkable
class ResumableStore(ModelStore, Protocol):
    """A store that keeps what an interrupted transfer has brought."""

    def begin(self, spec: ModelSpec, identity: str = "") -> ResumableSink:
        """Return a sink for the next model, one that ``resume`` finds by ``identity``."""

    def resume(self, spec_digest: bytes, identity: str) -> ResumableSink | None:
        """Return the sink of an interrupted transfer of this very model, if there is one."""


@runtime_checkable
class Expiring(Protocol):
    """A store beside which interrupted transfers may have left something."""

    def expire(self, seconds: float) -> None:
        """Remove what was left longer ago than ``seconds``, unless a living process uses it.

        Raises:
            StoreError: it cannot be removed.
        """
