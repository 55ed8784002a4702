"""Ctrl-C, SIGTERM and SIGHUP at named points of a command: before, while and after it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streamlink as sl
from tests.support.commands import Command, environment, streamlink

pytestmark = pytest.mark.processes

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

# ``python -m streamlink``, but for a signal to itself when a module is about to be imported, or
# what else is to be done there.
AT_IMPORT = """
import os, runpy, sys
point, number, action = sys.argv[1], int(sys.argv[2]), sys.argv[3]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == point:
            sys.meta_path.remove(self)
            exec(action)
sys.meta_path.insert(0, Finder())
sys.argv[:] = ["streamlink", *sys.argv[4:]]
runpy.run_module("streamlink", run_name="__main__", alter_sys=True)
"""
INTERRUPT = "os.kill(os.getpid(), number)"
AT_EXIT = "import atexit; atexit.register(os.kill, os.getpid(), number)"

WORK = """
import os, signal, sys, threading
import streamlink

def executor():
    return streamlink.StreamingExecutor(lambda tensor, start, values: values)

class Fragile:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass  # somewhere here the handler is called

def swallows(name):
    Fragile()
    return executor()

def hangs(name):
    print("hanging", file=sys.stderr, flush=True)
    threading.Event().wait()

def is_deaf(name):
    while True:
        try:
            hangs(name)
        except KeyboardInterrupt:
            print("deaf", file=sys.stderr, flush=True)

def forks(name):
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write(writes, b"ready")
        signal.pause()
    os.read(reads, 5)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    print("the child ended with", os.waitstatus_to_exitcode(status), file=sys.stderr, flush=True)
    return executor()
"""


def at_import(
    point: str, number: int, *words: object, action: str = INTERRUPT
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AT_IMPORT, point, str(int(number)), action, *map(str, words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def client(folder: Path, factory: str) -> Command:
    (folder / "work.py").write_text(WORK, encoding="utf-8")
    words = ("client", "--server", "127.0.0.1:9", "--name", "site-1")
    return Command(streamlink(*words, "--executor", f"work.py:{factory}"), folder)


def receiver(folder: Path) -> list[str]:
    return streamlink("receive", folder / "model", "--listen", "127.0.0.1:0")


# --- before it runs ---------------------------------------------------------


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("point", ["streamlink.cli", "typer", "numpy", "streamlink.cli.models"])
def test_a_signal_while_the_modules_are_imported_ends_it_without_a_traceback(
    point: str, number: signal.Signals
) -> None:
    done = at_import(point, number, "inspect", "nothing")
    assert (done.returncode, done.stderr, done.stdout) == (CODES[number], "stopped\n", "")


def test_nothing_else_is_said_where_the_log_is_json() -> None:
    done = at_import("numpy", signal.SIGINT, "inspect", "nothing", "--json-logs")
    assert (done.returncode, done.stderr) == (130, "")


def test_what_guards_the_imports_imports_nothing_that_takes_time() -> None:
    program = "import sys, streamlink, streamlink_fl; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=True
    ).stdout.split()
    assert not {b"typing", b"numpy", b"grpc", b"typer", b"pydantic", b"logging"} & set(loaded)


# --- while it runs ----------------------------------------------------------


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_command_that_waits_ends_with_the_code_of_its_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    with Command(receiver(tmp_path), tmp_path) as running:
        running.until("listening on")
        running.interrupt(number)
        assert running.end() == CODES[number]
    assert running.log.endswith("stopped\n")
    assert not list(tmp_path.glob("*.control"))


def test_hangups_that_nohup_ignores_stay_ignored(tmp_path: Path) -> None:
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *receiver(tmp_path)]
    with Command(command, tmp_path) as running:
        running.until("listening on")
        running.interrupt(signal.SIGHUP)
        running.interrupt(signal.SIGTERM)
        assert running.end() == CODES[signal.SIGTERM]


def test_an_interrupt_inside_a_destructor_is_not_lost(tmp_path: Path) -> None:
    with client(tmp_path, "swallows") as running:
        assert running.end() == 130
    assert running.log.endswith("stopped\n")


def test_code_that_knows_of_no_token_is_interrupted(tmp_path: Path) -> None:
    with client(tmp_path, "hangs") as running:
        running.until("hanging")
        running.interrupt()
        assert running.end() == 130
    assert running.log.endswith("stopped\n")


def test_a_second_ctrl_c_ends_at_once_what_the_first_did_not(tmp_path: Path) -> None:
    with client(tmp_path, "is_deaf") as running:
        running.until("hanging")
        running.interrupt()
        running.until(r"stopping \(SIGINT\); Ctrl-C ends it at once")
        while running.process.poll() is None:  # one that comes too soon is taken for the first
            running.interrupt()
        assert running.end() == 130


def test_a_second_signal_to_end_does_not_cut_the_first_ones_clean_up_short(tmp_path: Path) -> None:
    with client(tmp_path, "is_deaf") as running:
        running.until("hanging")
        running.interrupt(signal.SIGTERM)
        running.until("deaf")
        running.interrupt(signal.SIGTERM)
        running.interrupt(signal.SIGHUP)
        running.until("hanging")
        while running.process.poll() is None:
            running.interrupt()
        assert running.end() == 130


def test_a_forked_child_answers_signals_as_usual(tmp_path: Path) -> None:
    with client(tmp_path, "forks") as running:
        running.until(f"the child ended with {-signal.SIGTERM}")
        running.interrupt()
        assert running.end() == 130


# --- after it has run -------------------------------------------------------


@pytest.mark.parametrize("point", ["streamlink.cli", "numpy"], ids=["last", "before"])
def test_a_signal_while_python_ends_leaves_the_exit_code_as_it_was(
    point: str, tmp_path: Path
) -> None:
    for name, value in (("one", 1), ("other", 2)):
        sl.copy_model({"w": np.full(9, value, np.float32)}, tmp_path / name)
    words = ("inspect", tmp_path / "one", tmp_path / "other", "--verify")
    done = at_import(point, signal.SIGINT, *words, action=AT_EXIT)
    assert "different values" in done.stdout
    assert (done.returncode, done.stderr) == (1, ""), done
