"""Commands as users type them: help, the client's work, errors as one line, a job."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink import Client, ScatterAndGather, Server, StreamingExecutor, __version__, open_model
from streamlink.cli.settings import LINK, ROUNDS
from streamlink.config import JobConfig, RoundConfig
from streamlink.stores import MemoryStore
from tests.support.commands import Command, streamlink
from tests.support.invoked import ABSENT, Outcome, words
from tests.support.models import float_spec, pattern_model

# --- help and version -------------------------------------------------------


def test_the_version_is_the_packages() -> None:
    assert Outcome("--version").out == f"streamlink-fl {__version__}\n"


@pytest.mark.parametrize("name", [*LINK, *ROUNDS])
def test_a_flags_help_is_its_settings_docstring(name: str) -> None:
    section, _, key = name.partition(".")
    described = JobConfig.model_fields[section].default.__class__.model_fields[key].description
    shown = words(Outcome("server", "--help").out)
    assert f"--{key.replace('_', '-')}" in shown
    assert words(described or "").replace("``", "") in shown


def test_help_gives_defaults_and_units() -> None:
    shown = words(Outcome("server", "--help").out)
    assert "--streaming-ack-wait SECONDS" in shown
    assert "(seconds). [default: 300]" in shown
    assert "--chunk-bytes SIZE" in shown
    assert "[default: 2MiB]" in shown


# --- the client's work ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "give either --task FILE.py:function or --executor FILE.py:factory"),
        (["--task", "tasks.py:add", "--executor", "tasks.py:wrong"], "give either --task"),
        (["--task", "tasks.py"], "--task 'tasks.py' is not of the form FILE.py:name"),
        (["--task", "absent.py:add"], "absent.py: there is no such file"),
        (["--task", "tasks.py:sub"], "--task: tasks.py has no function 'sub'"),
        (["--task", "tasks.py:number"], "something that is no function called 'number'"),
        (["--task", "no.such.module:f"], "importing no.such.module raised ModuleNotFoundError"),
        (["--task", "broken.py:f"], "--task: importing broken.py raised SyntaxError"),
        (["--task", "imports.py:f"], "raised KeyError: 'k' ({place}/helper.py, line 3, in look)"),
        (["--task", "absence.py:f"], "No module named 'nowhere' ({place}/absence.py, line 2)"),
        (["--executor", "tasks.py:refuse"], "no GPU for site-1 ({place}/tasks.py, line 5, in "),
        (["--executor", "tasks.py:wrong"], "returned int, which has no method execute"),
        (["--executor", "tasks.py:wrong", "--weight", "2"], "--weight needs --task"),
        (["--task", "tasks:add", "--weight", "nan"], "--weight is nan; a weight is 0"),
    ],
)
def test_work_that_cannot_be_used_is_one_line(
    place: Path, options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "broken.py").write_text("def f(:\n")
    (place / "imports.py").write_text("from helper import x\n")
    (place / "helper.py").write_text("import os\ndef look():\n    return {}['k']\nx = look()\n")
    (place / "absence.py").write_text("import os\nimport nowhere\n")
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    error = Outcome("client", "--server", ABSENT, "--name", "site-1", *options).error
    assert sentence.format(place=place) in error


def test_an_absent_server_is_one_line_that_names_the_setting(place: Path) -> None:
    options = ["--task", "tasks:add", "--set", "timeouts.connect_timeout=0.2"]
    outcome = Outcome("client", "--server", ABSENT, "--name", "site-1", *options)
    assert f"no server answers at {ABSENT} within 0.2 s (connect_timeout)" in outcome.error
    assert outcome.code == 2


def test_debug_adds_the_traceback(place: Path) -> None:
    outcome = Outcome("inspect", "absent", "--log-level", "debug")
    assert "Traceback (most recent call last)" in outcome.err
    assert outcome.err.splitlines()[-1] == "error: absent: there is no model here"


def test_a_taken_name_is_refused_in_one_line(place: Path) -> None:
    with Server() as server:
        address = f"127.0.0.1:{server.port}"
        with Client(address, "site-1", StreamingExecutor(lambda tensor, start, values: values)):
            options = ["--name", "site-1", "--task", "tasks.py:add"]
            for name, seconds in (("connect", 1), ("session", 0.4)):
                options += ["--set", f"timeouts.{name}_timeout={seconds}"]
            options += ["--set", "timeouts.heartbeat_interval=0.2"]
            outcome = Outcome("client", "--server", address, *options)
    assert "a client named 'site-1' is already connected" in outcome.error
    assert outcome.code == 2


def test_a_taken_port_is_one_line(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = Outcome("server", "--store", "g", "--listen", address)
    assert f"cannot listen on {address}" in outcome.error
    assert outcome.code == 2


def test_too_few_clients_are_a_failed_job(place: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--set", "rounds.wait_for_clients_seconds=0.1"]
    outcome = Outcome("server", "--store", "g", *options)
    assert "0 of 2 clients came within 0.1 s" in outcome.error
    assert outcome.code == 1


# --- a job ------------------------------------------------------------------


@pytest.mark.processes(quick=True)
def test_a_server_and_a_client_run_a_job_from_the_command_line(place: Path) -> None:
    initial = pattern_model(float_spec(300_000, 5))
    server = streamlink(
        "server", "--store", "z", "--listen", "127.0.0.1:0", "--min-clients", 1,
        "--num-rounds", 2, "--start-round", 5, "--job", "own", "--json-logs",
    )  # fmt: skip
    with Command(server, place) as running:
        port = running.until(r"listening on 127.0.0.1:(\d+)")[1]
        work = ["--name", "site 1", "--task", "tasks.py:add", "--log-file", "c.log"]
        outcome = Outcome("client", "--server", f"127.0.0.1:{port}", *work)
        assert running.end() == 0
    assert outcome.code == 0
    lines = [json.loads(line) for line in running.log.splitlines()]
    done = [line for line in lines if line["message"] == "transfer done"]
    # Within a round the two ends may be noticed in either order.
    assert sorted((each["round"], each["direction"]) for each in done) == [
        (5, "received"), (5, "sent"), (6, "received"), (6, "sent"),
    ]  # fmt: skip
    assert {each["bytes"] for each in done} == {1_200_020}
    assert running.output.startswith("2 rounds in ")
    assert "transfer done → server round=6 attempt=1 bytes=1200020" in outcome.err
    assert outcome.err.splitlines()[0] == (place / "c.log").read_text().splitlines()[0]
    begun, ended = (np.frombuffer(first_values(m), "<f4") for m in (initial, open_model("z")))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ended, begun + np.float32(1) + np.float32(1))


def first_values(model: Any) -> bytes:
    return b"".join(model.read(0, 4096))


def test_a_task_that_raises_tells_its_traceback_to_the_server_and_the_round_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore({"w": np.zeros(100_000, np.float32)})

    def boom(tensor: Any, start: int, values: Any) -> Any:
        raise RuntimeError("boom\nINFO forged")

    with Server() as server:
        for name, task in (("bad", boom), ("good", lambda tensor, start, values: values + 1)):
            client = Client(f"127.0.0.1:{server.port}", name, StreamingExecutor(task))
            threading.Thread(target=client.run, daemon=True).start()
        server.wait_for_peers(2, 60)
        rules = RoundConfig(min_clients=1, num_rounds=1)
        (report,) = ScatterAndGather(server, store, rules).run()
    told = [r.getMessage() for r in caplog.records if r.name == "streamlink.rounds"]
    assert "bad: the task raised RuntimeError: boom\nINFO forged" in told
    assert any(line.startswith("bad: | ") and "in boom" in line for line in told)
    assert list(report.weights) == ["good"]
    assert "boom" in report.failures["bad"]
