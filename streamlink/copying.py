"""Copy, send, receive, serve, fetch and digest models, whatever form they have.

These are the public functions over ``link.oneshot``, ``link.pull``, ``model.copy`` and
``model.digest``, which know sources, sinks and stores only. These also take a path, a dict or a
module, and close what they opened themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink.cancel import CancelToken, checked
from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import ModelError, StoreError, TooManySideFiles
from streamlink.link import oneshot, pull
from streamlink.link.transfer import Receipt, TransferProgress, ignore_progress
from streamlink.link.transfer_facts import OnTransfer
from streamlink.model import copy, digest
from streamlink.model.beside import keeps_beside
from streamlink.model.beside_ends import with_beside
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSource, Progress
from streamlink.stores.coercion import (
    SourceLike,
    Target,
    TargetLike,
    as_sink,
    as_source,
    as_target,
)
from streamlink.stores.fitted import fitted
from streamlink.stores.guarded import GuardedSource

__all__ = ["copy_model", "digest_of", "fetch", "receive", "send", "serve", "with_files"]

logger = logging.getLogger("streamlink.transfer")


def send(
    model: SourceLike,
    to: str,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = ignore_progress,
    guard: bool = False,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> Receipt:
    """Send ``model`` to the receiver at ``to``, and return once the receiver has committed it.

    If nobody answers, or the connection or the receiver is lost, it tries again and resumes at the
    acknowledged offset. A model that comes from files is resumed by a new process, too.

    Args:
        model: see ``SourceLike``; it must not change during the transfer. A change of files or
            torch tensors is noticed (``SourceChanged``); one of NumPy arrays, or through ``.data``,
            is not, unless ``guard`` is given.
        to: the receiver's ``host:port``, or ``unix:path``.
        name: this end's name at the receiver; by default the host and the process.
        config: settings of this end.
        retry: how long to try again without any progress (seconds); 0: the first failure is final.
        progress: called as ``progress(peer_name, phase, done, total)``, in bytes.
        guard: read the whole model once before connecting, and compare each block that is sent with
            it. A change is then noticed in any model, and a new process resumes the transfer of
            equal arrays. Price: one more read, a copy of each block, and 16 bytes of memory per
            MiB. The model must not change during that first read.
        cancel: ends the transfer from another thread; the receiver gets the reason, and keeps what
            it can resume.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.

    Returns:
        The receipt, with the digest that both ends have computed.

    Raises:
        Cancelled: ``cancel`` was called.
        SourceChanged: ``model`` was changed during the transfer; the receiver keeps nothing of it.
        ModelError: ``model`` cannot be read as a model; no connection was made.
        StoreError: the path or store holds no readable model; no connection was made.
        ConnectFailed: nobody answers there, or the receiver is busy with another model.
        StreamlinkError: the transfer failed; no part of it is visible at the receiver.
    """
    with _opened(model) as opened:
        source = _guarded(opened, to, progress, cancel) if guard else opened
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
    progress: TransferProgress = ignore_progress,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> Receipt:
    """Listen until one model has arrived in ``into`` and is committed.

    It takes one sender at a time and refuses a second one. A sender that fails, leaves, or has
    other tensors than ``into`` is logged, and the next one may come. Into a directory of
    safetensors an interrupted transfer of the same model is resumed, also by a new process.

    Args:
        into: see ``TargetLike``. A sink that is no ``ModelInPlace`` gets one attempt only. If this
            raises, arrays and modules may be part old and part new.
        listen: ``host:port``, where port 0 takes a free one, or ``unix:path``.
        config: settings of this end.
        on_listening: called with the port, once senders can connect.
        timeout: how long to wait while no sender is connected (seconds); None: without a limit.
        progress: called as ``progress(peer_name, phase, done, total)``, in bytes.
        cancel: ends the transfer from another thread; what has arrived is kept for a resume, where
            the target can.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.

    Returns:
        The receipt, with the digest that both ends have computed.

    Raises:
        Cancelled: ``cancel`` was called.
        ModelError: nothing can be received into ``into``; the port was never opened.
        AddressInUse: the address is taken.
        ConnectFailed: no sender connected within ``timeout``.
        StoreError: this end's disk is full or broken; what has arrived may be kept for a resume.
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


