"""Two pumps joined in one process: a carrier that can be stalled, cut and joined again at will.

Frames travel as their wire bytes: what a test moves over it is encoded, hashed and decoded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.extent import Extent
from streamlink.link.bases import Bases
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Update
from streamlink.transport import messages
from streamlink.transport.pump import Pump
from streamlink.transport.ticker import Ticker
from tests.support.peers import SMALL, WAIT
from tests.support.pumps import pump_of

STREAM = 7
Watch = Callable[[f.Frame], bool]
"""Sees each frame before it is delivered; False: it is lost."""


class _Call:
    """One carrier call: two threads, each from one pump to the other."""

    def __init__(self, carrier: JoinedPumps) -> None:
        self._carrier = carrier
        self.is_live = True
        left, right = carrier.left, carrier.right
        self.numbers = left.attach(carrier.cut), right.attach(carrier.cut)
        ways = (left, self.numbers[0], right, self.numbers[1])
        for way in (ways, ways[2:] + ways[:2]):
            threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: Pump[Any], out: int, target: Pump[Any], into: int) -> None:
        target.incoming(self._delivered(source.outgoing(out)), into)

    def _delivered(self, frames: Iterable[f.Frame]) -> Iterator[f.Frame]:
        for frame in frames:
            self._carrier.on_leave(frame)
            moved = self._carrier.transcode(self._carrier.change(frame))
            self._carrier.flows.wait()
            if self._is_delivered(moved):
                yield moved

    def _is_delivered(self, frame: f.Frame) -> bool:
        with self._carrier.lock:
            return self.is_live and self._carrier.watch(frame) and self.is_live


class JoinedPumps:
    """Carries the frames of ``left`` to ``right`` and back, over one call after another."""

    def __init__(self, left: Pump[Any], right: Pump[Any], *, is_session: bool = False) -> None:
        self.left, self.right = left, right
        self.on_leave: Callable[[f.Frame], None] = lambda _: None
        """Sees each frame before it is encoded."""
        self.change: Callable[[f.Frame], f.Frame] = lambda frame: frame
        """Gives the frame that is sent in the place of another."""
        self.watch: Watch = lambda _: True
        self.lock = threading.RLock()
        self.flows = left.clock.event()
        self.flows.set()
        self.cuts = 0
        self.joins_again = False
        """Whether a call that is cut is followed by another at once."""
        self._is_session = is_session
        self._call: _Call | None = None

    def join(self) -> None:
        """Let a new call carry both pumps."""
        with self.lock:
            self._call = _Call(self)

    def cut(self) -> None:
        """Lose the call and all that was on its way."""
        with self.lock:
            call, self._call = self._call, None
            if call is not None:
                call.is_live = False
                self.cuts += 1
                self.left.detach(call.numbers[0])
                self.right.detach(call.numbers[1])
                if self.joins_again:
                    self.join()

    def stall(self) -> None:
        """Deliver nothing until ``go_on``."""
        self.flows.clear()

    def go_on(self) -> None:
        """Deliver what has waited."""
        self.flows.set()

    def close(self) -> None:
        """Cut for good; nothing that waits stays."""
        self.joins_again = False
        self.cut()
        self.flows.set()

    def transcode(self, frame: Any) -> f.Frame:
        """Return the frame after a trip over the wire."""
        if self._is_session:
            return messages.decode_session(messages.encode_session(frame))
        return messages.decode_transfer(messages.encode_transfer(frame, STREAM), STREAM)


class Outcome(Future[Receipt]):
    """What comes of one end's work; who waits for it waits through ``clock``."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._is_done = clock.event()
        self.add_done_callback(lambda _: self._is_done.set())

    def result(self, timeout: float | None = None) -> Receipt:
        """See ``Future``."""
        self._is_done.wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See ``Future``."""
        self._is_done.wait(timeout)
        return super().exception(0)


class Transfer:
    """One model between two ends joined in memory; each end's work has a thread of its own.

    ``extent`` of it travels, and that is what the receiver wants, or ``wanted``. ``sender`` is the
    class of the sending end. ``bases`` are those of the sender and of the receiver; the sender says
    that it keeps the model, and the receiver ``keeps`` it, too. All of it goes by ``clock``.
    """

    def __init__(
        self,
        spec: ModelSpec,
        config: LinkConfig = SMALL,
        *,
        sender_config: LinkConfig | None = None,
        update: Update = Update(),
        extent: Extent | None = None,
        wanted: Extent | None = None,
        is_resumable: bool = False,
        sender: type[SendTransfer] = SendTransfer,
        bases: tuple[Bases | None, Bases | None] = (None, None),
        keeps: bool = False,
        clock: Clock = running_time,
    ) -> None:
        self._clock = clock
        self.outgoing = sender(
            sender_config or config,
            spec,
            stream_id=STREAM,
            peer_name="site-r",
            name="the model",
            update=update,
            extent=extent,
            is_resumable=is_resumable,
            lossy=(sender_config or config).stream.lossy_up,
            bases=bases[0],
            is_kept=True,
            clock=clock,
        )
        self.incoming = ReceiveTransfer(
            config,
            stream_id=STREAM,
            peer_name="site-s",
            name="the model",
            extent=wanted or extent,
            bases=bases[1],
            keeps=keeps,
            clock=clock,
        )
        self.carrier = JoinedPumps(pump_of(self.outgoing), pump_of(self.incoming))
        self._ticker = Ticker(clock=clock)
        self._threads: list[threading.Thread] = []
        self._at_end: Sequence[threading.Event] = ()

    def start(
        self,
        source: ModelSource,
        sink: ModelSink | Callable[[ReceiveTransfer], ModelSink],
        *,
        at_end: Sequence[threading.Event] = (),
    ) -> tuple[Future[Receipt], Future[Receipt]]:
        """Begin both ends' work. ``at_end``: what to set so that a blocked end can leave."""
        self._at_end = at_end
        self._ticker.add(pump_of(self.outgoing))
        self._ticker.add(pump_of(self.incoming))
        self.join()
        taken = sink if callable(sink) else lambda _: sink
        return (
            self._begin(lambda: send_model(self.outgoing, source)),
            self._begin(lambda: receive_model(self.incoming, taken)),
        )

    def _begin(self, work: Callable[[], Receipt]) -> Outcome:
        outcome = Outcome(self._clock)

        def run() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:
                outcome.set_exception(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        return outcome

    def join(self) -> None:
        """Let a carrier carry both ends."""
        self.carrier.join()

    def close(self) -> None:
        """End the carrier."""
        self.carrier.close()

    def run(self, source: ModelSource, sink: ModelSink) -> tuple[Receipt, Receipt]:
        """Do it all; returns what the sender and the receiver say of it."""
        sent, received = self.start(source, sink)
        return sent.result(WAIT), received.result(WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for event in self._at_end:
            event.set()
        for model in (self.outgoing, self.incoming):
            model.abort(AbortCode.CANCELLED, "the test is over")
        self.close()
        for thread in self._threads:
            self._clock.join(thread, WAIT)
        self._ticker.close()


def failure(outcome: Future[Any]) -> BaseException:
    """Return the error that ended one end's work; waits for it."""
    error = outcome.exception(WAIT)
    assert error is not None, f"it succeeded with {outcome.result()}"
    return error
