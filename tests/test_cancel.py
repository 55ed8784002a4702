"""A token ends any blocking call it was given to, from another thread, at once or before it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamlink as sl
from benchmarks.relay import Relay
from streamlink.errors import Cancelled, StreamAborted
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.fleet import Fleet
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.model.computed import GeneratedModel
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores import MemoryStore
from streamlink.testing import memory_address
from tests.support.peers import ODD, SMALL, WAIT, Array, Federation, config, echo, initial

NOBODY = "127.0.0.1:9"


def started(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Run it in a thread of its own."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(call(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def cancelled(done: Future[Any]) -> bool:
    error = done.exception(WAIT)
    return isinstance(error, Cancelled) and error.reason == "enough"


def wait_until_logged(text: str, log: pytest.LogCaptureFixture, done: Future[Any]) -> None:
    until, never = time.monotonic() + WAIT, threading.Event()
    while text not in log.text:
        assert not done.done()
        assert time.monotonic() < until
        never.wait(0.01)


def read_all(model: ReceiveTransfer) -> None:
    while not model.is_complete:
        model.read(WAIT)


# --- the token --------------------------------------------------------------


def test_the_first_reason_stands() -> None:
    token = sl.CancelToken()
    token.check()
    assert (token.is_cancelled, token.reason, token.wait(0)) == (False, "", False)
    token.cancel("first")
    token.cancel("second")
    assert (token.is_cancelled, token.reason, token.wait(0)) == (True, "first", True)
    with pytest.raises(Cancelled, match="ended here: first"):
        token.check()


def test_it_wakes_who_waits_for_it() -> None:
    token = sl.CancelToken()
    waits = started(token.wait)
    token.cancel()
    assert waits.result(WAIT) is True


def test_what_ends_a_wait_is_called_once_and_only_within_its_block() -> None:
    token, heard = sl.CancelToken(), list[str]()
    with token.calling(lambda reason: heard.append(f"before: {reason}")):
        pass
    with token.calling(heard.append):
        token.cancel("enough")
        token.cancel("again")
    assert heard == ["enough"]


def test_who_comes_after_it_was_cancelled_is_told_at_once() -> None:
    token, heard = sl.CancelToken(), list[str]()
    token.cancel("enough")
    with token.calling(heard.append):
        assert heard == ["enough"]


def test_a_wait_that_cannot_be_ended_keeps_no_other_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token, heard = sl.CancelToken(), list[str]()

    def broken(reason: str) -> None:
        raise OSError("closed already")

    with token.calling(broken), token.calling(heard.append):
        token.cancel("enough")
    assert heard == ["enough"]
    assert "closed already" in caplog.text


# --- the calls --------------------------------------------------------------


def test_a_call_with_a_cancelled_token_does_not_begin(tmp_path: Path) -> None:
    token, arrays = sl.CancelToken(), {"w": np.zeros(4, np.float32)}
    token.cancel("enough")
    calls: list[Callable[[], object]] = [
        lambda: sl.send(arrays, NOBODY, cancel=token),
        lambda: sl.receive(tmp_path / "model", cancel=token),
        lambda: sl.serve(arrays, cancel=token),
        lambda: sl.fetch(NOBODY, tmp_path / "model", cancel=token),
        lambda: sl.copy_model(arrays, tmp_path / "model", cancel=token),
        lambda: sl.digest_of(arrays, cancel=token),
        Client(NOBODY, "site-1", StreamingExecutor(lambda t, at, v: v), cancel=token).start,
        lambda: Fleet(cancel=token).run([sys.executable, "-c", ""], lambda port: []),
    ]
    for call in calls:
        with pytest.raises(Cancelled, match="enough"):
            call()
    assert not (tmp_path / "model").exists()


def test_a_receiver_that_waits_for_a_sender_ends() -> None:
    token = sl.CancelToken()
    into = {"w": np.zeros(4, np.float32)}
    stop = {"on_listening": lambda port: token.cancel("enough"), "cancel": token}
    assert cancelled(started(sl.receive, into, **stop))


def test_a_receiver_in_the_middle_keeps_what_it_can_and_its_sender_hears_why(
    tmp_path: Path,
) -> None:
    token, port, model = sl.CancelToken(), Future[int](), {"w": np.arange(1 << 18, dtype="f4")}

    def watch(peer: str, phase: str, done: int, total: int) -> None:
        if done:
            token.cancel("enough")

    options = {"on_listening": port.set_result, "progress": watch, "cancel": token}
    done = started(sl.receive, tmp_path / "model", config=SMALL, **options)
    with pytest.raises(StreamAborted, match="interrupted by its user"):
        sl.send(model, f"127.0.0.1:{port.result(WAIT)}", config=SMALL, retry=0)
    assert cancelled(done)
    assert not list((tmp_path / "model").glob("*.index.json"))


def test_a_sender_in_the_middle_does_not_try_again_and_the_receiver_hears_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stops, ends, port = sl.CancelToken(), sl.CancelToken(), Future[int]()
    kept = {"w": np.zeros(1 << 18, np.float32)}
    receiving = started(sl.receive, kept, config=SMALL, on_listening=port.set_result, cancel=ends)

    def watch(peer: str, phase: str, done: int, total: int) -> None:
        if done:
            stops.cancel("enough")

    options = {"config": SMALL, "progress": watch, "cancel": stops}
    model = {"w": np.ones(1 << 18, np.float32)}
    assert cancelled(started(sl.send, model, f"127.0.0.1:{port.result(WAIT)}", **options))
    ends.cancel("enough")
    assert cancelled(receiving)
    assert "interrupted by its user" in caplog.text
    assert "retrying" not in caplog.text


def test_a_server_that_waits_for_a_fetcher_ends() -> None:
    token = sl.CancelToken()
    stop = {"on_listening": lambda port: token.cancel("enough"), "cancel": token}
    assert cancelled(started(sl.serve, {"w": np.zeros(4, np.float32)}, **stop))


@pytest.mark.parametrize("who", ["server", "fetcher"])
def test_either_end_of_a_fetch_ends_in_the_middle_and_the_other_hears_why(
    who: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, port = {"server": sl.CancelToken(), "fetcher": sl.CancelToken()}, Future[int]()
    model, kept = {"w": np.ones(1 << 18, np.float32)}, {"w": np.zeros(1 << 18, np.float32)}

    def watch(peer: str, phase: str, done: int, total: int) -> None:
        if done:
            tokens[who].cancel("enough")

    options = {"config": SMALL, "on_listening": port.set_result, "cancel": tokens["server"]}
    serving = started(sl.serve, model, **options)
    options = {"config": SMALL, "progress": watch, "cancel": tokens["fetcher"], "retry": 0}
    fetching = started(sl.fetch, f"127.0.0.1:{port.result(WAIT)}", kept, **options)
    if who == "fetcher":
        assert cancelled(fetching)
        tokens["server"].cancel("enough")
    else:
        with pytest.raises(StreamAborted, match="interrupted by its user"):
            fetching.result(WAIT)
    assert cancelled(serving)
    assert "interrupted by its user" in caplog.text


@pytest.mark.parametrize("call", ["send", "fetch"])
def test_who_finds_nobody_ends_while_it_tries_again(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    token, model = sl.CancelToken(), initial(ODD)
    quick: dict[str, Any] = {"config": config(connect_timeout=0.05), "retry": 1e6, "cancel": token}
    what: tuple[Any, ...] = (
        (sl.send, model, NOBODY) if call == "send" else (sl.fetch, NOBODY, MemoryStore())
    )
    done = started(what[0], *what[1:], **quick)
    wait_until_logged("retrying", caplog, done)
    token.cancel("enough")
    assert cancelled(done)


def test_a_client_ends_while_it_connects() -> None:
    token, work = sl.CancelToken(), StreamingExecutor(lambda t, at, v: v)
    client = Client(NOBODY, "site-1", work, config(connect_timeout=1e6), cancel=token)
    done = started(client.start)
    token.cancel("enough")
    assert cancelled(done)


def test_a_client_ends_while_another_has_its_name(caplog: pytest.LogCaptureFixture) -> None:
    token, work = sl.CancelToken(), StreamingExecutor(lambda t, at, v: v)
    with Federation() as federation:
        federation.link("site-1")
        done = started(Client(federation.address, "site-1", work, SMALL, cancel=token).start)
        wait_until_logged("retrying for up to", caplog, done)
        token.cancel("enough")
        assert cancelled(done)


def test_a_client_ends_while_it_waits_for_tasks() -> None:
    token, work = sl.CancelToken(), StreamingExecutor(lambda t, at, v: v)
    with Federation() as federation:
        client = Client(federation.address, "site-1", work, SMALL, cancel=token)
        done = started(client.run)
        federation.peer("site-1")
        token.cancel("enough")
        assert cancelled(done)
        client.close()
        federation.wait_left("site-1")


def test_a_client_whose_session_ended_before_it_looked_was_cancelled_all_the_same() -> None:
    token, work = sl.CancelToken(), StreamingExecutor(lambda t, at, v: v)
    with Federation() as federation:
        client = Client(federation.address, "site-1", work, SMALL, cancel=token).start()
        federation.peer("site-1")
        federation.server.bar("site-1", "not any more")
        federation.wait_left("site-1")
        token.cancel("enough")
        assert cancelled(started(client.run))
        client.close()


def test_a_link_ends_while_it_waits_for_its_end() -> None:
    with Federation() as federation:
        for wait in ("wait", "wait_finished"):
            token = sl.CancelToken()
            link = ClientLink(federation.address, name=wait, serve=echo, config=SMALL, cancel=token)
            done = started(getattr(link.start(), wait))
            federation.peer(wait)
            token.cancel("enough")
            assert cancelled(done)
            link.close()


@pytest.mark.parametrize("is_late", [False, True], ids=["while it closes", "before"])
def test_a_client_that_closes_does_not_wait_for_a_server_that_is_mute(is_late: bool) -> None:
    token, work = sl.CancelToken(), StreamingExecutor(lambda t, at, v: v)
    with Federation() as federation, Relay("127.0.0.1", federation.server.port) as relay:
        client = Client(f"127.0.0.1:{relay.port}", "site-1", work, SMALL, cancel=token).start()
        federation.peer("site-1")
        relay.stall()
        if is_late:
            token.cancel("enough")
        done = started(client.close)
        token.cancel("enough")
        done.result(WAIT)


def test_a_server_ends_while_it_waits_for_clients() -> None:
    token = sl.CancelToken()
    with sl.Server(memory_address(), SMALL, cancel=token) as server:
        waits = [started(server.wait_for_peers, 1, WAIT), started(server.wait_for_peer, "a", WAIT)]
        token.cancel("enough")
        assert all(cancelled(done) for done in waits)


def _cancel(token: sl.CancelToken, done: int) -> None:
    token.cancel("enough")


def test_a_server_ends_while_it_waits_until_a_client_has_left() -> None:
    token, address = sl.CancelToken(), memory_address()
    with (
        sl.Server(address, SMALL, cancel=token) as server,
        ClientLink(address, name="a", serve=echo, config=SMALL),
    ):
        assert server.wait_for_peer("a", WAIT)
        done = started(server.wait_until_left, "a", WAIT)
        token.cancel("enough")
        assert cancelled(done)


def test_each_wait_of_an_exchange_ends_and_the_client_hears_why() -> None:
    token, address, asked = sl.CancelToken(), memory_address(), Future[Assignment]()
    spec = ModelSpec((TensorSpec("w", "F32", (1 << 18,)),))  # more than a window
    with (
        sl.Server(address, SMALL, cancel=token) as server,
        ClientLink(address, name="a", serve=asked.set_result, config=SMALL),
    ):
        peer = server.wait_for_peer("a", WAIT)
        assert peer is not None
        exchange = peer.request("train", spec, attempt=Attempt("job", 1, 1))
        assignment = asked.result(WAIT)
        source = GeneratedModel(spec, lambda tensor, start, out: out.fill(0))
        waits = [
            started(send_model, exchange.outgoing, source),
            started(receive_model, exchange.incoming, lambda model: MemoryStore().begin(spec)),
            started(exchange.wait_reply, WAIT),
        ]
        model = assignment.incoming()
        assert model.open(WAIT)
        token.cancel("enough")
        assert all(cancelled(done) for done in waits)
        with pytest.raises(StreamAborted, match="ended here: enough"):
            read_all(model)
        with pytest.raises(Cancelled, match="enough"):
            exchange.outgoing.wait_room()
        with pytest.raises(Cancelled, match="enough"):
            peer.request("train", spec, attempt=Attempt("job", 1, 2))
        exchange.close()


def test_a_copy_ends_between_two_pieces(tmp_path: Path) -> None:
    model = {"w": np.arange(1 << 12, dtype="f4")}
    for call in (lambda **how: sl.copy_model(model, tmp_path, **how), partial(sl.digest_of, model)):
        token = sl.CancelToken()
        with pytest.raises(Cancelled, match="enough"):
            call(piece_bytes=64, progress=partial(_cancel, token), cancel=token)
    assert not list(tmp_path.glob("*.index.json"))


@pytest.mark.parametrize("call", ["wait_for_clients", "run_round"])
def test_each_step_of_a_job_ends(call: str) -> None:
    token, opens = sl.CancelToken(), threading.Event()

    def work(tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        token.cancel("enough")
        opens.wait(WAIT)
        return values

    with Federation() as federation:
        store, rules = MemoryStore(initial(ODD)), sl.RoundConfig(min_clients=1)
        job = ScatterAndGather(federation.server, store, rules, cancel=token)
        if call == "run_round":
            site = federation.client("site-1", StreamingExecutor(work))
            federation.peer("site-1")
            assert cancelled(started(job.run_round, 0))
            opens.set()
            site.leave()
        else:
            done = started(job.wait_for_clients)
            token.cancel("enough")
            assert cancelled(done)


@pytest.mark.parametrize("is_of_the_server", [True, False], ids=["the server's", "the job's"])
def test_a_job_that_waits_for_clients_ends(is_of_the_server: bool) -> None:
    token = sl.CancelToken()
    store, rules = MemoryStore(initial(ODD)), sl.RoundConfig(min_clients=1)
    with sl.Server(config=SMALL, cancel=token if is_of_the_server else None) as server:
        job = ScatterAndGather(server, store, rules, cancel=None if is_of_the_server else token)
        done = started(job.run)
        token.cancel("enough")
        assert cancelled(done)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_job_in_the_middle_of_a_round_ends_and_the_last_model_stands(
    gather: str, tmp_path: Path
) -> None:
    token, opens = sl.CancelToken(), threading.Event()
    store = MemoryStore(initial(ODD))
    before = sl.digest_of(store)

    def work(tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        token.cancel("enough")
        opens.wait(WAIT)
        return values

    rules = sl.RoundConfig(min_clients=1, num_rounds=1, gather=gather)
    with Federation() as federation:
        site = federation.client("site-1", StreamingExecutor(work))
        job = ScatterAndGather(
            federation.server, store, rules, spool=tmp_path / "spool", cancel=token
        )
        assert cancelled(started(job.run))
        opens.set()
        site.leave()
    assert sl.digest_of(store) == before


@pytest.mark.processes
def test_a_fleet_ends_everybody() -> None:
    token = sl.CancelToken()
    program = "import os, sys, threading; os.write(int(sys.argv[-1]), b'{\"port\": 1}\\n'); %s"
    stays = [sys.executable, "-c", program % "threading.Event().wait()"]
    fleet = Fleet(cancel=token)

    def clients(port: int) -> list[tuple[str, list[str]]]:
        token.cancel("enough")
        return [("site-1", stays)]

    with pytest.raises(Cancelled, match="enough"):
        fleet.run(stays, clients)
    assert [each.name for each in fleet.members] == ["server"]  # nobody is started after it
    assert all(each.process.returncode is not None for each in fleet.members)
