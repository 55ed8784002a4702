"""``Receiving``: takes what clients put, to the disk or into memory; resumes what was cut."""

from __future__ import annotations

import logging

from streamlink.errors import (
    AbortCode,
    ModelError,
    ObjectLimit,
    ObjectRefused,
    StreamlinkError,
    UnknownObject,
)
from streamlink.link import ClientRequest, Receipt, receive_model
from streamlink.model.interfaces import ModelSink, ModelStore, ReadBackSink, ResumableSink
from streamlink.model.spec import ModelSpec
from streamlink.objects.content import Content
from streamlink.objects.holding import Holding
from streamlink.objects.kept import KeptSink
from streamlink.objects.shelf import Shelf, Slot
from streamlink.objects.spool import Spool
from streamlink.objects.uploads import Upload, Uploads
from streamlink.objects.wire import Facts
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore

__all__ = ["Receiving"]

logger = logging.getLogger("streamlink.objects")

_SOON_SECONDS = 30.0  # what a thread may need that only has to end


class Receiving:
    """The uploads of one server.

    Args:
        holding: what the server holds.
    """

    def __init__(self, holding: Holding) -> None:
        self.spool: Spool | None = None
        """Where they go; None: into memory."""
        self._holding, self._changed = holding, holding.changed
        self._clock, self._limits = holding.clock, holding.limits
        self._uploads = Uploads()
        self._in_memory = 0
        self._closed = ""

    # --- what clients ask -------------------------------------------------------------------

    def put(self, asked: ClientRequest, facts: Facts) -> None:
        """Take an object, or the rest of one; or answer that it is here already."""
        upload, is_whole = self._begin(asked, facts)
        if is_whole:
            asked.reply(metadata={"whole": "1"})
            return
        is_filled = False
        try:
            incoming = asked.receive()
            with self._changed:
                upload.transfer, closed = incoming, self._closed
            if closed:
                incoming.abort(AbortCode.GOODBYE, closed)
            receipt = receive_model(
                incoming,
                lambda model: self._sink(upload, model.spec),
                lambda spec_digest: self._resumed(upload, spec_digest),
            )
            self._fill(upload, incoming.spec, receipt, asked.peer_name)
            is_filled = True
        finally:
            self._end(upload, is_filled=is_filled)

    def reference(self, asked: ClientRequest, facts: Facts) -> None:
        """Answer with the reference to what a client has put."""
        caller, identity = facts.caller, facts.word("identity")
        with asked.alive(), self._changed:
            key = self._uploads.key_of(asked.peer_name, identity, caller)
            # Its thread may have a last step to do, after the client has got its commit.
            self._changed.wait_for(lambda: not self._is_running(key), _SOON_SECONDS)
            upload = self._uploads.find(key)
            reference = None if upload is None else upload.reference
            if upload is not None and reference is not None:
                upload.claimed_by = caller.call
        if reference is None:
            raise UnknownObject("what was put is not whole here; put it again")
        asked.reply(metadata={"ref": str(reference)})

    def drop(self, asked: ClientRequest, facts: Facts) -> None:
        """Release what a client has put, or what has arrived of it."""
        if facts.is_of_reference:
            reference = facts.reference
            with self._holding.on_shelf() as shelf:
                shelf.drop(reference, by=asked.peer_name)
        else:
            with self._changed:
                caller, identity = facts.caller, facts.word("identity")
                key = self._uploads.key_of(asked.peer_name, identity, caller)
            self._stop(key)
            self._drop_upload(key)
        asked.reply()

    # --- for the server -----------------------------------------------------------------------

    @property
    def next_expiry(self) -> float | None:
        """When ``expire`` has something to do; the lock is held."""
        return self._uploads.next_expiry

    def expire(self) -> None:
        """Give up what was cut and has not gone on for its time to live."""
        with self._holding.on_shelf() as shelf:
            over = self._uploads.take_expired(self._clock())
            for upload in over:
                shelf.cancel(upload.slot)
        for upload in over:
            logger.info("an object that was put halfway has expired")
            self._remove(upload)
        if self.spool is not None:
            self.spool.remove_left()

    def forget(self, client: str) -> None:
        """Release what a client has put, also the first part of a model: nobody will name it."""
        with self._holding.on_shelf() as shelf:
            found = self._uploads.of(client)
            for upload in found:
                upload.is_unwanted = True
                if upload.reference is not None:
                    shelf.drop(upload.reference)
            cut = [each for each in found if each.is_cut]
            for upload in cut:
                shelf.cancel(upload.slot)
            for upload in found:
                if not upload.is_running:  # else its own thread does that
                    self._uploads.remove(upload)
        for upload in cut:
            self._remove(upload)

    def close(self, reason: str) -> None:
        """End all transfers, and refuse others; the spool is removed by its owner."""
        with self._changed:
            self._closed = reason
            transfers = [each.transfer for each in self._uploads.clear()]
        for transfer in transfers:
            if transfer is not None:
                transfer.abort(AbortCode.GOODBYE, reason)

    # --- one put --------------------------------------------------------------------------------

    def _begin(self, asked: ClientRequest, facts: Facts) -> tuple[Upload, bool]:
        """Return the upload of this call, which runs from now on, or is whole already."""
        self.expire()
        caller, terms = facts.caller, facts.terms
        with self._holding.on_shelf() as shelf:
            self._require_open()
            ttl = shelf.check_terms(terms.reads, terms.ttl)
            key = self._uploads.key_of(asked.peer_name, facts.word("identity"), caller)
        self._stop(key)
        with self._holding.on_shelf() as shelf:
            self._require_open()
            upload = self._uploads.find(key)
            if upload is not None and upload.is_running:
                raise ObjectRefused("another call of this client puts this object just now")
            stale = None
            if upload is not None and not self._uploads.is_good_for(upload, caller, terms):
                self._uploads.remove(upload)
                if upload.is_cut:
                    shelf.cancel(upload.slot)
                    stale = upload
                upload = None
            upload = upload or self._new(shelf, key, facts)
            upload.caller, upload.expires = caller, self._clock() + ttl
            upload.is_running = is_missing = upload.reference is None
        if stale is not None:
            self._remove(stale)
        return upload, not is_missing

    def _require_open(self) -> None:
        """Refuse what comes after ``close``; the lock is held."""
        if self._closed:
            raise ObjectRefused(f"no objects are taken any more: {self._closed}")

    def _stop(self, key: tuple[str, ...]) -> None:
        """End the transfer of an earlier attempt, and wait until its thread has gone."""
        with self._changed:
            upload = self._uploads.find(key)
            transfer = upload.transfer if upload is not None and upload.is_running else None
        if transfer is not None:
            transfer.abort(AbortCode.STALE_ATTEMPT, "a newer attempt took the place of this one")
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running(key), _SOON_SECONDS)

    def _drop_upload(self, key: tuple[str, ...]) -> None:
        with self._holding.on_shelf() as shelf:
            upload = self._uploads.find(key)
            if upload is not None and upload.reference is not None:
                shelf.drop(upload.reference)
            if upload is None or not upload.is_cut:
                return
            self._uploads.remove(upload)
            shelf.cancel(upload.slot)
        self._remove(upload)

    def _is_running(self, key: tuple[str, ...]) -> bool:
        upload = self._uploads.find(key)
        return upload is not None and upload.is_running

    def _new(self, shelf: Shelf[Content], key: tuple[str, ...], facts: Facts) -> Upload:
        terms = facts.terms
        if self.spool is None and self._in_memory + terms.nbytes > self._limits.max_memory_bytes:
            raise ObjectLimit(
                f"an object of {terms.nbytes} bytes does not fit: the server has no spool, and "
                f"holds {self._in_memory} bytes in memory of at most "
                f"{self._limits.max_memory_bytes} (max_memory_bytes)"
            )
        slot = shelf.reserve(terms.nbytes)
        upload = Upload(key, facts.caller, terms, slot, self._store_at(slot), expires=0.0)
        if self.spool is None:
            self._in_memory += terms.nbytes
        self._uploads.add(upload)
        return upload

    def _store_at(self, slot: Slot) -> ModelStore:
        if self.spool is None:
            return MemoryStore()
        return SafetensorsStore(self.spool.path_of(slot.id), cache_blocks=1)

    def _sink(self, upload: Upload, spec: ModelSpec) -> ModelSink:
        if spec.nbytes != upload.terms.nbytes:
            raise ModelError(
                f"an object of {upload.terms.nbytes} bytes was announced, and one of "
                f"{spec.nbytes} bytes comes"
            )
        sink = upload.store.begin(spec)
        return self._keeping(upload, sink) if isinstance(sink, ReadBackSink) else sink

    def _resumed(self, upload: Upload, spec_digest: bytes) -> ResumableSink | None:
        sink, upload.kept = upload.kept, None
        if sink is None:
            return None
        if sink.spec.digest != spec_digest or not sink.whole:
            sink.discard()
            return None
        return self._keeping(upload, sink)

    def _keeping(self, upload: Upload, sink: ReadBackSink) -> KeptSink:
        def keep(kept: ReadBackSink | None) -> None:
            upload.kept = kept

        return KeptSink(sink, keep)

    def _fill(self, upload: Upload, spec: ModelSpec, receipt: Receipt, owner: str) -> None:
        content = Content(
            spec,
            upload.store.open,
            closes=True,
            shared_bytes=self._limits.shared_bytes,
            release=lambda: self._remove(upload),
        )
        terms = upload.terms
        with self._holding.on_shelf() as shelf:
            upload.reference = shelf.fill(
                upload.slot,
                content,
                digest=receipt.digest,
                spec_digest=spec.digest.hex(),
                readers=terms.readers,
                reads=terms.reads,
                ttl=terms.ttl,
                owner=owner,
            )

    def _end(self, upload: Upload, *, is_filled: bool) -> None:
        """Note that no thread receives it any more; what cannot be resumed is removed."""
        with self._holding.on_shelf() as shelf:
            # Nobody goes on with what is kept after ``close``, or when its client was forgotten.
            is_over = bool(self._closed) or upload.is_unwanted
            is_lost = not is_filled and (upload.kept is None or is_over)
            upload.is_running, upload.transfer = False, None
            if is_lost:
                shelf.cancel(upload.slot)
                self._uploads.remove(upload)
            elif upload.is_unwanted and upload.reference is not None:
                shelf.drop(upload.reference)
        if is_lost:
            self._remove(upload)

    def _remove(self, upload: Upload) -> None:
        """Free what is held of it, on the disk or in memory.

        A disk that refuses is nobody's error: whoever calls this may work for another client.
        """
        kept, upload.kept = upload.kept, None
        if kept is not None:
            try:
                kept.discard()
            except (StreamlinkError, OSError) as error:
                logger.warning("an object that was put halfway could not be removed: %s", error)
        with self._changed:
            self._uploads.remove(upload)
            if self.spool is None:
                self._in_memory -= upload.terms.nbytes
        if self.spool is not None:
            self.spool.remove(upload.slot.id)
