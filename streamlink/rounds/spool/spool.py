"""The first phase of a spooled round: every update is stored, so that stragglers can be left out.

A ``Spool`` receives each client's update into a store of its own, beside a small manifest, and
acknowledges it when both are durable. In the second phase the loop of ``aggregate`` reads them
(``source``). Of a client that is lost, the stored part of a pure update is kept (``partial``).
Memory grows with the number of clients by one window each, the disk by one update each.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from streamlink.clock import Clock
from streamlink.errors import (
    AbortCode,
    StoreError,
    StoreFull,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.link import Attempt
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.transfer import abort_reason
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, ModelStore, Progress, ReadBackSink
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.validate import check_announced, check_metrics
from streamlink.rounds.durable import spool_errors, sync_directory
from streamlink.rounds.ledger import Run
from streamlink.rounds.resume import Answer, PartialUpdate
from streamlink.rounds.spool.partial import PartialSink, StoredPartial
from streamlink.rounds.spool.recovery import path_name
from streamlink.rounds.spool.stored import MANIFEST_NAME, StoreAt, StoredUpdate, stored_digest
from streamlink.stores.files import remove_tree
from streamlink.stores.preflight import require_writable
from streamlink.stores.safetensors.expiry import expire_updates

__all__ = ["Spool", "check_spool"]

_OURS = (MANIFEST_NAME, f"{MANIFEST_NAME}.part")
_CHECK_SECONDS = 0.5  # how soon the loss of a client is seen whose update is awaited


def check_spool(directory: Path) -> None:
    """Check that updates can be stored in ``directory``, before a client is asked for one.

    Raises:
        StoreError: this process may not write there, or it is no directory.
        StoreFull: the disk has no room for a file.
    """
    require_writable(directory, "the spool cannot be used")


class Spool:
    """Receives the updates of one round, each into the directory ``<directory>/<number>``.

    With a ledger that is ``<run>-<number>``, so that a restarted server recognises its own. What
    other runs left there stays: their numbers are skipped. One thread uses a spool; the threads
    that receive belong to it.

    Args:
        directory: made if it is missing. Names of clients never become part of a path: a peer
            chooses them.
        base: the model that was sent; an update is of it, or of its ``part``.
        part: the tensors every update must have.
        attempt: gives the job and the round of every update. Each client has its own attempt
            number, which its stream checks.
        store_at: returns the store in a directory; of safetensors files, for example, so that what
            is stored is verified when it is read.
        clock: tells the time for all waits.
        clients: the disk must have room for so many updates at once.
        run: the run that stored updates belong to, where the job has a ledger.
        recovered: updates that are stored already (see ``recovery``).
        take_first: no more than so many updates are stored, the recovered ones included; whichever
            is whole later is refused. 0: no limit.
        expiry: directories that have not changed for so long are removed first (seconds).

    Raises:
        StoreFull: the disk has no room for ``clients`` updates; says how much they need.
        StoreError: the directory cannot be used.
    """

    def __init__(
        self,
        directory: str | Path,
        base: ModelSpec,
        part: ModelSpec,
        attempt: Attempt,
        *,
        store_at: StoreAt,
        clock: Clock,
        clients: int,
        run: Run = Run(),
        recovered: Sequence[StoredUpdate] = (),
        take_first: int = 0,
        expiry: float = math.inf,
    ) -> None:
        self._directory = Path(directory)
        self._base = base
        self._part = part
        self._attempt = attempt
        self._store_at = store_at
        self._clock, self._changed = clock, clock.condition()
        self._entries: dict[str, _Entry] = {}
        self._partials: dict[str, StoredPartial] = {}
        self._failed: dict[str, StreamlinkError] = {}
        self._fault: Exception | None = None
        self._run, self._take_first = run, take_first
        self._recovered = {each.peer_name: each for each in recovered}
        self._paths: list[Path] = [each.path for each in recovered]
        self._threads: list[threading.Thread] = []
        self._changes = self._seen = self._number = 0
        self._is_closed = clock.event()
        self._has_made_directory = not self._directory.exists() or bool(recovered)
        with spool_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
        self._expiry = expiry
        self._touch()
        # After ``_touch``: a server that was away for longer than the expiry keeps what it
        # recovered.
        expire_updates(self._directory, expiry, _OURS)
        try:
            self._require_room(clients)
        except StoreFull:
            self._remove_directory()
            raise
        watcher = threading.Thread(target=self._watch, name="spool-watch", daemon=True)
        self._threads.append(watcher)
        watcher.start()

    # --- state --------------------------------------------------------------------

    @property
    def arrived(self) -> dict[str, StoredUpdate]:
        """The updates that are stored, ordered by the names of their clients."""
        with self._changed:
            entries = [entry for entry in self._entries.values() if entry.is_over]
            stored = {each.peer_name: each.stored for each in entries if each.stored is not None}
            return dict(sorted((self._recovered | stored).items()))

    @property
    def failed(self) -> dict[str, StreamlinkError]:
        """Clients whose update failed, and why; not those that were started again."""
        with self._changed:
            return dict(self._failed)

    @property
    def waiting(self) -> set[str]:
        """Clients whose update has not arrived yet."""
        with self._changed:
            return {name for name, entry in self._entries.items() if not entry.is_over}

    @property
    def fault(self) -> Exception | None:
        """What failed on this side, such as a full disk; no client is to blame."""
        with self._changed:
            return self._fault

    def partial(self, peer_name: str) -> PartialUpdate | None:
        """What is stored of the update of a client that was lost; None: it must begin again."""
        with self._changed:
            return self._partials.get(peer_name)

    def wait(self, seconds: float) -> bool:
        """Wait for a change since the last ``wait``; False: none within ``seconds``.

        A change is: an update arrived or failed, this side failed, a client was dropped.
        """
        with self._changed:
            has_changed = self._changed.wait_for(lambda: self._changes != self._seen, seconds)
            # A counter, not a flag: what changes between two waits is not missed.
            self._seen = self._changes
            return has_changed

    # --- actions ---------------------------------------------------------------------

    def start(self, peer_name: str, answer: Answer) -> None:
        """Begin to receive the update of a client, in a thread of its own; return at once.

        Args:
            peer_name: the client; what it sent before no longer counts.
            answer: its stream. ``failure`` is polled twice a second until it has arrived.

        Raises:
            StoreError: the directory cannot be used.
        """
        self.drop(peer_name)
        self._start(_Entry(peer_name, answer, self._new_path()))

    def drop(self, peer_name: str, reason: str = "the round continues without it") -> None:
        """Remove what is stored of a client, and abort its stream if that is open.

        Harmless where there is nothing of it.
        """
        with self._changed:
            recovered, entry = self._recovered.pop(peer_name, None), self._give_up(peer_name)
            partial = self._partials.pop(peer_name, None)
            if recovered is not None:
                self._note_change()
        # Without the lock: to remove a model from a disk may take seconds.
        if recovered is not None:
            self._remove(recovered.path)
        if partial is not None:
            partial.discard()
        if entry is not None:
            self._end(entry, reason)

    def leave_out(self, peer_name: str, reason: str) -> bool:
        """Leave out a client that is late; False: its update is stored by now, and so it counts.

        Decided under the lock: a client whose update is left out never gets *commit*.
        """
        with self._changed:
            late = self._entries.get(peer_name)
            if late is not None and late.stored is not None:
                self._changed.wait_for(lambda: late.is_over)  # soon: only the notice is left
                return False
            self._give_up(peer_name)
        if late is not None:
            self._end(late, reason)
        return True

    def close(self, *, keeps_whole: bool = False) -> None:
        """Abort the open streams, and remove all that this spool has stored.

        Args:
            keeps_whole: keep whole updates, for a server that resumes this run.
        """
        self._is_closed.set()
        kept = {each.path for each in self.arrived.values()} if keeps_whole else set()
        with self._changed:
            names = [name for name, each in self._entries.items() if each.path not in kept]
            names += self._partials
        for name in names:
            self.drop(name, "the spool is closed")
        # Before anything is removed: their threads may still write there.
        for thread in self._threads:
            self._clock.join(thread)
        for path in self._paths:
            if path not in kept:
                self._remove(path)
        self._remove_directory()

    # --- one client's thread --------------------------------------------------------------

    def _start(self, entry: _Entry) -> None:
        with self._changed:
            self._failed.pop(entry.peer_name, None)
            self._entries[entry.peer_name] = entry
        thread = threading.Thread(
            target=self._receive, args=(entry,), name=f"spool-{entry.peer_name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _resume(self, partial: StoredPartial, answer: Answer) -> None:
        with self._changed:  # first, or ``drop`` would remove what is to be resumed
            self._partials.pop(partial.peer_name, None)
        self.drop(partial.peer_name)
        self._start(_Entry(partial.peer_name, answer, partial.path, partial))

    def _receive(self, entry: _Entry) -> None:
        error: Exception | None = None
        try:
            receive_model(entry.answer.model, lambda model: self._sink_for(entry, model))
        except Exception as raised:
            error = raised
        # Asked before the lock is taken: it may take others.
        known = entry.answer.failure()
        with self._changed:
            entry.is_over = True
            # What is stored counts, even if its sender left before the notice reached it.
            is_kept = entry.stored is not None and not entry.is_dropped
            if not is_kept and not entry.is_dropped:
                del self._entries[entry.peer_name]
                self._note_failure(entry.peer_name, known, error)
                is_kept = self._keep_partial(entry)
            self._note_change()
        if not is_kept:
            entry.forget_partial()
            self._remove(entry.path)

    def _keep_partial(self, entry: _Entry) -> bool:
        """Keep what the client can resume when it comes back; under the lock."""
        partial = entry.partial
        if partial is None or not partial.resume_offset:
            return False
        self._partials[entry.peer_name] = partial
        return True

    def _note_failure(
        self, peer_name: str, known: StreamlinkError | None, error: Exception | None
    ) -> None:
        is_ours = isinstance(error, StoreError) or not isinstance(error, StreamlinkError)
        if error is not None and is_ours:  # its client may only repeat what we sent it
            self._fault = self._fault or error
        elif (why := known or error) is not None and isinstance(why, StreamlinkError):
            self._failed[peer_name] = why

    def _sink_for(self, entry: _Entry, model: ReceiveTransfer) -> ModelSink:
        """Return the sink for an update, or refuse it before a byte of it is stored."""
        entry.answer.on_begin()
        sent, ours = model.attempt, self._attempt
        if (sent.job, sent.round) != (ours.job, ours.round):
            reason = f"{entry.peer_name} sent an update of {sent}; this is {ours}"
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)
        check_announced(entry.peer_name, model.spec, model.update, self._part, self._base)
        store = self._store_at(entry.path)
        partial = entry.partial
        sink = self._begin(entry, store) if partial is None else partial.rest_sink(model)

        def commit(progress: Progress | None) -> None:
            self._check_whole(entry)
            sink.commit(progress)
            self._keep(entry, store)

        if entry.partial is None:
            return CommitSink(sink, commit)
        return PartialSink(sink, commit, entry.forget_partial)

    def _begin(self, entry: _Entry, store: ModelStore) -> ModelSink:
        sink, update = store.begin(self._part), entry.answer.model.update
        # From the first byte on, since the client may be lost at any time.
        if update.is_pure and isinstance(sink, ReadBackSink):
            entry.partial = StoredPartial(entry.peer_name, update, entry.path, sink, self._resume)
        return sink

    def _check_whole(self, entry: _Entry) -> None:
        check_metrics(entry.peer_name, entry.answer.model.metrics)
        with self._changed:
            entry.require_wanted()
            # Before anything of it is durable: a server that is killed and resumed finds no more
            # updates than count, and so aggregates the same ones.
            self._require_place(entry)
            entry.has_place = True

    def _require_place(self, entry: _Entry) -> None:
        """Refuse an update that is whole after the first ones; under the lock."""
        taken = len(self._recovered) + sum(each.has_place for each in self._entries.values())
        if self._take_first and taken >= self._take_first:
            reason = (
                f"the update of {entry.peer_name} came too late: the first {taken} had arrived "
                "(take_first)"
            )
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)

    def _keep(self, entry: _Entry, store: ModelStore) -> None:
        """Write the manifest of an update that is durable; the acknowledgement follows."""
        model = entry.answer.model
        metrics, digest = dict(model.metrics), model.digest
        if model.is_rest:  # then ``digest`` is that of the rest only
            with closing(store.open()) as source:
                digest = stored_digest(source)
        stored = StoredUpdate(
            entry.peer_name, model.attempt, model.update, metrics, digest, entry.path, store,
            self._run.id, self._run.base,
        )  # fmt: skip
        stored.write()
        with self._changed:  # ``leave_out`` may have decided while the manifest was written
            entry.require_wanted()
            entry.stored, entry.partial = stored, None

    def _watch(self) -> None:
        """Abort the streams of clients whose failure is known from elsewhere."""
        touched = self._clock()
        while not self._is_closed.wait(_CHECK_SECONDS):
            if self._clock() - touched > self._expiry / 4:
                touched = self._clock()
                self._touch()
            with self._changed:
                awaited = [each for each in self._entries.values() if each.stored is None]
            # Without the lock, which the receiving thread needs as soon as an abort wakes it.
            for entry in awaited:
                if (error := entry.answer.failure()) is not None:
                    entry.answer.model.abort(code_of(error), abort_reason(error))

    # --- small parts ----------------------------------------------------------------------

    def _give_up(self, peer_name: str) -> _Entry | None:
        """Forget a client's entry; under the lock."""
        entry = self._entries.pop(peer_name, None)
        if entry is not None:
            entry.is_dropped = True
            self._note_change()
        return entry

    def _end(self, entry: _Entry, reason: str) -> None:
        """Clean up after an entry that was given up."""
        if entry.is_over:
            self._remove(entry.path)
        else:  # its thread removes what is stored: it may be writing at this moment
            entry.answer.model.abort(AbortCode.STALE_ATTEMPT, reason)

    def _touch(self) -> None:
        """Renew our directories' times, so that no server takes them for expired ones."""
        for path in list(self._paths):
            with suppress(OSError):  # gone by now
                os.utime(path)

    def _note_change(self) -> None:
        self._changes += 1
        self._changed.notify_all()

    def _new_path(self) -> Path:
        has_remade = False
        with spool_errors(self._directory):
            while True:
                path = self._directory / path_name(self._run.id, self._number)
                try:
                    # ``mkdir`` is atomic, so two servers never get the same directory.
                    path.mkdir()
                except FileExistsError:
                    self._number += 1
                except FileNotFoundError:
                    # Another server with this spool has removed it, empty, at the end of its round.
                    # Once: what is missing after that is something else.
                    if has_remade:
                        raise
                    has_remade = True
                    self._directory.mkdir(parents=True, exist_ok=True)
                else:
                    self._number += 1
                    sync_directory(self._directory)
                    self._paths.append(path)
                    return path

    def _require_room(self, clients: int) -> None:
        # Checked before any client is asked: a full disk would otherwise cost a round of training.
        needed, free = clients * self._part.nbytes, self._free_bytes()
        if free < needed:
            raise StoreFull(
                f"{self._directory.resolve()}: {clients} updates of {self._part.nbytes / 1e6:.1f} "
                f"MB each need {needed / 1e6:.1f} MB there, but only {free / 1e6:.1f} MB are free; "
                "make room, put the spool on a larger disk, or gather in lockstep"
            )

    def _free_bytes(self) -> int:
        try:
            return shutil.disk_usage(self._directory).free
        except FileNotFoundError:  # another server has just removed it, empty; see ``_new_path``
            return shutil.disk_usage(self._directory.parent).free

    @staticmethod
    def _remove(path: Path) -> None:
        remove_tree(path)

    def _remove_directory(self) -> None:
        if self._has_made_directory:
            with suppress(OSError):  # not empty: another run has left something there
                self._directory.rmdir()


@dataclass(slots=True)
class _Entry:
    """One client that the spool receives from.

    Its thread alone changes ``partial``; the fields after that change under the spool's lock.
    """

    peer_name: str
    answer: Answer
    path: Path
    partial: StoredPartial | None = None
    """What is kept of the update if its client is lost now."""
    stored: StoredUpdate | None = None
    has_place: bool = False
    """Whether it is one of the first that are whole: it counts, and is made durable."""
    is_over: bool = False
    is_dropped: bool = False

    def require_wanted(self) -> None:
        """Raise unless its update still counts: checked before it is acknowledged."""
        if self.is_dropped:
            reason = "the round continued without it"
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)

    def forget_partial(self) -> None:
        """Keep nothing of the update."""
        if self.partial is not None:
            self.partial.discard()
            self.partial = None
