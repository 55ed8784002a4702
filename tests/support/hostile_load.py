"""Hostile frames and calls into a live server, while a client beside them gets on with its work.

What comes of it is measured in this process, the server's: memory, threads, files.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import AbortCode
from streamlink.model.digest import digest_of
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.transport.framing import largest_received
from tests.support.hostile import HostileClient, Line
from tests.support.hostile_frames import SESSION, TRANSFER, Mischief, encoded, resealed
from tests.support.machines import KiB
from tests.support.models import float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, echo, exchange_models

MIB = 1 << 20
SPEC = float_spec(20_001)
ATTEMPT = f.Attempt("job", 0, 1)
CONFIG: LinkConfig = config(
    open_timeout=2.0,
    reconnect_timeout=2.0,
    grpc={"max_clients": 4, "lookahead_bytes": 64 * KiB},
    stream={"max_spec_bytes": 64 * KiB},
).model_copy(update={"limits": LimitsConfig(max_silent_calls=8)})
ALLOCATOR_BYTES = 32 * MIB
"""What this process may keep for itself when the load is over: arenas of its threads."""
FRAMES_PER_CALL = 8
EVIL = "evil"


@dataclass(frozen=True, slots=True)
class HostileLoad:
    """What came of it."""

    frames: int
    calls: int
    rounds: int
    """Models that went to the client that behaves and came back, each with the right digest."""
    seconds: float
    grown_bytes: int
    bound_bytes: int
    threads: int
    """More than before."""
    files: int
    outcomes: Counter[str]

    @property
    def is_held(self) -> bool:
        """Whether nothing was lost, and nothing stayed behind."""
        is_small = self.grown_bytes <= self.bound_bytes
        return self.rounds > 0 and is_small and self.threads <= 2 and self.files <= 2


def bound_bytes(config: LinkConfig) -> int:
    """Return what all calls together may make a server hold, and this process keep for itself."""
    calls = config.grpc.max_clients * 6 + config.limits.max_silent_calls + 2
    message = largest_received(config.grpc, config.stream)
    return calls * (config.grpc.lookahead_bytes + message) + ALLOCATOR_BYTES


def load_server(frames: int, seed: int, tell: Any = lambda done: None) -> HostileLoad:
    """Send ``frames`` hostile frames, in calls of a few, to a server of this process."""
    process, mischief, outcomes = psutil.Process(), Mischief(seed), Counter[str]()
    with Federation(CONFIG) as federation:
        federation.link("good", echo)
        exchange(federation)
        attack(federation, mischief, FRAMES_PER_CALL * 20, outcomes)  # warm up
        exchange(federation)
        before = process.memory_info().rss, process.num_threads(), process.num_fds()
        outcomes.clear()
        is_over = threading.Event()
        rounds: list[str] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                while not is_over.is_set() or not rounds:
                    rounds.append(exchange(federation))
            except BaseException as error:
                failed.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        began = time.monotonic()
        try:
            calls = attack(federation, mischief, frames, outcomes, tell)
        finally:
            is_over.set()
            worker.join(WAIT)
        seconds = time.monotonic() - began
        if failed:
            raise failed[0]
        settle(process, before[1], before[2])
        return HostileLoad(
            frames=frames,
            calls=calls,
            rounds=len(rounds),
            seconds=seconds,
            grown_bytes=process.memory_info().rss - before[0],
            bound_bytes=bound_bytes(CONFIG),
            threads=process.num_threads() - before[1],
            files=process.num_fds() - before[2],
            outcomes=outcomes,
        )


def exchange(federation: Federation) -> str:
    """Send a model to the client that behaves and take it back; returns its digest."""
    store = MemoryStore()
    asked = federation.peer("good").request("echo", SPEC, attempt=ATTEMPT)
    exchange_models(asked, pattern_model(SPEC), store)
    asked.close()
    digest = digest_of(store.open())
    if digest != digest_of(pattern_model(SPEC)):
        raise AssertionError("the model that came back is another one")
    return digest


def attack(
    federation: Federation,
    mischief: Mischief,
    frames: int,
    outcomes: Counter[str],
    tell: Any = lambda done: None,
) -> int:
    """Send so many hostile frames; returns how many calls that took."""
    done = calls = 0
    while done < frames:
        with HostileClient(federation.address) as hostile:
            for line in openings(federation, hostile, mischief):
                line_frames = mischief.random.randrange(1, FRAMES_PER_CALL + 1)
                for number in range(line_frames):
                    line.say_bytes(made_up(mischief, line, number))
                told = line.last_words()
                outcomes[told.code.name.lower() if told else line.status.name.lower()] += 1
                done, calls = done + line_frames, calls + 1
                tell(done)
    return calls


def openings(federation: Federation, hostile: HostileClient, mischief: Mischief) -> Iterator[Line]:
    """Yield calls to say something on: new ones, and those of a session and its streams."""
    yield hostile.session()
    yield hostile.transfer()
    session, welcome = greeted(hostile)
    asked = federation.peer(EVIL).request("echo", SPEC, attempt=ATTEMPT)
    request = session.hear(f.Request)
    for number in (request.returns, request.sends):
        line = hostile.attached(welcome.session_id, number)
        if number == request.returns and mischief.random.random() < 0.7:
            line.say(f.Open(number, ATTEMPT, SPEC.nbytes, SPEC.digest, 1, 4 * KiB))
        elif mischief.random.random() < 0.7:
            line.say(f.Accept(0, 8 * KiB, 4 * KiB))
        yield line
    yield session
    asked.end(AbortCode.CANCELLED, "over")


def greeted(hostile: HostileClient) -> tuple[Line, f.Welcome]:
    """Open a session in the place of the one before, once the server has missed that."""
    until = time.monotonic() + WAIT
    while True:
        try:
            return hostile.greeted(EVIL)
        except AssertionError:
            if time.monotonic() > until:
                raise
            threading.Event().wait(0.01)


def made_up(mischief: Mischief, line: Line, number: int) -> bytes:
    """Return the bytes of a frame that may be one, or not, to be the ``number``-th made up here."""
    where = line.is_session, line.said + number, line.stream_id
    raw = encoded(mischief.frame(SESSION if line.is_session else TRANSFER), *where)
    chance = mischief.random.random()
    if chance < 0.7 and raw:
        return raw
    changed = mischief.bytes_of(raw)
    return resealed(changed, *where) if chance < 0.95 else changed


def settle(process: psutil.Process, threads: int, files: int) -> None:
    """Wait until what the calls took is given back, or it is long enough."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        if process.num_threads() <= threads and process.num_fds() <= files:
            return
        threading.Event().wait(0.1)
