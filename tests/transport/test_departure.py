"""What peers hear of a process that ends without closing; the whole way is in test_exit.py."""

from __future__ import annotations

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.testing import memory_address
from streamlink.transport.connect import dial, hub_at
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from tests.support.peers import SMALL, WAIT


def joined() -> tuple[Hub, Dialer, Session]:
    address = memory_address()
    hub = hub_at(address, SMALL, clock=running_time).listen()
    client = dial(address, SMALL, name="site-1", clock=running_time)
    return hub, client, client.connect(lambda session, request: None)


@pytest.mark.parametrize(
    ("has_failed", "is_asking", "code"),
    [
        (False, False, AbortCode.GOODBYE),
        (True, False, AbortCode.CANCELLED),
        (False, True, AbortCode.CANCELLED),
    ],
    ids=["a normal end", "an exception", "a request that waits"],
)
def test_a_client_hears_how_the_servers_process_ended(
    has_failed: bool, is_asking: bool, code: AbortCode
) -> None:
    hub, client, session = joined()
    if is_asking:
        hub.sessions[0].request("train")
    hub.depart(has_failed, WAIT)
    assert session.closed.wait(WAIT)
    assert isinstance(session.error, StreamAborted)
    assert session.error.code is code
    assert session.error.reason == "the server's process has ended"
    client.close()
    hub.close()


def test_a_server_hears_that_a_clients_process_ended() -> None:
    hub, client, _ = joined()
    (session,) = hub.sessions
    client.depart(False, WAIT)
    assert session.closed.wait(WAIT)
    assert "the client's process has ended" in str(session.error)
    client.close()
    hub.close()


def test_a_client_that_never_connected_has_nobody_to_tell() -> None:
    client = dial(memory_address(), SMALL, name="site-1", clock=running_time)
    client.depart(False, WAIT)
    client.close()
