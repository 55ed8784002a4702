"""The relay of tests and benchmarks: every setting and every fault, seen by plain sockets."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

import streamlink as sl
from benchmarks.lanes import MAX_PIECE_BYTES
from streamlink.stores import MemoryStore
from tests.support.models import content, float_spec, pattern_model, random_bytes
from tests.support.peers import until
from tests.support.relay import UNSHAPED, Link, Relay, Script, Step

WAIT = 20.0
MB = 1_000_000
DATA = random_bytes(700_000)


class Line:
    """A relay, the listening socket behind it, and the sockets at both ends; all end together."""

    def __init__(self, stack: ExitStack, relay: Relay, listening: socket.socket) -> None:
        self.relay, self._stack, self._listening = relay, stack, listening

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return a new connection's client and server."""
        client = socket.create_connection(("127.0.0.1", self.relay.port), WAIT)
        server, _ = self._listening.accept()
        for end in (client, server):
            end.settimeout(WAIT)
            self._stack.enter_context(end)
        return client, server


@contextmanager
def a_line(
    up: Link = UNSHAPED,
    down: Link = UNSHAPED,
    lifetime: float | None = None,
    script: Script = (),
) -> Iterator[Line]:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.settimeout(WAIT)
        port = listening.getsockname()[1]
        relay = Relay("127.0.0.1", port, up=up, down=down, lifetime=lifetime, script=script)
        stack.enter_context(relay)
        yield Line(stack, relay, listening)


def take(end: socket.socket, nbytes: int) -> bytes:
    """Read exactly so many bytes."""
    data = bytearray()
    while len(data) < nbytes:
        piece = end.recv(nbytes - len(data))
        assert piece, f"ended after {len(data)} of {nbytes} bytes"
        data += piece
    return bytes(data)


def take_all(end: socket.socket) -> tuple[bytes, bool]:
    """Read to the end; also tells whether that was a reset."""
    data = bytearray()
    try:
        while piece := end.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        return bytes(data), True
    return bytes(data), False


def echo(client: socket.socket, server: socket.socket, data: bytes) -> bytes:
    """Send ``data`` there and back, both at once."""

    def answer() -> None:
        for start in range(0, len(data), 1 << 16):
            server.sendall(take(server, len(data[start : start + (1 << 16)])))

    with ThreadPoolExecutor(2) as pool:
        sent, answered = pool.submit(client.sendall, data), pool.submit(answer)
        got = take(client, len(data))
        sent.result(WAIT)
        answered.result(WAIT)
    return got


# --- shape ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        UNSHAPED,
        Link(bandwidth=20 * MB),
        Link(delay=0.01),
        Link(delay=0.005, jitter=0.01, slice_bytes=5000),
        Link(slice_bytes=777),
        Link(bandwidth=50 * MB, delay=0.01, jitter=0.001, slice_bytes=9000, buffer_bytes=0),
    ],
    ids=repr,
)
def test_what_is_sent_arrives_over_any_line_and_is_counted(link: Link) -> None:
    with a_line(up=link, down=link) as line:
        assert echo(*line.connect(), DATA) == DATA
        counts = line.relay.counts
    assert counts.up_bytes == counts.down_bytes == len(DATA)
    assert (counts.connections, counts.resets, counts.swallowed_bytes) == (1, 0, 0)


def test_several_connections_do_not_mix() -> None:
    with a_line(up=Link(bandwidth=20 * MB), down=Link(slice_bytes=3000)) as line:
        pairs = [line.connect() for _ in range(5)]
        datas = [random_bytes(100_000, n) for n in range(5)]
        with ThreadPoolExecutor(5) as pool:
            echoes = [
                pool.submit(echo, *pair, data) for pair, data in zip(pairs, datas, strict=True)
            ]
            assert [one.result(WAIT) for one in echoes] == datas
        assert line.relay.counts.open_connections == 5


def test_a_delay_is_kept_in_each_direction() -> None:
    with a_line(up=Link(delay=0.03), down=Link(delay=0.02)) as line:
        client, server = line.connect()
        started_at = time.monotonic()
        client.sendall(b"?")
        assert take(server, 1) == b"?"
        there_at = time.monotonic()
        server.sendall(b"!")
        assert take(client, 1) == b"!"
        back_at = time.monotonic()
    assert there_at - started_at >= 0.03
    assert back_at - there_at >= 0.02


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_a_bandwidth_is_not_exceeded(delay: float) -> None:
    with a_line(up=Link(bandwidth=10 * MB, delay=delay)) as line:
        client, server = line.connect()
        with ThreadPoolExecutor(1) as pool:
            started_at = time.monotonic()
            sent = pool.submit(client.sendall, bytes(5 * MB))
            take(server, 5 * MB)
            seconds = time.monotonic() - started_at - delay
            sent.result(WAIT)
    assert seconds > 0.48


