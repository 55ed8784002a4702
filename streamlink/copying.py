"""Models from anything into anything: on this machine, to another one, from another one.

The public face of ``link.oneshot``, ``model.copy`` and ``model.digest``. Those know sources, sinks
and stores; these take what users have as it is, and close what they opened themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.link import oneshot
from streamlink.link.oneshot import TransferProgress
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import OnTransfer
from streamlink.model import copy, digest
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSource, Progress
from streamlink.stores.coercion import SourceLike, TargetLike, as_sink, as_source, as_target
from streamlink.stores.guarded import GuardedSource

__all__ = ["copy_model", "digest_of", "receive", "send"]


def _ignore(peer: str, phase: str, done: int, total: int) -> None:
    pass


def send(
    model: SourceLike,
    to: str,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = _ignore,
    guard: bool = False,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> Receipt:
    """Bring ``model`` to whoever receives at ``to`` (``host:port``); returns once it is committed.

    Where nobody answers, or the connection or the receiver is lost, it tries again, and goes on
    where the receiver is: after this process was started again, too, if the model comes from files.

    Args:
        model: see ``SourceLike``; must not change meanwhile. Files and torch tensors notice that
            (``SourceChanged``); NumPy arrays, writes through ``.data`` and a few others do not.
        to: ``host:port``.
        name: what the receiver calls this end; by default the host and the process.
        config: settings of this end.
        retry: how long to try again without coming any further (seconds); 0: not once.
        progress: ``progress(peer, phase, done, total)`` is told how far it is (bytes).
        guard: reads the whole model once before anybody is connected to, and compares every block
            that is sent with that, so that a change is noticed in any model, and the transfer of
            equal arrays goes on after this process was started again. Price: one more read, a copy
            of each block, 16 bytes of memory for each MiB. Nobody may write before that is done.
        cancel: ends it, from any thread; the receiver is told, and keeps what it can.
        on_transfer: told the facts of each attempt that is over; see ``TransferFacts``.

    Raises:
        Cancelled: ``cancel`` was.
        SourceChanged: somebody wrote to ``model`` meanwhile; the receiver keeps nothing of it.
        ModelError: ``model`` cannot be read as one; nothing was connected to.
        StoreError: it is a path or a store without a model that can be read; as above.
        ConnectFailed: nobody answers there, or it is busy with another model.
        StreamlinkError: the transfer failed; no part of it is visible at the receiver.
    """
    with _opened(model) as source:
        if guard:
            total = source.spec.nbytes
            tell = _checked(lambda done: progress(to, "noting", done, total), cancel)
            source = GuardedSource(source, tell)
        return oneshot.send(
            source,
            to,
            name=name,
            config=config,
            retry=retry,
            progress=progress,
            cancel=cancel,
            on_transfer=on_transfer,
        )


def receive(
    into: TargetLike,
    listen: str = "127.0.0.1:0",
    *,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    timeout: float | None = None,
    progress: TransferProgress = _ignore,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> Receipt:
    """Listen until one model is whole in ``into`` and committed, and return what it was.

    A sender that fails, leaves, or brings other tensors than ``into`` takes is logged, and the next
    one is waited for; a second one at the same time is refused. Into a directory of safetensors a
    transfer goes on where an interrupted one of the same model stopped, also one of another
    process.

    Args:
        into: see ``TargetLike``. A sink that is no ``ModelInPlace`` gets one attempt only. If this
            raises, arrays and modules may be part old and part new.
        listen: ``host:port``; port 0 takes a free one.
        config: settings of this end.
        on_listening: told the port, once it can be reached.
        timeout: how long to wait while no sender is here (seconds); None: for ever.
        progress: ``progress(peer, phase, done, total)`` is told how far it is (bytes).
        cancel: ends it, from any thread; what has come is kept where the place can.
        on_transfer: told the facts of each attempt that is over; see ``TransferFacts``.

    Raises:
        Cancelled: ``cancel`` was.
        ModelError: nothing can be received into ``into``; the port was never opened.
        AddressInUse: the address is taken.
        ConnectFailed: no sender came within ``timeout``.
        StoreError: this end's disk is full or broken; what has come may be kept for another time.
        StreamlinkError: the transfer into a plain sink failed; nothing of it is visible.
    """
    return oneshot.receive(
        as_target(into),
        listen,
        config=config,
        on_listening=on_listening,
        timeout=timeout,
        progress=progress,
        cancel=cancel,
        on_transfer=on_transfer,
    )


def copy_model(
    source: SourceLike,
    into: TargetLike,
    piece_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Copy every byte and commit; whatever fails, the place has been told to discard.

    Args:
        source: see ``SourceLike``.
        into: see ``TargetLike``.
        piece_bytes: how much is read at a time (bytes).
        progress: told the bytes copied, then that number plus the steps of the commit.
        cancel: ends it, from any thread; a commit that has begun is not ended.

    Raises:
        Cancelled: ``cancel`` was; the place keeps what it had.
        ModelError: ``source`` cannot be read, or nothing can go into ``into``.
        SpecMismatch: source and place have different tensors.
        StoreError: there is no model to read, or the disk is full or broken.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    sink_for = as_sink(into)
    with _opened(source) as opened:
        total = opened.spec.nbytes
        tell = _checked(progress, cancel, until=total)
        copy.copy_model(opened, sink_for(opened.spec), piece_bytes, tell)


def digest_of(
    source: SourceLike,
    piece_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> str:
    """Read the whole source, ``piece_bytes`` at a time, and return its digest in hexadecimal.

    Args:
        source: see ``SourceLike``.
        piece_bytes: how much is read at a time (bytes).
        progress: told the bytes read.
        cancel: ends it, from any thread.

    Raises:
        Cancelled: ``cancel`` was.
        ModelError: ``source`` cannot be read as a model.
        StoreError: there is no model at the path or in the store, or it cannot be read.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    with _opened(source) as opened:
        return digest.digest_of(opened, piece_bytes, _checked(progress, cancel))


def _checked(
    progress: Progress | None, cancel: CancelToken | None, until: float = math.inf
) -> Progress:
    """Return ``progress`` that looks at the token at each step, up to byte ``until``."""

    def told(done: int) -> None:
        if cancel is not None and done <= until:
            cancel.check()
        if progress is not None:
            progress(done)

    return told


@contextmanager
def _opened(what: SourceLike) -> Iterator[ModelSource]:
    """Give ``what`` as a source, and close what was opened for that; the user's stays open."""
    source = as_source(what)
    try:
        yield source
    finally:
        if source is not what:
            source.close()
