"""``ProbeLine``: the end that probes a line: round trips, and models that go either way.

It measures and judges nothing: what a server gets to do is decided by ``probing``. But it takes no
more from a server than it has asked for, and for no longer than a probe lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamlinkError, to_raise
from streamlink.link.asking import Answer, ask_server
from streamlink.link.attempts import own_name
from streamlink.link.probe_wire import (
    BEGIN,
    BYTES,
    DOWN,
    ECHO,
    INITIAL_WINDOW,
    LONG_INITIAL,
    LONGEST_WINDOW,
    MAX_PROBE_SECONDS,
    MODELS,
    PROBE_MARGIN_SECONDS,
    TOKEN,
    UP,
    Discard,
    beginning_with,
    largest_initial_window,
    parse_size,
    plain,
    probe_model,
)
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.protocol.flow_control import initial_window
from streamlink.protocol.frames import Reply, Request
from streamlink.transport.connect import dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["Flow", "Moved", "ProbeLine", "Way"]

Way = Literal["down", "up"]
"""``down``: from the server to this end."""

NO_WINDOWS: Mapping[Way, int] = MappingProxyType({})

_SAMPLE_SECONDS = 0.005  # a small window is over soon
_LAST_SECONDS = 1.0  # what an ending session may take
_LONGEST_SECONDS = MAX_PROBE_SECONDS + PROBE_MARGIN_SECONDS
_ECHO_SECONDS = 0.1  # between two echoes; far below what a session accepts in small frames


@dataclass(frozen=True, slots=True)
class Flow:
    """How one model of a measurement moved."""

    way: Way
    nbytes: int
    seconds: float
    """From the request to the receiver's commit."""
    samples: tuple[tuple[float, int], ...]
    """When how many bytes had arrived: seconds since the first request, and bytes; only changes."""
    resumes: int
    """How often its connection was lost (count)."""
    carrier: str
    """What carried it, such as ``tcp``."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What was measured while one or several models moved at the same time."""

    flows: tuple[Flow, ...]
    echoes: tuple[float, ...]
    """Round trips meanwhile (seconds)."""


