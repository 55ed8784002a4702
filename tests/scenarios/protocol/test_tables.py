"""Every state of every machine meets every frame there is: it moves as its table says, or ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import get_args

import pytest

from streamlink.errors import AbortCode, RemoteProtocolError, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.machine import Machine
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState, State
from tests.support.examples import scaled
from tests.support.machines import (
    SMALL,
    KiB,
    a_chunk,
    a_hello,
    a_receiver,
    a_sender,
    an_open,
    finishing_sender,
    streaming_receiver,
    streaming_sender,
    zeros,
)

KINDS = sorted(set(get_args(f.Frame)), key=lambda kind: kind.__name__)
A_FRAME: dict[type, f.Frame] = {
    f.Attach: f.Attach("session", 1),
    f.Open: an_open(4 * KiB),
    f.SpecPage: f.SpecPage(0, b"page"),
    f.Chunk: a_chunk(0),
    f.Finish: f.Finish(4 * KiB, "digest"),
    f.Accept: f.Accept(0, 16 * KiB, 4 * KiB),
    f.Ack: f.Ack(0, 0, 0, 16 * KiB),
    f.Repair: f.Repair(0),
    f.Committing: f.Committing(1),
    f.Commit: f.Commit("digest"),
    f.Held: f.Held(1, "lockstep", "site-2"),
    f.Abort: f.Abort(AbortCode.CANCELLED, "enough"),
    f.Hello: a_hello(),
    f.Welcome: f.Welcome(1, "id", "epoch", 4 * KiB, 5.0),
    f.Heartbeat: f.Heartbeat(1),
    f.Request: f.Request(1, "train"),
    f.TaskProgress: f.TaskProgress(1, 1),
    f.Reply: f.Reply(1),
    f.Cancel: f.Cancel(1, "over"),
    f.Goodbye: f.Goodbye("done"),
}


def opening_sender() -> SendStream:
    sender = a_sender(total_bytes=4 * KiB)
    sender.attach(now=0.0)
    return sender


def sending() -> SendStream:
    sender = streaming_sender(total_bytes=4 * KiB)
    sender.write(zeros(4 * KiB), now=0.0)
    sender.frames_to_send(now=0.0)
    return sender


def waiting_receiver() -> ReceiveStream:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    return receiver


def opening_receiver() -> ReceiveStream:
    receiver = waiting_receiver()
    receiver.receive(an_open(4 * KiB), now=0.0)
    return receiver


def finishing_receiver() -> ReceiveStream:
    receiver = streaming_receiver(total_bytes=4 * KiB)
    receiver.receive(f.Chunk(7, 7, zeros(7), is_intact=False), now=0.0)
    receiver.receive(f.Finish(4 * KiB, "digest"), now=0.0)
    return receiver


def committing_receiver() -> ReceiveStream:
    receiver = streaming_receiver(total_bytes=0)
    receiver.receive(f.Finish(0, "digest"), now=0.0)
    return receiver


def server() -> SessionMachine:
    machine = SessionMachine(SMALL, peer_name="client")
    machine.attach(now=0.0)
    return machine


def greeted_server() -> SessionMachine:
    machine = server()
    machine.receive(a_hello(), now=0.0)
    return machine


def ready_server() -> SessionMachine:
    machine = greeted_server()
    machine.welcome("id", "epoch", now=0.0)
    return machine


def away_server() -> SessionMachine:
    machine = ready_server()
    machine.detach(now=0.0)
    return machine


def returning_server() -> SessionMachine:
    machine = away_server()
    machine.attach(now=0.0)
    return machine


def client() -> SessionMachine:
    machine = SessionMachine(SMALL, peer_name="server", hello=a_hello())
    machine.attach(now=0.0)
    return machine


MACHINES: dict[Callable[[], Machine], Enum] = {
    opening_sender: State.OPENING,
    sending: State.STREAMING,
    finishing_sender: State.FINISHING,
    waiting_receiver: State.AWAITING_OPEN,
    opening_receiver: State.OPENING,
    streaming_receiver: State.STREAMING,
    finishing_receiver: State.FINISHING,
    committing_receiver: State.COMMITTING,
    server: SessionState.AWAITING_HELLO,
    greeted_server: SessionState.HELLO_RECEIVED,
    ready_server: SessionState.READY,
    away_server: SessionState.DISCONNECTED,
    returning_server: SessionState.AWAITING_HELLO,
    client: SessionState.HELLO_SENT,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("machine_for", MACHINES, ids=lambda each: each.__name__)
def test_a_frame_moves_the_machine_as_its_table_says_or_ends_it(
    machine_for: Callable[[], Machine], kind: type
) -> None:
    machine = machine_for()
    before = machine.state
    assert before is MACHINES[machine_for]
    machine.receive(A_FRAME[kind], now=0.0)
    legal = machine.TRANSITIONS.get((before, kind))
    if legal is None:
        assert type(machine.error) is RemoteProtocolError
        assert f"sent {kind.__name__.lower()} while" in str(machine.error)
    elif machine.error is None:
        assert machine.state in (legal, State.COMMITTING)
    else:
        assert isinstance(machine.error, StreamlinkError)


def test_every_kind_of_frame_is_tried() -> None:
    assert set(A_FRAME) == set(KINDS)


@pytest.mark.parametrize("machine", [SendStream, ReceiveStream, SessionMachine])
def test_no_move_leads_out_of_a_final_state(machine: type[Machine]) -> None:
    assert not [state for state, _ in machine.TRANSITIONS if state in machine.FINAL]


@pytest.mark.parametrize("machine", [SendStream, ReceiveStream, SessionMachine])
def test_an_abort_is_legal_in_every_state_that_can_be_left(machine: type[Machine]) -> None:
    states = {state for state, _ in machine.TRANSITIONS}
    assert {state for state, kind in machine.TRANSITIONS if kind is f.Abort} == states


# --- a small fuzz -----------------------------------------------------------------------------

FUZZED = scaled(50_000)
NUMBERS = (-1, 0, 1, 2, 3, 100, 4 * KiB, 8 * KiB, 16 * KiB, 64 * KiB, 1 << 32, 1 << 63)


Maker = Callable[[random.Random], f.Frame]


def number(dice: random.Random) -> int:
    return dice.choice(NUMBERS) if dice.random() < 0.8 else dice.randrange(1 << 20)


def a_chunk_of_numbers(dice: random.Random) -> f.Chunk:
    nbytes = dice.choice((0, 1, 4096))
    return f.Chunk(number(dice), number(dice), zeros(nbytes), number(dice) % 4)


def a_hello_of_numbers(dice: random.Random) -> f.Hello:
    return a_hello(chunk_bytes=number(dice), session_timeout=float(number(dice)))


MAKERS: list[tuple[type, Maker]] = [
    (f.Open, lambda d: f.Open(1, f.Attempt("job", 1, 1), number(d), b"spec", number(d), number(d))),
    (f.SpecPage, lambda d: f.SpecPage(number(d), bytes(d.randrange(100)))),
    (f.Chunk, a_chunk_of_numbers),
    (f.Chunk, lambda d: f.Chunk(number(d), number(d), zeros(1), number(d), is_intact=False)),
    (f.Finish, lambda d: f.Finish(number(d), "digest")),
    (f.Accept, lambda d: f.Accept(number(d), number(d), number(d), d.random() < 0.5)),
    (f.Ack, lambda d: f.Ack(number(d), number(d), number(d), number(d))),
    (f.Repair, lambda d: f.Repair(number(d))),
    (f.Committing, lambda d: f.Committing(number(d))),
    (f.Commit, lambda d: f.Commit("digest")),
    (f.Held, lambda d: f.Held(number(d), "reason", "whom")),
    (f.Abort, lambda d: f.Abort(AbortCode.CANCELLED, "enough")),
    (f.Hello, a_hello_of_numbers),
    (f.Welcome, lambda d: f.Welcome(number(d), "id", "epoch", number(d), float(number(d)))),
    (f.Heartbeat, lambda d: f.Heartbeat(number(d))),
    (f.Request, lambda d: f.Request(number(d), "train")),
    (f.TaskProgress, lambda d: f.TaskProgress(number(d), number(d))),
    (f.Reply, lambda d: f.Reply(number(d))),
    (f.Goodbye, lambda d: f.Goodbye("done")),
]
FRAMES = list(A_FRAME.values())


def a_random_maker(dice: random.Random) -> tuple[type, Maker]:
    """Return a kind of frame, and what makes one: its fields are numbers that matter, or any."""
    at = int(dice.random() * (len(MAKERS) + 1))
    if at < len(MAKERS):
        return MAKERS[at]
    frame = dice.choice(FRAMES)
    return type(frame), lambda _: frame


def held_bytes(machine: Machine) -> int:
    """Return how much of its peer's a machine keeps."""
    kept = list(machine._events) + list(machine._outbox)
    return sum(getattr(each, "nbytes", 100) for each in kept)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [SendStream, ReceiveStream, SessionMachine])
def test_whatever_comes_a_machine_fails_only_with_our_errors_and_in_bounded_memory(
    kind: type[Machine],
) -> None:
    dice = random.Random(kind.__name__)
    beginnings = [begin for begin in MACHINES if isinstance(begin(), kind)]
    machine, longest = beginnings[0](), 0
    for step in range(FUZZED):
        sort, make = a_random_maker(dice)
        while (machine.state, sort) not in machine.TRANSITIONS and dice.random() < 0.95:
            sort, make = a_random_maker(dice)  # or every machine would die of its first frame
        machine.receive(make(dice), now=step * 0.01)
        longest = max(longest, held_bytes(machine))
        if machine.is_closed:
            assert machine.error is None or isinstance(machine.error, StreamlinkError)
            machine = dice.choice(beginnings)()
    assert longest < 1 << 20