def serve(
    model: SourceLike,
    listen: str = "127.0.0.1:0",
    *,
    count: int | None = None,
    fetchers: int = 8,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    timeout: float | None = None,
    progress: TransferProgress = ignore_progress,
    guard: bool = False,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> int:
    """Listen, and give ``model`` to whoever calls ``fetch``, until ``count`` fetches are done.

    The counterpart of ``send`` where nobody can connect to the receiver, or many want the model. A
    fetch that fails is logged, does not count, and resumes where it stopped when it comes again; a
    model that comes from files is resumed after a restart of this process, too. Fetchers that read
    the same blocks of a stored model at about the same time read them from the disk once.

    Args:
        model: see ``SourceLike``; it must not change meanwhile, as for ``send``.
        listen: ``host:port``, where port 0 takes a free one, or ``unix:path``.
        count: how many fetches to serve; None: without an end, until ``cancel``.
        fetchers: how many at a time; the others are refused, and try again by themselves. Price:
            ``stream.window_bytes`` and four chunks of memory each.
        config: settings of this end.
        on_listening: called with the port, once fetchers can connect.
        timeout: how long to wait while nobody fetches (seconds); None: without a limit.
        progress: called as ``progress(peer_name, phase, done, total)``, in bytes.
        guard: read the whole model once before listening, and compare each block that is sent with
            it; see ``send``.
        cancel: ends it from another thread; what each fetcher has is kept there for a resume.
        on_transfer: called with the facts of each finished fetch; see ``TransferFacts``.

    Returns:
        How many fetches were done.

    Raises:
        Cancelled: ``cancel`` was called.
        SourceChanged: ``model`` was changed meanwhile; no fetcher keeps any of it.
        ModelError: ``model`` cannot be read as a model; the port was never opened.
        StoreError: the path or store holds no readable model, or cannot be read any more.
        AddressInUse: the address is taken.
        ConnectFailed: nobody fetched within ``timeout``.
        ValueError: ``count`` or ``fetchers`` is not positive.
    """
    with _opened(model) as opened:
        source = _guarded(opened, listen, progress, cancel) if guard else opened
        return pull.serve(
            source,
            listen,
            count=count,
            fetchers=fetchers,
            config=config,
            on_listening=on_listening,
            timeout=timeout,
            progress=progress,
            cancel=cancel,
            on_transfer=on_transfer,
        )


def fetch(
    address: str,
    into: TargetLike,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = ignore_progress,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
) -> Receipt:
    """Fetch the model that ``serve`` gives at ``address`` into ``into``, and commit it there.

    If nobody answers, the server is busy, or it or the connection is lost, it tries again. Into a
    directory of safetensors an interrupted transfer of the same model is resumed, also by a new
    process.

    Args:
        address: the server's ``host:port``, or ``unix:path``.
        into: see ``TargetLike``. A sink that is no ``ModelInPlace`` gets one transfer only. If this
            raises, arrays and modules may be part old and part new.
        name: this end's name at the server; by default the host and the process.
        config: settings of this end.
        retry: how long to try again without any progress (seconds); 0: the first failure is final.
        progress: called as ``progress(peer_name, phase, done, total)``, in bytes.
        cancel: ends the transfer from another thread; what has arrived is kept for a resume, where
            the target can.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.

    Returns:
        The receipt, with the digest that both ends have computed.

    Raises:
        Cancelled: ``cancel`` was called.
        ModelError: nothing can be received into ``into``, or it has other tensors than the model.
        ConnectFailed: nobody answers there, or the server is busy with other fetchers.
        StoreError: this end's disk is full or broken; what has arrived may be kept for a resume.
        StreamlinkError: the transfer failed; nothing of it is visible.
    """
    return pull.fetch(
        address,
        as_target(into),
        name=name,
        config=config,
        retry=retry,
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
    *,
    files: bool = True,
) -> None:
    """Copy every byte of ``source`` into ``into`` and commit; a failure discards the copy.

    From a directory of safetensors into another one the small files beside the tensors go with
    them, such as ``config.json`` and the tokenizer, and the metadata of the headers. Arrays,
    modules and compressed files take the tensors alone; the log says which files stay behind.

    Args:
        source: see ``SourceLike``.
        into: see ``TargetLike``.
        piece_bytes: how much is read at a time (bytes).
        progress: called with the bytes copied, then with that number plus the steps of the commit.
        cancel: ends the copy from another thread; a commit that has begun is not ended.
        files: whether the small files go with it.

    Raises:
        Cancelled: ``cancel`` was called; the target keeps what it had.
        ModelError: ``source`` cannot be read, or nothing can go into ``into``.
        SpecMismatch: source and target have different tensors.
        StoreError: there is no model to read, or the disk is full or broken.
        TooManySideFiles: there are more than 64 small files, or they have more than 64 MiB.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    target = as_target(into)
    with _opened(source) as opened:
        whole = _with_files_for(target, opened) if files else opened
        tell = checked(progress, cancel, until=whole.spec.nbytes)
        copy.copy_model(whole, fitted(whole.spec, target, as_sink(target)), piece_bytes, tell)


def digest_of(
    source: SourceLike,
    piece_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    *,
    files: bool = True,
) -> str:
    """Read the whole source and return its digest in hexadecimal.

    The digest is a hash tree over blocks of 1 MiB (``model/digest.py``). It depends on the tensors
    and their bytes, and on the small files and the metadata beside them, not on how the model is
    stored or travelled. It is the digest of a ``Receipt``.

    Args:
        source: see ``SourceLike``.
        piece_bytes: how much is read at a time (bytes).
        progress: called with the bytes read.
        cancel: ends the reading from another thread.
        files: whether the small files beside the tensors, and their metadata, are part of it.

    Raises:
        Cancelled: ``cancel`` was called.
        ModelError: ``source`` cannot be read as a model.
        StoreError: there is no model at the path or in the store, or it cannot be read.
        TooManySideFiles: there are more than 64 small files, or they have more than 64 MiB.
        ValueError: ``piece_bytes`` is not positive.
    """
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be positive, not {piece_bytes}")
    with _opened(source) as opened:
        whole = with_files(opened) if files else opened
        return digest.digest_of(whole, piece_bytes, checked(progress, cancel))


def with_files(source: ModelSource) -> ModelSource:
    """Return ``source`` with the small files beside it, if it has any.

    Raises:
        TooManySideFiles: there are more than can be copied.
        ModelError: they were changed meanwhile.
    """
    most = LimitsConfig()
    try:
        return with_beside(source, most)
    except TooManySideFiles as error:
        # Its text names settings of a transfer, which a call on this machine does not take.
        raise TooManySideFiles(
            "more small files are beside the model than go with it (at most "
            f"{most.max_side_files}, of {most.max_side_bytes} bytes in all); "
            "leave them out (files=False, or export --no-files), or move those elsewhere that do "
            "not belong to the model"
        ) from error


def _with_files_for(target: Target, source: ModelSource) -> ModelSource:
    """Return ``source`` with its small files; without them, if too many would stay behind."""
    try:
        return with_files(source)
    except (ModelError, StoreError):  # too many of them, or one that cannot be read
        if keeps_beside(target):
            raise
        logger.info("only tensors are stored here, which leaves behind the model's small files")
        return source


def _guarded(
    source: ModelSource, peer_name: str, progress: TransferProgress, cancel: CancelToken | None
) -> GuardedSource:
    """Read ``source`` once, and return it with the hashes of what was read."""
    total = source.spec.nbytes
    return GuardedSource(
        source, checked(lambda done: progress(peer_name, "noting", done, total), cancel)
    )


@contextmanager
def _opened(what: SourceLike) -> Iterator[ModelSource]:
    """Give ``what`` as a source, and close what was opened for that; the user's stays open."""
    source = as_source(what)
    try:
        yield source
    finally:
        # Only what was opened here: the user's object may be used again.
        if source is not what:
            source.close()
