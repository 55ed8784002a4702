"""``ServedCall``: a connection at the server that carries a stream, for which no thread waits.

The threads of a ``Poller`` read what has arrived and send acks and other control frames. They
block for a few milliseconds at most (``Socket.receive_soon``). The model that a server sends is
sent by the owner of its stream: that thread is idle anyway until the model has left, so it may
block on a source or on a slow client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlink.transport.hub import Attached
from streamlink.transport.tcp.poller import Poller
from streamlink.transport.tcp.readiness import READ, WRITE
from streamlink.transport.tcp.sockets import Socket
from streamlink.transport.tcp.stream import END, StreamCall

__all__ = ["ServedCall"]

_MOST_AT_ONCE = 4 * 1024 * 1024  # read from one connection while others may wait (bytes)


class ServedCall:
    """Carries ``attached`` over ``connection`` until the call ends; then calls ``then``, once.

    Args:
        stream: the frames on that connection.
        attached: what it carries.
        connection: proven.
        poller: whose threads work on it.
        then: closes the connection. It is called without a lock.
    """

    def __init__(
        self,
        stream: StreamCall,
        attached: Attached,
        connection: Socket,
        poller: Poller,
        then: Callable[[Exception | None], None],
    ) -> None:
        self._stream, self._attached, self._connection = stream, attached, connection
        self._pump, self._number = attached.pump, attached.number
        self._poller, self._then = poller, then
        self._fileno = connection.fileno()
        self._lock = threading.Lock()  # guards the next three; taken inside the lock of the pump
        self._is_due = self._is_busy = self._is_over = False
        self._is_cut = False
        self._sending = threading.Lock()  # whoever has it sends
        self._left: list[bytes | memoryview] = []  # of a frame that has left in part
        self._is_missed = False
        self._wanted = 0  # what the next turn waits for
        self._has_read = self._has_written = self._is_ending = False
        self._failure: Exception | None = None

    def begin(self) -> None:
        """Carry from now on.

        Raises:
            RuntimeError: there is no thread to do it.
        """
        with self._lock:
            if self._is_over:  # it was cut meanwhile; its descriptor may be another's by now
                return
            self._poller.add(self._fileno, self.act)
        try:
            self._pump.wake_writer(self._number, self.wake, self.push)
        except BaseException:
            self._poller.remove(self._fileno)
            raise
        self.act()

    def cut(self) -> None:
        """End it now, in this thread, unless another works on it and ends it."""
        self._connection.cut()
        self._is_cut = True
        self.act()

    # --- what the pump calls ------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a send of the frames that are due; does not block."""
        with self._lock:
            if self._is_busy:
                self._is_due = True
            elif not self._is_over:
                self._poller.arm(self._fileno, WRITE)

    def push(self) -> None:
        """Send the frames that are due; blocks while the client does not read."""
        try:
            with self._sending:
                if not self._is_over:
                    self._push()
        except (OSError, EOFError):
            pass  # whoever reads ends the call
        finally:
            if self._is_missed:  # somebody had something to send meanwhile
                self._is_missed = False
                self.wake()

    def _push(self) -> None:
        try:
            self._send_all(self._connection.send)
        except BaseException:
            # Before the lock is released: a frame may be half sent, and nothing may follow it.
            self._connection.cut()
            raise

    def _send_all(self, send: Callable[[list[bytes | memoryview]], object]) -> None:
        left, self._left = self._left, []
        if left:
            send(left)
        while frames := self._pump.due(self._number):
            for frame in frames:
                send(self._stream.buffers(frame))

    # --- what the poller calls ----------------------------------------------------------

    def act(self) -> None:
        """Do all that can be done without waiting; one thread at a time."""
        with self._lock:
            self._is_due = True
            if self._is_busy or self._is_over:
                return
            self._is_busy = True
        self._stream.budget = _MOST_AT_ONCE
        while self._is_still_due():
            try:
                self._work()
            except (OSError, EOFError):
                self._end()
            # No thread, or no memory for a payload; or a defect, of which others must not suffer.
            except Exception as error:
                self._failure = error.with_traceback(None)  # which would keep a payload
                self._end()

    def _is_still_due(self) -> bool:
        with self._lock:
            is_due, self._is_due = self._is_due, False
            self._is_busy = is_due and not self._is_over and self._stream.budget > 0
            if not self._is_busy and not self._is_over:
                # Not armed earlier: the event would wake a second thread, which finds this one
                # busy. Past the budget the connection queues up behind the others that are ready.
                wanted = self._wanted | (READ | WRITE if is_due else 0)
                if wanted:
                    self._poller.arm(self._fileno, wanted)
            return self._is_busy

    def _work(self) -> None:
        self._wanted = 0
        if not self._has_read:
            self._read()
        if not self._has_written:
            self._write()
        if self._has_read and self._has_written:
            self._end()

    def _read(self) -> None:
        try:
            if self._is_cut or self._stream.has_ended:
                raise EOFError
            if self._stream.try_read(self._pump, self._number):
                self._connection.cut()  # for damage
                raise EOFError
            if self._stream.has_ended:
                raise EOFError
        except (OSError, EOFError):
            self._has_read = True
            # Else its last words are still to be sent.
            if not self._pump.is_closed:
                self._attached.detach()  # first, as in ``_end``
                self._pump.detach(self._number)
                self._connection.cut()  # the owner may wait there, and nobody else would cut it
            return
        self._wanted |= READ

    def _write(self) -> None:
        self._is_missed = True
        if not self._sending.acquire(blocking=False):
            return  # the owner sends, and looks again at its end
        try:
            self._is_missed = False
            self._try_send()
        finally:
            self._sending.release()

    def _try_send(self) -> None:
        """Send until there is nothing, or no more room."""
        while not self._has_written:
            if self._left:
                self._left = self._connection.try_send(self._left)
                if self._left:
                    self._wanted |= WRITE
                    return
            frames = self._pump.due(self._number)
            if frames:
                self._left = [each for frame in frames for each in self._stream.buffers(frame)]
            elif frames is not None:
                return
            elif self._pump.is_closed and not self._is_ending:
                self._left, self._is_ending = [END], True
            else:
                self._has_written = True
                # Otherwise the client opens another: what it carries has not ended.
                if not self._is_ending:
                    self._connection.cut()

    def _end(self) -> None:
        self._connection.cut()  # the owner may wait there
        with self._sending, self._lock:
            if self._is_over:
                return
            self._is_over = True
        self._poller.remove(self._fileno)
        # Whatever comes of it: else they are taken for ever. The place first: whoever sees that
        # nothing carries the stream may open a call.
        self._attached.detach()
        self._pump.detach(self._number)
        self._then(self._failure)
