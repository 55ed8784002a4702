"""The client's end of the gRPC carrier: one connection, and a new one where that is dead.

A call for which there is no connection fails at once; the dialer tries again.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple

import grpc

from streamlink.cancel import CancelToken
from streamlink.errors import ConnectFailed
from streamlink.transport.carriers import CallEnd, ClientCall, Readiness
from streamlink.transport.grpc.posting import Posting
from streamlink.transport.grpc.posts import KEY, KEY_LENGTH, SERVICE

__all__ = ["GrpcCarrier"]

logger = logging.getLogger("streamlink.client")

_THREADS = 2  # of one call, and of a channel for all of its calls (count)
_WATCH_SECONDS = 1.0  # five times what gRPC's watcher takes
# One flipped bit can make every later call on a connection fail, while the connection stays open:
# HTTP/2 keeps a header table for each connection (RFC 7541), and an entry may have been damaged.
_FUTILE_CALLS = 2  # in a row, and their connection is replaced (count)
_LEAST_SECONDS = 1.0  # and not sooner: a server that is down is not dialed faster for this


class GrpcCarrier:
    """Carries calls of one method; see ``ControlCarrier``.

    Args:
        method: what its calls carry, as the server's method is called.
        make: makes a connection.
        address: of the server, for errors.
    """

    def __init__(
        self,
        method: Literal["Session", "Transfer"],
        make: Callable[[], grpc.Channel],
        address: str = "",
    ) -> None:
        self._method, self._address = f"/{SERVICE}/{method}", address
        self._posts = method == "Session"
        self._line = _Line(make)

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        channel, ended = self._line.join(), _Ended(CallEnd.BROKEN)
        try:
            ended = self._carry(channel, call)
            return ended.how
        finally:
            is_useless = self._line.note_end(channel, ended.was_futile)
            if ended.how is CallEnd.CUT or is_useless:
                self._line.retire(channel)  # it brings nothing, and gRPC holds it for alive
            self._line.leave(channel)

    def renew(self) -> None:
        """See ``DataCarrier``."""
        self._line.renew()

    def close(self) -> None:
        """See ``DataCarrier``."""
        self._line.close()

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        """See ``ControlCarrier``."""
        refused = threading.Event()
        ready: Any = None
        if self._line.is_closed:  # gRPC would wait in vain
            raise self._closed()
        channel = self._line.channel

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
            with cancel.calling(give_up):
                ready.result(timeout=seconds)
        except (grpc.FutureTimeoutError, grpc.FutureCancelledError):
            return Readiness.REFUSED if refused.is_set() else Readiness.NOT_YET
        except ValueError as error:
            raise self._closed() from error
        finally:
            give_up()  # else gRPC goes on watching the connection, also a closed one
            channel.unsubscribe(watch)
        return Readiness.READY

    def failure(self, seconds: float) -> str:
        """See ``ControlCarrier``."""
        try:
            call = self._line.channel.stream_stream(self._method, None, None)
            for _ in call(iter(()), timeout=seconds):
                pass
        except grpc.RpcError as error:
            return call_status(error).rpartition("last error: ")[2]
        except ValueError as error:  # it was closed here meanwhile
            return str(error)
        return ""

    def _closed(self) -> ConnectFailed:
        return ConnectFailed(f"{self._address}: the connection was closed here")

    def _carry(self, channel: grpc.Channel, call: ClientCall) -> _Ended:
        number: Future[int] = Future()
        posting: Posting | None = None

        _require_threads()
        try:
            open_call: Any = channel.stream_stream(self._method, None, None)
            # gRPC draws from it at once, in a thread of its own, which waits there for the number:
            # to attach the call takes what cancels it, and that exists only from here on.
            if self._posts:
                key = secrets.token_hex(KEY_LENGTH // 2)
                posting = Posting(channel, key)
                raws = _posting(call, number, posting)
                rpc = open_call(raws, metadata=((KEY, key),))
                posting.belong_to(rpc)
            else:
                rpc = open_call(_outgoing(call, number))
            number.set_result(call.attach(rpc.cancel, "grpc"))
        except ValueError as error:  # the channel was closed meanwhile
            logger.debug("no call: %s", error)
            return _Ended(CallEnd.BROKEN)
        finally:
            if not number.done():  # no call goes by it: its writer, which waits for it, ends
                number.set_result(0)
        try:
            return _read(call, number.result(), rpc, posting)
        finally:
            call.pump.detach(number.result())


def _require_threads() -> None:
    """Raise ``RuntimeError`` unless there are threads for a call of gRPC.

    Where gRPC cannot start its own two, the call stays open without a reader, and a channel without
    its thread hangs for ever, also when it is closed or the process ends. Others may take what was
    free here, but a process that has none left is found out before gRPC is.
    """
    is_enough = threading.Event()
    try:
        for _ in range(_THREADS):
            threading.Thread(target=is_enough.wait, name="grpc-try", daemon=True).start()
    finally:
        is_enough.set()


def _outgoing(call: ClientCall, number: Future[int]) -> Iterator[bytes]:
    carried_by = number.result()
    if carried_by:
        yield from call.outgoing(carried_by)


def _posting(call: ClientCall, number: Future[int], posting: Posting) -> Iterator[bytes]:
    """Yield the first message of a session, and post the others if the server takes them so."""
    raws = _outgoing(call, number)
    if (first := next(raws, None)) is None:  # no call: then none was opened either
        return
    yield first
    if not posting.is_taken():
        yield from raws
        return
    for count, raw in enumerate(raws):
        posting.post(count, raw)


def _read(call: ClientCall, number: int, rpc: Any, posting: Posting | None) -> _Ended:
    end, brought, is_full = CallEnd.BROKEN, 0, False

    def until_its_end(raws: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal end, brought
        for raw in raws:
            brought += 1
            yield raw
        # Only after status OK: any other raises. A reader that stops before the end leaves BROKEN.
        end = CallEnd.ENDED

    try:
        if call.read(until_its_end(rpc), number):
            rpc.cancel()
            return _Ended(CallEnd.BROKEN)  # for damage: the connection is alive, and serves others
    except grpc.RpcError as error:
        logger.debug("call ended: %s", call_status(error))
        code = getattr(error, "code", lambda: None)()
        was_cut = code is grpc.StatusCode.CANCELLED
        is_full = code is grpc.StatusCode.RESOURCE_EXHAUSTED
        # For a message that did not arrive: the connection may serve others.
        is_ours = posting is not None and posting.has_failed
        end = CallEnd.CUT if was_cut and not is_ours else CallEnd.BROKEN
        if code is grpc.StatusCode.UNIMPLEMENTED and not brought:
            end = CallEnd.UNIMPLEMENTED
    how = call.detach(number, end)
    # The first message is the handshake. Posted messages are calls, too, and may be what failed.
    has_failed = brought <= 1 or (posting is not None and posting.has_failed)
    is_broken = how in (CallEnd.BROKEN, CallEnd.UNIMPLEMENTED)
    return _Ended(how, was_futile=is_broken and has_failed and not is_full)


class _Ended(NamedTuple):
    """How a call ended, and whether its connection may be the cause of a failure."""

    how: CallEnd
    was_futile: bool = False


def call_status(error: grpc.RpcError) -> str:
    """Return a gRPC error's code and details in one line."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return f"{code() if code else error}: {details() if details else ''}"


