"""The client's middle, whatever carries its calls: connects, greets, and keeps all carried.

The session and each transfer have a thread that opens call after call for them (``reconnect``). The
connections themselves are the carriers': one for the session, another for the streams, so that
heartbeats do not queue behind megabytes.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AuthenticationFailed,
    ConnectFailed,
    StreamAborted,
    StreamlinkError,
)
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, PeerLeft, Welcomed
from streamlink.protocol.handshake import VERSION_MAX, VERSION_MIN, agreed
from streamlink.protocol.session import SessionMachine
from streamlink.transport import departure
from streamlink.transport.bandwidth import BandwidthUse, open_bandwidth
from streamlink.transport.carriers import (
    ClientCall,
    ControlCarrier,
    DataCarrier,
    DataSession,
    ProvableCarrier,
    Readiness,
)
from streamlink.transport.data_carriers import HOLD_SECONDS, PreferredCarrier
from streamlink.transport.diagnosis import other_service, unreachable
from streamlink.transport.identity import token_reader
from streamlink.transport.process_memory import ProcessMemory, Seat, open_memory
from streamlink.transport.pump import Pump
from streamlink.transport.reconnect import Carriage, keep_carried
from streamlink.transport.session import GOODBYE_SECONDS, Session, StreamPump
from streamlink.transport.ticker import Ticker
from streamlink.transport.traffic import TrafficCounter
from streamlink.transport.wire import SessionWire, TransferWire

__all__ = ["MUTE_SECONDS", "Carriers", "Dialer", "OpenData"]

logger = logging.getLogger("streamlink.session")

MUTE_SECONDS = 5.0
"""What a connection may need before it is replaced (seconds): far more than a handshake takes over
any line that can carry a model."""

_LAST_WORDS_SECONDS = 1.0

OpenData = Callable[[Sequence[f.DataPort], DataSession], ProvableCarrier | None]
"""``open_data(offered, session)`` gives a carrier for streams alone, of those that were offered."""


class Carriers(NamedTuple):
    """What a client's calls go over."""

    control: ControlCarrier
    data: DataCarrier


