"""The client's gRPC shell: one connection for the session, another for the transfers.

Each call has a thread that reads it, and opens it anew where it broke (``reconnect``). The
connections themselves are gRPC's: a call for which there is none fails at once, and is tried again.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import grpc

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AuthenticationFailed,
    ConnectFailed,
    StreamAborted,
    StreamlinkError,
)
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Left, Ready
from streamlink.protocol.greeting import VERSION_MAX, VERSION_MIN
from streamlink.protocol.session import SessionMachine
from streamlink.transport.diagnosis import unreachable
from streamlink.transport.driver import Pump
from streamlink.transport.grpc.credentials import Connector
from streamlink.transport.identity import token_reader
from streamlink.transport.reconnect import keep_carried
from streamlink.transport.session import GOODBYE_SECONDS, Session, StreamPump
from streamlink.transport.ticker import Ticker
from streamlink.transport.traffic import Traffic
from streamlink.transport.wire import SessionWire, TransferWire, Wire

logger = logging.getLogger("streamlink.client")

_METHOD = "/streamlink.v1.Streamlink/"
_LAST_WORDS_SECONDS = 1.0
_WATCH_SECONDS = 1.0  # five times what gRPC's watcher takes
_MUTE_SECONDS = 5.0  # far more than a handshake takes over any line that can carry a model


class GrpcClient:
    """Connects, greets, and opens the transfers the server offered."""

    def __init__(
        self,
        address: str,
        config: LinkConfig,
        *,
        name: str,
        traffic: Traffic | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._connector = Connector(address, config)
        self._read_token = token_reader(config.security)
        self.address = address
        self.config = config
        self.name = name
        self.ticker = Ticker()
        self.traffic = traffic or Traffic()
        self._instance = secrets.token_hex(8)  # so that the server knows us again in a new session
        self.epoch = ""
        """Names the server's process that welcomed us last."""
        self._is_closing = threading.Event()
        self._cancel = cancel or CancelToken()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._session_pump: Pump[SessionMachine] | None = None
        self._session_thread: threading.Thread | None = None
        self._session_line = _Line(self._channel)
        self._data_line = _Line(self._channel)

    def connect(
        self,
        on_request: Callable[[Session, f.Request], None],
        on_called_off: Callable[[int, str], None] | None = None,
        *,
        seconds: float | None = None,
        tries_for: float = math.inf,
    ) -> Session:
        """Reach the server, greet it and return the session.

        Args:
            on_request: called with each request, in the session's thread.
            on_called_off: called with the number of a request nobody waits for any more.
            seconds: how long to wait for somebody to answer; None: ``connect_timeout``.
            tries_for: a connection that is refused after so long is not tried again (seconds); 0:
                the first is final.

        Raises:
            ConnectFailed: nobody answers within ``seconds``, or the last try was refused.
            StreamAborted: the server refused us; its reason says why.
            Cancelled: the token was.
        """
        self._cancel.check()
        self._wait_until_ready(seconds or self.config.timeouts.connect_timeout, tries_for)
        machine = SessionMachine(self.config, peer=f"server {self.address}", hello=self._hello())
        pump: Pump[SessionMachine] = Pump(machine)
        self._session_pump = pump
        call = _Call(pump, SessionWire)
        self._session_thread = self._keep(
            "Session", self._session_line, call, lambda: pump.is_closed, pump.wait_closed
        )
        self.ticker.add(pump)
        if self._is_closing.is_set():  # looked at once ``close`` can see the pump
            pump.abort(AbortCode.CANCELLED, "the client is closing")
        try:
            with self._cancel.calling(lambda reason: pump.abort(AbortCode.CANCELLED, reason)):
                welcome = _wait_welcome(pump)
        except StreamlinkError:
            self._cancel.check()
            raise
        self.epoch = welcome.epoch
        stream = self.config.stream.model_copy(update={"chunk_bytes": welcome.chunk_bytes})
        session = Session(
            pump,
            session_id=welcome.session_id,
            peer=machine.peer,
            config=self.config.model_copy(update={"stream": stream}),
            on_request=on_request,
            on_called_off=on_called_off,
            traffic=self.traffic,
        )
        session.start()
        return session

    def open_transfer(self, session: Session, pump: StreamPump) -> None:
        """Open the call that carries ``pump``'s stream; its frames flow from now on.

        A call that breaks is opened again while the session lives, until both ends know how the
        stream has ended.
        """
        stream_id = pump.stream.stream_id
        session.offer(pump)
        call = _Call(
            pump,
            lambda: TransferWire(stream_id),
            first=(f.Attach(session.session_id, stream_id),),
            before=session.wait_here,
        )

        def is_over() -> bool:
            return call.is_over or session.closed.is_set()

        self._keep("Transfer", self._data_line, call, is_over, session.closed.wait)

    def renew(self) -> None:
        """Make new connections in the place of those there are; calls on the old ones end."""
        for each in (self._session_line, self._data_line):
            each.renew()

    def close(self) -> None:
        """Drop both connections; a goodbye that was said may leave first."""
        self._is_closing.set()
        if self._session_pump is not None:
            # Nothing where a goodbye was said; else the server would wait for us to come back.
            self._session_pump.abort(AbortCode.CANCELLED, "the client is closing")
            if self._session_thread is not None:  # its call may have to bring a goodbye yet
                self._session_thread.join(GOODBYE_SECONDS)
            else:  # interrupted before it was noted; it may carry already
                self._session_pump.wait_over(_LAST_WORDS_SECONDS)
        self._session_line.close()
        self._data_line.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_LAST_WORDS_SECONDS)
        self.ticker.close()

    # --- calls ------------------------------------------------------------------------

    def _keep(
        self,
        method: str,
        line: _Line,
        call: _Call,
        is_over: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> threading.Thread:
        """Carry ``call.pump`` from now on, in a thread of its own, until ``is_over``."""

        def carry() -> bool:
            self.ticker.add(call.pump)  # its clocks run while it waits for a call, too
            has_moved = call.run(line, method, self.ticker.add)
            if call.was_cut and line is self._session_line:
                self._data_line.renew()  # it may be as dead
            return has_moved

        def run() -> None:
            keep_carried(
                carry,
                is_over=lambda: is_over() or (self._is_closing.is_set() and call.pump.is_closed),
                pause=pause,
            )

        thread = threading.Thread(target=run, name=f"carry-{method}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            thread.start()
            self._threads.append(thread)  # not before: an interrupt may come instead of the start
        return thread

    def _channel(self) -> grpc.Channel:
        return self._connector.channel()

    def _wait_until_ready(self, seconds: float, tries_for: float) -> None:
        """Wait for a connection; one that stays mute is given up for another, ever more patiently.

        Its very first frames may have been damaged: then neither end says another word.
        """
        began, patience = time.monotonic(), _MUTE_SECONDS
        until, refused = began + seconds, threading.Event()

        def is_final() -> bool:
            return time.monotonic() - began >= tries_for

        while not self._is_ready(min(patience, until - time.monotonic()), is_final, refused):
            self._cancel.check()
            if refused.is_set():
                raise self._unreachable("", _LAST_WORDS_SECONDS)
            if time.monotonic() >= until:
                raise self._unreachable(f" within {seconds:g} s (connect_timeout)", seconds)
            patience *= 2
            self._session_line.renew()

    def _is_ready(
        self, seconds: float, is_final: Callable[[], bool], refused: threading.Event
    ) -> bool:
        """Wait up to ``seconds`` for the session's connection; returns whether it stands.

        Args:
            seconds: so long.
            is_final: whether a connection that fails now is not to be tried again, as gRPC would.
            refused: set where such a one failed.
        """
        ready: Any = None
        channel = self._session_line.channel

        def give_up(_: str = "") -> None:
            if ready is not None and not ready.cancelled():  # gRPC takes no second one
                ready.cancel()

        def watch(state: grpc.ChannelConnectivity) -> None:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and is_final():
                refused.set()
                give_up()

        try:
            ready = grpc.channel_ready_future(channel)
            channel.subscribe(watch)
            with self._cancel.calling(give_up):
                ready.result(timeout=max(0.0, seconds))
        except (grpc.FutureTimeoutError, grpc.FutureCancelledError):
            return False
        except ValueError as error:
            raise ConnectFailed(f"{self.address}: the connection was closed here") from error
        finally:
            give_up()  # else gRPC goes on watching the connection, also a closed one
            channel.unsubscribe(watch)
        return True

    def _unreachable(self, within: str, seconds: float) -> StreamlinkError:
        """Return why there was no connection ``within`` some time, as far as it can be told."""
        why = _failure(self._session_line, min(seconds, _LAST_WORDS_SECONDS)).rpartition(
            "last error: "
        )[2]
        return unreachable(self.address, self.config.security, within=within, said=why)

    def _hello(self) -> f.Hello:
        return f.Hello(
            version_min=VERSION_MIN,
            version_max=VERSION_MAX,
            name=self.name,
            instance=self._instance,
            chunk_bytes=self.config.stream.chunk_bytes,
            max_message_bytes=self.config.grpc.max_message_bytes,
            session_timeout=self.config.timeouts.session_timeout,
            token=self._read_token(),
        )


def _wait_welcome(pump: Pump[SessionMachine]) -> f.Welcome:
    while True:
        event = pump.poll()
        if isinstance(event, Ready):
            return event.welcome
        if isinstance(event, Failed):
            error = event.error
            if isinstance(error, StreamAborted) and error.code is AbortCode.UNAUTHENTICATED:
                raise AuthenticationFailed(f"the server refused us: {error.reason}") from error
            raise error
        if isinstance(event, Left):
            raise StreamAborted(AbortCode.GOODBYE, event.reason, by_peer=True, who="the server")


def _failure(line: _Line, seconds: float) -> str:
    """Return what gRPC says of a connection it could not make."""
    try:
        call = line.channel.stream_stream(_METHOD + "Session", None, None)
        for _ in call(iter(()), timeout=seconds):
            pass
    except grpc.RpcError as error:
        return call_status(error)
    except ValueError as error:  # it was closed here meanwhile
        return str(error)
    return ""


class _Line:
    """One connection to the server, as gRPC keeps it, or a new one in its place."""

    def __init__(self, make: Callable[[], grpc.Channel]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._is_closed = False
        self._calls: Counter[grpc.Channel] = Counter()
        self.channel = make()

    def join(self) -> grpc.Channel:
        """Return the connection of the moment, for a call that is about to begin."""
        with self._lock:
            self._calls[self.channel] += 1
            return self.channel

    def leave(self, channel: grpc.Channel) -> None:
        """Note that a call is over. The last one on a retired connection closes that."""
        with self._lock:
            self._calls[channel] -= 1
            is_last = not self._calls[channel]
            if is_last:
                del self._calls[channel]
            is_retired = channel is not self.channel
        if is_last and is_retired:
            _close(channel)

    def retire(self, channel: grpc.Channel) -> None:
        """Let the next calls go over a new connection; others may work on the old one still.

        Called by one that has not left yet.
        """
        with self._lock:
            if self._is_closed or channel is not self.channel:
                return
            self.channel = self._make()

    def renew(self) -> None:
        """Make a new connection; calls on the old one end."""
        with self._lock:
            if self._is_closed:
                return
            old, self.channel = self.channel, self._make()
        _close(old)

    def close(self) -> None:
        """End it, and every call on it."""
        with self._lock:
            self._is_closed = True
            channels = {self.channel, *self._calls}
        for channel in channels:
            _close(channel)


def _close(channel: grpc.Channel) -> None:
    """Close it once gRPC has ceased to watch it.

    gRPC's own thread, which watches a connection for ``channel_ready_future``, looks five times a
    second whether it is still wanted. Closed under it the thread ends in a traceback on stderr.
    There is no public word of its end; without the private one nothing is waited for.
    """
    watched, until = (
        getattr(channel, "_connectivity_state", None),
        time.monotonic() + _WATCH_SECONDS,
    )
    while getattr(watched, "polling", False) and time.monotonic() < until:
        time.sleep(0.01)
    channel.close()


class _Call:
    """Carries one pump over one gRPC call at a time."""

    def __init__(
        self,
        pump: Pump[Any],
        new_wire: Callable[[], Wire],
        *,
        first: tuple[f.Frame, ...] = (),
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self.pump = pump
        self.has_ended_well = False
        """Whether the server ended the last call of its own accord: it has said all it had to."""
        self.was_cut = False
        """Whether the last call ended because it was cancelled, here or by the server."""
        self._new_wire = new_wire
        self._first, self._before = first, before

    @property
    def is_over(self) -> bool:
        """Whether the pump has ended and the server knows of it, or cannot be told any more.

        Only the ticker, which excuses our own standstills, ends a pump for having no call.
        """
        pump = self.pump
        is_told = pump.is_settled or (pump.is_closed and self.has_ended_well)
        return is_told or (pump.is_closed and pump.is_lost)

    def run(self, line: _Line, method: str, attached: Callable[[Pump[Any]], object]) -> bool:
        """Carry over a new call until that ends; returns whether anything that counts came.

        Args:
            line: what it goes over; joined when it is needed, as connections change.
            method: its name.
            attached: called with the pump once the call carries it.
        """
        self._before()
        channel = line.join()
        self.was_cut = False
        try:
            self._carry(channel, method, attached)
            return self.pump.has_moved
        finally:
            if self.was_cut:
                line.retire(channel)  # it brought nothing, and gRPC holds it for alive
            line.leave(channel)

    def _carry(
        self, channel: grpc.Channel, method: str, attached: Callable[[Pump[Any]], object]
    ) -> None:
        wire = self._new_wire()
        number: Future[int] = Future()
        try:
            call = _method(channel, method)(self._outgoing(number, wire))
        except ValueError as error:  # the channel was closed meanwhile
            number.set_result(0)  # no call goes by it: the writer ends
            logger.debug("no call: %s", error)
            return
        number.set_result(self.pump.attach(call.cancel))
        attached(self.pump)
        try:
            if self.pump.read(self._incoming(call), number.result(), wire.decode):
                call.cancel()
        except grpc.RpcError as error:
            logger.debug("call ended: %s", call_status(error))
            self.was_cut = getattr(error, "code", lambda: None)() is grpc.StatusCode.CANCELLED
        self.pump.detach(number.result())

    def _outgoing(self, number: Future[int], wire: Wire) -> Iterator[bytes]:
        carried_by = number.result()
        if carried_by:
            yield from map(wire.encode, self._first)
        yield from map(wire.encode, self.pump.outgoing(carried_by))

    def _incoming(self, call: Iterable[bytes]) -> Iterator[bytes]:
        self.has_ended_well = False
        yield from call
        self.has_ended_well = True


def _method(channel: grpc.Channel, name: str) -> Any:
    return channel.stream_stream(_METHOD + name, None, None)


def call_status(error: grpc.RpcError) -> str:
    """Return a gRPC error's code and details in one line."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return f"{code() if code else error}: {details() if details else ''}"
