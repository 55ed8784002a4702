"""Two stream machines, one float for time, and a carrier that may be slow, damage, break or sleep.

No thread, no socket, no clock: ``VirtualLink.run`` moves time to whatever happens next, so that an
hour of silence costs nothing and every run of the same ``Schedule`` is the same.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.extent import Extent
from streamlink.protocol.events import Delivered, Finished, Opened
from streamlink.protocol.frames import Accept, Attempt, Chunk, Frame, Open, SpecPage
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.states import State
from tests.support.virtual_line import NEVER, Fault, VirtualLine

FRAME_BYTES = 64
"""What a frame costs on the line beside its payload, about."""
_ROUNDING = 1e-9  # seconds; clocks that stood still differ by sums of floats
_GREETS = (Open, Accept, SpecPage)


@dataclass(frozen=True, slots=True)
class Pause:
    """The process of one end stands still. ``side``: "sender" or "receiver". Seconds."""

    side: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens on the way, all of it decided beforehand. Times in seconds."""

    latency: float = 0.01
    jitter: tuple[float, ...] = ()
    """Added to the latency of one frame after another; their order stays."""
    up_rate: float = 0.0
    """Bytes per second from the sender to the receiver; 0: no limit."""
    down_rate: float = 0.0
    faults: tuple[Fault, ...] = ()
    damaged_control: frozenset[int] = frozenset()
    """Frames that are no chunks and arrive damaged, counted over all calls: the call is given up,
    as nobody can know what they were."""
    damaged: frozenset[int] = frozenset()
    """Chunk frames that arrive damaged, counted over all calls."""
    garbage: int = 0
    """What the header of a damaged chunk claims."""
    cuts: frozenset[int] = frozenset()
    """The call breaks when so many frames, of both ends and all calls, have been carried."""
    away_seconds: float = 1.0
    is_noticed_late: bool = False
    """The receiver hears of a cut by the next call only."""
    write_seconds: float = 0.0
    read_seconds: float = 0.0
    commit_seconds: float = 0.0
    commit_steps: int = 1
    last_read: int = 1 << 62
    """The reader stops for good after so many takes."""
    pauses: tuple[Pause, ...] = ()


