"""The server's end of the MPI carrier: serves the calls that clients open to its rank."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlink.errors import StreamlinkError
from streamlink.protocol import frames as f
from streamlink.transport.carriers import largest_message
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.hub import Attached, Hub
from streamlink.transport.mpi.calls import MpiCall
from streamlink.transport.mpi.streams import StreamCall
from streamlink.transport.mpi.switchboard import Switchboard
from streamlink.transport.mpi.tags import Kind
from streamlink.transport.registry import abort_for
from streamlink.transport.server_calls import end_call, first_message
from streamlink.transport.wire import TransferWire

__all__ = ["MpiListener"]

_GRACE_SECONDS = 1.0  # as the gRPC carrier gives its calls


class MpiListener:
    """Listens at the rank of this process for ``hub``.

    Raises:
        AddressInUse: another server of this process does.
    """

    port = 0

    def __init__(self, hub: Hub, switchboard: Switchboard) -> None:
        self._hub, self._switchboard = hub, switchboard
        self._changed = hub.clock.condition()
        self._calls: set[MpiCall] = set()
        switchboard.listen(self._accept, largest_message(hub.config.stream))

    def stop(self) -> None:
        """See ``Listener``."""
        self._switchboard.stop_listening()
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, _GRACE_SECONDS)
            calls = list(self._calls)
        for call in calls:
            call.lose()

    def _accept(self, kind: Kind, call: MpiCall) -> None:
        if kind is Kind.KNOCK:
            # In the thread that moves all messages: the answer is only queued.
            call.end_served()
            return
        serve = self._serve_session if kind is Kind.OPEN_SESSION else self._serve_stream
        with self._changed:
            self._calls.add(call)

        def run() -> None:
            try:
                serve(call)
            # There is no thread for another part of it, or no memory for a payload.
            except (RuntimeError, MemoryError) as error:
                self._cannot_serve(call, error)
            finally:
                self._let_go(call)

        try:
            _start(run, "mpi-serve")
        except RuntimeError as error:
            self._cannot_serve(call, error)
            self._let_go(call)

    def _cannot_serve(self, call: MpiCall, error: Exception) -> None:
        # No more than that: it ends as broken, so that the client comes again.
        self._hub.log.warning("cannot serve a call of %s: %s", call.remote, error)

    def _let_go(self, call: MpiCall) -> None:
        call.lose()  # no effect where it has ended
        with self._changed:
            self._calls.discard(call)
            self._changed.notify_all()

    def _serve_session(self, call: MpiCall) -> None:
        call.send_frames(self._hub.session_call(call))
        call.end_served()

    def _serve_stream(self, call: MpiCall) -> None:
        wire = TransferWire(0)
        try:
            with self._hub.handshake(call.cut):
                first = first_message(call, wire.decode)
            wire = TransferWire(first.stream_id if isinstance(first, f.Attach) else 0, received=1)
            attached = self._hub.attach(first, call)
        except DamagedFrame:
            call.break_off("its first frame arrived damaged")
        except StreamlinkError as error:
            call.send_frames([wire.encode(abort_for(error))])
        else:
            self._carry(call, StreamCall(call, wire, self._hub.wire), attached)
        call.end_served()

    def _carry(self, call: MpiCall, stream: StreamCall, attached: Attached) -> None:
        """Carry a stream over its call until that ends.

        Raises:
            RuntimeError: there is no thread to write; the call has ended.
            MemoryError: there is no memory for a payload; the call has ended.
        """
        pump, number = attached.pump, attached.number

        def write() -> None:
            stream.send(pump.outgoing(number))
            end_call(call, pump)
            call.end_served()

        try:
            writer = _start(write, "mpi-write")
            if stream.read(pump, number):
                call.cut()
            # Else the writer ends by itself, once it has sent the last words.
            if not pump.is_closed:
                pump.detach(number)
            writer.join()
        except BaseException:
            call.lose()  # a writer may wait there, and nobody reads any more
            raise
        finally:
            # Whatever comes of it: else they are taken for ever. The place first: whoever sees that
            # nothing carries the stream may open a call.
            attached.detach()
            pump.detach(number)


def _start(run: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
