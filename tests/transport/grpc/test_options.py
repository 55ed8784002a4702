"""What gRPC is told, where only a real server shows it."""

from __future__ import annotations

import pytest

from streamlink.link import ClientLink
from tests.support.peers import config
from tests.support.scripts import Script

PATIENT = 120.0  # both ends' session_timeout (seconds)

BUSY = """
import ctypes
from streamlink.link import ClientRequest

def hold(request):
    # Unlike time.sleep it keeps the interpreter; gRPC's own threads go on.
    ctypes.PyDLL(None).sleep(33)
    request.reply()

timeouts = streamlink.TimeoutConfig(session_timeout=float(sys.argv[1]))
serve = {"hold": hold, "echo": ClientRequest.reply}
server = streamlink.Server("127.0.0.1:0", streamlink.LinkConfig(timeouts=timeouts), serve=serve)
server.listen()
print(server.address, flush=True)
told()
"""


@pytest.mark.processes
def test_a_session_outlives_a_server_that_is_busy_for_longer_than_grpc_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    patient = config(session_timeout=PATIENT, heartbeat_interval=0.5)
    with (
        Script(BUSY, PATIENT) as server,
        ClientLink(server.line(), name="site-1", config=patient) as link,
        caplog.at_level("WARNING", "streamlink"),
    ):
        for topic in ("hold", "echo"):  # the second is behind every message that came meanwhile
            with link.ask(topic):
                pass
    assert [each for each in caplog.messages if "lost" in each] == []
