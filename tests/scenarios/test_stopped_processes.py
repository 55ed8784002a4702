"""Processes that are stopped, and go on: who blames whom, when, and what becomes of a round.

A pause has to be as long as it is, so these tests sleep. Nothing else waits for a time.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from streamlink.stores.safetensors import SafetensorsStore
from tests.support.commands import Command
from tests.support.dying import command
from tests.support.forked import Fork
from tests.support.models import content, float_spec, pattern_model, save
from tests.support.peers import assert_same, initial, mean_of
from tests.support.processes import fact
from tests.support.relay import Link, Relay
from tests.support.round_processes import LINK, Job

pytestmark = pytest.mark.processes

HASTY = {"heartbeat_interval": 0.2, "session_timeout": 1.2, "reconnect_timeout": 1.0}
HASTY |= {"rejoin_timeout": 0.0, "streaming_ack_wait": 1.5}
HASTY |= {f"{name}_timeout": 1.5 for name in ("streaming_read", "communication", "open", "call")}
PAUSE = 2.2
"""Longer than any of these and than a lost call is waited for (seconds)."""


def link(**timeouts: float) -> dict[str, Any]:
    return {**LINK, "timeouts": timeouts}


PATIENT = link(heartbeat_interval=0.2, rejoin_timeout=0.0)


@contextmanager
def stopped(process: subprocess.Popen[str] | Fork) -> Iterator[None]:
    """Stop a process, and let it go on after that."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def assert_undisturbed(job: Job, *numbers: int) -> None:
    """The round ended in its first attempt, with the exact mean of all and nobody blamed."""
    report = fact(job.server, "contributors")
    assert report["failures"] == {}
    assert report["contributors"] == [f"site-{number}" for number in numbers]
    assert report["attempt"] == 1
    assert fact(job.server, "digest")
    assert_same(job.model(), mean_of(initial(), dict.fromkeys(numbers, 1.0)))


# --- who was stopped itself -----------------------------------------------------------------


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_server_that_was_stopped_blames_no_client(gather: str, tmp_path: Path) -> None:
    ways = {"link": link(**HASTY), "clients_link": PATIENT}
    with Job(tmp_path, gather=gather, fates={0: "", 1: "wait"}, **ways) as job:
        job.reached(1)
        with stopped(job.server):
            time.sleep(PAUSE)
        job.go_on(1)
        assert_undisturbed(job, 0, 1)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_server_that_was_stopped_for_long_asks_its_clients_again_and_names_itself(
    gather: str, tmp_path: Path
) -> None:
    rejoining = link(**{**HASTY, "rejoin_timeout": 60.0})
    rules = {"link": link(heartbeat_interval=0.2, reconnect_timeout=60.0), "log": tmp_path / "log"}
    rules |= {"clients_link": rejoining, "wait_time_after_min_received": 60}
    with Job(tmp_path, gather=gather, fates={0: "wait", 1: "wait"}, **rules) as job:
        for number in range(2):
            job.reached(number)
        with stopped(job.server):
            for client in job.clients.values():
                while fact(client, "log") != "session ended":
                    pass
        for number in range(2):
            job.go_on(number)
        assert fact(job.server, "contributors")["failures"] == {}
        assert fact(job.server, "digest")
    log = (tmp_path / "log").read_text()
    assert "connected as another process" not in log
    told = r"site-\d replaced this session with a new one, after this process had not run for"
    assert re.search(told, log)


def test_a_client_that_was_stopped_does_not_blame_the_server(tmp_path: Path) -> None:
    ways = {"link": PATIENT, "clients_link": link(**HASTY)}
    with Job(tmp_path, gather="spool", fates={0: "", 1: "wait"}, **ways) as job:
        with stopped(job.reached(1)):
            time.sleep(PAUSE)
        job.go_on(1)
        assert_undisturbed(job, 0, 1)


# --- what the others see --------------------------------------------------------------------


def test_a_client_stopped_within_the_patience_goes_on_where_it_stood(tmp_path: Path) -> None:
    server = link(heartbeat_interval=0.2, session_timeout=1.0, reconnect_timeout=15.0)
    ways = {"link": server, "clients_link": PATIENT}
    with Job(tmp_path, gather="lockstep", fates={0: "", 1: "wait"}, **ways) as job:
        with stopped(job.reached(1)):
            time.sleep(PAUSE)  # its session is away by then
        job.go_on(1)
        assert_undisturbed(job, 0, 1)


def test_a_client_stopped_for_good_is_missed_and_ends_in_words(tmp_path: Path) -> None:
    rules = {"min_clients": 2, "wait_time_after_min_received": 0.5, "link": link(**HASTY)}
    fates = {0: "", 1: "wait", 2: ""}
    with Job(tmp_path, gather="lockstep", fates=fates, **rules) as job:
        lost = job.reached(1)
        with stopped(lost):
            report = fact(job.server, "contributors")
            assert report["contributors"] == ["site-0", "site-2"]
            assert list(report["failures"]) == ["site-1"]
            assert fact(job.server, "digest")  # it has left
        job.go_on(1)
        assert "server" in fact(lost, "ended")


