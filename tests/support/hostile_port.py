"""Hostile connections to the data port of a live server, while a client beside them works over it.

Strangers that never prove anything, and a client of the server that proves its connections and then
says what it should not. As in ``hostile_load``, what stays behind is measured in this process.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import psutil

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.protocol import frames as f
from streamlink.transport.carriers import DataSession, largest_message
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.listener import MOST_STRANGERS
from tests.support.hostile import HostileClient
from tests.support.hostile_frames import Mischief, Undocumented
from tests.support.hostile_load import (
    ALLOCATOR_BYTES,
    ATTEMPT,
    CONFIG,
    EVIL,
    SPEC,
    exchange,
    greeted,
    settle,
)
from tests.support.hostile_messages import hostile_message, messages_of, said_wrongly
from tests.support.hostile_openings import Strangers
from tests.support.machines import KiB
from tests.support.peers import WAIT, Federation

__all__ = ["PORT_CONFIG", "HostilePort", "load_port"]

PORT_CONFIG: LinkConfig = CONFIG.model_copy(
    update={
        "stream": CONFIG.stream.model_copy(update={"data_listen": ("tcp://127.0.0.1:0",)}),
    }
)
_PER_SESSION = 24
_MUTE = 0.1  # of the strangers say what they say and then wait, without an end
_MESSAGES = 6
_PATIENCE = 0.2  # for the end of a proven connection that the server waits on (seconds)


@dataclass(frozen=True, slots=True)
class HostilePort:
    """What came of it."""

    connections: int
    proven: int
    """Those of them that belonged to a session, and then broke the protocol."""
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
    """Return what all connections together may make a server hold, and this process keep."""
    # A proven one: a message in parts, joined, and its two sides in the socket are the kernel's.
    proven = config.grpc.max_clients * 2 * 2 * largest_message(config.stream)
    return MOST_STRANGERS * proof.MOST_BYTES + proven + ALLOCATOR_BYTES


def load_port(connections: int, seed: int, tell: Any = lambda done: None) -> HostilePort:
    """Make ``connections`` hostile connections to the data port of a server of this process."""
    process, outcomes = psutil.Process(), Counter[str]()
    with Federation(PORT_CONFIG) as federation:
        federation.link("good")
        exchange(federation)
        threads, files = process.num_threads(), process.num_fds()
        attack = _Attack(federation, Mischief(seed), outcomes)
        attack.run(2 * _PER_SESSION)  # warm up
        before = process.memory_info().rss
        outcomes.clear()
        with _Working(federation) as working:
            began = time.monotonic()
            proven = attack.run(connections, tell)
            seconds = time.monotonic() - began
        settle(process, threads, files)
        return HostilePort(
            connections=connections,
            proven=proven,
            rounds=working.rounds,
            seconds=seconds,
            grown_bytes=process.memory_info().rss - before,
            bound_bytes=bound_bytes(PORT_CONFIG),
            threads=process.num_threads() - threads,
            files=process.num_fds() - files,
            outcomes=outcomes,
        )


class _Working:
    """Sends models to the client that behaves, and back, in a thread, until it is left."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._is_over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0

    def _run(self) -> None:
        try:
            while not self._is_over.is_set() or not self.rounds:
                exchange(self._federation)
                self.rounds += 1
        except BaseException as error:
            self._failed.append(error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(WAIT)
        if self._failed:
            raise self._failed[0]


class _Attack:
    """A client that belongs to the server, and does not behave; and strangers."""

    def __init__(self, federation: Federation, mischief: Mischief, outcomes: Counter[str]) -> None:
        self._federation, self._mischief, self._outcomes = federation, mischief, outcomes
        self._where = ("127.0.0.1", 0)
        # More than the server keeps: the oldest make room, and it is not waited for their time.
        self._mute = deque[socket.socket](maxlen=MOST_STRANGERS + 8)

    def run(self, connections: int, tell: Any = lambda done: None) -> int:
        """Make so many connections; returns how many of them were proven."""
        done = proven = 0
        while done < connections:
            with HostileClient(self._federation.address) as hostile:
                session, welcome = greeted(hostile)
                asked = self._federation.peer(EVIL).request("echo", SPEC, attempt=ATTEMPT)
                request = session.hear(f.Request)
                self._where = ("127.0.0.1", welcome.data_ports[0].port)
                belongs = DataSession(welcome.session_id, welcome.epoch, welcome.data_key)
                strangers = Strangers(self._mischief, belongs)
                for stream in (request.returns, request.sends):
                    self._breaks_the_protocol(
                        strangers, stream, is_sender=stream == request.returns
                    )
                for _ in range(_PER_SESSION - 2):
                    self._knocks(strangers.says())
                asked.end(AbortCode.CANCELLED, "over")
            done, proven = done + _PER_SESSION, proven + 2
            tell(done)
        for each in self._mute:
            each.close()
        self._mute.clear()
        return proven

    def _knocks(self, said: bytes) -> None:
        """Connect, say what a stranger says, and hear that nothing is answered."""
        line = socket.create_connection(self._where, WAIT)
        with suppress(OSError):  # it may have been refused by its first bytes
            line.sendall(said)
        if self._mischief.random.random() < _MUTE:
            if len(self._mute) == self._mute.maxlen:
                self._mute[0].close()
            self._mute.append(line)
            self._outcomes["left open"] += 1
            return
        if heard := _ended(line):
            raise Undocumented(f"{said!r} was answered: {heard!r}")
        self._outcomes["refused"] += 1

    def _breaks_the_protocol(self, strangers: Strangers, stream: int, *, is_sender: bool) -> None:
        """Prove a connection for a stream of its own, and say on it what no client would."""
        line = socket.create_connection(self._where, WAIT)
        line.sendall(strangers.opening(stream))
        heard = line.recv(proof.ANSWER_BYTES, socket.MSG_WAITALL)
        if len(heard) != proof.ANSWER_BYTES:
            raise Undocumented("a connection that proved itself was not answered")
        with suppress(OSError):
            for message in self._messages(stream, is_sender=is_sender):
                line.sendall(message)
        line.settimeout(_PATIENCE)
        self._outcomes["proven, then ended" if _ended(line) else "proven, then cut"] += 1

    def _messages(self, stream: int, *, is_sender: bool) -> list[bytes]:
        mischief = self._mischief
        opened = f.Open(stream, ATTEMPT, SPEC.nbytes, SPEC.digest, 1, 4 * KiB)
        first = opened if is_sender else f.Accept(0, 8 * KiB, 4 * KiB)
        said = messages_of([first], stream) if mischief.random.random() < 0.7 else []
        for number in range(mischief.random.randrange(_MESSAGES)):
            said.append(hostile_message(mischief, len(said) + number, stream))
        return [self._perhaps_changed(each) for each in said]

    def _perhaps_changed(self, message: bytes) -> bytes:
        is_changed = self._mischief.random.random() < 0.2
        return said_wrongly(self._mischief, message) if is_changed else message


def _ended(line: socket.socket) -> bytes:
    """Say no more, and return what is heard until the server closes."""
    heard = b""
    with line, suppress(OSError):
        line.shutdown(socket.SHUT_WR)
        while more := line.recv(64 * KiB):
            heard += more
    return heard