def test_a_line_holds_no_more_than_it_says_while_its_client_would_send_more() -> None:
    # Nothing arrives for a long time, so what it holds does not depend on how fast anybody is.
    link = Link(bandwidth=25_000, delay=WAIT, buffer_bytes=50_000)
    with a_line(up=link) as line, ThreadPoolExecutor(1) as pool:
        client, _ = line.connect()
        sent = pool.submit(client.sendall, bytes(30 * MB))
        until(lambda: line.relay.queued_bytes("up") >= link.max_queued_bytes)
        for _ in range(10):  # its thread has a turn for each
            line.relay.wait_until(lambda counts: True)
            assert line.relay.queued_bytes("up") <= link.max_queued_bytes + link.piece_bytes
        line.relay.reset()
        assert isinstance(sent.exception(WAIT), ConnectionError)


def test_a_server_that_does_not_read_holds_its_client_up_by_one_piece() -> None:
    with a_line() as line, ThreadPoolExecutor(1) as pool:
        client, server = line.connect()
        sent = pool.submit(client.sendall, bytes(50 * MB))
        line.relay.wait_until(lambda _: line.relay.queued_bytes("up") > 0)
        assert line.relay.queued_bytes("up") <= MAX_PIECE_BYTES
        take(server, 50 * MB)
        sent.result(WAIT)


def test_a_busy_connection_leaves_its_share_of_the_line_to_another() -> None:
    with a_line(up=Link(bandwidth=10 * MB)) as line, ThreadPoolExecutor(2) as pool:
        pairs = [line.connect() for _ in range(2)]
        sent = [pool.submit(client.sendall, bytes(2 * MB)) for client, _ in pairs]
        take(pairs[0][1], MB)
        line.relay.stall()
        assert line.relay.counts.up_bytes < 3.2 * MB  # 2: as much each; 3: one after the other
        line.relay.resume()
        take(pairs[1][1], 2 * MB)
        take(pairs[0][1], MB)
        assert [one.result(WAIT) for one in sent] == [None, None]


def test_a_line_can_change_while_it_is_used() -> None:
    with a_line(up=Link(bandwidth=MB / 1000)) as line:
        client, server = line.connect()
        line.relay.shape("both", UNSHAPED)
        assert echo(client, server, DATA * 10) == DATA * 10  # it was two hours


# --- faults ---------------------------------------------------------------------------


def test_a_stalled_direction_waits_and_loses_nothing() -> None:
    with a_line() as line:
        client, server = line.connect()
        line.relay.stall("up")
        client.sendall(b"late")
        server.sendall(b"down still works")
        assert take(client, 16) == b"down still works"
        assert line.relay.counts.up_bytes == 0
        line.relay.resume("up")
        assert take(server, 4) == b"late"


def test_a_stall_holds_what_is_under_way_and_the_end_too() -> None:
    with a_line(up=Link(delay=0.05)) as line:
        client, server = line.connect()
        client.sendall(b"under way")
        client.close()
        line.relay.stall()
        assert line.relay.counts.up_bytes == 0
        line.relay.resume()
        assert take_all(server) == (b"under way", False)


def test_a_black_hole_swallows_one_direction_and_tells_nobody() -> None:
    with a_line() as line:
        client, server = line.connect()
        line.relay.black_hole("up")
        client.sendall(b"never seen")
        line.relay.wait_until(lambda counts: counts.swallowed_bytes == 10)
        server.sendall(b"seen")
        assert take(client, 4) == b"seen"
        line.relay.resume()
        client.sendall(b"after")
        assert take(server, 5) == b"after"


def test_a_black_hole_swallows_what_is_under_way_and_the_end_of_a_stream() -> None:
    with a_line(up=Link(delay=WAIT)) as line:
        client, server = line.connect()
        client.sendall(b"under way")
        client.shutdown(socket.SHUT_WR)
        line.relay.black_hole()
        line.relay.wait_until(lambda counts: counts.swallowed_bytes == 9)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(1)
        assert line.relay.counts.open_connections == 1


