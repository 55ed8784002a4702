"""A spool and the clients whose updates it stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from streamlink.clock import running_time
from streamlink.errors import StreamlinkError
from streamlink.link import Attempt, Update
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore, Progress
from streamlink.model.spec import ModelSpec
from streamlink.rounds.resume import Answer
from streamlink.rounds.spool.spool import Spool
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.joined_pumps import Transfer
from tests.support.peers import ODD, WAIT, Array, config, initial

__all__ = ["ATTEMPT", "PLAIN", "Noticed", "Site", "Spooling"]

PLAIN = Update()
ATTEMPT = Attempt()


class Site:
    """A client joined in memory, and whom the spool asks whether it has failed."""

    def __init__(
        self,
        arrays: dict[str, Array],
        update: Update = PLAIN,
        metrics: dict[str, float] | None = None,
        passed: Callable[[ReceiveTransfer], Any] = lambda transfer: transfer,
    ) -> None:
        self.source = MemoryStore(arrays).open()
        self.transfer = Transfer(self.source.spec, config(), update=update)
        self.incoming = self.transfer.incoming
        self.passed = passed(self.incoming)
        """What the spool is given of it."""
        self.error: StreamlinkError | None = None
        self.outcome: object = None
        self.began = 0
        self._metrics = metrics or {}
        self._thread = threading.Thread(target=self._send, daemon=True)

    def send(self) -> None:
        self.transfer.carrier.join()
        self._thread.start()

    def result(self) -> object:
        """Return what the client heard: a receipt or an error."""
        self._thread.join(WAIT)
        return self.outcome

    def note_beginning(self) -> None:
        self.began += 1

    def failure(self) -> StreamlinkError | None:
        return self.error

    def close(self) -> None:
        self.transfer.__exit__(None, None, None)
        if self._thread.ident:
            self._thread.join(WAIT)

    def _send(self) -> None:
        try:
            self.outcome = send_model(self.transfer.outgoing, self.source, self._metrics)
        except StreamlinkError as error:
            self.outcome = error


class Noticed:
    """A store that tells when a model is in it."""

    def __init__(self, store: ModelStore, act: Callable[[], object]) -> None:
        self._store, self._act = store, act

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)

        def commit(progress: Progress | None) -> None:
            sink.commit(progress)
            self._act()

        return CommitSink(sink, commit)


class Spooling:
    """A spool and its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._stack = directory, ExitStack()
        self.store_at: Callable[[Path], ModelStore] = SafetensorsStore
        self.sites: dict[str, Site] = {}
        self._spool: Spool | None = None

    def spool(self, part: ModelSpec = ODD, clients: int = 2) -> Spool:
        """Return the spool; made at the first call."""
        if self._spool is None:
            self._spool = Spool(
                self.directory,
                ODD,
                part,
                ATTEMPT,
                store_at=lambda path: self.store_at(path),
                clients=clients,
                clock=running_time,
            )
            self._stack.callback(self._spool.close)
        return self._spool

    def when_stored(self, act: Callable[[Path], object]) -> None:
        """Have ``act`` called with the directory of each update whose model has been stored."""
        self.store_at = lambda path: Noticed(SafetensorsStore(path), lambda: act(path))

    def start(self, name: str, *args: Any, **kwargs: Any) -> Site:
        """Let the spool await a client."""
        site = self.sites[name] = Site(*(args or (initial(),)), **kwargs)
        self._stack.callback(site.close)
        self.spool().start(name, Answer(site.passed, site.note_beginning, site.failure))
        return site

    def until(self, is_so: Callable[[Spool], object]) -> Spool:
        """Wait for changes until one of them makes it so."""
        until, spool = time.monotonic() + WAIT, self.spool()
        while not is_so(spool):
            assert spool.wait(until - time.monotonic()), "nothing changed any more"
        return spool

    def close(self) -> None:
        self._stack.close()