class _Line:
    """One connection to the server, as gRPC keeps it, or a new one in its place."""

    def __init__(self, make: Callable[[], grpc.Channel]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.is_closed = False
        self._calls: Counter[grpc.Channel] = Counter()
        self._futile, self._made_at = 0, time.monotonic()
        self.channel = make()

    def join(self) -> grpc.Channel:
        """Return the connection of the moment, for a call that is about to begin."""
        with self._lock:
            self._calls[self.channel] += 1
            return self.channel

    def leave(self, channel: grpc.Channel) -> None:
        """Note that a call has ended. The last one on a retired connection closes it."""
        with self._lock:
            self._calls[channel] -= 1
            is_last = not self._calls[channel]
            if is_last:
                del self._calls[channel]
            is_retired = channel is not self.channel
        if is_last and is_retired:
            _close(channel)

    def note_end(self, channel: grpc.Channel, was_futile: bool) -> bool:
        """Note how a call on ``channel`` ended; returns whether the next would end likewise."""
        with self._lock:
            if channel is not self.channel:
                return False
            self._futile = self._futile + 1 if was_futile else 0
            age = time.monotonic() - self._made_at
            return self._futile >= _FUTILE_CALLS and age >= _LEAST_SECONDS

    def retire(self, channel: grpc.Channel) -> None:
        """Let the next calls go over a new connection; others may work on the old one still.

        Called by one that has not left yet.
        """
        with self._lock:
            if self.is_closed or channel is not self.channel:
                return
            self._replace()

    def renew(self) -> None:
        """Make a new connection; calls on the old one end."""
        with self._lock:
            if self.is_closed:
                return
            old = self.channel
            self._replace()
        # Without the lock: it may wait for a second.
        _close(old)

    def _replace(self) -> None:
        self._futile, self._made_at = 0, time.monotonic()
        self.channel = self._make()

    def close(self) -> None:
        """End it, and every call on it."""
        with self._lock:
            self.is_closed = True
            channels = {self.channel, *self._calls}
        for channel in channels:
            _close(channel)


def _close(channel: grpc.Channel) -> None:
    """Close it once gRPC has ceased to watch it.

    gRPC's own thread, which watches a connection for ``channel_ready_future``, looks five times a
    second whether it is still wanted. Closed under it the thread ends in a traceback on stderr.
    Its end is not public; where the private attribute is missing, nothing is waited for.
    """
    watched, until = (
        getattr(channel, "_connectivity_state", None),
        time.monotonic() + _WATCH_SECONDS,
    )
    while getattr(watched, "polling", False) and time.monotonic() < until:
        time.sleep(0.01)
    channel.close()
