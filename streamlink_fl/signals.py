"""Signals of a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP end it in order, whatever it does.

What a handler raises arises wherever the main thread is, and inside a destructor or a callback the
interpreter swallows it. So ours raises nothing. While the command is imported and its words are
read there is nothing to clean up, and it ends the process. While the command runs it hands the
number to a thread that cancels the command's token; the main thread ends where it looks at that.
Only inside ``Raising``, around code that knows no token, it raises ``KeyboardInterrupt``.

``begin`` is for programs, never for the library. It comes before the heavy imports, which it
guards, so this module imports nothing that takes time.
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
"""Who starts us may pass on a Ctrl-C that the terminal has sent to us, too."""


class _Process:
    """What signals do to this process at the moment."""

    def __init__(self) -> None:
        self.has_begun = False
        self.act: Callable[[int], object] = _leave
        self.number = 0  # of the signal that ended the command; 0: none
        self.raises = False

    def heed(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        self.act(number)
        if self.raises:
            self.raises = False  # once: what follows is the clean-up
            raise KeyboardInterrupt


def begin() -> None:
    """Heed the signals from now on; SIGHUP only where ``nohup`` has not let it be ignored."""
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
    """Return the exit code of a process that a signal ended: 130 for SIGINT, as shells have it."""
    return 128 + number


def received() -> int:
    """Return the first signal that came; 0: none."""
    return _process.number


def end_with(code: int) -> None:
    """Let a signal that comes from now on end the process at once, with the code it has earned."""
    _process.act = lambda number: os._exit(code)


class Cancelling:
    """While a command runs, let the first signal call ``cancel(name)``, from a thread of its own.

    A second Ctrl-C ends the process at once. Where ``begin`` was not called nothing happens:
    signals are the business of the program that runs the command.
    """

    def __init__(self, cancel: Callable[[str], object]) -> None:
        self._cancel = cancel
        self._numbers: SimpleQueue[int] | None = None

    def __enter__(self) -> None:
        if not _process.has_begun:
            return
        import threading
        from queue import SimpleQueue

        # Made for this: its ``put`` may be called while the same thread is in the middle of it.
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
    """Around code that knows no token: let a signal raise ``KeyboardInterrupt`` there, too."""

    def __enter__(self) -> None:
        _process.raises = _process.has_begun
        if _process.number:  # it came just before, and is not to be raised once more later
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
    """End the process, at once."""
    if not {"--json-logs", "--report-fd"} & set(sys.argv):  # of a fleet only the parent says it
        words = (_SHOW_CURSOR if os.isatty(2) else b"") + b"stopped\n"
        try:  # noqa: SIM105 (nothing may be imported here, in the middle of any import)
            os.write(2, words)
        except OSError:
            pass  # nobody is there to read it
    os._exit(code_of(number))


def _ignore() -> None:
    """Let nothing change how the process ends, in the moment when Python itself ends."""
    for each in HEEDED:
        signal.signal(each, signal.SIG_IGN)


def _forget() -> None:
    """In a child that was forked, such as a loader of data: signals do what they usually do."""
    for each in HEEDED:
        if signal.getsignal(each) == _process.heed:
            is_ctrl_c = each is signal.SIGINT
            signal.signal(each, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    _process.has_begun = False


_process = _Process()