class ProbeLine(Closing):
    """One probing session with a server; ``start`` opens it, or its ``with`` block.

    Args:
        address: of the server.
        config: settings of this end. Each model moves over one connection, and without encodings.
        name: of this end; empty: its host and process.
        token: the one-time token of an end that only waits for a probe; empty: none.
        cancel: ends it.
        clock: of all times.
    """

    _dialer: Dialer
    _session: Session

    def __init__(
        self,
        address: str,
        config: LinkConfig | None = None,
        *,
        name: str = "",
        token: str = "",
        cancel: CancelToken | None = None,
        clock: Clock = running_time,
    ) -> None:
        config = plain(config or LinkConfig())
        stream = config.stream.model_copy(update={"max_lanes": 1, "lanes": 0})
        self._config = config.model_copy(update={"stream": stream})
        self._address, self._name, self._token = address, name or own_name(), token
        self._cancel, self.clock = cancel or CancelToken(), clock
        self._known = KnownSpecs()
        self._until_closed = ExitStack()
        self.server: dict[str, str] = {}
        """Facts of the server, once ``start`` has returned."""

    def start(self) -> Self:
        """Connect, and ask to probe.

        Raises:
            ConnectFailed: no streamlink server answers there.
            StreamAborted: the server refuses, with its reason; such as another probe.
            RequestRefused: it answers no probes now, with the reason.
            TopicNotServed: it is an older streamlink.
            AuthenticationFailed: one end does not accept the other.
            Cancelled: the token was cancelled.
        """
        dialer = self._dialer = dial(
            self._address,
            self._config,
            name=self._name,
            clock=self.clock,
            traffic=TrafficCounter(clock=self.clock),
            cancel=self._cancel,
            is_probe=True,
        )
        self._until_closed.callback(dialer.close)
        try:
            session = self._session = dialer.connect(_refuse, tries_for=0.0)
            self._until_closed.callback(session.close, "the probe has ended")
            threading.Thread(target=self._watch, name="probe-watch", daemon=True).start()
            facts = {TOKEN: self._token} if self._token else {}
            seconds = self._config.timeouts.connect_timeout
            reply = ask_server(self._session, BEGIN, facts, seconds, self._cancel)
        except BaseException:
            self.close()
            raise
        self.server = dict(reply.metadata)
        return self

    @property
    def longest_window(self) -> int:
        """The largest window that a model may begin with at both ends (bytes).

        Known once ``start`` has returned. 0: the server is older, and takes no such wish.
        """
        granted = parse_size(self.server.get(LONGEST_WINDOW, ""))
        return min(granted, largest_initial_window(self._config.stream))

    @property
    def most_models(self) -> int:
        """How many models the server moves at the same time; known once ``start`` has returned."""
        told = parse_size(self.server.get(MODELS, ""))
        return told or self._config.limits.max_streams  # the server is older

    @property
    def reconnects(self) -> int:
        """How often the connection of the session was lost and came back (count)."""
        return self._session.reconnects

    def initial_window(self, way: Way, round_trip: float) -> int:
        """Return the initial window of a model under the sender's settings (bytes).

        Args:
            way: its direction.
            round_trip: of the idle line (seconds).
        """
        stream = self._config.stream
        if way == "up":
            least, most = stream.initial_window_bytes, stream.long_initial_bytes
        else:
            told = parse_size(self.server.get(INITIAL_WINDOW, ""))
            least = told or stream.initial_window_bytes
            most = parse_size(self.server.get(LONG_INITIAL, ""))  # 0: the server is older
        return initial_window(least, most, round_trip)

    def close(self) -> None:
        """Say goodbye, and drop the connections."""
        self._until_closed.close()

    def __enter__(self) -> Self:
        return self.start()

    def _watch(self) -> None:
        """End a probe that lasts too long: the server has not."""
        session = self._session
        if not session.closed.wait(_LONGEST_SECONDS):
            session.abort(
                AbortCode.COMMUNICATION_TIMEOUT,
                f"this end has ended the probe after {_LONGEST_SECONDS:g} s: "
                f"{session.peer_name} should have done so after {MAX_PROBE_SECONDS:g} s; it keeps "
                "no limit, or nothing it says arrives; try again with fewer bytes, such as "
                "--most 32MiB",
            )

    # --- measuring ------------------------------------------------------------------------------

    def echo(self) -> float:
        """Return one round trip through both sessions (seconds).

        Raises:
            CommunicationTimeout: there was no answer for ``session_timeout``.
            Cancelled: the token was cancelled.
            StreamlinkError: the session has ended.
        """
        began = self.clock()
        self._reply(ECHO, {}, self._config.timeouts.session_timeout)
        return self.clock() - began

    def move(
        self,
        flows: Sequence[tuple[Way, int]],
        initial_windows: Mapping[Way, int] = NO_WINDOWS,
        up_lead: float = 0.0,
    ) -> Moved:
        """Move models at the same time, and measure round trips meanwhile.

        Args:
            flows: the direction of each, and its size (bytes).
            initial_windows: of the models in each direction (bytes), where it is to be larger than
                the sender's setting; at most ``longest_window``.
            up_lead: how much earlier models that go up begin (seconds).

        Raises:
            Cancelled: the token was cancelled.
            StreamlinkError: one of them failed; the others are ended.
        """
        moving = [self._moving(way, nbytes, initial_windows.get(way, 0)) for way, nbytes in flows]
        echoes: list[float] = []
        is_over = self.clock.event()
        echoing = threading.Thread(target=self._echo_until, args=(is_over, echoes), daemon=True)
        try:
            up = [each for each in moving if each.way == "up"]
            down = [each for each in moving if each.way == "down"]
            for each in up:
                each.thread.start()
            if up and down:
                is_over.wait(up_lead)
            for each in down:
                each.thread.start()
            echoing.start()
            while sum(each.sample() for each in moving):  # all of them, which ``any`` would not
                is_over.wait(_SAMPLE_SECONDS)
                if any(each.error is not None for each in moving):
                    self._check_session()
                    self._session.abort(AbortCode.CANCELLED, self._why_it_ends())
        finally:
            is_over.set()
            for each in moving:
                if each.thread.ident is not None:
                    self.clock.join(each.thread)
            if echoing.ident is not None:
                self.clock.join(echoing)
        return Moved(tuple(each.flow() for each in moving), tuple(echoes))

    def _moving(self, way: Way, nbytes: int, initial_window: int) -> _Moving:
        return _Moving(partial(self._run, way, nbytes, initial_window), way, nbytes, self.clock)

    def _why_it_ends(self) -> str:
        if self._cancel.is_cancelled:
            return "the probe was interrupted"
        return "a part of the measurement failed"

    def _echo_until(self, is_over: threading.Event, echoes: list[float]) -> None:
        try:
            while not is_over.wait(_ECHO_SECONDS):
                echoes.append(self.echo())
        except StreamlinkError:
            pass  # whoever moves a model hears the same

    def _run(self, way: Way, nbytes: int, initial_window: int, note: _Moving) -> Receipt:
        with self._ask(way, nbytes, initial_window) as answer:
            if way == "down":
                incoming = note.transfer = answer.receive()
                return receive_model(incoming, lambda model: Discard(model.spec, nbytes))
            model = probe_model(nbytes)
            outgoing = note.transfer = answer.send(model.spec)
            return send_model(outgoing, model)

    def _ask(self, way: Way, nbytes: int, initial_window: int) -> Answer:
        topic = DOWN if way == "down" else UP
        facts, config = {BYTES: str(nbytes)}, self._session.config
        if initial_window:
            facts[INITIAL_WINDOW] = str(initial_window)
            config = beginning_with(config, initial_window)
        seconds = self._config.timeouts.communication_timeout
        reply = self._reply(topic, facts, seconds)
        cancel = (self._cancel,)
        return Answer(
            self._dialer, self._session, topic, reply, self._known, cancel=cancel, config=config
        )

    def _reply(self, topic: str, facts: Mapping[str, str], seconds: float) -> Reply:
        try:
            return ask_server(self._session, topic, facts, seconds, self._cancel)
        except StreamlinkError:
            self._check_session()
            raise

    def _check_session(self) -> None:
        """Raise why the session has ended, if it has: that says more than what failed by it."""
        if self._session.is_ending:
            self._session.closed.wait(_LAST_SECONDS)
        if self._session.error is not None:
            self._cancel.check()  # the token has ended the session
            raise to_raise(self._session.error) from None


