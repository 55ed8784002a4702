"""Peers that lie, repeat themselves or flood: a typed error, and nothing kept beyond its bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import (
    ChecksumError,
    FlowControlError,
    FrameTooLarge,
    RemoteProtocolError,
    StreamlinkError,
)
from streamlink.extent import Extent
from streamlink.protocol import frames as f
from streamlink.protocol.events import Accepted, Delivered, RequestReceived
from streamlink.protocol.limits import (
    ATTACH_BURST,
    MAX_ATTEMPT_BYTES,
    MAX_PAGE_BYTES,
    MAX_WAITING_FRAMES,
    TokenBucket,
)
from streamlink.protocol.machine import Machine
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState, State
from tests.support.examples import scaled
from tests.support.hostile_frames import fuzz_core
from tests.support.machines import (
    SMALL,
    KiB,
    a_chunk,
    a_hello,
    a_receiver,
    a_sender,
    an_open,
    damaged,
    events,
    finishing_sender,
    small_config,
    streaming_receiver,
    streaming_sender,
    write_all,
    zeros,
)

FEW = SMALL.model_copy(update={"limits": LimitsConfig(frames_per_second=5, max_open_requests=3)})
BURST = 8 * 5
MANY = SMALL.model_copy(update={"limits": LimitsConfig(frames_per_second=1e6)})


def ready_session(config: LinkConfig = FEW) -> SessionMachine:
    machine = SessionMachine(config, peer_name="site-1")
    machine.attach(now=0.0)
    machine.receive(a_hello(), now=0.0)
    machine.welcome("id", "epoch", now=0.0)
    events(machine)
    return machine


def error_of(machine: Machine, *frames: f.Frame, now: float = 0.0) -> StreamlinkError:
    """Return what the machine ends with on these frames; its peer must have been told, too."""
    for frame in frames:
        machine.receive(frame, now=now)
    assert machine.error is not None, f"nothing came of it: {machine.state}"
    assert isinstance(machine.frames_to_send(now=now)[-1], f.Abort)
    return machine.error


# --- floods of small frames ---------------------------------------------------------------

FLOODS: dict[str, tuple[Callable[[], Machine], Callable[[int], f.Frame]]] = {
    "heartbeat": (ready_session, f.Heartbeat),
    "progress": (ready_session, lambda n: f.TaskProgress(7, n)),
    "reply": (ready_session, f.Reply),
    "cancel": (ready_session, lambda n: f.Cancel(n, "over")),
    "held": (lambda: streaming_receiver(FEW), lambda n: f.Held(n, "", "")),
    "held of a receiver": (lambda: streaming_sender(FEW), lambda n: f.Held(n, "", "")),
    "ack": (lambda: streaming_sender(FEW), lambda n: f.Ack(0, 0, 0, 16 * KiB + n)),
    "committing": (lambda: finishing_sender(FEW), f.Committing),
    "crumbs": (
        lambda: streaming_receiver(FEW),
        lambda n: f.Chunk(n, n, zeros(1)),
    ),
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_of_frames_that_move_little_ends_what_they_flood(what: str) -> None:
    make, frame = FLOODS[what]
    machine, count = make(), 0
    while machine.error is None and count < 10 * BURST:
        machine.receive(frame(count), now=0.0)
        count += 1
        # A cancel may be answered, for a few requests at most.
        assert len(machine._outbox) <= (4 * FEW.limits.max_open_requests if what == "cancel" else 2)
        machine.next_event()
    assert isinstance(machine.error, RemoteProtocolError)
    assert "floods this side: more than 5 frames a second" in str(machine.error)
    assert BURST <= count <= BURST + 6  # what its chunks explain is on top


@pytest.mark.parametrize("what", FLOODS)
def test_the_same_frames_at_a_quiet_pace_are_taken(what: str) -> None:
    make, frame = FLOODS[what]
    machine = make()
    for count in range(100):
        machine.receive(frame(count), now=count / 5)
        while (event := machine.next_event()) is not None:
            if isinstance(event, Delivered) and isinstance(machine, ReceiveStream):
                machine.release(event.nbytes, now=count / 5)
        machine.frames_to_send(now=count / 5)
    assert machine.error is None


def test_each_chunk_explains_some_acks() -> None:
    sender = streaming_sender(FEW, total_bytes=1 << 20, limit=1 << 20)
    for _ in range(4 * BURST):
        write_all(sender)
        taken, mark = sender.consumed, sender.position
        sender.receive(f.Ack(mark, taken, 0, 1 << 20), now=0.0)
        sender.receive(f.Ack(mark, mark, 0, 1 << 20), now=0.0)
    assert sender.error is None


def test_an_allowance_fills_up_with_time_and_no_further_than_its_burst() -> None:
    allowance = TokenBucket(2.0, burst=3.0)
    assert [allowance.take_token(now=0.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.take_token(now=0.5) for _ in range(2)] == [True, False]
    assert [allowance.take_token(now=1e9) for _ in range(4)] == [True, True, True, False]
    allowance.add_tokens(1)
    assert [allowance.take_token(now=1e9) for _ in range(2)] == [True, False]


def test_calls_that_move_nothing_are_not_carried_for_ever() -> None:
    for stream in (a_receiver(), a_sender()):
        for _ in range(int(ATTACH_BURST) + 1):
            stream.attach(now=0.0)
            assert stream.error is None
            stream.detach(now=0.0)
        stream.attach(now=0.0)
        assert "opens call after call for this stream without any progress" in str(stream.error)
        assert isinstance(stream.frames_to_send(now=0.0)[0], f.Abort)


def test_calls_that_bring_bytes_are_carried_as_often_as_they_break() -> None:
    receiver, end = a_receiver(), 2 * int(ATTACH_BURST)
    for number in range(end):
        receiver.attach(now=0.0)
        receiver.receive(an_open(end * 4 * KiB), now=0.0)
        if number == 0:
            receiver.accept(wants_spec=False, now=0.0)
        receiver.receive(f.Chunk(0, number * 4 * KiB, zeros(4 * KiB)), now=0.0)
        receiver.release(4 * KiB, now=0.0)
        events(receiver)
        receiver.detach(now=0.0)
    assert receiver.error is None
    assert receiver.received == end * 4 * KiB


# --- what is announced --------------------------------------------------------------------

HUGE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"total_bytes": HUGE}, FrameTooLarge, "the most is 1125899906842624 (max_model_bytes)"),
        ({"total_bytes": -1}, RemoteProtocolError, "announced a negative size"),
        ({"extent": Extent(0, 64 * KiB + 1)}, RemoteProtocolError, "announced bytes [0, 65537)"),
        ({"extent": Extent(HUGE, HUGE)}, RemoteProtocolError, "of a model of 65536"),
        ({"spec_pages": -1}, RemoteProtocolError, "announced a negative size"),
        ({"chunk_bytes": 1023}, RemoteProtocolError, "a chunk size of 1023 bytes; the smallest"),
        ({"spec_digest": bytes(65)}, FrameTooLarge, "a digest of 65 bytes"),
        ({"attempt": f.Attempt("é" * 513)}, FrameTooLarge, "a job's name of 1026"),
        ({"stream_id": HUGE}, RemoteProtocolError, "on a call for stream 1"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_announced(
    changes: dict[str, object], kind: type[StreamlinkError], words: str
) -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    error = error_of(receiver, an_open(**changes))  # type: ignore[arg-type]
    assert type(error) is kind
    assert words in str(error)
    assert receiver.opened is None


def test_a_jobs_name_may_be_as_long_as_it_says() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(attempt=f.Attempt("x" * MAX_ATTEMPT_BYTES)), now=0.0)
    assert receiver.state is State.OPENING


@pytest.mark.parametrize(
    "changes", [{"spec_pages": 1}, {"chunk_bytes": 2048}, {"extent": Extent(0, 8)}]
)
def test_a_later_call_announces_nothing_new(changes: dict[str, Any]) -> None:
    receiver = streaming_receiver()
    receiver.detach(now=0.0)
    receiver.attach(now=0.0)
    error = error_of(receiver, an_open(**changes))
    assert "resumed with another model" in str(error)


def test_pages_are_taken_up_to_their_sum_and_their_size() -> None:
    config = small_config(max_spec_bytes=8 * KiB)
    receiver = streaming_receiver(config, spec_pages=1 << 31)
    number = 0
    while receiver.error is None:
        receiver.receive(f.SpecPage(number, bytes(192)), now=0.0)
        number += 1
        assert sum(map(len, receiver._pages.kept)) <= 8 * KiB
    assert isinstance(receiver.error, FrameTooLarge)
    assert number == 8 * KiB // 256 + 1
    large = streaming_receiver(spec_pages=1)
    error = error_of(large, f.SpecPage(0, bytes(MAX_PAGE_BYTES + 1)))
    assert isinstance(error, FrameTooLarge)


# --- chunks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "kind", "words"),
    [
        ([a_chunk(0, offset=HUGE)], RemoteProtocolError, "outside of [0, 65536)"),
        ([a_chunk(4)], RemoteProtocolError, "sent chunk frame 4 where 0 was expected"),
        ([a_chunk(n) for n in range(5)], FlowControlError, "with credit to 16384"),
        (
            [a_chunk(0), a_chunk(1, offset=1)],
            RemoteProtocolError,
            "a chunk at byte 1 that overlaps others",
        ),
        ([a_chunk(0), a_chunk(0)], RemoteProtocolError, "sent chunk frame 0 where 1 was expected"),
        ([a_chunk(0, encoding=1)], RemoteProtocolError, "encoding 1, which was not agreed"),
        ([a_chunk(0, nbytes=5 * KiB)], FrameTooLarge, "at most 4096 were agreed"),
        ([a_chunk(0, nbytes=0)], RemoteProtocolError, "sends chunks that are too small"),
        ([f.Finish(HUGE, "")], RemoteProtocolError, "finished at byte 18446744073709551615"),
        ([f.SpecPage(0, b"")], RemoteProtocolError, "out of order"),
        ([an_open()], RemoteProtocolError, "sent open while"),
        ([f.Ack(0, 0, 0, 0)], RemoteProtocolError, "sent ack while"),
        ([f.Commit("")], RemoteProtocolError, "sent commit while"),
    ],
)
def test_a_sender_that_lies_is_told_what_was_wrong(
    frames: list[f.Frame], kind: type[StreamlinkError], words: str
) -> None:
    error = error_of(streaming_receiver(), *frames)
    assert type(error) is kind
    assert words in str(error)


def test_bytes_beyond_the_model_are_refused() -> None:
    beyond = error_of(streaming_receiver(total_bytes=5 * KiB), a_chunk(0), a_chunk(1))
    assert "sent bytes 4096 to 8192, outside of [0, 5120)" in str(beyond)


@pytest.mark.parametrize(
    ("offset", "words"),
    [(0, "bytes 0 to 4096, outside of [8192, 16384)"), (12 * KiB + 1, "to 16385, outside of")],
)
def test_bytes_outside_of_the_extent_are_refused(offset: int, words: str) -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(extent=Extent(8 * KiB, 16 * KiB)), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    error = error_of(receiver, a_chunk(0, offset=offset))
    assert isinstance(error, RemoteProtocolError)
    assert words in str(error)


def test_damage_that_never_ends_is_given_up_and_its_answers_do_not_pile_up() -> None:
    receiver = streaming_receiver(MANY)
    for _ in range(1000):
        receiver.receive(damaged(), now=0.0)
    assert isinstance(receiver.error, ChecksumError)
    patient = small_config(max_repairs=100, window_bytes=1 << 20, min_chunk_bytes=1024)
    unread = streaming_receiver(patient.model_copy(update={"limits": MANY.limits}))
    most = 0
    while unread.error is None:
        unread.receive(damaged(), now=0.0)
        most = max(most, sum(len(each.outbox) for each in unread._channels.values()))
    assert f"leaves {MAX_WAITING_FRAMES} answers unread" in str(unread.error)
    assert most == MAX_WAITING_FRAMES


# --- a receiver that lies -----------------------------------------------------------------


def sending() -> SendStream:
    sender = streaming_sender()
    write_all(sender)
    return sender


@pytest.mark.parametrize(
    ("make", "frames", "kind", "words"),
    [
        (sending, [f.Ack(HUGE, 0, 0, HUGE)], RemoteProtocolError, "but 16384 were sent"),
        (sending, [f.Ack(0, 0, 0, 1)], FlowControlError, "took back credit, from 16384 to 1"),
        (sending, [f.Ack(100, 0, 0, HUGE)], RemoteProtocolError, "inside a chunk"),
        (sending, [f.Ack(0, HUGE, HUGE, HUGE)], RemoteProtocolError, "out of order"),
        (sending, [f.Repair(HUGE)], RemoteProtocolError, "not in flight"),
        (sending, [f.Repair(n) for n in (0, 4, 5, 6)], ChecksumError, "4 times"),
        (sending, [f.Commit("digest")], RemoteProtocolError, "sent commit while"),
        (sending, [f.Accept(0, HUGE, 4096)], RemoteProtocolError, "sent accept while"),
        (
            finishing_sender,
            [f.Commit("other")],
            RemoteProtocolError,
            "digest 'other', but 'digest' was sent",
        ),
    ],
)
def test_a_receiver_that_lies_is_told_what_was_wrong(
    make: Callable[[], SendStream],
    frames: list[f.Frame],
    kind: type[StreamlinkError],
    words: str,
) -> None:
    error = error_of(make(), *frames)
    assert type(error) is kind
    assert words in str(error)


@pytest.mark.parametrize("chunk_bytes", [0, 1, 1023, 5 * KiB, HUGE])
def test_a_chunk_size_of_no_use_is_not_accepted(chunk_bytes: int) -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    error = error_of(sender, f.Accept(0, 16 * KiB, chunk_bytes))
    assert f"accepted with a chunk size of {chunk_bytes} bytes" in str(error)


def test_a_chunk_size_does_not_shrink_from_one_call_to_the_next() -> None:
    sender = sending()
    sender.detach(now=0.0)
    sender.attach(now=0.0)
    error = error_of(sender, f.Accept(0, 16 * KiB, 2 * KiB))
    assert "accepted with a chunk size of 2048 bytes" in str(error)


def test_an_owner_that_does_not_listen_is_kept_the_latest_word_only() -> None:
    sender = streaming_sender(MANY)
    for number in range(1, 100):
        sender.receive(f.Held(number, "", ""), now=0.0)
        sender.detach(now=0.0)
        sender.attach(now=0.0)
        sender.receive(f.Accept(0, 16 * KiB, 4 * KiB), now=0.0)
        sender.receive(f.Held(1000 + number, "", ""), now=0.0)
        assert len(sender._events) <= 2
    assert sender.next_event() == Accepted(0)


# --- sessions -----------------------------------------------------------------------------


def test_only_so_many_requests_are_open_at_once() -> None:
    session = ready_session()
    for number in range(1, 4):
        session.receive(f.Request(number, "train"), now=0.0)
    assert len([each for each in events(session) if isinstance(each, RequestReceived)]) == 3
    session.reply(1)
    session.receive(f.Request(4, "train"), now=0.0)
    assert session.error is None
    error = error_of(session, f.Request(HUGE, "train"))
    assert "has more than 3 requests open at once" in str(error)
    assert len(session._served) == 0


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e308])
def test_no_number_of_seconds_unsettles_a_session(seconds: float) -> None:
    server = SessionMachine(SMALL, peer_name="site-1")
    server.attach(now=0.0)
    server.receive(a_hello(session_timeout=seconds), now=0.0)
    server.welcome("id", "epoch", now=0.0)
    client = SessionMachine(SMALL, peer_name="server", hello=a_hello())
    client.attach(now=0.0)
    client.receive(f.Welcome(1, "id", "epoch", 4 * KiB, seconds), now=0.0)
    for session in (server, client):
        assert session.state is SessionState.READY
        session.handle_timer(now=1.0)
        assert len(session.frames_to_send(now=1.0)) <= 2
        deadline = session.next_deadline()
        assert deadline is not None
        assert 0 < deadline < 100
        session.detach(now=2.0)
        session.handle_timer(now=1000.0)
        assert session.is_closed


# --- whatever else ------------------------------------------------------------------------


@pytest.mark.sampled
def test_hostile_frames_lead_to_documented_errors_only() -> None:
    frames = scaled(50_000)
    outcomes = fuzz_core(frames, seed=2026)
    assert outcomes["frames"] >= frames
    near = frames // 100  # the conversations are near enough to valid ones to come far
    assert outcomes["done"] > near
    assert outcomes["RemoteProtocolError"] > near
