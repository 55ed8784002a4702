"""Bits flipped one at a time, and what came of each: no other is flipped before that is known.

``OneByOne`` is a relay's tap. It aims at a kind of place, drawn by lot, flips a bit of the first
byte of that kind that the lot falls on, and then watches the line and the log for one of these:

    repaired        the chunk was asked for again: a repair with its very number, on its own call
    damaged         an end said so in its log, and gave the call up
    broken          the call or its connection ended, by HTTP/2, gRPC or an end: another was opened
    silent          a call brought nothing more, and was given up
    not delivered   a message whose call ended, and nobody had said why: it was not read
    without effect  none of these, while messages went on both ways

A flip in a message is judged by its own call alone. Elsewhere whatever follows it is counted as its
work. What acts late (a window that is too small, a name HPACK remembers wrong) may be counted as
without effect, and the next flip's call then as ended.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from benchmarks import http2, tcp_messages
from benchmarks.http2 import FrameLike, Message, Span, SpanReader
from benchmarks.pipes import Direction

__all__ = ["GRPC", "IN_MESSAGES", "OUTCOMES", "TCP", "Hit", "OneByOne", "Outcome", "Place", "Wire"]

Place = Literal["chunk payload", "chunk header", "other message", "prefix", "frame header", "frame"]
IN_MESSAGES: tuple[Place, ...] = ("chunk payload", "chunk header", "other message")
Outcome = Literal["repaired", "damaged", "broken", "silent", "not delivered", "without effect"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

Aims = Mapping[tuple[Direction, Place], float]

AIMS: Aims = {
    ("up", "chunk payload"): 30,
    ("up", "chunk header"): 15,
    ("up", "other message"): 10,
    ("down", "other message"): 25,
    ("up", "prefix"): 3,
    ("down", "prefix"): 3,
    ("up", "frame header"): 4,
    ("down", "frame header"): 4,
    ("up", "frame"): 3,
    ("down", "frame"): 3,
}
"""How often each kind of place is aimed at: four of five times a message of ours."""


@dataclass(frozen=True)
class Wire:
    """How a line is read, and what is worth hitting there.

    Attributes:
        reader: reads one direction of one connection; from the client: True.
        calls: how many calls a model takes while nothing fails (count).
        aims: how often a bit is flipped in each place, in relation to the others.
    """

    reader: Callable[[bool], SpanReader]
    calls: int
    aims: Aims


GRPC = Wire(lambda from_client: http2.Reader(from_client=from_client), 2, AIMS)
# A line of data connections alone: a frame there is an opening or an answer, once each.
TCP = Wire(
    lambda from_client: tcp_messages.Reader(from_client=from_client),
    1,
    {**AIMS, ("up", "frame header"): 1, ("down", "frame header"): 0},
)

CHUNK_BYTES = 4096  # no other message is as long, where models have few tensors
CHUNK_HEADER_BYTES = 48
NUMBER = slice(7, 15)  # where a chunk's frame has its number, and a repair's the chunk's
REPAIR, REPAIR_OF_FIRST = b"\x3a\x09\x09", b"\x3a\x00\x79"

GRACE_SECONDS = 0.5  # a call may end a moment before its end's log says why
CALM_SECONDS = 0.1  # what a flip outside messages may yet do, once it has been noticed
MOVED_MESSAGES = 3  # each way, on its connection
MOVED_SECONDS = 0.4  # more than a call_timeout
SILENT_SECONDS = 1.3  # more than a session_timeout, or a call_timeout before the first bytes
UNDETECTED_SECONDS = 10.0  # a message that is wrong costs nothing for so long: nobody noticed


@dataclass(slots=True)
class Hit:
    """One flip; ``outcome`` is what came of it, None as long as that is not known."""

    direction: Direction
    place: Place
    span: Span
    connection: int
    at: float
    lines: int
    calls: int
    connections: int
    outcome: Outcome | None = None
    ended_at: float | None = None
    is_repaired: bool = False
    moved: dict[Direction, int] = field(default_factory=lambda: {"up": 0, "down": 0})

    @property
    def is_in_message(self) -> bool:
        """Whether it fell on bytes of ours."""
        return self.place in IN_MESSAGES

    @property
    def label(self) -> str:
        """Where it fell, in words."""
        if self.place == "frame header":
            return f"header of {self.span.frame.name}"
        if self.place == "frame":
            return self.span.frame.name if self.span.kind == "other" else "preface"
        return self.place

    def is_answered_by(self, connection: int, direction: Direction, message: Message) -> bool:
        """Tell whether ``message`` asks for what it hit."""
        number = _number_to_repair(message)
        if number is None or direction == self.direction:
            return False
        if not self.is_in_message:
            return True
        mine = self.span.message
        if mine is None or (connection, message.stream) != (self.connection, mine.stream):
            return False
        return self.place != "other message" and bytes(mine.head[NUMBER]) == number


class OneByOne:
    """Flips bits of one line after another, until ``most`` have hit messages.

    Args:
        rng: decides where.
        lines: what both ends log, as it comes.
        most: how many have to hit messages.
        wire: what travels on the line.
        clock: seconds.
    """

    def __init__(
        self,
        rng: random.Random,
        lines: Sequence[str],
        most: int,
        *,
        wire: Wire = GRPC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hits: list[Hit] = []
        self._clock = clock
        self._rng, self._lines, self._most = rng, lines, most
        self._wire = wire
        self._lock = threading.Lock()
        self._left = most
        self._calls = self._connections = 0
        self._begin()
        self._aim()

    @property
    def is_done(self) -> bool:
        """Whether enough messages were hit, and what came of it is known."""
        with self._lock:
            return not self._left and self._flight is None

    def end_line(self) -> None:
        """Judge the last flip by what there is, and be ready for another line."""
        with self._lock:
            if self._flight is not None:
                self._settle(self._seen(self._flight, is_over=True) or "without effect")
            self._begin()

    # --- what a tap does ------------------------------------------------------------------

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        """See ``Tap``."""
        with self._lock:
            now = self._clock()
            reader = self._readers.get((connection, direction))
            if reader is None:
                self._connections = max(self._connections, connection)
                reader = self._wire.reader(direction == "up")
                self._readers[connection, direction] = reader
            if self._flight is not None and (outcome := self._judge(self._flight, now)):
                self._settle(outcome)
            changed: bytearray | None = None
            for span in reader.feed(piece):
                self._note(connection, direction, span, now)
                where = self._target(direction, span, now)
                if where is not None:
                    changed = changed or bytearray(piece)
                    self._flip(changed, connection, direction, span, where, now)
            return bytes(changed) if changed else piece

    def over(self, connection: int) -> None:
        """See ``Tap``."""
        with self._lock:
            hit = self._flight
            if hit is not None and hit.connection == connection and hit.ended_at is None:
                hit.ended_at = self._clock()

    # --- flipping -------------------------------------------------------------------------

    def _begin(self) -> None:
        self._readers: dict[tuple[int, Direction], SpanReader] = {}
        self._flight: Hit | None = None
        self._with_chunks = set[int]()
        self._ended = set[tuple[int, int]]()  # calls, by connection and stream
        self._begun = set[tuple[int, int]]()  # opened, and without a message yet
        self._calls = self._connections = self._wait_for_calls = 0
        self._calm_until = 0.0

    def _aim(self) -> None:
        ((self._at_direction, self._at_place),) = self._rng.choices(
            list(self._wire.aims), weights=list(self._wire.aims.values())
        )
        is_rare = self._at_direction == "down" or self._at_place in ("other message", "frame")
        self._skips = self._rng.randrange(3 if is_rare else 30)

    def _target(self, direction: Direction, span: Span, now: float) -> tuple[Place, int] | None:
        """Return the place and the byte of the piece to be hit, if it is in this span."""
        is_held = self._calls < self._wait_for_calls or now < self._calm_until
        if self._flight is not None or is_held or not self._left:
            return None
        if direction != self._at_direction:
            return None
        for place, start, stop in _places(span):
            if place == self._at_place:
                if not self._skips:
                    return place, self._rng.randrange(start, stop)
                self._skips -= 1
        return None

    def _flip(
        self,
        piece: bytearray,
        connection: int,
        direction: Direction,
        span: Span,
        where: tuple[Place, int],
        now: float,
    ) -> None:
        place, byte = where
        piece[byte] ^= 1 << self._rng.randrange(8)
        self._flight = Hit(
            direction,
            place,
            span,
            connection,
            now,
            len(self._lines),
            self._calls,
            self._connections,
        )
        self._left -= self._flight.is_in_message
        self._aim()

    # --- what comes of it -----------------------------------------------------------------

    def _note(self, connection: int, direction: Direction, span: Span, now: float) -> None:
        """Take what passes as evidence."""
        frame, message, hit = span.frame, span.message, self._flight
        is_call_over = False
        if span.kind == "header" and frame.is_known:
            if direction == "up":
                self._count(connection, frame)
            is_call_over = frame.name == "RST_STREAM" or (
                frame.begins_call and direction == "down" and frame.ends_stream
            )
        if message is not None and message.length >= CHUNK_BYTES:
            self._with_chunks.add(connection)
        if is_call_over:
            self._ended.add((connection, frame.stream))
        if hit is None:
            return
        is_its = connection == hit.connection
        if hit.ended_at is None and (hit.connection, hit.span.frame.stream) in self._ended:
            hit.ended_at = now
        if span.kind == "message" and message is not None and message.is_whole:
            hit.moved[direction] += is_its
            hit.is_repaired |= hit.is_answered_by(connection, direction, message)

    def _count(self, connection: int, frame: FrameLike) -> None:
        """Count the calls that clients open, except posts: calls with a single session message."""
        call = connection, frame.stream
        if frame.begins_call and frame.name == "HEADERS":
            self._begun.add(call)
        elif frame.begins_call:
            self._calls += 1
        elif frame.name == "DATA" and call in self._begun:
            # The first message of a post is also its last. A session sends many of them.
            self._begun.remove(call)
            self._calls += not frame.ends_stream

    def _judge(self, hit: Hit, now: float) -> Outcome | None:
        """Return what came of a flip; None: not known yet."""
        if outcome := self._seen(hit, is_over=False, now=now):
            return outcome
        if hit.is_in_message:
            is_late = now - hit.at > UNDETECTED_SECONDS and hit.ended_at is None
            return "without effect" if is_late else None
        has_moved = min(hit.moved.values()) >= MOVED_MESSAGES
        may_be_silent = hit.connection not in self._with_chunks or hit.span.frame.name == "DATA"
        seconds = SILENT_SECONDS if may_be_silent else MOVED_SECONDS
        return "without effect" if has_moved and now - hit.at > seconds else None

    def _seen(self, hit: Hit, *, is_over: bool, now: float = 0.0) -> Outcome | None:
        """Return what the line and the log say, if they say anything."""
        if hit.is_repaired:
            return "repaired"
        if hit.is_in_message:
            if hit.ended_at is None:
                return None
            if self._said(hit, "damaged on the way"):
                return "damaged"
            is_told = is_over or now - hit.ended_at > GRACE_SECONDS
            return "not delivered" if is_told else None
        if self._said(hit, "damaged on the way"):
            return "damaged"
        if self._said(hit, "nothing arrives") or self._said(hit, "nothing was heard"):
            return "silent"
        return "broken" if self._is_anew(hit) else None

    def _said(self, hit: Hit, words: str) -> bool:
        return any(words in line for line in self._lines[hit.lines :])

    def _is_anew(self, hit: Hit) -> bool:
        """Tell whether a call or connection was opened since, beside those that a model takes."""
        most = self._wire.calls
        return self._calls > max(most, hit.calls) or self._connections > max(most, hit.connections)

    def _settle(self, outcome: Outcome) -> None:
        hit, self._flight = self._flight, None
        assert hit is not None
        hit.outcome = outcome
        self.hits.append(hit)
        if outcome in ("damaged", "silent", "not delivered"):
            self._wait_for_calls = hit.calls + 1
        if not hit.is_in_message and outcome != "without effect":
            self._calm_until = self._clock() + CALM_SECONDS


def _places(span: Span) -> Iterator[tuple[Place, int, int]]:
    """Yield the kinds of place in a span, each with its first byte and the one behind its last."""
    message = span.message
    if span.kind == "prefix":
        yield "prefix", span.start, span.stop
    elif span.kind == "header":
        yield "frame header", span.start, span.stop
    elif span.frame.name == "GOAWAY":
        # Not hit: grpcio 1.85.3 aborts the client's process at an undefined error code.
        return
    elif span.kind != "message" or message is None:
        yield "frame", span.start, span.stop
    elif message.length < CHUNK_BYTES:
        yield "other message", span.start, span.stop
    else:
        border = min(span.stop, max(span.start, span.start + CHUNK_HEADER_BYTES - span.at))
        if border > span.start:
            yield "chunk header", span.start, border
        if border < span.stop:
            yield "chunk payload", border, span.stop


def _number_to_repair(message: Message) -> bytes | None:
    """Return the number of the chunk that a message asks for again; None: it asks for none."""
    head = bytes(message.head)
    if head.startswith(REPAIR_OF_FIRST):
        return bytes(8)
    return head[3:11] if head.startswith(REPAIR) else None
