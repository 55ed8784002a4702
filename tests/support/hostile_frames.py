"""Frames a hostile peer may send: made up, or those of a valid conversation with something changed.

Everything is drawn from one seeded generator, so a run can be had again. ``Transfer`` and ``Talk``
are valid conversations between two machines over a line that a ``Mischief`` sits on; both check
after every frame that nothing but a documented error came of it and that each machine holds no
more than it may.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, deque
from typing import Any, get_args

from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StreamAborted,
    StreamTimeout,
)
from streamlink.extent import Extent
from streamlink.protocol import frames as f
from streamlink.protocol.events import (
    Delivered,
    Failed,
    Finished,
    HelloReceived,
    Opened,
    RequestReceived,
)
from streamlink.protocol.limits import MAX_WAITING_FRAMES, PAGE_OVERHEAD_BYTES
from streamlink.protocol.machine import Machine
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.session_lifecycle import MAX_EVENTS
from streamlink.protocol.states import SessionState, State
from streamlink.transport import messages
from streamlink.transport.framing import DamagedFrame
from tests.support.machines import KiB, a_hello, small_config

CONFIG: LinkConfig = small_config(max_spec_bytes=16 * KiB).model_copy(
    update={"limits": LimitsConfig(max_model_bytes=1 << 40, max_open_requests=8)}
)
WINDOW = CONFIG.stream.window_bytes
TRANSFER = get_args(f.TransferFrame)
SESSION = get_args(f.SessionFrame)

NUMBERS = (
    0, 1, 2, 3, 7, 1000, 1023, 1024, 1025, 4 * KiB - 1, 4 * KiB, 4 * KiB + 1, 8 * KiB, 12 * KiB,
    16 * KiB, 64 * KiB, 1 << 20, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1,
)  # fmt: skip
FLOATS = (0.0, 1.0, -1.0, 1e-300, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "site-1", "digest", "../../x", "/etc/passwd", "a\0b", "a\nb", "\x1b[2J", "\u202e", "\ud7ff",
    "x" * 300, "é" * 4000, "__metadata__", "con", "%s%n", "'; drop", "id", "train",
)  # fmt: skip
SIZES = (0, 1, 2, 500, 1023, 1024, 4 * KiB - 1, 4 * KiB, 4 * KiB, 4 * KiB, 4 * KiB + 1, 20 * KiB)
ZEROS = bytes(max(SIZES))
SPEC_PAGE = messages.encode_spec([("a", "F32", (2 * KiB,)), ("b", "U8", (8 * KiB,))], 1 << 20)[0]

DOCUMENTED = (RemoteProtocolError, StreamAborted, StreamTimeout)
"""What may come of a peer's frames; ``LocalProtocolError`` would be our own fault."""


class Undocumented(AssertionError):
    """A frame led to something that is not promised."""


