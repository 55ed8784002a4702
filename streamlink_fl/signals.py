"""Signals of a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP end it in an orderly way at any time.

An exception in a signal handler is raised wherever the main thread is, and inside a destructor or
a callback the interpreter swallows it. So our handler does not raise. During imports and parsing
there is nothing to clean up, and it ends the process. While the command runs, it passes the number
to a thread that cancels the command's token, and the main thread ends at its next check (the
self-pipe pattern, with a queue). Only inside ``Raising``, around code that does not check a token,
it raises ``KeyboardInterrupt``.

``begin`` is for programs, never for the library. It is called before the slow imports, so this
module imports nothing that takes time.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue
    from types import FrameType, TracebackType

__all__ = ["Cancelling", "Raising", "begin", "code_of", "end_with", "received"]

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = b"\x1b[?25h"  # a progress bar hides it
_SAME_PRESS_SECONDS = 0.5
"""A parent process may forward a Ctrl-C that the terminal sent to us as well."""


class _Process:
    """How this process reacts to signals at present."""

    def __init__(self) -> None:
        self.has_begun = False
        self.act: Callable[[int], object] = _leave
        self.number = 0  # of the signal that ended the command; 0: none
        self.raises = False

    def heed(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        self.act(number)
        if self.raises:
            self.raises = False  # once: the clean-up that follows must not be interrupted
            raise KeyboardInterrupt


def begin() -> None:
    """Install the handlers; for SIGHUP only if it is not ignored, as ``nohup`` does."""
    if _process.has_begun:
        return
    _process.has_begun = True
    for each in HEEDED:
        if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, _process.heed)
    os.register_at_fork(after_in_child=_forget)
    import atexit

    atexit.register(_ignore)  # registered first, so it runs last


def code_of(number: int) -> int:
    """Return the exit code of a process that a signal ended: 128 plus its number, as in shells."""
    return 128 + number


def received() -> int:
    """Return the number of the first signal received; 0: none."""
    return _process.number


def end_with(code: int) -> None:
    """Let further signals end the process at once, with the exit code that the command has."""
    _process.act = lambda number: os._exit(code)


class Cancelling:
    """While a command runs, the first signal calls ``cancel(name)`` in a separate thread.

    A second Ctrl-C ends the process at once. If ``begin`` was not called, it does nothing: another
    program runs the command and handles its own signals.
    """

    def __init__(self, cancel: Callable[[str], object]) -> None:
        self._cancel = cancel
        self._numbers: SimpleQueue[int] | None = None

    def __enter__(self) -> None:
        if not _process.has_begun:
            return
        import threading
        from queue import SimpleQueue

        # ``SimpleQueue.put`` is reentrant: a handler may interrupt the same thread inside ``put``.
        self._numbers = SimpleQueue()
        threading.Thread(target=self._listen, name="signals", daemon=True).start()
        _process.act = self._numbers.put

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._numbers is not None:
            self._numbers.put(0)

    def _listen(self) -> None:
        from time import monotonic

        assert self._numbers is not None
        if number := self._numbers.get():
            since = monotonic()
            self._cancel(signal.Signals(number).name)
        while number:
            number = self._numbers.get()
            if number == signal.SIGINT and monotonic() - since > _SAME_PRESS_SECONDS:
                _leave(number)


class Raising:
    """Around code that does not check a token: a signal also raises ``KeyboardInterrupt`` there."""

    def __enter__(self) -> None:
        _process.raises = _process.has_begun
        if _process.number:  # a signal arrived just before; raise for it once only
            _process.raises = False
            raise KeyboardInterrupt

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _process.raises = False


def _leave(number: int) -> None:
    """End the process at once."""
    if not {"--json-logs", "--report-fd"} & set(sys.argv):  # in a fleet only the parent reports it
        words = (_SHOW_CURSOR if os.isatty(2) else b"") + b"stopped\n"
        try:  # noqa: SIM105 (nothing may be imported here, in the middle of any import)
            os.write(2, words)
        except OSError:
            pass  # nobody reads stderr
    os._exit(code_of(number))


def _ignore() -> None:
    """Ignore signals while the interpreter shuts down, so that the exit code stays."""
    for each in HEEDED:
        signal.signal(each, signal.SIG_IGN)


def _forget() -> None:
    """Restore the default handlers in a forked child, such as a data loader's worker."""
    for each in HEEDED:
        if signal.getsignal(each) == _process.heed:
            is_ctrl_c = each is signal.SIGINT
            signal.signal(each, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    _process.has_begun = False


_process = _Process()