def test_a_reset_in_a_black_hole_leaves_the_other_end_waiting_until_it_is_resumed() -> None:
    with a_line() as line:
        client, server = line.connect()
        line.relay.black_hole("up")
        abort(client)
        server.sendall(b"anybody there?")
        line.relay.wait_until(lambda counts: counts.down_bytes + counts.swallowed_bytes == 14)
        assert line.relay.counts.open_connections == 1
        line.relay.resume()
        assert take_all(server) == (b"", True)


def test_a_half_open_connection_has_one_end_that_does_not_know() -> None:
    with a_line() as line:
        client, server = line.connect()
        line.relay.half_open("server")
        assert take_all(server) == (b"", True)
        client.sendall(b"to nobody")
        line.relay.wait_until(lambda counts: counts.swallowed_bytes == 9)
        line.relay.resume()
        assert take_all(client) == (b"", True)
        assert line.relay.counts.resets == 1


def test_a_half_open_connection_is_over_when_its_other_end_goes() -> None:
    with a_line() as line:
        client, _ = line.connect()
        line.relay.half_open("server")
        client.close()
        line.relay.wait_until(lambda counts: counts.open_connections == 0)


def test_a_reset_ends_all_present_connections_at_both_ends() -> None:
    with a_line() as line:
        ends = [end for _ in range(3) for end in line.connect()]
        line.relay.reset()
        assert [take_all(end) for end in ends] == [(b"", True)] * 6
        counts = line.relay.counts
        assert (counts.resets, counts.open_connections, counts.connections) == (3, 0, 3)
        assert echo(*line.connect(), b"the next one works") == b"the next one works"


def test_new_connections_are_refused_until_allowed_and_old_ones_live() -> None:
    with a_line() as line:
        old = line.connect()
        for _ in range(2):
            line.relay.refuse()
            with pytest.raises(ConnectionRefusedError):
                line.connect()
        assert echo(*old, b"old") == b"old"
        line.relay.allow()
        line.relay.allow()
        assert echo(*line.connect(), b"new") == b"new"


def test_a_refused_port_is_not_given_to_others() -> None:
    with a_line() as line, socket.socket() as other:
        line.relay.refuse()
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", line.relay.port))


def test_a_flip_damages_one_bit_of_each_of_the_next_pieces() -> None:
    with a_line(up=Link(slice_bytes=10)) as line:
        client, server = line.connect()
        line.relay.flip("up", 3)
        client.sendall(bytes(100))
        got = take(server, 100)
    assert [sum(map(int.bit_count, got[at : at + 10])) for at in range(0, 100, 10)] == [1] * 3 + [
        0
    ] * 7


def test_a_flip_can_be_aimed_at_bytes_and_is_the_same_every_time() -> None:
    seen = []
    for _ in range(2):
        with a_line(down=Link(seed=5)) as line:
            client, server = line.connect()
            line.relay.flip("down", at=[2, 500_000])
            with ThreadPoolExecutor(1) as pool:
                sent = pool.submit(server.sendall, DATA)
                seen.append(take(client, len(DATA)))
                sent.result(WAIT)
    wrong = [n for n, (a, b) in enumerate(zip(DATA, seen[0], strict=True)) if a != b]
    assert wrong == [2, 500_000]
    assert seen[0] == seen[1]


def test_a_cut_comes_after_exactly_so_many_bytes() -> None:
    with a_line() as line:
        client, server = line.connect()
        line.relay.cut_after(1234, "up")
        client.sendall(bytes(2000))
        assert take_all(server) == (bytes(1234), True)
        counts = line.relay.counts
    assert (counts.up_bytes, counts.resets) == (1234, 1)


def test_a_connection_does_not_outlive_its_lifetime() -> None:
    with a_line(lifetime=0.05) as line:
        client, server = line.connect()
        assert take_all(client) == take_all(server) == (b"", True)
        line.relay.limit_lifetime(None)
        client, server = line.connect()
        assert echo(client, server, b"lives") == b"lives"
        line.relay.limit_lifetime(0.01)
        assert take_all(client) == (b"", True)


# --- scripts --------------------------------------------------------------------------


