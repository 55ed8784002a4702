"""A process that forgets to close still exits, and its peers hear a goodbye or why it failed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from streamlink.errors import AbortCode
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.server import Server
from streamlink.stores.memory import MemoryStore
from tests.support.models import pattern_model
from tests.support.peers import ODD, SMALL, WAIT, echo
from tests.support.scripts import Script

pytestmark = pytest.mark.processes

SERVER = """
server = streamlink.Server("127.0.0.1:0").listen()
print(server.port, flush=True)
"""


def joined(port: str) -> ClientLink:
    return ClientLink(f"127.0.0.1:{port}", name="site-1", serve=echo, config=SMALL).start()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("127.0.0.1:0", SMALL) as server:
        yield server


def test_a_server_that_is_not_closed_says_goodbye() -> None:
    with Script(SERVER + "told()") as script:
        client = joined(script.line())
        assert script.end() == (0, "")
    assert client.wait(WAIT)
    assert client.error is not None
    assert client.error.code is AbortCode.GOODBYE
    assert "the server's process has ended" in str(client.error)
    client.close()


def test_an_exception_that_nobody_catches_is_no_goodbye() -> None:
    with Script(SERVER + "told()\nraise ValueError('wrong')") as script:
        client = joined(script.line())
        status, errors = script.end()
    assert status == 1
    assert errors.endswith("ValueError: wrong\n")
    assert client.wait(WAIT)
    assert client.error is not None
    assert client.error.code is AbortCode.CANCELLED
    assert "the server's process has ended" in str(client.error)
    client.close()


def test_a_client_that_is_not_closed_says_goodbye(server: Server) -> None:
    text = """
    client = ClientLink(sys.argv[1], name="site-1").start()
    print("here", flush=True)
    told()
    """
    with Script(text, server.address) as script:
        assert script.line() == "here"
        peer = server.wait_for_peer("site-1", WAIT)
        assert script.end() == (0, "")
    assert server.wait_until_left("site-1", WAIT)
    assert peer is not None
    assert "site-1 left: the client's process has ended" in str(peer.error)


def test_a_client_with_a_task_says_goodbye(server: Server) -> None:
    text = """
    busy = threading.Event()

    def train(model, task):
        busy.set()
        threading.Event().wait()

    executor = streamlink.WholeExecutor(train)
    client = streamlink.Client(sys.argv[1], "site-1", executor).start()
    busy.wait()
    print("busy", flush=True)
    told()
    """
    with Script(text, server.address) as script:
        peer = server.wait_for_peer("site-1", WAIT)
        assert peer is not None
        exchange = peer.ask("train", pattern_model(ODD), into=MemoryStore())
        assert script.line() == "busy"
        assert script.end() == (0, "")
    assert "the client's process has ended" in str(exchange.exception(WAIT))


def test_clients_of_a_job_that_runs_hear_that_its_server_has_failed() -> None:
    text = """
    def run():
        rules = streamlink.RoundConfig(min_clients=1, num_rounds=1)
        streamlink.ScatterAndGather(server, MemoryStore(model), rules).run()

    threading.Thread(target=run, daemon=True).start()
    told()
    """
    with Script(SERVER + dedent(text)) as script:
        port, tasks = script.line(), list[Assignment]()
        client = ClientLink(
            f"127.0.0.1:{port}", name="site-1", serve=tasks.append, config=SMALL
        ).start()
        while not tasks:
            assert not client.wait(0.01)
        assert script.end()[0] == 0
    assert client.wait(WAIT)
    assert client.error is not None
    assert client.error.code is AbortCode.CANCELLED  # no goodbye: the job is not done
    client.close()


@pytest.mark.parametrize(
    "call",
    [
        "streamlink.receive(model, '127.0.0.1:0', on_listening=open)",
        "streamlink.send(model, '127.0.0.1:9')",
    ],
    ids=["receive", "send"],
)
def test_a_copy_in_a_thread_does_not_keep_the_process(call: str) -> None:
    text = f"""
    def open(port):
        print(port, flush=True)

    threading.Thread(target=lambda: {call}, daemon=True).start()
    print("running", flush=True)
    told()
    """
    with Script(text) as script:
        assert script.line()
        assert script.end()[0] == 0


def test_nothing_is_kept_under_asyncio_run() -> None:
    text = """
    async def main():
        asyncio.create_task(run_async(streamlink.receive, model, "127.0.0.1:0"))
        server = streamlink.Server("127.0.0.1:0").listen()
        client = ClientLink(server.address, name="site-1").start()
        (peer,) = server.wait_for_peers(1, 60)
        exchange = peer.ask("nothing")
        print("here", flush=True)

    asyncio.run(main())
    told()
    """
    with Script(text) as script:
        assert script.line() == "here"
        assert script.end()[0] == 0


def test_nothing_is_kept_under_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
        import streamlink
        from streamlink.link import ClientLink

        def test_it():
            server = streamlink.Server("127.0.0.1:0").listen()
            client = ClientLink(server.address, name="site-1").start()
            assert server.wait_for_peers(1, 60)
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_forked_child_says_nothing_for_its_parent() -> None:
    text = """
    import os
    from streamlink.testing import memory_address

    server = streamlink.Server(memory_address()).listen()
    client = ClientLink(server.address, name="site-1").start()
    (peer,) = server.wait_for_peers(1, 60)
    if (child := os.fork()) == 0:
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), peer.is_here, flush=True)
    told()
    """
    with Script(text) as script:
        assert script.line() == "5 True"
        assert script.end()[0] == 0


def test_a_forked_child_that_leaves_the_with_blocks_ends_nothing_of_its_parents(
    tmp_path: Path,
) -> None:
    text = """
    import os
    import numpy as np
    from streamlink.objects import ObjectClient, ObjectServer

    def get(client):
        into = {"w": np.zeros(1 << 20, np.float32)}
        client.get(reference, into=into)
        return into["w"].sum() == 1 << 20

    def carried(facts):
        print(facts.carrier, flush=True)

    with (
        ObjectServer("127.0.0.1:0", spool=sys.argv[1]) as server,
        ObjectClient(server.address, name="site-2") as early,
    ):
        reference = str(early.put({"w": np.ones(1 << 20, np.float32)}, readers=None))
        if (child := os.fork()) == 0:
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), get(early), flush=True)
        with ObjectClient(server.address, name="site-3", on_transfer=carried) as late:
            print(get(late), flush=True)
    """
    with Script(text, str(tmp_path / "spool")) as script:
        assert script.line() == "5 True"
        assert [script.line(), script.line()] == ["tcp", "True"]
        assert script.end()[0] == 0


def test_a_job_in_a_thread_of_its_own_is_finished_first() -> None:
    """A thread that is no daemon keeps a process, as everywhere in Python; the server serves on."""
    text = """
    def run():
        rules = streamlink.RoundConfig(min_clients=1, num_rounds=1)
        streamlink.ScatterAndGather(server, MemoryStore(model), rules).run()
        server.close()
        print("finished", flush=True)

    threading.Thread(target=run).start()
    """
    with Script(SERVER + dedent(text)) as script:
        work = StreamingExecutor(lambda tensor, start, values: values + 1)
        with Client(f"127.0.0.1:{script.line()}", "site-1", work, SMALL) as client:
            assert len(client.run()) == 1
        assert script.line() == "finished"
        assert script.end() == (0, "")