class Mischief:
    """Makes frames up, and changes those that pass."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._makers = {
            int: lambda: self.number(),
            float: lambda: self.random.choice(FLOATS),
            str: lambda: self.random.choice(TEXTS),
            bool: lambda: self.random.random() < 0.5,
            bytes: self._bytes,
        }

    def number(self, near: int = 0) -> int:
        """Return an unsigned number: a notable one, or one near ``near``."""
        if near and self.random.random() < 0.5:
            return max(0, near + self.random.randint(-2, 2))
        return self.random.choice(NUMBERS)

    def frame(self, kinds: tuple[Any, ...]) -> Any:
        """Return a frame of one of ``kinds`` with fields of any values their types allow."""
        kind = self.random.choice(kinds)
        if kind is f.Chunk:
            return self._chunk(self.number(), self.number())
        fields = [each for each in dataclasses.fields(kind) if each.init]
        return kind(**{each.name: self._value(each.name, each.type) for each in fields})

    def changed(self, frame: Any) -> Any:
        """Return ``frame`` with one of its fields changed."""
        if isinstance(frame, f.Chunk):
            return self._changed_chunk(frame)
        fields = [each for each in dataclasses.fields(frame) if each.init]
        if not fields:
            return frame
        each = self.random.choice(fields)
        value = getattr(frame, each.name)
        if type(value) is int:
            return dataclasses.replace(frame, **{each.name: self.number(value)})
        return dataclasses.replace(frame, **{each.name: self._value(each.name, each.type)})

    def bytes_of(self, raw: bytes) -> bytes:
        """Return ``raw`` with bytes changed, cut off, doubled, or something put in."""
        if not raw:
            return self._bytes()
        at = self.random.randrange(len(raw))
        match self.random.randrange(5):
            case 0:
                flipped = raw[at] ^ 1 << self.random.randrange(8)
                return raw[:at] + bytes((flipped,)) + raw[at + 1 :]
            case 1:
                return raw[:at]
            case 2:
                return raw[:at] + self.random.randbytes(self.random.randrange(1, 12)) + raw[at:]
            case 3:
                return raw + raw[at:]
            case _:
                return self.random.randbytes(self.random.randrange(1, 64))

    def _chunk(self, sequence: int, offset: int) -> f.Chunk:
        nbytes = self.random.choice(SIZES)
        payload = (memoryview(ZEROS)[:nbytes],) if nbytes else ()
        is_intact = self.random.random() < 0.8
        encoding = self.random.choice((0, 0, 0, 1, 2))
        length = self.random.choice(SIZES) if encoding or self.random.random() < 0.1 else -1
        return f.Chunk(sequence, offset, payload, encoding, length, is_intact)

    def _changed_chunk(self, chunk: f.Chunk) -> f.Chunk:
        sequence, offset = chunk.sequence, chunk.offset
        match self.random.randrange(5):
            case 0:
                return f.Chunk(self.number(sequence), offset, chunk.payload)
            case 1:
                return f.Chunk(sequence, self.number(offset), chunk.payload)
            case 2:
                return f.Chunk(sequence, offset, chunk.payload, self.random.randrange(4))
            case 3:
                return f.Chunk(sequence, offset, chunk.payload, is_intact=False)
            case _:
                return self._chunk(sequence, offset)

    def _value(self, name: str, kind: Any) -> Any:
        match str(kind):
            case "int" | "float" | "str" | "bool" | "bytes":
                return self._makers[{"int": int, "float": float, "str": str, "bool": bool}.get(
                    str(kind), bytes
                )]()  # fmt: skip
            case "Attempt":
                return f.Attempt(self.random.choice(TEXTS), self.number() % (1 << 32), 1)
            case "Update":
                weight = self.random.choice(FLOATS)
                norm = self.random.choice((None, *FLOATS))
                kind = self.random.choice(tuple(f.UpdateKind))
                return f.Update(weight, kind, norm=norm)
            case "AbortCode":
                return self.random.choice(tuple(AbortCode))
            case "Mapping[str, float]":
                return {self.random.choice(TEXTS): self.random.choice(FLOATS)}
            case "Mapping[str, str]":
                return {self.random.choice(TEXTS): self.random.choice(TEXTS)}
            case "tuple[Range, ...]":
                bounds = [self.number() for _ in range(2 * self.random.randrange(4))]
                bounds = sorted(bounds) if self.random.random() < 0.5 else bounds
                return tuple(zip(bounds[::2], bounds[1::2], strict=True))
            case "Extent | None":
                start, stop = sorted((abs(self.number()), abs(self.number())))
                return self.random.choice((None, Extent(start, stop)))
            case "tuple[str, ...]":
                return (self.random.choice(TEXTS),)
            case "tuple[DataPort, ...]":
                return (f.DataPort(self.random.choice(TEXTS), self.number()),)
        raise AssertionError(f"no values for {name}: {kind}")

    def _bytes(self) -> bytes:
        return self.random.choice((b"", b"spec", SPEC_PAGE, ZEROS[:600], bytes(70)))


class Conversation:
    """Two machines, their owners, and the frames between them; one end may be the hostile one."""

    def __init__(self, mischief: Mischief, outcomes: Counter[str]) -> None:
        self.mischief = mischief
        self.outcomes = outcomes
        self.now = 0.0
        self.frames = 0
        self._rate = mischief.random.choice((0.003, 0.01, 0.03, 0.1))
        self.ends: tuple[Machine, Machine]
        self.ways: tuple[deque[Any], deque[Any]] = (deque(), deque())
        self.kinds: tuple[Any, ...] = ()

    def run(self, most: int) -> int:
        """Go on until both ends have ended, or ``most`` frames were delivered; returns how many."""
        idle = 0
        while self.frames < most and idle < 3 and not all(end.is_closed for end in self.ends):
            before = self.frames
            for index, end in enumerate(self.ends):
                self.own(end)
                self.ways[index].extend(end.frames_to_send(now=self.now))
            for index in range(2):
                self._deliver(self.ends[1 - index], self.ways[index])
            idle = idle + 1 if self.frames == before else 0
            self._happen()
        for end in self.ends:
            self.outcomes[type(end.error).__name__ if end.error else end.state.name.lower()] += 1
        return self.frames

    def own(self, end: Machine) -> None:
        """Do what the owner of ``end`` does."""
        raise NotImplementedError

    def check(self, end: Machine) -> None:
        """Raise unless ``end`` is within what it may hold."""
        raise NotImplementedError

    def _deliver(self, target: Machine, way: deque[Any]) -> None:
        draw = self.mischief.random.random
        for _ in range(len(way)):
            frame, chance = way.popleft(), draw() / self._rate
            if chance < 0.2:
                continue  # lost
            if chance < 0.6:
                frame = self.mischief.changed(frame)
            elif chance < 0.8:
                self.give(target, frame)  # twice
            elif chance < 1.0:
                way.append(frame)  # late
                continue
            self.give(target, frame)
        if draw() < self._rate:
            for _ in range(self.mischief.random.choice((1, 1, 3))):
                self.give(target, self.mischief.frame(self.kinds))

    def give(self, target: Machine, frame: Any) -> None:
        """Let ``target`` take ``frame`` and look at what became of it."""
        self.frames += 1
        target.receive(frame, now=self.now)
        error = target.error
        if error is not None and not isinstance(error, DOCUMENTED):
            raise Undocumented(f"{frame} led to {error!r}")
        self.check(target)

    def _happen(self) -> None:
        chance = self.mischief.random.random()
        self.now += self.mischief.random.choice((0.0, 0.001, 0.1))
        if chance < 0.03:
            for way in self.ways:
                way.clear()
            for end in self.ends:
                end.detach(now=self.now)
                end.attach(now=self.now)
        elif chance < 0.05:
            self.now += self.mischief.random.choice((1.0, 11.0, 70.0))
            for end in self.ends:
                end.handle_timer(now=self.now)


class Transfer(Conversation):
    """A sender and a receiver. Where chance says so, the description travels first."""

    TOTALS = (0, 1, 4 * KiB, 10 * KiB, 40 * KiB)

    def __init__(self, mischief: Mischief, outcomes: Counter[str]) -> None:
        super().__init__(mischief, outcomes)
        self.kinds = TRANSFER
        pages = (SPEC_PAGE, SPEC_PAGE) if mischief.random.random() < 0.3 else ()
        self.sender = SendStream(
            CONFIG,
            stream_id=1,
            total_bytes=mischief.random.choice(self.TOTALS),
            spec_digest=b"spec",
            spec_pages=pages,
            is_resumable=mischief.random.random() < 0.3,
        )
        self.receiver = ReceiveStream(CONFIG, stream_id=1)
        self.ends = (self.sender, self.receiver)
        self._is_slow = mischief.random.random() < 0.3
        for end in self.ends:
            end.attach(now=0.0)

    def own(self, end: Machine) -> None:
        """Write as there is room; accept, release and commit as it comes."""
        if end is self.sender:
            self._send()
        else:
            self._take()

    def _send(self) -> None:
        sender = self.sender
        while sender.next_event() is not None:
            pass
        while (room := sender.writable_bytes) > 0:
            sender.write((memoryview(ZEROS)[:room],), now=self.now)
        if sender.is_written and sender.state is State.STREAMING:
            sender.finish("digest", now=self.now)

    def _take(self) -> None:
        receiver = self.receiver
        if self._is_slow and self.mischief.random.random() < 0.7:
            return
        while (event := receiver.next_event()) is not None:
            if receiver.is_closed:
                continue
            match event:
                case Opened():
                    receiver.accept(wants_spec=bool(event.open.spec_pages), now=self.now)
                case Delivered():
                    receiver.release(event.nbytes, now=self.now)
                case Finished():
                    receiver.commit(event.digest)
        if self.mischief.random.random() < 0.02:
            receiver.hold("lockstep", "site-2", now=self.now)

    def check(self, end: Machine) -> None:
        """Count what the machine holds against what was granted."""
        if end is self.sender:
            is_bounded = (
                len(end._events) <= 4
                and len(end._outbox) <= 64
                and self.sender.position - self.sender.received <= WINDOW
                and len(self.sender._buffer) <= 64
            )
        else:
            receiver = self.receiver
            spec_bytes = sum(len(page) + PAGE_OVERHEAD_BYTES for page in receiver._pages.kept)
            is_bounded = (
                len(end._outbox) <= MAX_WAITING_FRAMES
                and len(end._events) <= 2 * receiver._max_chunks + 4
                and receiver.received - receiver.consumed <= WINDOW
                and sum(end - start for start, end in receiver._reassembly.ranges(WINDOW)) <= WINDOW
                and spec_bytes <= CONFIG.stream.max_spec_bytes
            )
        if not is_bounded:
            raise Undocumented(f"{end.name} holds too much: {len(end._events)} events")


class Talk(Conversation):
    """A client's session and a server's."""

    def __init__(self, mischief: Mischief, outcomes: Counter[str]) -> None:
        super().__init__(mischief, outcomes)
        self.kinds = SESSION
        self.client = SessionMachine(CONFIG, peer_name="server", hello=a_hello())
        self.server = SessionMachine(CONFIG, peer_name="client")
        self.ends = (self.client, self.server)
        self._asked = 0
        for end in self.ends:
            end.attach(now=0.0)

    def own(self, end: Machine) -> None:
        """Welcome, ask, answer."""
        assert isinstance(end, SessionMachine)
        while (event := end.next_event()) is not None:
            if isinstance(event, HelloReceived) and end.state is SessionState.HELLO_RECEIVED:
                self._welcome(end)
            elif isinstance(event, RequestReceived) and not end.is_closed:
                end.report_progress(event.request.request_id, 1)
                if self.mischief.random.random() < 0.8:
                    end.reply(event.request.request_id, metadata={"a": "b"})
        # Without a place: the peer, which answers what it likes, has let them all be taken.
        is_able = end.state is SessionState.READY and end.has_place
        if is_able and self.mischief.random.random() < 0.3:
            self._asked += 1
            number = end.request("work", now=self.now)
            if self.mischief.random.random() < 0.2:
                end.cancel(number, "over")

    def _welcome(self, end: SessionMachine) -> None:
        try:
            end.welcome("id", "epoch", now=self.now)
        except ProtocolError as error:
            if isinstance(error, LocalProtocolError):
                raise
            end.abort(error.code, str(error))

    def check(self, end: Machine) -> None:
        """Count what the machine holds."""
        assert isinstance(end, SessionMachine)
        is_bounded = (
            len(end._events) <= MAX_EVENTS + 8
            and len(end._outbox) <= MAX_EVENTS + 2 * self._asked + 8
            and len(end._served) <= CONFIG.limits.max_open_requests + 1
        )
        if not is_bounded:
            raise Undocumented(f"{end.name} holds too much: {len(end._events)} events")


class Bytes:
    """Frames as bytes, changed, and read: with their check made right again, or left wrong."""

    def __init__(self, mischief: Mischief, outcomes: Counter[str]) -> None:
        self.mischief = mischief
        self.outcomes = outcomes
        self.frames = 0

    def run(self, most: int) -> int:
        """Read ``most`` of them; returns how many."""
        for _ in range(most):
            is_session = self.mischief.random.random() < 0.5
            kinds = SESSION if is_session else TRANSFER
            raw = encoded(self.mischief.frame(kinds), is_session)
            if self.mischief.random.random() < 0.2:  # two frames in one
                raw = raw[:-9] + encoded(self.mischief.frame(kinds), is_session)
            else:
                raw = self.mischief.bytes_of(raw)
            is_sealed = self.mischief.random.random() < 0.7
            self.read(resealed(raw, is_session) if is_sealed else raw, is_session)
            self.frames += 1
        return self.frames

    def read(self, raw: bytes, is_session: bool) -> None:
        """Decode ``raw``; raise unless what comes of it is documented."""
        try:
            if is_session:
                frame: Any = messages.decode_session(raw)
            else:
                frame = messages.decode_transfer(raw, 1)
        except (RemoteProtocolError, DamagedFrame) as error:
            self.outcomes[type(error).__name__] += 1
        except Exception as error:
            raise Undocumented(f"{raw!r} led to {error!r}") from error
        else:
            self.outcomes["read"] += 1
            self._feed(frame, is_session)

    def _feed(self, frame: Any, is_session: bool) -> None:
        machine: Machine = ReceiveStream(CONFIG, stream_id=1)
        if is_session:
            machine = SessionMachine(CONFIG, peer_name="client")
        machine.attach(now=0.0)
        machine.receive(frame, now=0.0)
        event = machine.next_event()
        if isinstance(event, Failed) and not isinstance(event.error, DOCUMENTED):
            raise Undocumented(f"{frame} led to {event.error!r}")


def encoded(frame: Any, is_session: bool, number: int = 0, stream_id: int = 1) -> bytes:
    """Return the bytes of ``frame``; nothing where a value does not fit the wire."""
    try:
        if is_session:
            return messages.encode_session(frame, number)
        return messages.encode_transfer(frame, stream_id, number)
    except ValueError:
        return b""


def resealed(raw: bytes, is_session: bool, number: int = 0, stream_id: int = 1) -> bytes:
    """Return ``raw`` with the check that its sender would have put behind it."""
    seed = 0 if is_session else stream_id
    check = messages._check_of(raw[:-9], seed, number)
    return raw[:-9] + messages._CHECK.pack(messages._CHECK_TAG, check)


KINDS = (Transfer, Transfer, Talk, Bytes)
FRAMES = {Transfer: 300, Talk: 300, Bytes: 40}
"""The most frames of one conversation."""


def fuzz_core(count: int, seed: int) -> Counter[str]:
    """Feed ``count`` hostile frames to machines and decoders; returns what became of them.

    Raises:
        Undocumented: something did that is not promised; says which frame it was.
    """
    mischief, outcomes, done = Mischief(seed), Counter[str](), 0
    while done < count:
        kind = mischief.random.choice(KINDS)
        done += kind(mischief, outcomes).run(min(FRAMES[kind], count - done))
    outcomes["frames"] = done
    return outcomes
