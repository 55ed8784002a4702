"""The in-memory carrier: a server and its clients in one process, over queues of messages.

For tests, and for a reader who wants the smallest carrier that there is: see ``carriers``. A server
listens at ``memory://NAME``, a name of this process; offered for streams alone it has a number.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AddressInUse, ConnectFailed
from streamlink.transport.carriers import (
    CallEnd,
    ClientCall,
    DataSession,
    Readiness,
    ServerCall,
)
from streamlink.transport.dialer import Carriers
from streamlink.transport.hub import Hub

__all__ = [
    "SECURED_BY",
    "MemoryCarrier",
    "MemoryNetwork",
    "check_data_listening",
    "check_dialing",
    "check_listening",
    "new_carriers",
    "new_data_carrier",
    "new_data_listener",
    "new_listener",
]

_GRACE_SECONDS = 1.0  # as the gRPC carrier gives its calls
# That wait in one direction of a call. Few, so that a slow reader slows its sender down, as the
# buffers of a socket do.
_MOST_MESSAGES = 16

_Serve = Callable[[ServerCall], Iterator[bytes]]


class _CallOver(Exception):
    """The call was lost or cut; its messages end here."""


class _Way:
    """One direction of a call: a bounded queue. ``changed`` is the lock of the whole call."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._messages: deque[bytes] = deque()
        self._is_finished = self._is_over = False

    def send(self, raw: bytes) -> None:
        """Add a message; waits for room.

        Raises:
            _CallOver: the call has ended; it would not be read.
        """
        with self._changed:
            # Without a time limit, as in gRPC's flow control: the deadlines are the machines'. They
            # end the call, and that wakes this.
            self._changed.wait_for(lambda: self._is_over or len(self._messages) < _MOST_MESSAGES)
            if self._is_over:
                raise _CallOver
            self._messages.append(raw)
            self._changed.notify_all()

    def finish(self) -> None:
        """Note that nothing more will be sent; what was sent still arrives."""
        with self._changed:
            self._is_finished = True
            self._changed.notify_all()

    def lose(self) -> None:
        """Drop what is on its way; the caller holds the lock."""
        self._is_over = True
        self._messages.clear()
        self._changed.notify_all()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._messages or self._is_finished or self._is_over)
                if self._is_over:
                    raise _CallOver
                if not self._messages:
                    return
                raw = self._messages.popleft()
                self._changed.notify_all()
            yield raw


class _Call:
    """Both directions, and how the call ends."""

    remote = "memory"

    def __init__(self, clock: Clock) -> None:
        self._changed = clock.condition()
        # One condition for both ways, so that a call ends as a whole. Four threads wait on it for
        # different things, hence ``notify_all`` everywhere.
        self.up, self.down = _Way(self._changed), _Way(self._changed)
        self.raws = iter(self.up)
        self.end: CallEnd | None = None
        self._ends_as = CallEnd.ENDED
        self._then: list[Callable[[], None]] = []

    def end_as(self, end: CallEnd) -> None:
        """End at once, unless it has ended."""
        with self._changed:
            if self.end is None:
                self.end = end
                self.up.lose()
                self.down.lose()
        self._tell_over()

    def serve(self, serve: _Serve) -> None:
        """Send what the server yields, then end; runs in a thread of its own."""
        try:
            for raw in serve(self):
                self.down.send(raw)
        except _CallOver:
            return
        with self._changed:
            # The server's end is final: what the client still sends is lost, what was yielded
            # arrives.
            if self.end is None:
                self.end = self._ends_as
                self.up.lose()
        self.down.finish()
        self._tell_over()

    def send(self, raws: Iterator[bytes]) -> None:
        """Send what the client yields; runs in a thread of its own."""
        try:
            for raw in raws:
                self.up.send(raw)
        except _CallOver:
            return
        self.up.finish()

    def _tell_over(self) -> None:
        with self._changed:
            then, self._then = self._then, []
        for each in then:
            each()

    # --- as the hub sees it; see ``ServerCall`` -----------------------------------------

    carrier = "memory"

    def x509_names(self) -> frozenset[str] | None:
        return None

    def vouch(self) -> None:
        """Nobody is a stranger in one process."""

    def cut(self) -> None:
        self.end_as(CallEnd.CUT)

    def break_off(self, why: str) -> None:
        self._ends_as = CallEnd.BROKEN

    def on_over(self, then: Callable[[], None]) -> bool:
        with self._changed:
            if self.end is None:
                self._then.append(then)
                return True
        return False


