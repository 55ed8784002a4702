"""How long exchanges and questions may last, on virtual time."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import CommunicationTimeout, ExchangeFailed, OpenTimeout
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.transfer import Receipt
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.transport.connect import dial
from streamlink.transport.session import Session
from tests.support.dialing import Dialing, Once, TappedCall
from tests.support.models import content, pattern_model
from tests.support.peers import ODD, WAIT, config
from tests.support.virtual_job import VirtualJob

HOUR = 3600.0
PATIENT = config(communication_timeout=60.0)


def working(job: VirtualJob, minutes: int) -> None:
    """Serve as a site whose work takes so long, and which reports its progress."""

    def work(assignment: Assignment) -> None:
        store = MemoryStore()
        assignment.receive(store)
        for _ in range(minutes):
            job.sleep(50.0)
            assignment.progress()
        assignment.answer(store.arrays)

    job.site(0, serving=work)


def test_an_exchange_lasts_as_long_as_its_work_reports_progress() -> None:
    with VirtualJob(PATIENT) as job:
        working(job, 12)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        store = MemoryStore()
        exchange = peer.ask("train", pattern_model(ODD), into=store)
        with pytest.raises(TimeoutError):
            exchange.result(5.0)
        assert exchange.progress.phase == "processing"
        exchange.result(HOUR)
        assert job.seconds == 12 * 50.0
    assert content(store.open()) == content(pattern_model(ODD))


@pytest.mark.parametrize("sends", [True, False])
def test_work_that_answers_without_a_model_may_take_its_time_too(sends: bool) -> None:
    def work(assignment: Assignment) -> None:
        if assignment.has_model:
            assignment.receive(MemoryStore())
        for _ in range(12):
            job.sleep(50.0)
            assignment.progress()
        assignment.answer(metadata={"is": "done"})

    with VirtualJob(PATIENT) as job:
        job.site(0, serving=work)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.ask("evaluate", pattern_model(ODD) if sends else None)
        assert exchange.result(HOUR).metadata == {"is": "done"}
        assert job.seconds == 12 * 50.0


@pytest.mark.parametrize("sends", [True, False])
def test_work_that_answers_without_a_model_and_stands_still_is_not_waited_for(sends: bool) -> None:
    with VirtualJob(PATIENT) as job:
        job.site(0, serving=lambda assignment: job.sleep(HOUR))
        (peer,) = job.server.wait_for_peers(1, 1.0)
        failed = peer.ask("evaluate", pattern_model(ODD) if sends else None).exception(2 * HOUR)
        assert isinstance(failed, ExchangeFailed)
        assert job.seconds < HOUR


def test_the_timeout_covers_all_of_an_exchange_and_its_client_hears_of_it() -> None:
    with VirtualJob(PATIENT) as job:
        working(job, 12)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.ask("train", pattern_model(ODD), into=MemoryStore(), timeout=100.0)
        with pytest.raises(ExchangeFailed, match="not complete within 100 s") as failed:
            exchange.result(HOUR)
        assert job.seconds == 100.0
        assert (failed.value.cause, failed.value.timeout) == (None, 100.0)
        assert failed.value.sent_bytes == ODD.nbytes


def test_one_that_waits_for_its_turn_runs_out_of_time_too() -> None:
    with VirtualJob(PATIENT) as job:
        working(job, 12)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        many = [peer.ask("train", pattern_model(ODD)) for _ in range(4)]
        last = peer.ask("train", timeout=20.0)
        assert isinstance(last.exception(HOUR), ExchangeFailed)
        assert job.seconds == 20.0
        for exchange in many:
            exchange.cancel()


def test_an_answer_that_a_client_replied_and_never_sends_is_not_waited_for() -> None:
    with VirtualJob(PATIENT) as job:

        def reply(session: Session, request: f.Request) -> None:
            job.sleep(50.0)
            session.reply(request)

        dialer = dial(job.server.address, PATIENT, name="site-0", clock=job.clock)
        session = dialer.connect(reply)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        failed = peer.ask("get", into=MemoryStore()).exception(HOUR)
        assert isinstance(failed, ExchangeFailed)
        assert isinstance(failed.cause, OpenTimeout)
        assert job.seconds <= 50.0 + 2 * PATIENT.timeouts.open_timeout
        session.close("done")
        dialer.close()


def test_work_that_does_not_move_runs_into_its_deadline() -> None:
    with VirtualJob(PATIENT) as job:
        job.site(0, serving=lambda assignment: job.sleep(HOUR))
        (peer,) = job.server.wait_for_peers(1, 1.0)
        failed = peer.ask("train", into=MemoryStore()).exception(HOUR)
        assert job.seconds == 60.0
    assert isinstance(failed, ExchangeFailed)
    assert isinstance(failed.cause, CommunicationTimeout)
    assert failed.cause.stage == "processing"
    assert "raise communication_timeout" in str(failed)


def test_an_answer_whose_model_has_come_is_not_waited_for_without_end() -> None:
    def work(assignment: Assignment) -> None:
        send_model(assignment.outgoing(ODD), pattern_model(ODD))
        job.sleep(HOUR)

    with VirtualJob(PATIENT) as job:
        job.site(0, serving=work)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        failed = peer.ask("train", into=MemoryStore()).exception(HOUR)
        assert job.seconds == 60.0
    assert "the answer to 'train', whose model has come," in str(failed)


# --- asked by a client ----------------------------------------------------------------------------


def test_a_client_waits_for_an_answer_as_long_as_it_says() -> None:
    with VirtualJob(PATIENT) as job:
        job.server.serve("it", lambda asked: job.sleep(HOUR))
        client = job.site(0)
        with pytest.raises(CommunicationTimeout, match=r"not complete within 10 s"):
            client.ask("it", timeout=10.0)
        assert job.seconds == 10.0


def test_a_handler_that_reports_progress_is_waited_for() -> None:
    def handler(asked: ClientRequest) -> None:
        for _ in range(5):
            job.sleep(50.0)
            asked.progress()
        with asked.alive():
            job.sleep(HOUR)
        asked.reply(metadata={"is": "done"})

    with VirtualJob(PATIENT) as job:
        job.server.serve("it", handler)
        assert job.site(0).ask("it").metadata == {"is": "done"}
        assert job.seconds == 5 * 50.0 + HOUR


def test_a_client_that_closes_lets_its_commit_arrive_first() -> None:
    outcome = Future[Receipt]()

    def handler(asked: ClientRequest) -> None:
        try:
            outcome.set_result(send_model(asked.send(ODD), pattern_model(ODD)))
        except BaseException as error:
            outcome.set_exception(error)
            raise

    def late(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        job.sleep(1.0)  # passes once all others wait, the client in ``close``
        return raw

    with VirtualJob(PATIENT) as job:
        job.server.serve("it", handler)
        address, dial = job.server.address, Dialing(Once(f.Commit, late))
        client = ClientLink(address, name="late", config=PATIENT, clock=job.clock, dial=dial)
        store = MemoryStore()
        with client, client.ask("it") as answer:
            receive_model(answer.receive(), lambda model: store.begin(model.spec))
        assert job.seconds >= 1.0
    assert outcome.exception(WAIT) is None


def test_a_request_that_waits_for_a_thread_is_waited_for() -> None:
    one = PATIENT.limits.model_copy(update={"max_handlers": 1})

    def handler(asked: ClientRequest) -> None:
        with asked.alive():
            job.sleep(600.0)
        asked.reply(metadata={"at": str(job.seconds)})

    with VirtualJob(LinkConfig(**{**dict(PATIENT), "limits": one})) as job:
        job.server.serve("it", handler)
        site, answers = job.site(0), list[str]()

        def ask() -> None:
            answers.append(site.ask("it").metadata["at"])

        waiting = threading.Thread(target=ask)
        waiting.start()
        answers.append(site.ask("it").metadata["at"])
        job.clock.join(waiting)
    assert sorted(answers) == ["1200.0", "600.0"]


def test_a_client_that_never_sends_what_it_may_send_does_not_keep_the_thread() -> None:
    failed: list[OpenTimeout] = []

    def handler(asked: ClientRequest) -> None:
        try:
            asked.receive()
        except OpenTimeout as error:
            failed.append(error)
            over.set()
            raise

    with VirtualJob(config(open_timeout=30.0)) as job:
        over = job.clock.event()
        job.server.serve("it", handler)
        job.site(0).ask("it")
        assert over.wait(HOUR)
        assert job.seconds == 30.0
    assert "site-0 did not open the stream for 30.0 s on the stream of its 'it'" in str(failed[0])
