"""Sessions and requests that last for hours, on virtual time."""

from __future__ import annotations

import pytest

from streamlink.cancel import CancelToken
from streamlink.errors import CommunicationTimeout
from streamlink.link import Attempt
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.transport.session import GOODBYE_SECONDS
from streamlink.transport.wire import SessionWire
from tests.support.dialing import Dialing, TappedCall
from tests.support.models import content, pattern_model
from tests.support.peers import ODD, SMALL, config, echo
from tests.support.virtual_job import Cable, VirtualJob

HOUR = 3600.0
FIRST = Attempt("job", 0, 1)


def test_heartbeats_keep_an_idle_session_alive() -> None:
    with VirtualJob() as job:
        client = job.site(0)
        assert not client.wait(HOUR / 2)  # and nothing was said but heartbeats
        assert [peer.is_here for peer in job.server.peers()] == [True]


def test_work_that_reports_progress_outlives_the_stage_processing() -> None:
    with VirtualJob(config(communication_timeout=60.0)) as job:

        def work(assignment: Assignment) -> None:
            receive_model(assignment.incoming(), lambda model: MemoryStore().begin(model.spec))
            for _ in range(12):
                job.sleep(50.0)
                assignment.progress()
            assignment.reply(metadata={"loss": "0.5"})

        job.site(0, serving=work)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.request("train", ODD, attempt=FIRST)
        send_model(exchange.outgoing, pattern_model(ODD))
        exchange.request_complete()
        reply = exchange.wait_reply(HOUR)
        assert reply is not None
        assert reply.metadata == {"loss": "0.5"}
        assert job.seconds == 12 * 50.0


def test_a_request_nobody_works_on_expires_the_stage_processing() -> None:
    with VirtualJob(config(communication_timeout=60.0)) as job:

        def hold(assignment: Assignment) -> None:
            receive_model(assignment.incoming(), lambda model: MemoryStore().begin(model.spec))

        job.site(0, serving=hold)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.request("task", ODD, attempt=FIRST)
        send_model(exchange.outgoing, pattern_model(ODD))
        exchange.request_complete()
        with pytest.raises(CommunicationTimeout) as named:
            exchange.wait_reply(HOUR)
        assert exchange.failure is named.value
    assert (named.value.stage, named.value.who) == ("processing", "site-0")
    assert named.value.seconds == 60.0


def test_an_answer_that_began_before_the_request_was_complete_ends_the_processing() -> None:
    with VirtualJob(config(communication_timeout=60.0)) as job:
        job.site(0, serving=lambda _: None)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.request("task", ODD, attempt=FIRST)
        exchange.reply_began()
        exchange.request_complete()
        assert exchange.wait_reply(120.0) is None  # not an error either


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_an_offer_has_its_time_from_the_return_of_its_client_on(is_asked_before: bool) -> None:
    with VirtualJob(config(open_timeout=10.0, reconnect_timeout=600.0)) as job:
        goes_on, cable, store = job.clock.event(), Cable(), MemoryStore()

        def work(assignment: Assignment) -> None:
            goes_on.wait()
            receive_model(assignment.incoming(), lambda model: store.begin(model.spec))
            assignment.reply()

        job.site(0, serving=work, cable=cable)
        (peer,) = job.server.wait_for_peers(1, 1.0)
        exchange = peer.request("task", ODD, attempt=FIRST) if is_asked_before else None
        cable.pull()
        job.sleep(1.0)
        assert peer.is_disconnected
        exchange = exchange or peer.request("task", ODD, attempt=FIRST)
        job.sleep(60.0)  # longer than open_timeout: nothing of it counts
        assert exchange.outgoing.error is None
        cable.mend()
        goes_on.set()
        send_model(exchange.outgoing, pattern_model(ODD))
        assert exchange.wait_reply(HOUR) is not None
        assert content(store.open()) == content(pattern_model(ODD))


def mumble(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
    """Let a heartbeat arrive in the place of the goodbye, the client's second frame."""
    if isinstance(frame, f.Goodbye):
        return SessionWire(sent=1).encode(f.Heartbeat(1))
    return raw


@pytest.mark.parametrize(("is_cancelled", "seconds"), [(False, GOODBYE_SECONDS), (True, 1.0)])
def test_a_goodbye_that_nobody_answers_is_waited_for_once(
    is_cancelled: bool, seconds: float
) -> None:
    token = CancelToken()
    with VirtualJob() as job:
        link = ClientLink(
            job.server.address,
            name="site-0",
            serve=echo,
            config=SMALL,
            clock=job.clock,
            cancel=token,
            dial=Dialing(mumble),
        ).start()
        if is_cancelled:
            token.cancel("enough")
        began_at = job.seconds
        link.close()
        assert job.seconds - began_at == seconds