class Dialer:
    """Reaches the server at ``address``, and opens the transfers that it offered.

    Args:
        address: of the server, for logs and errors.
        config: settings of this end.
        carriers: what its calls go over; closed with it.
        name: of this client.
        clock: what all its deadlines and waits go by.
        traffic: counts what moves.
        cancel: ends connecting.
        open_data: gives a carrier for streams alone, or None.
        hold_seconds: how long a stream waits where that carrier is being tried.
        is_probe: its sessions only measure the line.
    """

    def __init__(
        self,
        address: str,
        config: LinkConfig,
        carriers: Carriers,
        *,
        name: str,
        clock: Clock,
        traffic: TrafficCounter | None = None,
        cancel: CancelToken | None = None,
        open_data: OpenData = lambda offered, session: None,
        hold_seconds: float = HOLD_SECONDS,
        is_probe: bool = False,
    ) -> None:
        self.address = address
        self.config = config
        self.name = name
        self.clock = clock
        self._data = PreferredCarrier(carriers.data, clock=clock, hold_seconds=hold_seconds)
        self._open_data = open_data
        self.carriers = Carriers(carriers.control, self._data)
        self._is_probe = is_probe
        self.epoch = ""
        """Names the server's process that welcomed us last."""
        self.traffic = traffic or TrafficCounter(clock=clock)
        self._read_token = token_reader(config.security)
        self.ticker = Ticker(clock=clock)
        self._instance = secrets.token_hex(8)  # so that the server knows us again in a new session
        self._is_closing = clock.event()
        self._cancel = cancel or CancelToken()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._session_pump: Pump[SessionMachine] | None = None
        self._session_thread: threading.Thread | None = None
        self._memory: ProcessMemory | None = None
        self._bandwidth: BandwidthUse | None = None

    def connect(
        self,
        on_request: Callable[[Session, f.Request], None],
        on_called_off: Callable[[Session, int, str], None] | None = None,
        *,
        seconds: float | None = None,
        tries_for: float = math.inf,
    ) -> Session:
        """Reach the server, greet it and return the session.

        Args:
            on_request: called with each request, in the session's thread.
            on_called_off: called with the number of a request that was cancelled.
            seconds: how long to wait for somebody to answer; None: ``connect_timeout``.
            tries_for: a connection that is refused after so long is not tried again (seconds); 0:
                the first is final.

        Raises:
            ConnectFailed: no server answers within ``seconds``, or the last try was refused.
            StreamAborted: the server refused us, with its reason.
            Cancelled: the token was.
            ValueError: another server or client of this process has another ``memory_bytes`` or
                ``bwlimit``.
        """
        self._cancel.check()
        self._memory = self._memory or open_memory(self.config)
        self._bandwidth = self._bandwidth or open_bandwidth(self.config, self.clock)
        final_at = self.clock() + tries_for
        self._wait_until_ready(seconds or self.config.timeouts.connect_timeout, tries_for)
        seat = self._seat()
        try:
            return self._begin(on_request, on_called_off, seat, final_at)
        except BaseException:
            if seat is not None:
                seat.vacate()
            raise

    def _begin(
        self,
        on_request: Callable[[Session, f.Request], None],
        on_called_off: Callable[[Session, int, str], None] | None,
        seat: Seat | None,
        final_at: float,
    ) -> Session:
        """Greet the server, and start the session."""
        machine = SessionMachine(
            self.config, peer_name=f"server {self.address}", hello=self.hello()
        )
        pump: Pump[SessionMachine] = Pump(machine, clock=self.clock)
        welcome = self._greet(pump, final_at)
        self.epoch = welcome.epoch
        # Before the session starts, whose first request may open a stream at once.
        belongs_to = DataSession(welcome.session_id, welcome.epoch, welcome.data_key)
        carrier = self._open_data(welcome.data_ports, belongs_to)
        self._data.prefer(carrier)
        session = Session(
            pump,
            session_id=welcome.session_id,
            peer_name=machine.peer_name,
            config=agreed(self.config, welcome),
            on_request=on_request,
            on_closed=lambda session: self._data.drop(carrier) if carrier is not None else None,
            on_called_off=on_called_off,
            traffic=self.traffic,
            seat=seat,
        )
        session.start()
        return session

    def _seat(self) -> Seat | None:
        """Reserve memory for the session's streams; None: they share none."""
        if (memory := self._memory) is None:
            return None
        if (seat := memory.seat(self.config, self.clock)) is None:
            raise ConnectFailed(
                f"this process has no memory for another session: {memory.dealt_bytes} of "
                f"stream.memory_bytes={memory.total_bytes} are in use, and each session needs "
                f"{self.config.client_bytes}; raise it, or have fewer servers and clients in one "
                "process"
            )
        return seat

    def open_transfer(self, session: Session, pump: StreamPump) -> None:
        """Open the call that carries ``pump``'s stream; its frames flow from now on.

        A call that breaks is opened again while the session lives, until both ends know how the
        stream has ended.
        """
        stream_id = pump.stream.stream_id
        # Before the thread: where the session has just ended, ``offer`` ends the stream, too.
        session.offer(pump)
        attach = f.Attach(session.session_id, stream_id)

        def new_call() -> ClientCall:
            wire = TransferWire(stream_id)
            return ClientCall(pump, wire, first=(attach,), attached=self.ticker.add)

        carriage = Carriage(pump, self.carriers.data, new_call, before=session.wait_here)

        def is_over() -> bool:
            return carriage.is_over or session.closed.is_set()

        self._keep("carry-Transfer", carriage, carriage.run, is_over, session.closed.wait)

    def renew(self) -> None:
        """Make new connections in the place of those there are; calls on the old ones end."""
        for each in self.carriers:
            each.renew()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and its parent opened it."""
        return departure.is_inherited(self)

    def close(self) -> None:
        """Drop both connections, after a goodbye that was sent has left."""
        if self.is_inherited:
            return
        departure.forget(self)
        self._is_closing.set()
        if self._session_pump is not None:
            # No effect after a goodbye; without one the server would wait for us to come back.
            self._session_pump.abort(AbortCode.CANCELLED, "the client is closing")
            if self._session_thread is not None:  # its call may have to bring a goodbye yet
                self.clock.join(self._session_thread, GOODBYE_SECONDS)
            else:  # interrupted before it was noted; it may carry already
                self._session_pump.wait_over(_LAST_WORDS_SECONDS)
        for each in self.carriers:
            each.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            self.clock.join(thread, _LAST_WORDS_SECONDS)
        self.ticker.close()
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()
        bandwidth, self._bandwidth = self._bandwidth, None
        if bandwidth is not None:
            bandwidth.close()

    def depart(self, has_failed: bool, seconds: float) -> None:
        """Say goodbye as the process ends, for whoever has not closed this; see ``Departing``."""
        if (pump := self._session_pump) is None:
            return
        with pump.locked() as (machine, now):
            machine.goodbye("the client's process has ended", now=now)
        pump.wait_over(seconds)

    def hello(self) -> f.Hello:
        """Return what this client greets with."""
        return f.Hello(
            version_min=VERSION_MIN,
            version_max=VERSION_MAX,
            name=self.name,
            instance=self._instance,
            chunk_bytes=self.config.stream.chunk_bytes,
            max_message_bytes=self.config.grpc.max_message_bytes,
            session_timeout=self.config.timeouts.session_timeout,
            token=self._read_token(),  # for each hello: its file may have been replaced
            is_probe=self._is_probe,
        )

    # --- calls ------------------------------------------------------------------------

    def _greet(self, pump: Pump[SessionMachine], final_at: float) -> f.Welcome:
        """Have the session's pump carried from now on; returns the server's welcome.

        A refusal from ``final_at`` on is not tried again.
        """
        self._session_pump = pump
        departure.note(self)
        carriage = Carriage(
            pump,
            self.carriers.control,
            lambda: ClientCall(pump, SessionWire(), attached=self.ticker.add),
        )

        is_welcome, was_another = False, False

        def carry() -> bool:
            nonlocal was_another
            has_moved = carriage.run()
            if carriage.was_cut:
                self.carriers.data.renew()  # it may be as dead
            if carriage.met_another_service and not is_welcome:
                is_first, was_another = not was_another, True
                # A proxy may say so while its server starts, so others try for a while.
                if self.clock() >= final_at:
                    pump.abort(AbortCode.CANCELLED, "this is no streamlink server")
                elif is_first:
                    logger.warning("%s Trying again for a while", other_service(self.address))
            return has_moved

        self._session_thread = self._keep(
            "carry-Session", carriage, carry, lambda: pump.is_closed, pump.wait_closed
        )
        self.ticker.add(pump)
        if self._is_closing.is_set():  # looked at once ``close`` can see the pump
            pump.abort(AbortCode.CANCELLED, "the client is closing")
        try:
            with self._cancel.calling(lambda reason: pump.abort(AbortCode.CANCELLED, reason)):
                welcome = _wait_welcome(pump)
        except StreamlinkError as error:
            self._cancel.check()
            # Not if a server has refused us meanwhile, with its own reason.
            if was_another and error.code in (AbortCode.SESSION_LOST, AbortCode.CANCELLED):
                raise other_service(self.address) from None
            raise
        is_welcome = True
        return welcome

    def _keep(
        self,
        name: str,
        carriage: Carriage,
        carry: Callable[[], bool],
        is_over: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> threading.Thread:
        """Call ``carry`` from now on, in a thread of its own, until ``is_over``."""
        pump = carriage.pump

        def carry_once() -> bool:
            self.ticker.add(pump)  # its clocks run while it waits for a call, too
            return carry()

        def run() -> None:
            keep_carried(
                carry_once,
                is_over=lambda: is_over() or (self._is_closing.is_set() and pump.is_closed),
                pause=pause,
            )

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            thread.start()
            self._threads.append(thread)  # not before: an interrupt may come instead of the start
        return thread

    # --- the first connection -----------------------------------------------------------

    def _wait_until_ready(self, seconds: float, tries_for: float) -> None:
        """Wait for a connection; one that stays mute is given up for another, ever more patiently.

        Its very first frames may have been damaged: then neither end sends anything more.
        """
        began, patience = self.clock(), MUTE_SECONDS
        until, control = began + seconds, self.carriers.control

        def is_final() -> bool:
            return self.clock() - began >= tries_for

        while True:
            left = max(0.0, min(patience, until - self.clock()))
            state = control.wait_ready(left, is_final=is_final, cancel=self._cancel)
            if state is Readiness.READY:
                return
            self._cancel.check()
            if state is Readiness.REFUSED:
                raise self._unreachable("", _LAST_WORDS_SECONDS)
            if self.clock() >= until:
                raise self._unreachable(f" within {seconds:g} s (connect_timeout)", seconds)
            if patience == MUTE_SECONDS:  # the first time; whoever waits should know for what
                text = "nobody answers at %s yet; trying for up to %.0f s more"
                logger.info(text, self.address, until - self.clock())
            # Exponential back-off: on a line that is slower than we thought, every connection would
            # otherwise be given up just before it stands.
            patience *= 2
            control.renew()

    def _unreachable(self, within: str, seconds: float) -> StreamlinkError:
        """Return why there was no connection ``within`` some time, as far as is known."""
        said = self.carriers.control.failure(min(seconds, _LAST_WORDS_SECONDS))
        return unreachable(self.address, self.config.security, within=within, said=said)


def _wait_welcome(pump: Pump[SessionMachine]) -> f.Welcome:
    while True:
        event = pump.poll()
        if isinstance(event, Welcomed):
            return event.welcome
        if isinstance(event, Failed):
            error = event.error
            if isinstance(error, StreamAborted) and error.code is AbortCode.UNAUTHENTICATED:
                raise AuthenticationFailed(f"the server refused us: {error.reason}") from error
            raise error
        if isinstance(event, PeerLeft):
            raise StreamAborted(AbortCode.GOODBYE, event.reason, by_peer=True, who="the server")
