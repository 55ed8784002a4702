"""One call over MPI: what is bounded, what waits for its reader, and how it ends."""

from __future__ import annotations

import threading

import pytest

from streamlink.transport.carriers import CallEnd
from streamlink.transport.mpi.calls import CallOver, MpiCall
from streamlink.transport.mpi.tags import Kind
from tests.support.mpi import MOST, MpiEnds
from tests.support.peers import WAIT, until


def read(call: MpiCall) -> tuple[Kind, bytes]:
    message = call.next()
    return message.kind, bytes(call.content(message))


def test_messages_arrive_in_order_in_both_directions(ends: MpiEnds) -> None:
    client, server = ends.call()
    for number in range(5):
        client.send(Kind.FRAME, bytes([number]) * (1 + 9_000 * number))
        server.send(Kind.HEAD, bytes([number]))
    assert [read(server)[1][0] for _ in range(5)] == [0, 1, 2, 3, 4]
    assert [read(client) for _ in range(5)] == [(Kind.HEAD, bytes([n])) for n in range(5)]
    client.lose()


def test_a_payload_goes_straight_where_its_reader_wants_it(ends: MpiEnds) -> None:
    client, server = ends.call()
    client.send(Kind.BODY, b"payload")
    body = server.next()
    assert body.memory is None, "it was received before anybody said where"
    place = bytearray(9)
    server.content(body, memoryview(place)[1:8])
    assert place == b"\0payload\0"
    client.lose()


def test_a_sender_waits_while_its_payloads_are_not_taken_and_its_end_wakes_it(
    ends: MpiEnds,
) -> None:
    client, server = ends.call()
    sent: list[int] = []

    def flood() -> None:
        try:
            for number in range(1000):
                client.send(Kind.BODY, b"payload")
                sent.append(number)
        except CallOver:
            sent.append(-1)

    writer = threading.Thread(target=flood)
    writer.start()
    until(lambda: len(sent) == 8)
    assert server.next().kind is Kind.BODY  # known to the reader, and not taken by it
    client.cut()
    writer.join(WAIT)
    assert sent == [*range(8), -1]


def test_what_a_slow_reader_has_not_taken_is_bounded(ends: MpiEnds) -> None:
    client, server = ends.call()
    sent: list[int] = []

    def flood() -> None:
        for number in range(100):
            client.send(Kind.FRAME, bytes([number]))
            sent.append(number)

    writer = threading.Thread(target=flood)
    writer.start()
    until(lambda: len(sent) == 24)  # sixteen are received ahead, eight wait in MPI
    assert [read(server)[1] for _ in range(100)] == [bytes([number]) for number in range(100)]
    writer.join(WAIT)
    client.lose()


def test_what_was_sent_arrives_before_the_end(ends: MpiEnds) -> None:
    client, server = ends.call()
    for number in range(5):
        server.send(Kind.FRAME, bytes([number]))
    server.end_served()
    assert [read(client)[1] for _ in range(5)] == [bytes([number]) for number in range(5)]
    assert client.next().kind is Kind.END
    assert client.end is CallEnd.ENDED


def test_a_call_that_is_broken_off_delivers_too_and_ends_as_broken(ends: MpiEnds) -> None:
    client, server = ends.call()
    server.send(Kind.FRAME, b"last words")
    server.break_off("another call took over")
    server.end_served()
    assert read(client) == (Kind.FRAME, b"last words")
    client.next()
    assert client.end is CallEnd.BROKEN


@pytest.mark.parametrize("is_client", [True, False])
def test_a_cut_ends_both_ends_at_once_and_is_reported(ends: MpiEnds, is_client: bool) -> None:
    client, server = ends.call()
    client.send(Kind.BODY, b"never read")
    over = threading.Event()
    assert server.on_over(over.set)
    (client if is_client else server).cut()
    assert over.wait(WAIT)
    until(lambda: client.end is not None)
    assert (client.end, server.end) == (CallEnd.CUT, CallEnd.CUT)
    assert not server.on_over(over.clear)
    for each in (client, server):
        with pytest.raises(CallOver):
            each.next()
        with pytest.raises(CallOver):
            each.send(Kind.FRAME, b"")


def test_a_message_beyond_the_largest_is_not_received_and_ends_its_call(ends: MpiEnds) -> None:
    client, server = ends.call()
    client.send(Kind.FRAME, bytes(MOST))
    assert len(read(server)[1]) == MOST
    client.send(Kind.FRAME, bytes(MOST + 1))
    with pytest.raises(CallOver):
        server.next()
    until(lambda: client.end is not None)
    assert (client.end, server.end) == (CallEnd.CUT, CallEnd.CUT)


def test_a_call_to_a_process_where_no_server_listens_ends_as_broken(ends: MpiEnds) -> None:
    ends.switchboard.stop_listening()
    client = ends.switchboard.open(ends.switchboard.ranks.rank, Kind.OPEN_SESSION, MOST)
    assert client is not None
    with pytest.raises(CallOver):
        client.next()
    assert client.end is CallEnd.BROKEN


def test_nothing_is_left_of_calls_whose_two_ends_have_ended(ends: MpiEnds) -> None:
    (client, ended), (_, cut), (_, lost) = (ends.call() for _ in range(3))
    assert ends.switchboard.calls == 6
    ended.end_served()
    client.next()
    cut.cut()
    lost.lose()
    until(lambda: ends.switchboard.calls == 0)