class VirtualLink:
    """Carries one model from ``sender`` to ``receiver`` under a ``Schedule``."""

    def __init__(
        self,
        content: bytes,
        config: LinkConfig,
        schedule: Schedule = Schedule(),
        *,
        pages: tuple[bytes, ...] = (),
        extent: Extent | None = None,
        resumed_at: int | None = None,
        shrinks: float = 1,
        plain_from: float = NEVER,
        base_lost_at: int | None = None,
    ) -> None:
        self.content = content
        self.extent = extent or Extent(0, len(content))
        """The bytes of the content that travel."""
        self.first = self.extent.start if resumed_at is None else resumed_at
        """The receiver has the bytes of the extent below from before."""
        self.config = config
        self._shrinks = shrinks  # chunks travel as this part of their bytes, in an encoding
        self._plain_from = plain_from  # but for those from this offset on
        self._base = "" if base_lost_at is None else "base"
        self._base_lost_at = base_lost_at  # chunks from there on cannot be decoded; None: all can
        names = ("shrunk",) if shrinks > 1 else ()
        self.schedule = schedule
        self.now = 0.0
        self.got = bytearray()
        self.limited: list[bool] = []
        """Of each chunk that was written, whether the sender had waited for a bandwidth limit."""
        self.extra = {"sender": 0, "receiver": 0}
        """What each end has beyond its window (bytes); see ``stretch``."""
        self.cuts_made = 0
        self.given_up = 0
        """Cuts by one of the ends, for silence."""
        self.sender = SendStream(
            config,
            stream_id=7,
            total_bytes=len(content),
            extent=extent,
            spec_pages=pages,
            is_resumable=resumed_at is not None,
            attempt=Attempt("job", 1, 1),
            encodings=names,
            bases=(self._base,) if self._base else (),
            peer_name="receiver",
        )
        self.receiver = ReceiveStream(config, stream_id=7, peer_name="sender", encodings=names)
        self._on_the_way: list[tuple[float, int, int, str, Frame]] = []
        self._waiting: dict[str, deque[Frame]] = {"sender": deque(), "receiver": deque()}
        self._asleep: dict[str, float] = {}
        self._slept = {"sender": 0.0, "receiver": 0.0}  # each end's own clock stood still meanwhile
        self._fell_asleep_at: dict[str, float] = {}
        rates = {"sender": schedule.up_rate, "receiver": schedule.down_rate}
        self._line = VirtualLine(schedule.latency, schedule.jitter, rates, schedule.faults)
        self._controls = 0
        start = self.extent.start
        self._marks = {"sender": (start,) * 3, "receiver": (0, 0, 0)}
        self._moved_at = {"sender": 0.0, "receiver": 0.0}
        self.longest_idle = 0.0
        """The longest that any end lived on while nothing it can see moved (its own seconds)."""
        self._pauses = sorted(schedule.pauses, key=lambda pause: pause.at)
        self._ready: deque[int] = deque()
        self._next_read = self._next_write = self._next_commit = 0.0
        self._commit_step = 0
        self._takes = self._frames = self._chunks = self._call = 0
        self._back_at: float | None = None
        self._has_pages = bool(pages)
        self._attach()

    # --- the run -------------------------------------------------------------------

    def run(self, until: float = NEVER) -> None:
        """Let things happen until both ends are final, nothing is left to happen, or ``until``."""
        while self.now <= until:
            self._act()
            self._check()
            if self.is_over:
                return
            following = self._next_time()
            if following > until:
                self.now = until if until < NEVER else self.now
                return
            self.now = max(self.now, following)
            self._arrive()

    @property
    def is_over(self) -> bool:
        """Whether both ends are final and what they last said has arrived."""
        return self.sender.is_closed and self.receiver.is_closed and not self._on_the_way

    def stretch(self, most: int) -> None:
        """Give each end what its line needs beyond its window, up to ``most`` bytes."""
        for side in self.extra:
            machine = self._machine(side)
            wanted = 0 if machine.is_closed else machine.extra_wanted(now=self._time(side))
            if min(wanted, most) > self.extra[side]:
                self.extra[side] = min(wanted, most)
                machine.use_extra(self.extra[side])

    def cut(self, only: str = "") -> None:
        """Break the call now; a new one carries on after ``away_seconds``.

        Args:
            only: the end that hears of it at once; the other does by the next call. Empty: both.
        """
        self.cuts_made += 1
        self._call += 1
        self._on_the_way.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        if not only and self.schedule.is_noticed_late:
            only = "sender"
        for side in ("sender", "receiver"):
            if self._machine(side).is_attached and only in ("", side):
                self._machine(side).detach(now=self._time(side))
        self._back_at = self.now + self.schedule.away_seconds

    def give_up_receiving(self) -> None:
        """The owner of the receiver has had enough."""
        self.receiver.abort(AbortCode.CANCELLED, "nobody wants it any more")

    # --- what is due now -------------------------------------------------------------

    def _act(self) -> None:
        """Let both owners and both writers do all they can at this moment."""
        self._sleep_and_wake()
        if (cut := self._line.cut_now(self.now)) is not None:
            self.cut(cut.side)
        if self._back_at is not None and self.now >= self._back_at and not self._asleep:
            self._back_at = self._line.open_at(self.now)
            if self.now >= self._back_at:
                self._attach()
        has_moved = True
        while has_moved:
            has_moved = False
            if "sender" not in self._asleep:
                has_moved |= self._tick("sender") or self._write() or self._send("sender")
            if "receiver" not in self._asleep:
                has_moved |= self._tick("receiver") or self._read() or self._send("receiver")

    def _tick(self, side: str) -> bool:
        machine, now = self._machine(side), self._time(side)
        deadline = machine.next_deadline()
        if deadline is None or deadline > now + _ROUNDING:
            return False
        machine.handle_timer(now=max(now, deadline))
        if not (machine.is_attached or machine.is_closed or self._back_at is not None):
            self.given_up += 1
            self.cut()
        return True

    def _write(self) -> bool:
        sender = self.sender
        while sender.next_event() is not None:
            pass
        if sender.state is State.STREAMING and sender.is_written:
            sender.finish("digest", now=self._time("sender"))
            return True
        room = sender.writable_bytes
        if not room or self.now < self._next_write:
            return False
        start = sender.position
        payload = memoryview(self.content)[start : start + room]
        # Whatever is encoded needs the base, where there was one.
        is_encoded = (bool(self.sender.base) or not self._base) and start < self._plain_from
        travels = self._shrunk(payload) if is_encoded else payload
        encoding = 1 if travels.nbytes < room else 0
        now = self._time("sender")
        self.limited.append(sender.is_limited)
        sender.write((travels,), now=now, encoding=encoding, nbytes=room)
        self._next_write = self.now + self.schedule.write_seconds
        return True

    def _shrunk(self, payload: memoryview) -> memoryview:
        return payload[: max(1, int(payload.nbytes / self._shrinks))]

    def _read(self) -> bool:
        has_moved = self._take_event() or self._commit()
        is_reading = self._takes < self.schedule.last_read and not self.receiver.is_closed
        if self._ready and is_reading and self.now >= self._next_read:
            self._takes += 1
            self.receiver.release(self._ready.popleft(), now=self._time("receiver"))
            self._next_read = self.now + self.schedule.read_seconds
            return True
        return has_moved

    def _take_event(self) -> bool:
        event = self.receiver.next_event()
        if isinstance(event, Opened) and not self.receiver.is_closed:
            start = None if self.first == self.extent.start else self.first
            now = self._time("receiver")
            self.receiver.accept(wants_spec=self._has_pages, start=start, base=self._base, now=now)
        elif isinstance(event, Delivered) and self._cannot_decode(event.chunk):
            self._base_lost_at = None
            self._marks["receiver"] = (event.offset, *self._marks["receiver"][1:])
            self.receiver.drop_base(event.offset, now=self._time("receiver"))
            self.cut()
        elif isinstance(event, Delivered):
            assert event.offset == self.first + len(self.got)
            there = self.content[event.offset : event.offset + event.nbytes]
            travelled = self._shrunk(memoryview(there)) if event.chunk.encoding else there
            assert b"".join(event.payload) == bytes(travelled)
            if not self._ready:
                self._next_read = max(self._next_read, self.now + self.schedule.read_seconds)
            self.got += there
            self._ready.append(event.nbytes)
        elif isinstance(event, Finished):
            self._commit_step = self.schedule.commit_steps
            self._next_commit = self.now + self.schedule.commit_seconds
        return event is not None

    def _cannot_decode(self, chunk: Chunk) -> bool:
        is_lost = self._base_lost_at is not None and chunk.end > self._base_lost_at
        return is_lost and bool(chunk.encoding) and not self.receiver.is_closed

    def _commit(self) -> bool:
        if not self._commit_step or self.now < self._next_commit or self.receiver.is_closed:
            return False
        self._commit_step -= 1
        self._next_commit = self.now + self.schedule.commit_seconds
        if self._commit_step:
            self.receiver.committing(now=self._time("receiver"))
        else:
            self.receiver.commit("digest")
        return True

    def _send(self, side: str) -> bool:
        machine = self._machine(side)
        if not machine.is_attached or self._back_at is not None:
            return False
        was_announced, frames = machine.has_frames(), machine.frames_to_send(now=self._time(side))
        assert was_announced is bool(frames)
        other = "receiver" if side == "sender" else "sender"
        for frame in frames:
            nbytes = FRAME_BYTES + (frame.wire_bytes if isinstance(frame, Chunk) else 0)
            arrives = self._line.carry(side, nbytes, now=self.now)
            if arrives is not None:
                entry = (arrives, self._frames, self._call, other, frame)
                heapq.heappush(self._on_the_way, entry)
            self._frames += 1
            if self._frames in self.schedule.cuts:
                self.cut()
                return True
        return bool(frames)

    # --- what arrives ------------------------------------------------------------------

    def _arrive(self) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= self.now:
            _, _, call, side, frame = heapq.heappop(self._on_the_way)
            if call != self._call:
                continue
            if self._is_damaged_control(frame):
                self.cut()
                return
            self._waiting[side].append(self._perhaps_damaged(frame))
        self._sleep_and_wake()
        for side, waiting in self._waiting.items():
            while waiting and side not in self._asleep:
                self._hear(side, waiting.popleft())

    def _hear(self, side: str, frame: Frame) -> None:
        now = self._time(side)
        if not isinstance(frame, _GREETS):
            self._moved_at[side] = now
        self._machine(side).receive(frame, now=now)

    def _is_damaged_control(self, frame: Frame) -> bool:
        if isinstance(frame, Chunk):
            return False
        number, self._controls = self._controls, self._controls + 1
        return number in self.schedule.damaged_control

    def _perhaps_damaged(self, frame: Frame) -> Frame:
        if not isinstance(frame, Chunk):
            return frame
        number, self._chunks = self._chunks, self._chunks + 1
        if number not in self.schedule.damaged:
            return frame
        junk = self.schedule.garbage
        return Chunk(junk, junk // 2, frame.payload, encoding=junk % 97, is_intact=False)

    # --- sleep, time, invariants ---------------------------------------------------------

    def _time(self, side: str) -> float:
        """Return what the clock of one end shows: it stands still while its process does."""
        return self._fell_asleep_at.get(side, self.now) - self._slept[side]

    def _sleep_and_wake(self) -> None:
        for side, awake_at in list(self._asleep.items()):
            if self.now >= awake_at:
                del self._asleep[side]
                self._slept[side] += self.now - self._fell_asleep_at.pop(side)
        while self._pauses and self.now >= self._pauses[0].at:
            pause = self._pauses.pop(0)
            awake_at = max(self.now + pause.seconds, self._asleep.get(pause.side, 0.0))
            self._asleep[pause.side] = awake_at
            self._fell_asleep_at.setdefault(pause.side, self.now)

    def _next_time(self) -> float:
        times = [self._asleep.get("sender", NEVER), self._asleep.get("receiver", NEVER)]
        times += [entry[0] for entry in self._on_the_way[:1]]
        times += [pause.at for pause in self._pauses[:1]]
        times += [self._line.next_time()]
        times += [] if self._back_at is None or self._asleep else [self._back_at]
        for side in ("sender", "receiver"):
            deadline = self._machine(side).next_deadline()
            if deadline is not None and side not in self._asleep:
                times.append(deadline + self._slept[side])
        return min([*times, *self._owner_times()])

    def _owner_times(self) -> list[float]:
        times = []
        reader, writer = self._asleep.get("receiver", 0.0), self._asleep.get("sender", 0.0)
        if self._ready and self._takes < self.schedule.last_read and not self.receiver.is_closed:
            times.append(max(self._next_read, reader))
        if self._commit_step and not self.receiver.is_closed:
            times.append(max(self._next_commit, reader))
        if self.sender.writable_bytes:
            times.append(max(self._next_write, writer))
        return times

    def _check(self) -> None:
        """Hold the two ends to what must be true at every moment."""
        sender, receiver = self.sender, self.receiver
        assert sender.durable <= sender.consumed <= sender.received <= sender.position
        assert receiver.durable <= receiver.consumed <= receiver.received
        for side in ("sender", "receiver"):
            self._check_moves(side)
        if not sender.is_closed:
            window = self.config.stream.window_bytes + self.extra["sender"]
            assert sender.position - sender.received <= window
        if sender.state in (State.STREAMING, State.FINISHING):
            window = self.config.stream.window_bytes + self.extra["receiver"]
            assert sender.position <= sender.limit <= receiver.consumed + window

    def _check_moves(self, side: str) -> None:
        """Let what has come be never less than before, and note how long nothing moved."""
        machine, now = self._machine(side), self._time(side)
        marks = (machine.received, machine.consumed, machine.durable)
        if side == "receiver":
            assert all(new >= old for new, old in zip(marks, self._marks[side], strict=True))
        if marks != self._marks[side] or machine.is_closed:
            self._marks[side], self._moved_at[side] = marks, now
        else:
            self.longest_idle = max(self.longest_idle, now - self._moved_at[side])

    def _attach(self) -> None:
        self._back_at = None
        self._line.new_call()
        for side in ("sender", "receiver"):
            machine, now = self._machine(side), self._time(side)
            if machine.is_closed:  # it may be opened again, to say its last word once more
                self._moved_at[side] = now
            if machine.is_attached:  # it has not heard that the call before is lost
                machine.detach(now=now)
            machine.attach(now=now)

    def _machine(self, side: str) -> SendStream | ReceiveStream:
        return self.sender if side == "sender" else self.receiver
