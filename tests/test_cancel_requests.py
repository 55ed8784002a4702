"""A token ends what either end of a request waits for: work, handlers, answers and their models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

import streamlink as sl
from streamlink.errors import AbortCode, Cancelled, StreamAborted, StreamlinkError
from streamlink.executors.executor import TaskOutcome
from streamlink.link import (
    Answer,
    Assignment,
    ClientLink,
    ClientRequest,
    Handler,
    PeerRequest,
    ReceiveTransfer,
    SendTransfer,
    TurnLock,
    receive_model,
    send_model,
)
from streamlink.model import GeneratedModel
from streamlink.protocol.frames import Attempt
from streamlink.stores import MemoryStore
from streamlink.testing import memory_address
from tests.support.peers import SMALL, WAIT, Federation, until
from tests.test_cancel import cancelled, read_all, started

LARGE = sl.ModelSpec((sl.TensorSpec("w", "F32", (1 << 18,)),))
"""More than all windows hold: without a reader it cannot arrive whole."""
ROUND = Attempt("job", 1, 1)


def zeros() -> GeneratedModel:
    return GeneratedModel(LARGE, lambda tensor, start, out: out.fill(0))


@contextmanager
def ends(
    serve: Callable[[Assignment], None] | None = None, handler: Handler | None = None
) -> Iterator[tuple[sl.Server, ClientLink, sl.CancelToken, sl.CancelToken]]:
    """Give a server and a client, and the token of each."""
    address, servers, clients = memory_address(), sl.CancelToken(), sl.CancelToken()
    handlers = {} if handler is None else {"it": handler}
    with (
        sl.Server(address, SMALL, cancel=servers, serve=handlers) as server,
        ClientLink(address, name="site-1", serve=serve, config=SMALL, cancel=clients) as link,
    ):
        yield server, link, servers, clients


# --- the streams ----------------------------------------------------------------------------

Call = Callable[[PeerRequest], object]
PIECE = (memoryview(bytes(64)),)

WAITS: dict[str, Call] = {
    "SendTransfer.wait_room": lambda request: request.outgoing.wait_room(),
    "SendTransfer.write": lambda request: request.outgoing.write(0, PIECE),
    "SendTransfer.pull": lambda request: request.outgoing.pull(zeros().read),
    "SendTransfer.recall": lambda request: request.outgoing.recall(zeros()),
    "ReceiveTransfer.wait_announced": lambda request: request.incoming.wait_announced(),
    "ReceiveTransfer.open": lambda request: request.incoming.open(),
    "ReceiveTransfer.read": lambda request: request.incoming.read(WAIT),
    "ReceiveTransfer.read_chunk": lambda request: request.incoming.read_chunk(WAIT),
    "ReceiveTransfer.fill": lambda request: request.incoming.fill(
        MemoryStore().begin(LARGE), lambda phase, done: None
    ),
}
FINISHES: dict[str, Call] = {
    "SendTransfer.finish": lambda request: request.outgoing.finish(),
    "SendTransfer.try_finish": lambda request: request.outgoing.try_finish(),
}


def asks(server: sl.Server, spec: sl.ModelSpec = LARGE) -> PeerRequest:
    """Send the client a request whose streams it does not open by itself."""
    peer = server.wait_for_peer("site-1", WAIT)
    assert peer is not None
    return peer.request("train", spec, attempt=ROUND)


@pytest.mark.parametrize("name", WAITS)
def test_each_wait_of_a_stream_ends(name: str) -> None:
    asked = Future[Assignment]()
    with ends(serve=asked.set_result) as (server, _, token, _):
        request = asks(server)
        asked.result(WAIT)
        waiting = started(WAITS[name], request)
        token.cancel("enough")
        assert cancelled(waiting)
        request.close()


@pytest.mark.parametrize("name", FINISHES)
def test_a_sender_that_waits_for_the_commit_ends(name: str) -> None:
    asked = Future[Assignment]()
    with ends(serve=asked.set_result) as (server, _, token, _):
        request = asks(server, sl.ModelSpec(()))
        incoming = asked.result(WAIT).incoming()
        assert incoming.open(WAIT)
        assert request.outgoing.wait_room() is None
        waiting = started(FINISHES[name], request)
        read_all(incoming)  # it has all, and does not commit it
        token.cancel("enough")
        assert cancelled(waiting)
        request.close()


def test_a_receiver_that_reads_what_came_before_ends() -> None:
    asked = Future[Assignment]()
    with ends(serve=asked.set_result) as (server, _, token, _):
        request = asks(server)
        asked.result(WAIT).outgoing(LARGE)
        assert request.incoming.wait_announced(WAIT)

        def saved() -> Iterator[memoryview]:
            yield PIECE[0]
            token.cancel("enough")
            yield PIECE[0]

        with pytest.raises(Cancelled, match="enough"):
            request.incoming.recall(LARGE, saved())
        request.close()


# --- the work of a client -------------------------------------------------------------------


def receives(assignment: Assignment) -> None:
    assignment.receive(MemoryStore())


def answers(assignment: Assignment) -> None:
    assignment.answer(zeros())


def waits_for_its_turn(assignment: Assignment) -> None:
    taken = TurnLock()
    with assignment.turn(taken, "the task before"), assignment.turn(taken, "the task before"):
        pass


def reports_progress(assignment: Assignment) -> None:
    while True:
        assignment.progress()


@pytest.mark.parametrize("is_late", [False, True], ids=["while it waits", "before"])
@pytest.mark.parametrize("work", [receives, answers, waits_for_its_turn, reports_progress])
def test_a_clients_token_ends_its_work_and_the_server_hears_why(
    work: Callable[[Assignment], None], is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    began, goes_on, done = threading.Event(), threading.Event(), Future[None]()

    def serve(assignment: Assignment) -> None:
        began.set()
        assert goes_on.wait(WAIT)
        try:
            work(assignment)
        except BaseException as error:
            done.set_exception(error)
            raise

    with ends(serve=serve) as (server, _, _, token):
        request = asks(server)
        assert began.wait(WAIT)
        if not is_late:
            goes_on.set()
        token.cancel("enough")
        goes_on.set()
        assert cancelled(done)
        reply = request.wait_reply(WAIT)
        assert reply is not None
        assert reply.error == "ended here: enough"
        assert "site-1: the work on 'train' ended here: enough" in caplog.text
        assert "Traceback" not in caplog.text
        request.close()


def test_a_model_that_a_cancelled_client_receives_or_sends_ends_at_the_server_too() -> None:
    asked = Future[Assignment]()
    with ends(serve=asked.set_result) as (server, _, _, token):
        request = asks(server)
        assignment = asked.result(WAIT)
        incoming, outgoing = assignment.incoming(), assignment.outgoing(LARGE)
        assert request.incoming.wait_announced(WAIT)
        token.cancel("enough")
        for transfer in (incoming, outgoing):
            assert isinstance(transfer.error, Cancelled)
        with pytest.raises(StreamAborted, match="enough"):
            send_model(request.outgoing, zeros())
        with pytest.raises(StreamAborted, match="enough"):
            read_all(request.incoming)
        assignment.close(incoming, outgoing)
        request.close()


def test_the_token_of_a_jobs_client_leaves_its_task_to_the_close_since_it_may_come_back() -> None:
    began, ended = Future[ReceiveTransfer](), Future[BaseException]()

    class Waiting:
        def execute(self, task: sl.Task, assignment: Assignment) -> TaskOutcome:
            began.set_result(assignment.incoming())
            try:
                assignment.receive(MemoryStore())
            except StreamlinkError as error:
                ended.set_result(error)
                raise
            raise AssertionError("there is no model")

    token = sl.CancelToken()
    with Federation() as federation:
        client = sl.Client(federation.address, "site-1", Waiting(), SMALL, cancel=token)
        running = started(client.run)
        request = federation.peer("site-1").request("train", LARGE, attempt=ROUND)
        incoming = began.result(WAIT)
        token.cancel("enough")
        assert incoming.error is None
        assert cancelled(running)
        client.close()
        assert getattr(ended.result(WAIT), "code", None) is AbortCode.SESSION_LOST
        until(lambda: request.failure is not None)
        assert request.failure is not None
        assert request.failure.code is AbortCode.GOODBYE
        request.close()


# --- the handlers of a server ---------------------------------------------------------------


def waits_for_a_model(asked: ClientRequest) -> None:
    receive_model(asked.receive(), lambda model: MemoryStore().begin(model.spec))


def sends(asked: ClientRequest) -> None:
    send_model(asked.send(LARGE), zeros())


def sends_what_nobody_opens(asked: ClientRequest) -> None:
    asked.send(LARGE).wait_room()


def nothing(answer: Answer) -> None:
    pass


def announces(answer: Answer) -> None:
    answer.send(LARGE)


def opens(answer: Answer) -> None:
    answer.receive().open()


@pytest.mark.parametrize(
    ("handler", "does"),
    [
        (waits_for_a_model, nothing),
        (waits_for_a_model, announces),
        (sends, nothing),
        (sends, opens),
        (sends_what_nobody_opens, nothing),
    ],
)
def test_a_servers_token_ends_its_handlers(
    handler: Handler, does: Callable[[Answer], None]
) -> None:
    done = Future[None]()

    def handle(asked: ClientRequest) -> None:
        try:
            handler(asked)
        except BaseException as error:
            done.set_exception(error)
            raise

    with ends(handler=handle) as (_, link, token, _):
        with link.ask("it") as answer:
            does(answer)
            token.cancel("enough")
            assert cancelled(done)


def test_a_handler_that_reports_progress_ends_and_so_does_the_next_before_it_begins() -> None:
    began, done = threading.Event(), Future[None]()

    def handle(asked: ClientRequest) -> None:
        began.set()
        try:
            while True:
                asked.progress()
        except BaseException as error:
            done.set_exception(error)
            raise

    with ends(handler=handle) as (_, link, token, _):
        asking = started(link.ask, "it")
        assert began.wait(WAIT)
        token.cancel("enough")
        assert cancelled(done)
        for refused in (asking, started(link.ask, "it")):
            assert "interrupted by its user" in str(refused.exception(WAIT))


@pytest.mark.parametrize("is_sent", [False, True], ids=["received", "sent"])
def test_the_client_hears_why_a_handler_was_cancelled(is_sent: bool) -> None:
    handler = sends if is_sent else waits_for_a_model
    with ends(handler=handler) as (_, link, token, _):
        with link.ask("it") as answer:
            if is_sent:
                incoming = answer.receive()
                assert incoming.open(WAIT)
                token.cancel("enough")
                with pytest.raises(StreamAborted, match="ended here: enough"):
                    read_all(incoming)
            else:
                outgoing = answer.send(LARGE)
                assert outgoing.wait_room() is not None
                token.cancel("enough")
                with pytest.raises(StreamAborted, match="ended here: enough"):
                    send_model(outgoing, zeros())


# --- the answer at a client -----------------------------------------------------------------


def takes(answer: Answer) -> None:
    receive_model(answer.receive(), lambda model: MemoryStore().begin(model.spec))


def gives(answer: Answer) -> None:
    send_model(answer.send(LARGE), zeros())


@pytest.mark.parametrize("is_late", [False, True], ids=["while it moves", "before"])
@pytest.mark.parametrize("whose", ["the client's", "the call's"])
@pytest.mark.parametrize("move", [takes, gives])
def test_a_token_ends_the_model_of_an_answer_and_the_server_hears_why(
    move: Callable[[Answer], None], whose: str, is_late: bool
) -> None:
    may_end, heard = threading.Event(), Future[None]()

    def handler(asked: ClientRequest) -> None:
        try:
            transfer = asked.send(LARGE) if move is takes else asked.receive()
            assert may_end.wait(WAIT)  # so the model cannot have moved wholly before that
            if isinstance(transfer, SendTransfer):
                send_model(transfer, zeros())
            else:
                read_all(transfer)
        except BaseException as error:
            heard.set_exception(error)
            raise

    with ends(handler=handler) as (_, link, _, clients):
        calls = sl.CancelToken()
        token = clients if whose == "the client's" else calls
        with link.ask("it", cancel=calls) as answer:
            if is_late:
                token.cancel("enough")
            moving = started(move, answer)
            token.cancel("enough")
            assert cancelled(moving)
            may_end.set()
            with pytest.raises(StreamAborted, match="enough"):
                heard.result(WAIT)