def test_a_script_acts_after_bytes_and_after_seconds() -> None:
    def stall(relay: Relay) -> None:
        relay.stall("up")
        # Played from here, so that it cannot come before the stall on a busy machine.
        relay.play([Step(action=resume, after_seconds=0.05)])

    def resume(relay: Relay) -> None:
        before.put(relay.counts.up_bytes)
        relay.resume()

    before = queue.SimpleQueue[int]()
    with a_line(script=[Step(action=stall, after_bytes=1000, direction="up")]) as line:
        client, server = line.connect()
        client.sendall(bytes(3000))
        assert take(server, 3000) == bytes(3000)
    assert before.get(timeout=WAIT) == 1000


def test_a_step_happens_before_the_next_byte_is_forwarded() -> None:
    seen = queue.SimpleQueue[int]()
    with a_line() as line:
        client, server = line.connect()
        steps = [
            Step(
                action=lambda relay: seen.put(relay.counts.up_bytes), after_bytes=at, direction="up"
            )
            for at in (10, 0, 999, 10)
        ]
        line.relay.play(steps)
        client.sendall(bytes(1000))
        take(server, 1000)
        line.relay.wait_until(lambda counts: counts.up_bytes == 1000)
    assert [seen.get(timeout=WAIT) for _ in steps] == [0, 10, 10, 999]


def test_a_step_that_fails_is_told_when_the_relay_is_closed() -> None:
    script = [Step(action=lambda relay: 1 // 0, after_bytes=1, direction="up")]
    with pytest.raises(ZeroDivisionError):
        with a_line(script=script) as line:
            assert echo(*line.connect(), b"goes on") == b"goes on"


def test_a_step_has_one_time() -> None:
    with pytest.raises(ValueError, match="after_bytes or after_seconds"):
        Step(action=Relay.reset)


# --- ends -----------------------------------------------------------------------------


def abort(end: socket.socket) -> None:
    """Close with RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    end.close()


def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    with a_line(down=Link(delay=0.01)) as line:
        client, server = line.connect()
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert take_all(server) == (b"question", False)
        server.sendall(b"answer")
        server.close()
        assert take_all(client) == (b"answer", False)
        line.relay.wait_until(lambda counts: counts.open_connections == 0)


def test_a_peers_reset_arrives_behind_what_it_sent() -> None:
    with a_line(down=Link(delay=0.05)) as line:
        client, server = line.connect()
        server.sendall(b"last words")
        line.relay.wait_until(lambda _: line.relay.queued_bytes("down") == 10)
        abort(server)
        assert take_all(client) == (b"last words", True)
        line.relay.wait_until(lambda counts: counts.open_connections == 0)
        assert line.relay.counts.resets == 0


def knock(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), WAIT) as client:
        return client.recv(1)


def test_a_client_of_a_server_that_is_not_there_is_reset() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Relay("127.0.0.1", nobody.getsockname()[1]) as relay:
            with pytest.raises(ConnectionResetError):
                knock(relay.port)


def test_closing_ends_the_thread_the_port_and_every_connection() -> None:
    with a_line(up=Link(delay=WAIT)) as line:
        client, server = line.connect()
        client.sendall(b"under way")
        line.relay.close()
        line.relay.close()
        assert take_all(server) == (b"", False)
        assert take_all(client)[0] == b""
        assert f"relay {line.relay.port}" not in {one.name for one in threading.enumerate()}
        assert line.relay.counts.connections == 1
        with pytest.raises(ConnectionRefusedError):
            line.connect()


def test_waiting_for_what_does_not_happen_ends() -> None:
    with a_line() as line, pytest.raises(TimeoutError):
        line.relay.wait_until(lambda counts: counts.resets > 0, timeout_seconds=0.01)


# --- the real thing -------------------------------------------------------------------


@pytest.mark.parametrize("link", [UNSHAPED, Link(bandwidth=100 * MB, delay=0.005)], ids=repr)
def test_a_model_passes_and_its_bytes_on_the_wire_are_few_more_than_its_own(link: Link) -> None:
    model, store = pattern_model(float_spec(2 * MB, 7)), MemoryStore()
    listening: queue.SimpleQueue[int] = queue.SimpleQueue()
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(sl.receive, store.begin, on_listening=listening.put)
        with Relay("127.0.0.1", listening.get(timeout=WAIT), up=link, down=link) as relay:
            sent = sl.send(model, f"127.0.0.1:{relay.port}")
            assert received.result(WAIT).digest == sent.digest
        counts = relay.counts
    assert content(store.open()) == content(model)
    assert model.spec.nbytes <= counts.up_bytes <= 1.05 * model.spec.nbytes
    assert counts.down_bytes < 0.05 * model.spec.nbytes
