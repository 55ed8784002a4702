"""An operator at the command line: asks a process that runs, ends it, and reads its JSON log."""

from __future__ import annotations

import json
import signal
import sys
import threading
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from streamlink import Client, StreamingExecutor, copy_model, open_store, send
from streamlink.cli import app, main
from streamlink.config import RoundConfig
from streamlink.errors import StreamAborted, StreamlinkError
from streamlink.operate.control import ControlServer
from streamlink.operate.status import StartingOperator
from streamlink.rounds.ledger import Ledger
from streamlink.rounds.report import RoundReport
from tests.support.commands import Command, streamlink
from tests.support.peers import WAIT, Array, until


def said(*words: object, code: int = 0) -> str:
    """Return what a command of ours printed to both streams, run in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def records(log: str) -> list[dict[str, Any]]:
    """Return a log's lines; each must be one JSON object."""
    return [json.loads(line) for line in log.splitlines()]


def events(log: str) -> list[str]:
    return [record["event"] for record in records(log) if "event" in record]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    copy_model({"w": np.zeros(50_000, np.float32)}, open_store(tmp_path / "model"))
    return tmp_path / "model"


class Stuck:
    """A client in this process that stops at the first range until it is let go."""

    def __init__(self, port: str) -> None:
        self.reached, self.opens = threading.Event(), threading.Event()
        self.done: Future[object] = Future()
        self.client = Client(f"127.0.0.1:{port}", "site-1", StreamingExecutor(self._work)).start()
        threading.Thread(target=self._run, daemon=True).start()

    def _work(self, tensor: object, start: int, values: Array) -> Array:
        self.reached.set()
        self.opens.wait(WAIT)
        return values

    def _run(self) -> None:
        try:
            self.done.set_result(self.client.run())
        except BaseException as error:
            self.done.set_exception(error)


@pytest.mark.processes
def test_a_server_is_asked_and_aborted_and_its_log_is_json(store: Path, tmp_path: Path) -> None:
    words = ("server", "--store", store, "--listen", "127.0.0.1:0", "--min-clients", 1)
    command = streamlink(*words, "--json-logs", "--metrics", "127.0.0.1:0")
    with Command(command, tmp_path) as server:
        site = Stuck(server.until(r"listening on 127\.0\.0\.1:(\d+)")[1])
        assert site.reached.wait(WAIT)
        told = json.loads(said("status", "--store", store, "--json"))
        assert (told["job"], told["round"]) == ("job", 0)
        assert [each["name"] for each in told["clients"]] == ["site-1"]
        assert "site-1: here, has " in said("status", "--store", store)
        assert "the last whole model stays" in said("abort", "--store", store, "--reason", "bad")
        assert server.end() == 1
        site.opens.set()
        error = site.done.exception(WAIT)
        site.client.close()
    assert "aborted by the operator: bad" in str(error)
    assert "the server failed" not in str(error)
    known = {"session began", "round started", "round failed", "session ended", "failed"}
    assert known <= set(events(server.log))
    last = records(server.log)[-1]
    assert (last["event"], last["exit_code"]) == ("failed", 1)
    assert "aborted by the operator: bad" in last["message"]
    answer = said("status", "--store", store, code=1)
    assert "no process listens here, and by " in answer
    assert "model.rounds.json job 'job' is not over; resume it with streamlink server" in answer
    assert not list(tmp_path.glob("*.control"))


@pytest.mark.processes
@pytest.mark.parametrize(("ending", "code"), [("done", 0), ("aborted", 1)])
def test_who_watches_a_job_is_told_how_it_ended(
    ending: str, code: int, store: Path, tmp_path: Path
) -> None:
    words = ("server", "--store", store, "--listen", "127.0.0.1:0", "--min-clients", 1)
    command = streamlink(*words, "--num-rounds", 1, "--ledger", tmp_path / "rounds.json")
    with Command(command, tmp_path) as server:
        site = Stuck(server.until(r"listening on 127\.0\.0\.1:(\d+)")[1])
        assert site.reached.wait(WAIT)
        watching = streamlink("status", "--store", store, "--watch", "--json")
        with Command(watching, tmp_path) as watch:
            assert watch.process.stdout is not None
            assert '"round": 0' in watch.process.stdout.readline()
            if ending == "aborted":
                said("abort", "--store", store)
            site.opens.set()
            assert watch.end() == code
        server.end()
        site.client.close()
    told = {0: "job 'job' has ended: all its rounds are done", 1: "job 'job' is not over"}
    assert told[code] in watch.log


@pytest.mark.processes
def test_a_client_that_was_excluded_stays_out_of_a_server_that_was_killed_and_resumes(
    store: Path, tmp_path: Path
) -> None:
    words = ("server", "--store", store, "--listen", "127.0.0.1:0", "--min-clients", 2)

    def join(server: Command) -> Client:
        port = server.until(
            r"listening on 127\.0\.0\.1:(\d+) \(plain text\), waiting for 2 clients"
        )[1]
        client = Client(f"127.0.0.1:{port}", "site-1", StreamingExecutor(lambda t, s, v: v))
        return client.start()

    with Command(streamlink(*words), tmp_path) as server, closing(join(server)):
        # A client has its welcome a moment before its server counts it among those that are here.
        until(lambda: "site-1: here" in said("status", "--store", store))
        assert "excluded" in said("abort", "--store", store, "--client", "site-1")
        server.interrupt(signal.SIGKILL)
        assert server.end() == -9
    with Command(streamlink(*words, "--resume"), tmp_path) as server:
        with pytest.raises(StreamAborted, match="excluded by the operator: no reason given"):
            join(server)
        assert "site-1: excluded" in said("status", "--store", store)
        server.interrupt()
        assert server.end() == 130