class _Moving:
    """One model that moves in a thread of its own."""

    transfer: ReceiveTransfer | SendTransfer | None = None

    def __init__(
        self, move: Callable[[_Moving], Receipt], way: Way, nbytes: int, clock: Clock
    ) -> None:
        self._move, self.way, self._nbytes, self._clock = move, way, nbytes, clock
        self._samples: list[tuple[float, int]] = []
        self._receipt: Receipt | None = None
        self.error: BaseException | None = None
        # Of all that move at the same time, whichever begins first.
        self._began, self._seconds = self._clock(), 0.0
        self.thread = threading.Thread(target=self._run, name=f"probe-{way}", daemon=True)

    def _run(self) -> None:
        began = self._clock()
        try:
            self._receipt = self._move(self)
        except BaseException as error:
            self.error = error
        self._seconds = self._clock() - began

    def sample(self) -> bool:
        """Note how far it is; returns whether it still moves."""
        is_alive = self.thread.is_alive()
        if (transfer := self.transfer) is not None:
            # At either end: what has arrived at the receiver. A sender hears it from the acks.
            done = transfer.stats.received_bytes
            if done and (not self._samples or done > self._samples[-1][1]):
                self._samples.append((self._clock() - self._began, done))
        return is_alive

    def flow(self) -> Flow:
        """Return what was measured.

        Raises:
            StreamlinkError: it failed.
        """
        if self.error is not None:
            raise self.error
        assert self._receipt is not None
        stats = self._receipt.stats
        return Flow(
            self.way,
            self._nbytes,
            self._seconds,
            tuple(self._samples),
            stats.resumes,
            stats.carrier,
        )


def _refuse(session: Session, request: Request) -> None:
    session.reply(request, error="this end only probes the line")
