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


def a_random_frame(dice: random.Random) -> f.Frame:
    """Return a frame of any kind, its fields taken from numbers that matter and from nowhere."""

    def number() -> int:
        return dice.choice(NUMBERS) if dice.random() < 0.8 else dice.randrange(1 << 20)

    makers: list[Callable[[], f.Frame]] = [
        lambda: f.Open(1, f.Attempt("job", 1, 1), number(), b"spec", number(), number()),
        lambda: f.SpecPage(number(), bytes(dice.randrange(100))),
        lambda: f.Chunk(number(), number(), zeros(dice.choice((0, 1, 4096))), number() % 4),
        lambda: f.Chunk(number(), number(), zeros(1), number(), is_intact=False),
        lambda: f.Finish(number(), "digest"),
        lambda: f.Accept(number(), number(), number(), dice.random() < 0.5),
        lambda: f.Ack(number(), number(), number(), number()),
        lambda: f.Repair(number()),
        lambda: f.Committing(number()),
        lambda: f.Commit("digest"),
        lambda: f.Held(number(), "reason", "whom"),
        lambda: f.Abort(AbortCode.CANCELLED, "enough"),
        lambda: a_hello(chunk_bytes=number(), session_timeout=float(number())),
        lambda: f.Welcome(number(), "id", "epoch", number(), float(number())),
        lambda: f.Heartbeat(number()),
        lambda: f.Request(number(), "train"),
        lambda: f.TaskProgress(number(), number()),
        lambda: f.Reply(number()),
        lambda: f.Goodbye("done"),
        lambda: dice.choice(list(A_FRAME.values())),
    ]
    return dice.choice(makers)()


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
        frame = a_random_frame(dice)
        while (machine.state, type(frame)) not in machine.TRANSITIONS and dice.random() < 0.95:
            frame = a_random_frame(dice)  # or every machine would die of its first frame
        machine.receive(frame, now=step * 0.01)
        longest = max(longest, held_bytes(machine))
        if machine.is_closed:
            assert machine.error is None or isinstance(machine.error, StreamlinkError)
            machine = dice.choice(beginnings)()
    assert longest < 1 << 20
