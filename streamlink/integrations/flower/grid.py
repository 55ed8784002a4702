"""``StreamlinkGrid``: Flower's grid, the arrays of its messages being objects of a server here."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Error, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from streamlink import LinkConfig, StreamlinkError, TransferFacts
from streamlink.config import ObjectLimits
from streamlink.errors import ModelError
from streamlink.integrations.flower import records
from streamlink.integrations.flower.identity import SESSION, Admission
from streamlink.integrations.folders import own_folder
from streamlink.integrations.ports import ON_DISK, SOME_CLIENTS, listening
from streamlink.objects import ObjectServer, OpenObject, Reference

__all__ = ["StreamlinkGrid"]

_MOST = 64  # names in a reference; with more, whoever was let in may read


@dataclass
class _Object:
    """A record that is on its way to one or several clients."""

    record: ArrayRecord
    key: str
    readers: dict[str, str] = field(default_factory=dict)  # by the tokens of awaited replies
    reference: Reference | None = None


@dataclass
class _Sent:
    message: Message
    name: str
    token: str
    objects: list[_Object] = field(default_factory=list)

    id = property(attrgetter("message.metadata.message_id"))


class _Received:
    """An object that a client has sent; it is released with the last record that reads from it."""

    def __init__(self, opened: OpenObject) -> None:
        self.spec, self.read, self.close = opened.spec, opened.read, opened.close
        weakref.finalize(self, opened.close_later)


def _note(updates: threading.Semaphore, transfer: TransferFacts) -> None:
    if transfer.direction == "received" and transfer.error is None:
        updates.release()


def _as_flower_does(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: getattr(self.grid, name)(*args, **options)


class StreamlinkGrid(Grid, AbstractContextManager[Any]):  # type: ignore[misc]  # untyped
    """Sends references in the place of arrays, and returns replies whose arrays are read on demand.

    All else is done by ``grid``, over Flower's own connection. It listens from the beginning;
    ``close`` ends that, or the ``with`` block, or the end of the process.

    Args:
        grid: the one that Flower gives to a ServerApp.
        listen: ``HOST:PORT``, or ``HOST:FIRST-LAST`` for the first free pair of ports of a range:
            see ``integrations.ports``.
        config: settings of this end. Unless ``grpc.max_clients`` is set, twice as many clients as
            there are nodes now may connect at once, and at least 64, within the limit of file
            descriptors.
        limits: how many objects, how large, and for how long at most; by default 4 TiB.
        spool: directory for what clients send; by default a temporary one, which is removed at the
            end, and after a kill by the next grid.
        poll_seconds: how often replies are asked for once their updates are here (seconds).
        idle_seconds: how much longer the wait is while no update has come; with both defaults it is
            3 s, as in Flower.

    Attributes:
        objects: the server of the arrays; ``objects.port`` is where clients connect.
        config: its settings, with the tokens of the clients.
    """

    def __init__(
        self,
        grid: Grid,
        listen: str = "127.0.0.1:0",
        *,
        config: LinkConfig | None = None,
        limits: ObjectLimits | None = None,
        spool: Path | str | None = None,
        poll_seconds: float = 0.5,
        idle_seconds: float = 2.5,
    ) -> None:
        self.grid, self._poll_seconds, self._idle_seconds = grid, poll_seconds, idle_seconds
        self._limits = limits or ON_DISK
        self._sent: dict[str, _Sent] = {}
        self._updates = threading.Semaphore(0)  # those that are here, and whose replies are not
        self._late: set[str] = set()  # nobody waits for the replies to these any more
        self._narrow: dict[str, dict[str, Any]] = {}  # see ``source_of``; by the record's key
        with ExitStack() as stack:
            self._guard = Admission(config or LinkConfig())
            self.config = self._guard.config
            spool = spool or stack.enter_context(own_folder("streamlink-flower"))
            make = partial(ObjectServer, limits=self._limits, spool=spool)
            make = partial(make, on_transfer=partial(_note, self._updates))
            # A node's client has another name each time, and one that was lost is here for a while.
            most = max(SOME_CLIENTS, 2 * len(list(grid.get_node_ids())))
            self.objects = stack.enter_context(listening(listen, make, self.config, most))
            self.close = weakref.finalize(self, stack.pop_all().close)

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what Flower's own grid does ----------------------------------------------------------

    set_run, create_message = _as_flower_does("set_run"), _as_flower_does("create_message")
    get_node_ids, get_nodes = _as_flower_does("get_node_ids"), _as_flower_does("get_nodes")

    run = property(attrgetter("grid.run"))

    # --- messages -----------------------------------------------------------------------------

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages; a record that several of them share is put once."""
        # Copies: the caller's messages keep their arrays.
        nodes = self.grid.get_nodes() if self._guard.is_mutual else ()
        names = {each.node_id: each.name for each in nodes}
        new: list[_Sent] = []
        try:
            for each in messages:
                entry = self._guard.entry(each.metadata.dst_node_id, names)
                new.append(_Sent(copy(each), *entry))
            self._guard.publish()
            self._put(new)
            for sent in new:
                self._refer(sent)
            ids = list(self.grid.push_messages([each.message for each in new]))
        except BaseException:
            self._release(new)
            raise
        self._sent |= {sent.id: sent for sent in new}
        self._release(self._sent.pop(each) for each in {sent.id for sent in new} - set(ids))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies; their arrays are at this server already, and read when they are used."""
        wanted = set(message_ids)
        found = self.grid.pull_messages(wanted | self._late)
        # One that comes too late is opened as well: its object is released with it, right here.
        replies = {each.metadata.reply_to_message_id: self._opened(each) for each in found}
        self._late -= replies.keys()
        self._release(filter(None, [self._sent.pop(each, None) for each in replies]))
        return [each for name, each in replies.items() if name in wanted]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages and wait for the replies; whoever replies after ``timeout`` is too late."""
        waiting = set(filter(None, self.push_messages(messages)))
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while waiting and (end is None or time.monotonic() < end):
            replies += (new := list(self.pull_messages(waiting)))
            waiting -= {each.metadata.reply_to_message_id for each in new}
            if waiting:
                if self._updates.acquire(timeout=self._idle_seconds):
                    self._updates.release()
                time.sleep(self._poll_seconds)
        # And once more when its reply is here: what it sends until then is nobody's, too.
        self._release(filter(None, map(self._sent.get, waiting)))
        self._late |= waiting
        return replies

    # --- objects ------------------------------------------------------------------------------

    def _put(self, new: list[_Sent]) -> None:
        """Put each record of arrays once, for all clients that it is sent to."""
        objects: dict[int, _Object] = {}  # by the record's identity
        for sent in new:
            for key, record in sent.message.content.items():
                if isinstance(record, ArrayRecord):
                    known = objects.setdefault(id(record), _Object(record, key))
                    known.readers[sent.token] = sent.name
                    sent.objects.append(known)
        ttl = min(self._limits.max_ttl, max((s.message.metadata.ttl for s in new), default=0.0))
        for each in objects.values():
            with suppress(ModelError):  # an array that streamlink does not know: Flower carries it
                readers = tuple(set(each.readers.values())) if len(each.readers) <= _MOST else None
                source = records.source_of(each.record, self._narrow.setdefault(each.key, {}))
                each.reference = self.objects.put(source, readers=readers, ttl=ttl, digest="")

    def _refer(self, sent: _Sent) -> None:
        references = {id(each.record): each.reference for each in sent.objects}

        def change(record: ArrayRecord) -> ArrayRecord:
            found = references[id(record)]
            return record if found is None else records.referring(found)

        session = {"name": sent.name, "token": sent.token, "port": self.objects.port}
        session["ttl"] = self._limits.max_ttl
        sent.message.content = records.exchanged(sent.message.content, change)
        sent.message.content[SESSION] = ConfigRecord(session)

    def _opened(self, reply: Message) -> Message:
        if reply.has_content():
            try:
                reply.content = records.exchanged(reply.content, self._open)
            except StreamlinkError as error:
                if sent := self._sent.get(reply.metadata.reply_to_message_id):
                    unavailable = Error(ErrorCode.REPLY_MESSAGE_UNAVAILABLE, str(error))
                    return Message(unavailable, reply_to=sent.message)
        return reply

    def _open(self, record: ArrayRecord) -> ArrayRecord:
        if (text := records.reference_in(record)) is None:
            return record
        self._updates.acquire(blocking=False)
        return records.SourceRecord(_Received(self.objects.open(text)))

    def _release(self, messages: Iterable[_Sent]) -> None:
        """Release what these brought and what their nodes have sent: nobody waits for replies."""
        for sent in messages:
            if self._guard.dismiss(sent.name, sent.token):  # else another message has the name too
                self.objects.forget(sent.name)
            while sent.objects:
                (known := sent.objects.pop()).readers.pop(sent.token, None)
                if not known.readers and known.reference is not None:
                    with suppress(StreamlinkError):  # the server may have been started again
                        self.objects.drop(known.reference)
        self._guard.publish()
