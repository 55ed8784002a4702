"""One model between two machines, pulled: ``serve`` listens with the model, ``fetch`` connects.

The counterpart of ``oneshot`` for a receiver that nobody can reach, such as one behind a firewall,
and for one model that many want. All promises are the same: who dials changes nothing in how the
bytes move, what is kept of an interrupted transfer, and how it is verified.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from functools import partial

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import AbortCode, ConnectFailed, ModelError, StoreError, StreamlinkError
from streamlink.link.attempts import Attempts, Line, own_name
from streamlink.link.fetch_desk import Fetch, FetchDesk
from streamlink.link.into import Into, expire, is_plain, resume_in, sink_in
from streamlink.link.oneshot_wire import (
    HEARD_SECONDS,
    IDENTITY,
    PULL,
    STOPPED,
    STREAM,
    ask,
    stream_number,
)
from streamlink.link.passing import is_passing
from streamlink.link.probe_desk import ProbeDesk
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt, TransferProgress, ignore_progress
from streamlink.link.transfer_facts import OnTransfer, TransferNotice
from streamlink.model.beside_ends import with_beside
from streamlink.model.interfaces import HasIdentity, ModelSink, ModelSource, watch
from streamlink.protocol.frames import Request
from streamlink.transport.addresses import listening_at
from streamlink.transport.connect import hub_at
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["fetch", "serve"]

logger = logging.getLogger("streamlink.transfer")


# --- serving --------------------------------------------------------------------------------


def serve(
    model: ModelSource,
    listen: str = "127.0.0.1:0",
    *,
    count: int | None = None,
    fetchers: int = 8,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    timeout: float | None = None,
    progress: TransferProgress = ignore_progress,
    desk: FetchDesk | None = None,
    traffic: TrafficCounter | None = None,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
    clock: Clock = running_time,
) -> int:
    """Give ``model`` to whoever fetches it, until ``count`` fetches are done.

    A fetch that fails is logged, and the others go on. It does not count.

    Args:
        model: must not change meanwhile; a ``Watched`` model detects that it did.
        listen: ``host:port``, where port 0 takes a free one; or ``unix:path``.
        count: how many fetches to serve; None: until ``cancel``.
        fetchers: how many at a time; each has its own window in memory.
        config: settings of this end.
        on_listening: called with the port, once it can be reached; 0: a Unix socket.
        timeout: how long to wait while nobody fetches (seconds); None: for ever.
        progress: called with how far each fetch is; see ``TransferProgress``.
        desk: admits the fetchers; closing it ends this call. Then ``count`` and ``fetchers`` are
            its own.
        traffic: counts what moves.
        cancel: ends it; what each fetcher has is kept there for another try.
        on_transfer: called with the facts of each finished fetch; see ``TransferFacts``.
        clock: of all deadlines and waits; tests pass one of virtual time.

    Returns:
        How many fetches were done.

    Raises:
        StreamAborted: the desk was closed.
        Cancelled: ``cancel`` was cancelled.
        AddressInUse: the address is taken.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        ConnectFailed: nobody fetched within ``timeout``.
        SourceChanged: the model was modified meanwhile; no fetcher keeps any of it.
        StoreError: the model cannot be read any more.
    """
    config, cancel = config or LinkConfig(), cancel or CancelToken()
    require_known(config.stream.encodings)
    desk = desk or FetchDesk(count=count, most=fetchers, clock=clock)
    model = with_beside(model, config.limits)
    serving = _Serving(model, desk, progress, on_transfer)
    probes = ProbeDesk(config, clock, on_request=serving.on_request, cancel=cancel)
    hub = serving.hub = probes.hub = hub_at(
        listen,
        config,
        clock=clock,
        on_session=probes.on_session,
        on_request=probes.on_request,
        traffic=traffic,
    )
    hub.listen()
    reason = "the server has stopped"
    try:
        with cancel.calling(lambda _: desk.close(STOPPED, AbortCode.CANCELLED)):
            on_listening(hub.port)
            if not desk.wait_done(timeout):
                where = listening_at(listen, hub.port)
                raise ConnectFailed(f"nobody fetched from {where} within {timeout:g} s")
        reason = "the model was given"
        return desk.served
    except StreamlinkError:
        # A cancelled token causes errors of other kinds, which would hide it.
        cancel.check()
        raise
    finally:
        # Nobody is admitted from here on, or the next wait might not end.
        desk.close(reason)
        desk.wait_empty()  # the caller may close the model next
        hub.close(reason, most=HEARD_SECONDS)


class _Serving:
    """One model that is given to many, each in a thread of its own."""

    hub: Hub

    def __init__(
        self,
        model: ModelSource,
        desk: FetchDesk,
        progress: TransferProgress,
        on_transfer: OnTransfer | None,
    ) -> None:
        self._model, self._desk = model, desk
        self._progress, self._on_transfer = progress, on_transfer
        known = model.identity() if isinstance(model, HasIdentity) else ""
        # One check for all fetches, since a fetcher may keep bytes of an earlier one.
        self._check = watch(model)
        # A random one is known to the fetchers of this call alone: nobody resumes another's model.
        self._identity = known or secrets.token_hex(16)

    def on_request(self, session: Session, request: Request) -> None:
        """Serve a fetcher, if there is room; called in its session's thread."""
        fetch = self._desk.admit(session, request)
        if fetch is not None:
            name = f"fetch-{session.peer_name}"
            # Not in this thread, which reads the session: it has to notice if the fetcher leaves.
            thread = threading.Thread(target=self._run, args=(fetch,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # this process may have no more threads now
                self._desk.release(fetch, is_served=False)
                session.reply(request, error=f"it cannot serve now: {error}; try again later")

    def _run(self, fetch: Fetch) -> None:
        is_served = False
        try:
            self._send(fetch)
            is_served = True
            fetch.session.leave("the model was given")
        except (ModelError, StoreError) as error:
            self._desk.fail(error)  # ours: the next fetcher would meet it, too
            self._dismiss(fetch)
        except StreamlinkError as error:
            logger.warning("%s: %s", fetch.peer_name, error)
            self._dismiss(fetch)
        # Nothing that a fetcher can cause: ``serve`` has to end with it, and not this thread alone.
        except BaseException as error:
            self._desk.fail(error)
            self._dismiss(fetch)
        finally:
            if fetch.transfer is not None:
                fetch.transfer.hand_to(fetch.session.withdraw)
            self._desk.release(fetch, is_served=is_served)

    def _send(self, fetch: Fetch) -> None:
        session, clock = fetch.session, self.hub.clock
        notice = TransferNotice(
            session.peer_name, "sent", on_transfer=self._on_transfer, clock=clock
        )
        outgoing = fetch.transfer = SendTransfer(
            session.config,
            self._model.spec,
            clock=clock,
            stream_id=self.hub.new_stream_id(),
            peer_name=session.peer_name,
            name=f"model to {session.peer_name}",
            is_resumable=True,
            notice=notice,
        )
        # Only now: a fetch that is ended from here on finds the transfer and aborts it.
        fetch.check()
        outgoing.hand_to(session.offer)
        outgoing.hand_to(self.hub.ticker.add)
        facts = {STREAM: str(outgoing.stream_id), IDENTITY: self._identity}
        session.reply(fetch.request, metadata=facts)
        # Last: the fetcher's time to open the stream begins when it was answered.
        outgoing.hand_to(session.start_offer)
        logger.info("→ %s: the model begins", session.peer_name)
        tell = partial(self._tell, session.peer_name, self._model.spec.nbytes)
        send_model(outgoing, self._model, on_phase=tell, check=self._check)

    def _tell(self, peer_name: str, total: int, phase: str, done: int) -> None:
        self._progress(peer_name, phase, done, total)

    def _dismiss(self, fetch: Fetch) -> None:
        # The abort says more than a goodbye, which travels on another call and could overtake it:
        # the fetcher leaves once it has read the abort. That call may be over here already.
        if not fetch.session.is_disconnected:
            fetch.session.closed.wait(HEARD_SECONDS)
        fetch.session.leave("the transfer failed")


# --- fetching -------------------------------------------------------------------------------


def fetch(
    address: str,
    into: Into,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = ignore_progress,
    traffic: TrafficCounter | None = None,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
    clock: Clock = running_time,
) -> Receipt:
    """Fetch the model that is served at ``address``; returns once it is committed in ``into``.

    If nobody answers, the server is busy, or it or the connection is lost, it retries. Into a
    ``ResumableStore`` it resumes at what has arrived, even in another process. Partial models older
    than ``partial_expiry`` are removed first.

    Args:
        address: ``host:port`` or ``unix:path``.
        into: see ``Into``. A sink that is no ``ModelInPlace`` gets one transfer only.
        name: of this end, at the server; by default the host name, the process id and four
            random digits.
        config: settings of this end.
        retry: how long to retry without any progress (seconds); 0: one attempt only, even if the
            connection is refused.
        progress: called with how far it is; see ``TransferProgress``.
        traffic: counts what moves, over all attempts.
        cancel: ends it; what has arrived is kept for another try, as after any other failure.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.
        clock: of all deadlines and waits; tests pass one of virtual time.

    Raises:
        Cancelled: ``cancel`` was cancelled.
        ConnectFailed: nobody answers there, or the server is busy with other fetchers.
        ModelError: the model has other tensors than ``into`` takes, or does not fit into memory.
        StoreError: this end's disk is full or broken; what has arrived may be kept.
        StreamlinkError: the transfer failed; nothing of it is visible.
    """
    config, cancel = config or LinkConfig(), cancel or CancelToken()
    cancel.check()
    expire(into, config)
    traffic = traffic or TrafficCounter(clock=clock)
    # One process may fetch several models from a server at a time, and names must differ.
    own = name or own_name(f"-{secrets.token_hex(2)}")
    line = Line(address, own, config, retry, progress, traffic, cancel, on_transfer, clock)
    return _Fetching(into, line).run()


class _Fetching:
    """One model that is fetched from one server, in as many attempts as it takes."""

    def __init__(self, into: Into, line: Line) -> None:
        self._into, self._line = into, line
        self._is_spent = False
        self._attempts = Attempts(
            line, self._fetch_over, role="this end only fetches", can_retry=self._can_retry
        )

    def run(self) -> Receipt:
        """Fetch it; raises what the last attempt raised."""
        return self._attempts.run()

    def _can_retry(self, error: BaseException) -> bool:
        return is_passing(error) and not self._is_spent

    def _fetch_over(self, client: Dialer, session: Session) -> Receipt:
        to, clock, cancel = self._line.to, self._line.clock, self._line.cancel
        answer = ask(session, PULL, to, cancel)
        identity = answer.get(IDENTITY, "")
        incoming = ReceiveTransfer(
            session.config,
            clock=clock,
            stream_id=stream_number(answer, to),
            peer_name=session.peer_name,
            name=f"model from {to}",
            notice=self._line.notice("received"),
        )
        incoming.hand_to(partial(client.open_transfer, session))
        try:
            with cancel.calling(lambda _: incoming.abort(AbortCode.CANCELLED, STOPPED)):
                receipt = receive_model(
                    incoming,
                    lambda model: self._sink(model, identity),
                    resume_in(self._into, identity),
                    lambda phase, done: self._line.progress(to, phase, done, incoming.spec.nbytes),
                )
        except (ModelError, StoreError):
            incoming.wait_over(HEARD_SECONDS)  # else the goodbye overtakes the reason
            raise
        finally:
            self._attempts.has_moved(incoming.consumed_bytes)
        with cancel.calling(lambda _: session.abort(AbortCode.CANCELLED, STOPPED)):
            # Until the server, which leaves then, has heard of the commit.
            session.closed.wait(session.config.timeouts.open_timeout)
        return receipt

    def _sink(self, model: ReceiveTransfer, identity: str) -> ModelSink:
        # A plain sink is discarded with the attempt, so it cannot be filled by another.
        self._is_spent = is_plain(self._into)
        return sink_in(model.spec, self._into, identity, self._line.config.limits)
