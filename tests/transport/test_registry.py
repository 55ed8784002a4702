"""Who is let in, and what becomes of the session that a client has lost."""

from __future__ import annotations

from streamlink.clock import running_time
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.memory import MemoryNetwork
from streamlink.transport.session import Session
from tests.support.peers import SMALL, WAIT


def test_the_session_that_takes_the_place_of_another_is_announced_before_that_ends() -> None:
    network, begun, ended_early = MemoryNetwork(running_time), list[Session](), list[bool]()

    def announce(session: Session) -> None:
        # A round that begins between the two must not miss the client.
        ended_early.append(any(each.pump.is_closed for each in begun))
        begun.append(session)

    hub = Hub(SMALL, [network.listen], on_session=announce, clock=running_time).listen()
    dialer = Dialer("memory", SMALL, network.carriers(), name="site-1", clock=running_time)
    try:
        for _ in range(2):  # the second time it has given its first session up
            dialer.connect(lambda session, request: session.reply(request))
        assert begun[0].closed.wait(WAIT)
        assert ended_early == [False, False]
        assert hub.sessions == begun[1:]
    finally:
        dialer.close()
        hub.close("the test is over", has_failed=True)