class MemoryNetwork:
    """Where one hub can be reached: ``Hub(config, [network.listen])``, ``network.carriers()``.

    Args:
        clock: what waits go by.
        port: the number that a welcome names; 0: no welcome names it.
    """

    def __init__(self, clock: Clock, port: int = 0) -> None:
        self._clock, self._port = clock, port
        self._changed = clock.condition()
        self._hub: Hub | None = None
        self._calls: set[_Call] = set()

    def listen(self, hub: Hub) -> MemoryNetwork:
        """Let clients reach ``hub`` from now on.

        Raises:
            AddressInUse: another hub is here.
        """
        with self._changed:
            if self._hub is not None:
                raise AddressInUse("another server of this process listens there")
            self._hub = hub
            self._changed.notify_all()
        return self

    @property
    def port(self) -> int:
        """See ``Listener``."""
        return self._port

    def stop(self) -> None:
        """See ``Listener``. Calls get a moment to deliver what was sent, such as an abort."""
        with self._changed:
            self._hub = None
            self._changed.wait_for(lambda: not self._calls, _GRACE_SECONDS)
            calls = list(self._calls)
        for call in calls:
            call.end_as(CallEnd.BROKEN)

    def carriers(self) -> Carriers:
        """Return what a new client's calls go over."""
        return Carriers(MemoryCarrier(self, lambda hub: hub.session_call), self.data_carrier())

    def data_carrier(self) -> MemoryCarrier:
        """Return what the streams of a new client go over."""
        return MemoryCarrier(self, lambda hub: hub.transfer_call)

    def wait(self, seconds: float, is_given_up: Callable[[], bool]) -> bool:
        """Wait for a hub; returns whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._hub is not None or is_given_up(), seconds)
            return self._hub is not None

    def wake(self) -> None:
        """Wake all that wait, to check again."""
        with self._changed:
            self._changed.notify_all()

    def open(self, door: Callable[[Hub], _Serve]) -> _Call | None:
        """Open a call; None: no hub listens."""
        call = _Call(self._clock)
        with self._changed:
            if self._hub is None:
                return None
            serve = door(self._hub)
            # Under the same lock as the look at the hub: ``stop`` finds every call that is begun.
            self._calls.add(call)

        def run() -> None:
            try:
                call.serve(serve)
            finally:
                with self._changed:
                    self._calls.discard(call)
                    self._changed.notify_all()

        try:
            threading.Thread(target=run, name="memory-serve", daemon=True).start()
        except RuntimeError:
            with self._changed:
                self._calls.discard(call)
                self._changed.notify_all()
            raise
        return call


class MemoryCarrier:
    """The client's end; see ``ControlCarrier``."""

    def __init__(self, network: MemoryNetwork, door: Callable[[Hub], _Serve]) -> None:
        self._network, self._door = network, door
        self._lock = threading.Lock()
        self._is_closed = False
        self._calls: set[_Call] = set()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        carried = self._open()
        if carried is None:
            return CallEnd.BROKEN
        number = call.attach(carried.cut, "memory")
        writer = threading.Thread(
            target=carried.send, args=(call.outgoing(number),), name="memory-write", daemon=True
        )
        try:
            writer.start()
            if call.read(carried.down, number):
                carried.cut()
        except _CallOver:
            pass
        finally:
            # The writer is not joined: it may be reading from a slow source. It ends by itself, as
            # its call carries nothing any more.
            carried.end_as(CallEnd.BROKEN)  # it is not read any more
            end = call.detach(number, carried.end or CallEnd.BROKEN)
            with self._lock:
                self._calls.discard(carried)
        return end

    @property
    def where(self) -> str:
        """See ``ProvableCarrier``."""
        return f"memory port {self._network.port}"

    def prove(self, seconds: float) -> str:
        """See ``ProvableCarrier``; in one process there is nothing to prove but that it listens."""
        is_there = self._network.wait(seconds, lambda: self._is_closed)
        return "" if is_there and not self._is_closed else "nobody listens there"

    def renew(self) -> None:
        """See ``DataCarrier``."""
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.end_as(CallEnd.BROKEN)

    def close(self) -> None:
        """See ``DataCarrier``."""
        self._is_closed = True
        self._network.wake()
        # After the flag: a call that was opened before it is in the list that this ends.
        self.renew()

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        """See ``ControlCarrier``."""

        def is_given_up() -> bool:
            return self._is_closed or is_final() or cancel.is_cancelled

        with cancel.calling(lambda _: self._network.wake()):
            is_there = self._network.wait(seconds, is_given_up)
        if self._is_closed:
            raise ConnectFailed("the connection was closed here")
        if is_there:
            return Readiness.READY
        return Readiness.REFUSED if is_final() else Readiness.NOT_YET

    def failure(self, seconds: float) -> str:
        """See ``ControlCarrier``."""
        return "" if self._network.wait(0.0, lambda: True) else "nobody listens there"

    def _open(self) -> _Call | None:
        with self._lock:
            if self._is_closed:
                return None
            call = self._network.open(self._door)
            if call is not None:
                self._calls.add(call)
            return call


# --- what ``connect`` asks of a carrier -------------------------------------------------------

# Whoever listens or dials keeps a network; with the last of them the name is free again.
_networks: weakref.WeakValueDictionary[str | int, MemoryNetwork] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_ports = itertools.count(1)


def check_listening(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    _require_name(address)


def check_dialing(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    _require_name(address)


def new_listener(address: str, hub: Hub) -> MemoryNetwork:
    """See ``ControlModule``."""
    return _network(address, hub.clock).listen(hub)


def new_carriers(address: str, config: LinkConfig, clock: Clock) -> Carriers:
    """See ``ControlModule``."""
    return _network(address, clock).carriers()


SECURED_BY = "nothing leaves this process"


def check_data_listening(address: str, config: LinkConfig) -> None:
    """See ``DataModule``; it listens wherever a client of this process looks."""


def new_data_listener(address: str, hub: Hub) -> MemoryNetwork:
    """See ``DataModule``."""
    port = next(_ports)
    network = _networks[port] = MemoryNetwork(hub.clock, port)
    return network.listen(hub)


def new_data_carrier(
    address: str, port: int, session: DataSession, config: LinkConfig, clock: Clock
) -> MemoryCarrier | None:
    """See ``DataModule``; None: the server is another process."""
    network = _networks.get(port)
    return None if network is None else network.data_carrier()


def _network(name: str, clock: Clock) -> MemoryNetwork:
    _require_name(name)
    with _lock:
        network = _networks.get(name)
        if network is None:
            network = _networks[name] = MemoryNetwork(clock)
        return network


def _require_name(name: str) -> None:
    if not name:
        raise ValueError("memory:// names no server; write memory://NAME")
