"""The client's end of the MPI carrier: opens calls to the rank of its server."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import StreamConfig
from streamlink.errors import ConnectFailed
from streamlink.transport.carriers import CallEnd, ClientCall, Readiness, largest_message
from streamlink.transport.mpi.calls import CallOver, MpiCall
from streamlink.transport.mpi.streams import StreamCall
from streamlink.transport.mpi.switchboard import Switchboard
from streamlink.transport.mpi.tags import Kind
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire

__all__ = ["MpiCarrier"]

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5  # between two knocks


class MpiCarrier:
    """The client's end; see ``ControlCarrier``.

    Args:
        server: the rank of the server.
        kind: what its calls are for.
        stream: settings of this end.
        clock: what its waits go by.
        switchboard: gives the calls of this process; the first use of it begins MPI.
    """

    def __init__(
        self,
        server: int,
        kind: Kind,
        stream: StreamConfig,
        clock: Clock,
        switchboard: Callable[[], Switchboard],
    ) -> None:
        self._server, self._kind = server, kind
        self._most = largest_message(stream)
        self._clock, self._switchboard = clock, switchboard
        self._changed = clock.condition()
        self._is_closed = False
        self._calls: set[MpiCall] = set()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        carried = self._open(self._kind)
        if carried is None:
            return CallEnd.BROKEN
        number = call.attach(carried.cut, "mpi")
        try:
            if isinstance(call.wire, TransferWire):
                _carry_stream(call, StreamCall(carried, call.wire, WireCount()), carried, number)
            else:
                _carry_session(call, carried, number)
        finally:
            self._let_go(carried)
            end = call.detach(number, carried.end or CallEnd.BROKEN)
        return end

    def renew(self) -> None:
        """See ``DataCarrier``."""
        with self._changed:
            calls = list(self._calls)
        for call in calls:
            call.lose()

    def close(self) -> None:
        """See ``DataCarrier``."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        # After the flag: a call that was opened before it is in the list that this ends.
        self.renew()

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        """See ``ControlCarrier``."""
        until, pause = self._clock() + seconds, _FIRST_PAUSE_SECONDS
        with cancel.calling(lambda _: self._wake()):
            while True:
                left = max(0.0, until - self._clock())
                answer = self._knock(left, cancel)
                if self._is_closed:
                    raise ConnectFailed("the connection was closed here")
                if answer is CallEnd.ENDED:
                    return Readiness.READY
                if answer is CallEnd.BROKEN and is_final():
                    return Readiness.REFUSED
                if cancel.is_cancelled or self._clock() >= until:
                    return Readiness.NOT_YET
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._is_closed or cancel.is_cancelled, min(pause, left)
                    )
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def failure(self, seconds: float) -> str:
        """See ``ControlCarrier``."""
        answer = self._knock(seconds, CancelToken())
        if answer is CallEnd.ENDED:
            return ""
        if answer is CallEnd.BROKEN:
            return f"no server listens at MPI rank {self._server}"
        return f"the process of MPI rank {self._server} does not answer"

    def _knock(self, seconds: float, cancel: CancelToken) -> CallEnd | None:
        """Ask whether a server listens; None: no answer within ``seconds``.

        Raises:
            ConnectFailed: there is no such rank.
            MpiUnavailable: MPI cannot be used here.
        """
        ranks = self._switchboard().ranks
        until = self._clock() + seconds
        if not ranks.wait_joined(seconds, cancel):
            return None
        if self._server >= ranks.size:
            raise ConnectFailed(
                f"there is no MPI rank {self._server}: this job has {ranks.size} processes, "
                "counted from 0; start all of them with one mpiexec"
            )
        call = self._open(Kind.KNOCK)
        if call is None:
            return None
        try:
            with cancel.calling(lambda _: call.lose()):
                return call.wait_answer(max(0.0, until - self._clock()))
        finally:
            self._let_go(call)

    def _open(self, kind: Kind) -> MpiCall | None:
        """Open a call; None: it cannot be, or not any more."""
        switchboard = self._switchboard()
        with self._changed:
            if self._is_closed or not switchboard.ranks.is_here:
                return None
            call = switchboard.open(self._server, kind, self._most)
            if call is not None:
                self._calls.add(call)
            return call

    def _let_go(self, call: MpiCall) -> None:
        call.lose()  # it is not read any more; no effect where it has ended
        with self._changed:
            self._calls.discard(call)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _carry_stream(call: ClientCall, stream: StreamCall, carried: MpiCall, number: int) -> None:
    def write() -> None:
        stream.send(call.first)
        stream.send(call.pump.outgoing(number))
        carried.finish(Kind.END)

    _start(write)
    if stream.read(call.pump, number):
        carried.cut()


def _carry_session(call: ClientCall, carried: MpiCall, number: int) -> None:
    def write() -> None:
        carried.send_frames(call.outgoing(number))
        carried.finish(Kind.END)

    _start(write)
    try:
        if call.read(carried.raws, number):
            carried.cut()
    except CallOver:
        pass


def _start(run: Callable[[], object]) -> None:
    # It is not joined: it may be reading from a slow source. It ends by itself, as its call carries
    # nothing any more.
    threading.Thread(target=run, name="mpi-write", daemon=True).start()
