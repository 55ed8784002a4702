"""``Server``: listens for clients and sends them requests, with a model in each direction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import (
    AbortCode,
    Cancelled,
    JobAborted,
    RoundError,
)
from streamlink.link.client_request import ClientRequest
from streamlink.link.peer import Peer
from streamlink.link.probe_desk import ProbeDesk
from streamlink.link.receive_transfer import KnownSpecs
from streamlink.link.serving import Answers, Handler, Registration, Serving
from streamlink.link.transfer import abort_reason
from streamlink.link.transfer_facts import OnTransfer
from streamlink.protocol.frames import Request
from streamlink.transport.addresses import listening_at
from streamlink.transport.budget import with_room
from streamlink.transport.connect import hub_at
from streamlink.transport.session import Session
from streamlink.transport.traffic import Traffic

__all__ = ["Server"]


_CHECK_SECONDS = 1.0  # a wait for clients calls its ``check`` this often


def _go_on() -> None:
    pass


def _last_words(error: BaseException) -> str:
    """Return the reason that clients get; a job that was ended on purpose has not failed."""
    for each in (error, error.__cause__):
        if isinstance(each, JobAborted):
            return str(each)
        if isinstance(each, RoundError):  # also as the cause of a command's own error
            return f"the server failed: {abort_reason(each)}"
    if isinstance(error, KeyboardInterrupt | Cancelled):
        return "the server was stopped"
    return f"the server failed: {abort_reason(error)}"


class Server:
    """A server that clients connect to; ``listen`` opens it, or its ``with`` block.

    A server that was closed does not listen again.

    Args:
        address: where to listen: ``host:port``, where port 0 takes a free one, or ``unix:path``.
        config: settings of this end.
        cancel: ends whatever waits for clients, the exchanges of ``Peer.ask``, what handlers of
            ``serve`` wait for, and the jobs on this server.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.
        serve: what answers the requests of clients, by their topic; see ``serve``.

    Raises:
        SecurityError: the file of tokens cannot be used.
        UnknownCodec: ``stream.encodings`` names an encoding that there is not.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        config: LinkConfig | None = None,
        *,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
        serve: Mapping[str, Handler] | None = None,
        clock: Clock = running_time,
    ) -> None:
        self.config = with_room(config or LinkConfig())
        # Here, in the line that names it, and not when the first model is to be sent.
        require_known(self.config.stream.encodings)
        self.clock = clock
        self._on_transfer = on_transfer
        self.cancel = cancel or CancelToken()
        """Ends what waits on this server."""
        self._changed = clock.condition()
        self._peers: dict[str, Peer] = {}
        self._listens = address
        self._serving = Serving(self.config, clock)
        for topic, handler in (serve or {}).items():
            self.serve(topic, handler)
        # It opens nothing yet. ``listen`` does, whose errors a caller expects.
        self._probes = ProbeDesk(
            self.config,
            clock,
            on_request=self._asked,
            on_session=self._arrived,
            cancel=self.cancel,
        )
        self._hub = self._probes.hub = hub_at(
            address,
            self.config,
            clock=clock,
            on_session=self._probes.on_session,
            on_closed=self._left,
            on_request=self._probes.on_request,
            on_called_off=self._serving.call_off,
        )

    def listen(self) -> Self:
        """Listen for clients, and return this server; a ``with`` block does it by itself.

        Harmless while it listens already. Whoever calls it calls ``close`` in the end.

        Raises:
            AddressInUse: the address is taken.
            SecurityError: plain text would leave this machine unasked, or a certificate is no good.
            TooFewDescriptors: the settings cannot work with so few as this process may have.
            ValueError: another server or client of this process has another ``memory_bytes``.
            RuntimeError: this server was closed.
        """
        self._hub.listen()
        return self

    def serve(self, topic: str, handler: Handler, *, answers: Answers = "send") -> Registration:
        """Register ``handler`` for a topic that clients ask with ``ClientLink.ask``.

        The handler gets a ``ClientRequest``. It runs in a thread of its own, as many at once as
        ``limits.max_handlers`` allows; it may block, and what it raises is the client's answer.

        Args:
            topic: what clients name in their requests.
            handler: answers them.
            answers: how it does: whether it sends a model, receives one, or only replies. Handlers
                of one way share their threads, and wait for none of another way. It may always
                reply instead.

        Returns:
            What withdraws the topic, with its ``close``; it may be left alone.

        Raises:
            ValueError: the topic has a handler already.
        """
        return self._serving.add(topic, handler, answers)

    def occupied(self, by: str) -> AbstractContextManager[None]:
        """Within the block, the line is not probed, unless ``limits.probes`` is ``always``.

        Args:
            by: what occupies it, for whoever tries, such as ``a job runs``.
        """
        return self._probes.occupied(by)

    def _asked(self, session: Session, request: Request) -> None:
        def make() -> ClientRequest:
            with self._changed:
                peer = self._peers.get(session.peer_name)
            # Its first request may be quicker than the notice that it is here.
            most = self.config.limits.max_tensors
            known = peer.known if peer is not None else KnownSpecs(most)
            return ClientRequest(self._hub, session, request, known, self._on_transfer, self.cancel)

        self._serving.take(session, request, make)

    def _require_listening(self) -> None:
        if not self._hub.is_listening:
            raise RuntimeError(
                f"the server at {self._listens} does not listen; use it in a with block, or call "
                "listen() first"
            )

    @property
    def port(self) -> int:
        """The port it listens on; 0: a Unix socket, or it has never listened."""
        return self._hub.port

    @property
    def address(self) -> str:
        """Where clients on this machine reach it: ``host:port``, or its Unix socket."""
        address = listening_at(self._listens, self.port)
        for everywhere, loopback in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
            if address.startswith(everywhere):  # the loopback is part of it
                return loopback + address.removeprefix(everywhere)
        return address

    def peers(self) -> list[Peer]:
        """Return the clients with an open session, ordered by name."""
        with self._changed:
            here = [peer for peer in self._peers.values() if peer.is_here]
        return sorted(here, key=lambda peer: peer.name)

    @property
    def traffic(self) -> Traffic:
        """What all streams of this server have moved."""
        return self._hub.traffic

    @property
    def wire_bytes(self) -> tuple[int, int]:
        """Bytes of frames that all transfers have sent and received so far, over every carrier."""
        return self._hub.wire.sent, self._hub.wire.received

    def wait_for_peers(
        self,
        count: int,
        seconds: float,
        *,
        enough: int | None = None,
        named: Collection[str] = (),
        counted: Collection[str] = (),
        check: Callable[[], None] = _go_on,
    ) -> list[Peer]:
        """Wait until ``count`` clients are connected, and return all that are.

        Args:
            count: how many to wait for.
            seconds: how long to wait.
            enough: how many are needed when the time is over; None: ``count``.
            named: names to wait for as well, except those that are barred.
            counted: names that count as if they were connected.
            check: called every second meanwhile; what it raises ends the wait.

        Raises:
            RoundError: fewer than ``enough`` connected.
            Cancelled: the server's token was cancelled.
            RuntimeError: this server does not listen.
        """
        self._require_listening()
        least = count if enough is None else enough
        until = self.clock() + seconds
        with self.cancel.calling(self._wake), self._changed:
            here = {*self._peers, *counted}
            # A barred name counts as here: no client can come under it.
            while not (len(here) >= count and here | self.barred.keys() >= set(named)):
                if (left := until - self.clock()) <= 0:
                    break
                self.cancel.check()
                check()
                # In short waits: what ``check`` looks at, such as an operator's order, wakes
                # nobody here.
                self._changed.wait(min(left, _CHECK_SECONDS))
                here = {*self._peers, *counted}
        if len(here) < least:
            raise RoundError(
                f"{len(here)} of {least} clients came within {seconds:g} s "
                f"({', '.join(sorted(here)) or 'none'}); start the others, wait longer "
                "(wait_for_clients_seconds of a job) or ask for fewer (its min_clients)"
            )
        return self.peers()

    def wait_for_peer(
        self,
        name: str,
        seconds: float,
        check: Callable[[], None] = _go_on,
        *,
        unless: Peer | None = None,
    ) -> Peer | None:
        """Wait until a client of that name is connected; None: not within ``seconds``.

        ``check`` is called every second meanwhile; what it raises ends the wait. ``unless`` is a
        client whose session is about to end, and does not count.

        Raises:
            Cancelled: the server's token was cancelled.
            RuntimeError: this server does not listen.
        """
        self._require_listening()
        until = self.clock() + seconds
        with self.cancel.calling(self._wake), self._changed:
            while (peer := self._here(name, unless)) is None:
                if (left := until - self.clock()) <= 0:
                    return None
                self.cancel.check()
                check()
                self._changed.wait(min(left, _CHECK_SECONDS))
            return peer

    def wait_until_left(self, name: str, seconds: float) -> bool:
        """Wait until the client called ``name`` has left and its place is free.

        Returns:
            Whether it left within ``seconds``.

        Raises:
            Cancelled: the server's token was.
        """

        def has_left() -> bool:
            self.cancel.check()
            # Not ``_here``: the name is free only when the session is out of the list.
            return name not in self._peers

        with self.cancel.calling(self._wake), self._changed:
            return self._changed.wait_for(has_left, seconds)

    def _wake(self, reason: str) -> None:
        with self._changed:
            self._changed.notify_all()

    def _here(self, name: str, unless: Peer | None) -> Peer | None:
        peer = self._peers.get(name)
        # A session that has just ended stays in the list until its thread removes it.
        return None if peer is None or peer is unless or peer.is_lost else peer

    def bar(self, name: str, reason: str) -> None:
        """End the session of that client, and refuse new ones under its name until ``readmit``."""
        self._hub.registry.bar(name, reason)

    def readmit(self, name: str) -> None:
        """Accept sessions of a barred client again."""
        self._hub.registry.readmit(name)

    def is_barred(self, name: str) -> bool:
        """Whether clients of that name are refused."""
        return name in self._hub.registry.barred

    @property
    def barred(self) -> dict[str, str]:
        """The names that are refused, and why."""
        return self._hub.registry.barred

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and its parent opened it."""
        return self._hub.is_inherited

    def close(self, reason: str = "the server is closing") -> None:
        """End all sessions with a goodbye, and stop listening.

        Disconnected clients are waited for, so that they get it too: up to 4/3 of
        ``reconnect_timeout`` (by default 40 s) after their loss. ``cancel`` ends that wait. In a
        process that was forked while it was open it does nothing: the server is the parent's.
        """
        if self.is_inherited:
            return
        with self.cancel.calling(lambda _: self._wait_no_longer(reason)):
            self._hub.close(reason)

    def _wait_no_longer(self, reason: str) -> None:
        for session in self._hub.sessions:
            # An abort with the code of a goodbye: the client takes it for one, and nobody waits for
            # an answer.
            session.abort(AbortCode.GOODBYE, reason)

    def __enter__(self) -> Self:
        return self.listen()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A goodbye only without an error: clients take it for the end of a job that is done.
        if error is None:
            self.close("the job is done")
        else:
            self._hub.close(_last_words(error), has_failed=True)

    def _arrived(self, session: Session) -> None:
        with self._changed:
            # It has already ended, and ``_left`` is not called again. Or it ends soon: a newer one
            # of this client took its place before it was announced.
            if session.closed.is_set() or session not in self._hub.sessions:
                return
            peer = Peer(session, self._hub, self._on_transfer, self.cancel)
            self._peers[session.peer_name] = peer
            self._changed.notify_all()

    def _left(self, session: Session) -> None:
        if session.is_probe:
            return
        self._serving.left(session)
        with self._changed:
            # The client may be back already: then a newer session has the name.
            if session.peer_name in self._peers and not self._peers[session.peer_name].is_here:
                del self._peers[session.peer_name]
            self._changed.notify_all()