def test_a_server_stopped_for_good_is_missed_by_its_clients_in_time(tmp_path: Path) -> None:
    with Job(
        tmp_path, gather="lockstep", fates={0: "", 1: "wait"}, clients_link=link(**HASTY)
    ) as job:
        job.reached(1)
        with stopped(job.server):
            ended = fact(job.clients[0], "ended")
        assert "server 127.0.0.1" in ended
        assert "raise reconnect_timeout" in ended


# --- two clients of one name ----------------------------------------------------------------


def test_a_client_started_again_waits_until_its_predecessor_is_missed(tmp_path: Path) -> None:
    server = link(heartbeat_interval=0.2, session_timeout=2.0, reconnect_timeout=30.0)
    ways = {"link": server, "clients_link": PATIENT}
    with Job(tmp_path, gather="spool", fates={0: "wait", 1: "wait"}, **ways) as job:
        job.reached(0)
        predecessor = job.reached(1)
        with stopped(predecessor):  # to the server it is alive until session_timeout
            fact(job.client(1), "here")
        job.go_on(1)
        assert "connected as another process" in fact(predecessor, "ended")
        job.go_on(0)
        assert fact(job.server, "contributors")["contributors"] == ["site-0", "site-1"]


# --- one model, without rounds ---------------------------------------------------------------

SPEC = float_spec(300_000)


class Copy:
    """``streamlink send`` and ``receive``, each with its own settings, over a slow line.

    With ``tcp`` as ``carrier`` the relay forwards the data port, too: the model travels over TCP.
    """

    def __init__(self, folder: Path, carrier: str, **hasty: bool) -> None:
        self.target = folder / "target"
        save(SafetensorsStore(folder / "source"), pattern_model(SPEC))
        self.receiver = command(
            "receive", self.target, "--listen", "127.0.0.1:0", *_options(hasty.get("receiver"))
        )
        port = int(self.receiver.until(r"listening on \S*:(\d+)")[1])
        slow, has_data_port = Link(bandwidth=400_000.0), carrier == "tcp"
        self.relay = Relay("127.0.0.1", port, up=slow, with_data_port=has_data_port)
        address = f"127.0.0.1:{self.relay.port}"
        self.sender = command("send", folder / "source", address, *_options(hasty.get("sender")))

    def begun(self) -> None:
        """Wait until bytes of the model are on their way."""
        self.relay.wait_until(lambda counts: counts.up_bytes > 150_000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.relay, self.receiver, self.sender:
            pass  # each ends as it would alone


def _options(is_hasty: bool | None) -> list[str]:
    timeouts = HASTY if is_hasty else {"heartbeat_interval": 0.2}
    options = [f"timeouts.{name}={seconds}" for name, seconds in timeouts.items()]
    options += ["stream.chunk_bytes=16KiB", "stream.min_chunk_bytes=4KiB"]
    options += ["stream.window_bytes=64KiB", "stream.initial_window_bytes=64KiB"]
    return [word for option in options for word in ("--set", option)]


def _stop_an_end(side: str, carrier: str, folder: Path) -> None:
    with Copy(folder, carrier, **{side: True}) as copy:
        copy.begun()
        process: Command = getattr(copy, side)
        with stopped(process.process):
            time.sleep(PAUSE)
        assert [copy.sender.end(), copy.receiver.end()] == [0, 0]
        for log in (copy.sender.log, copy.receiver.log):
            assert "retrying" not in log
            assert "waiting for the next sender" not in log
        assert "this process did not run for" in process.log
    assert content(SafetensorsStore(copy.target).open()) == content(pattern_model(SPEC))


def _stop_a_receiver_for_long(carrier: str, folder: Path) -> None:
    with Copy(folder, carrier, sender=True) as copy:
        copy.begun()
        with stopped(copy.receiver.process):
            copy.sender.until("retrying")
        assert [copy.sender.end(), copy.receiver.end()] == [0, 0]
    assert content(SafetensorsStore(copy.target).open()) == content(pattern_model(SPEC))


@pytest.mark.processes
@pytest.mark.parametrize("carrier", ["grpc", "tcp"])
def test_an_end_of_a_copy_that_was_stopped_blames_nobody_and_for_long_is_sent_the_rest(
    carrier: str, tmp_path: Path
) -> None:
    acts: dict[str, Callable[[Path], None]] = {
        "sender": partial(_stop_an_end, "sender", carrier),
        "receiver": partial(_stop_an_end, "receiver", carrier),
        "receiver for long": partial(_stop_a_receiver_for_long, carrier),
    }
    with ThreadPoolExecutor() as pool:  # side by side: most of it is waiting
        results = {name: pool.submit(act, tmp_path / name) for name, act in acts.items()}
    for result in results.values():
        result.result()