@pytest.mark.processes
def test_a_receiver_is_asked_and_aborted(store: Path, tmp_path: Path) -> None:
    command = streamlink("receive", "copy", "--listen", "127.0.0.1:0", "--control", "here")
    with Command(command, tmp_path) as receiver:
        receiver.until(r"listening on 127\.0\.0\.1:(\d+) \(plain text\), waiting for a model")
        assert "waiting for a sender" in said("status", "--control", tmp_path / "here")
        assert "the transfer is being ended" in said("abort", "--control", tmp_path / "here")
        assert receiver.end() == 1
    assert "aborted by the operator: no reason given" in receiver.log


def test_a_second_server_of_a_store_is_refused(store: Path) -> None:
    with ControlServer(f"{store}.control", dict):
        answer = said("server", "--store", store, "--listen", "127.0.0.1:0", "--resume", code=2)
    assert answer.startswith("error: ")
    assert "one uses this store already" in answer


def test_a_process_that_is_still_starting_says_so(tmp_path: Path) -> None:
    reception = StartingOperator()
    with ControlServer(tmp_path / "here", reception.answer):
        words = ("abort", "--control", tmp_path / "here")
        assert "still starting; ask again in a moment" in said(*words, code=1)
        reception.hand_over(lambda question: {"done": f"to {question['do']}"})
        assert said(*words) == "to abort\n"


def test_the_status_of_a_job_that_is_over_says_so(store: Path) -> None:
    rules = RoundConfig(num_rounds=1)
    ledger = Ledger(f"{store}.rounds.json", open_store(store), rules)
    ledger.begin(["site-1"])
    assert "--resume" in said("status", "--store", store, code=1)
    assert "--resume" not in said("status", "--control", f"{store}.control", code=1)
    ledger.complete(RoundReport(0, 1, 0.5, {"site-1": 1.0}, {}))
    ledger.close()
    answer = said("status", "--store", store, code=1)
    assert "--resume" not in answer
    assert "job 'job' is complete: all 1 rounds are done" in answer


def test_a_default_socket_that_cannot_be_made_does_not_stop_a_job(tmp_path: Path) -> None:
    store = tmp_path / ("long" * 25)
    listen = ("--listen", "127.0.0.1:0", "--timeout", "0")
    assert "running without an operator's socket: " in said("receive", store, *listen, code=1)
    answer = said("receive", store, *listen, "--control", f"{store}.control", code=2)
    assert "too long for a Unix socket" in answer


def test_a_receiver_without_a_socket_makes_none(tmp_path: Path) -> None:
    words = ("receive", tmp_path / "copy", "--listen", "127.0.0.1:0", "--timeout", "0")
    said(*words, "--control", "none", code=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [(), ("--store", "a", "--control", "b")])
def test_status_wants_one_process(words: tuple[str, ...]) -> None:
    assert "name the process" in said("status", *words, code=2)


def test_nobody_is_readmitted_without_a_name() -> None:
    assert "--readmit needs --client" in said("abort", "--store", "a", "--readmit", code=2)


@pytest.mark.processes
def test_a_sender_hears_that_its_receiver_was_aborted_while_it_sent(tmp_path: Path) -> None:
    command = streamlink("receive", "copy", "--listen", "127.0.0.1:0")
    sent: Future[object] = Future()
    with Command(command, tmp_path) as receiver:
        port = receiver.until(r"listening on 127\.0\.0\.1:(\d+)")[1]
        begun, goes_on = threading.Event(), threading.Event()

        def tell(peer: str, phase: str, done: int, total: int) -> None:
            if done:
                begun.set()
                goes_on.wait(WAIT)

        def run() -> None:
            try:
                model = {"w": np.zeros(4_000_000, np.float32)}
                sent.set_result(send(model, f"127.0.0.1:{port}", progress=tell))
            except StreamlinkError as error:
                sent.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        assert begun.wait(WAIT)
        told = json.loads(said("status", "--store", tmp_path / "copy", "--json"))
        assert told["receive_total_bytes"] == 16_000_000
        said("abort", "--store", tmp_path / "copy", "--reason", "wrong model")
        assert receiver.end() == 1
        assert "waiting for the next sender" not in receiver.log
        goes_on.set()
        assert "wrong model" in str(sent.exception(WAIT))


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "/nonexistent"),
        ("inspect", "--no-such-option", "x"),
        ("server",),
        ("status", "--store", "/nonexistent"),
        ("send", "/nonexistent", "127.0.0.1:1"),
        ("inspect", "x", "--log-level", "loud"),
        ("inspect", "x", "--log-file", "/proc/none/x"),
    ],
)
def test_what_fails_at_once_is_one_line_of_json(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")  # else the process would begin again to set it
    monkeypatch.setattr(sys, "argv", ["streamlink", *words, "--json-logs"])
    with pytest.raises(SystemExit) as ended:
        main()
    (record,) = records(capsys.readouterr().err)
    assert record["event"] == "failed"
    assert record["message"].startswith("error: ")
    assert record["exit_code"] == ended.value.code
