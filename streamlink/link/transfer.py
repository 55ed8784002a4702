"""What a transfer is in either direction: one model over one stream, and what callers ask of it.

``SendTransfer`` and ``ReceiveTransfer`` add how the bytes of their direction move. The pump, and
the machine below it, are private to these three modules: what carries a stream gets its pump by
``hand_to``; all other callers ask the transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.errors import AbortCode, Cancelled, RoundError, StreamlinkError, to_raise
from streamlink.link.transfer_facts import TransferNotice
from streamlink.model.rounding import RoundingError
from streamlink.protocol.stats import StreamStats
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump

__all__ = [
    "WAITING",
    "OnPhase",
    "Pulse",
    "Receipt",
    "Transfer",
    "TransferProgress",
    "abort_reason",
    "ignore",
    "ignore_progress",
]

P = TypeVar("P", bound=SendPump | ReceivePump)
R = TypeVar("R")

OnPhase = Callable[[str, int], None]
"""``on_phase(phase, done)``: how far a transfer is. Bytes; any thread may call."""

TransferProgress = Callable[[str, str, int, int], None]
"""``progress(peer_name, phase, done, total)``: how far a transfer is (bytes). Any thread may call
it, also the one that reads the network: a callback that blocks for long costs the connection."""

WAITING = "waiting for its connection"
"""The phase of a transfer whose connection was lost and has not come back yet."""


def ignore(phase: str, done: int) -> None:
    """Ignore how far a transfer is."""


def ignore_progress(peer_name: str, phase: str, done: int, total: int) -> None:
    """Ignore how far a transfer with a named peer is."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of one finished transfer."""

    digest: str
    """Of the extent that was transferred, hexadecimal; nearly always that is the whole model."""
    seconds: float
    stats: StreamStats
    metrics: Mapping[str, float] = field(default_factory=dict)
    resumed_at: int = 0
    """The receiver had the bytes below from an interrupted transfer; they did not travel again."""
    rounding: RoundingError | None = None
    """Sender: what lossy formats have changed; None: nothing was rounded."""


class Transfer(Generic[P]):
    """One direction of one model's way between two ends.

    Args:
        pump: of the stream that carries it.
        notice: reports once how it ended.
    """

    def __init__(self, pump: P, notice: TransferNotice) -> None:
        self.resumed_at = 0
        """The receiver had the bytes below from an interrupted transfer."""
        self._pump: P = pump
        self._notice = notice
        self.clock: Clock = pump.clock
        """The clock of its deadlines."""
        self._began_at = self.clock()
        self._until_withdrawn = ExitStack()

    def hand_to(self, carry: Callable[[P], R]) -> R:
        """Give the stream to what carries or watches it: a session, a dialer, a ticker."""
        return carry(self._pump)

    def obey(self, cancel: CancelToken) -> None:
        """Let ``cancel`` end the stream as ``cancel(reason)`` does, until it is withdrawn."""
        self._until_withdrawn.enter_context(cancel.calling(self.cancel))

    def withdraw(self, forget: Callable[[P], object]) -> None:
        """Have its session ``forget`` the stream, which has ended; it obeys no token any more."""
        self._until_withdrawn.close()
        self.hand_to(forget)

    # --- how it stands ----------------------------------------------------------------------

    @property
    def stream_id(self) -> int:
        """The number that both ends know the stream by."""
        return self._pump.stream.stream_id

    @property
    def is_connected(self) -> bool:
        """Whether a call carries it now."""
        return self._pump.stream.is_attached

    @property
    def is_waiting(self) -> bool:
        """Whether its connection was lost, and another is waited for."""
        return self._pump.is_waiting

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return self._pump.stream.stats

    @property
    def error(self) -> StreamlinkError | None:
        """Why the stream failed, if it did."""
        return self._pump.stream.error

    def when_waiting(self, act: Callable[[], None]) -> None:
        """Call ``act`` whenever the connection is lost and another is waited for."""
        self._pump.on_waiting = act

    def wait_over(self, seconds: float) -> bool:
        """Wait until the stream has ended and the peer has been sent its last frame."""
        return self._pump.wait_over(seconds)

    # --- what is reported to the peer -------------------------------------------------------

    def hold(self, reason: str, waiting_for: str) -> None:
        """Report to the peer that this end waits, and for whom."""
        self._pump.hold(reason, waiting_for)

    def pulse(self, reason: str, waiting_for: str = "", *, at_once: bool = True) -> Pulse:
        """Return what keeps the peer's deadlines from expiring while this end is busy.

        Args:
            reason: what the work is.
            waiting_for: whom it waits for; empty: nobody.
            at_once: the first beat sends it; else the first one after ``held_interval``.
        """
        seconds = self._pump.stream.config.timeouts.held_interval
        return Pulse(self, reason, waiting_for, seconds, at_once=at_once)

    def abort(self, code: AbortCode, reason: str) -> None:
        """Abort the stream, with the reason that the peer gets."""
        self._pump.abort(code, reason)
        # A machine keeps its first error, so an abort that comes too late reports the real one.
        if self.error is not None:
            self._notice.failed(self.stats, self.error)

    def cancel(self, reason: str) -> None:
        """End the stream with ``Cancelled`` at this side; the peer gets the reason."""
        with self._pump.locked() as (machine, _):
            machine.end_cancelled(reason)
        if self.error is not None:
            self._notice.failed(self.stats, self.error)

    # --- small parts ------------------------------------------------------------------------

    def _done(self, digest: str, metrics: Mapping[str, float]) -> Receipt:
        seconds = self.clock() - self._began_at
        rounding = self._notice.done(self.stats, digest)
        return Receipt(digest, seconds, self.stats, metrics, self.resumed_at, rounding)


class Pulse:
    """Sends *held* every few seconds while this end is busy; see ``Transfer.pulse``."""

    def __init__(
        self,
        transfer: Transfer[Any],
        reason: str,
        waiting_for: str,
        seconds: float,
        *,
        at_once: bool,
    ) -> None:
        self._transfer = transfer
        self._reason, self._waiting_for = reason, waiting_for
        self._seconds = seconds
        self._due = transfer.clock() + (0.0 if at_once else seconds)

    def beat(self) -> None:
        """Send *held*, if the last one is ``held_interval`` ago.

        Raises:
            StreamlinkError: the stream has failed, so the work is of no use.
        """
        # Called by the work itself, and by no timer: a thread would go on beating for work that
        # hangs, and the peer would wait for ever.
        if (error := self._transfer.error) is not None:
            raise to_raise(error)
        now = self._transfer.clock()
        if now >= self._due:
            self._due = now + self._seconds
            self._transfer.hold(self._reason, self._waiting_for)


def abort_reason(error: BaseException) -> str:
    """Return the text that tells the peer about an error here; ``errors.code_of`` has its code."""
    if isinstance(error, KeyboardInterrupt | Cancelled):
        return "interrupted by its user"
    if isinstance(error, RoundError):
        return error.what  # without the causes: what one site's task raised is private to that site
    return str(error) or type(error).__name__
