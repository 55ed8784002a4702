"""The operator's socket: who may connect, what of an older one becomes, and what it answers."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamlink.errors import RoundError
from streamlink.operate.control import ControlError, ControlServer, ask, control_path

STATUS = {"do": "status"}


def echo(question: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"heard": dict(question)}


def test_an_answer_belongs_to_its_question(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo):
        assert ask(tmp_path / "c", {"do": "ü\n"}) == {"heard": {"do": "ü\n"}}


@pytest.mark.parametrize(
    ("asking", "answering", "is_believed"),
    [(1000, 1000, True), (1000, 0, True), (0, 1000, True), (1000, 1001, False)],
)
def test_an_answer_is_believed_of_our_own_user_and_root_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asking: int,
    answering: int,
    is_believed: bool,
) -> None:
    ours, of_kernel = os.getuid(), socket.socket.getsockopt

    def credentials(line: socket.socket, level: int, option: int, size: int) -> bytes:
        process, user, group = struct.unpack("3i", of_kernel(line, level, option, size))
        assert (option, user) == (socket.SO_PEERCRED, ours)
        return struct.pack("3i", process, answering, group)

    monkeypatch.setattr(os, "getuid", lambda: asking)
    monkeypatch.setattr(socket.socket, "getsockopt", credentials)
    with ControlServer(tmp_path / "c", echo):
        if is_believed:
            assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}
            return
        with pytest.raises(ControlError, match="belongs to user 1001, not to you"):
            ask(tmp_path / "c", STATUS)


def test_where_the_kernel_does_not_say_who_answers_the_sockets_owner_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with ControlServer(tmp_path / "c", echo):
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}
        monkeypatch.setattr(os, "getuid", lambda: 1001)
        theirs = os.stat_result((0o140600, 0, 0, 1, 1002, 0, 0, 0, 0, 0))
        monkeypatch.setattr(Path, "lstat", lambda path: theirs)
        with pytest.raises(ControlError, match="belongs to user 1002, not to you"):
            ask(tmp_path / "c", STATUS)


def test_only_its_user_may_ask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with ControlServer(tmp_path / "c", echo):
            assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.processes(quick=True)
def test_the_socket_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    code = f"""
from streamlink.operate.control import ControlServer
import signal
ControlServer({str(tmp_path / "c")!r}, dict)
print("here", flush=True)
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "c").is_socket()
    with pytest.raises(ControlError, match="no process listens here"):
        ask(tmp_path / "c", STATUS)
    with ControlServer(tmp_path / "c", echo):
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}


@pytest.mark.parametrize("name", ["site.client.control", "site.client.7.control"])
def test_sockets_with_the_number_of_a_killed_process_go_with_the_next_one(
    tmp_path: Path, name: str
) -> None:
    for stale in ("site.client.5.control", "site.client.6.control", "other.client.5.control"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.bind(str(tmp_path / stale))
    (tmp_path / "site.client.8.control").write_text("no socket")
    with (
        ControlServer(tmp_path / "site.client.5.control", echo),
        ControlServer(tmp_path / name, echo),
    ):
        assert ask(tmp_path / "site.client.5.control", STATUS) == {"heard": STATUS}
        left = {each.name for each in tmp_path.iterdir()}
    assert left == {
        "site.client.5.control", name, "site.client.8.control", "other.client.5.control"
    }  # fmt: skip


def test_a_live_socket_is_not_taken_over(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo):
        with pytest.raises(ControlError, match="another process listens here"):
            ControlServer(tmp_path / "c", echo)
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}


def test_of_many_that_start_at_once_one_gets_the_place_of_a_dead_one(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "c"))
    dead.close()
    begin, won, lost = threading.Barrier(8), list[ControlServer](), list[str]()

    def start() -> None:
        begin.wait()
        try:
            won.append(ControlServer(tmp_path / "c", echo))
        except ControlError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}
    won[0].close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("precious")
    with pytest.raises(ControlError, match="this is not a socket"):
        ControlServer(tmp_path / "c", echo)
    assert (tmp_path / "c").read_text() == "precious"


def test_the_socket_of_another_is_not_removed(tmp_path: Path) -> None:
    first = ControlServer(tmp_path / "c", echo)
    (tmp_path / "c").unlink()
    with ControlServer(tmp_path / "c", echo):
        first.close()
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}


def test_a_path_that_is_too_long_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30)
    for use in (lambda: ControlServer(path, echo), lambda: ask(path, STATUS)):
        with pytest.raises(ControlError, match="the limit is 107; give a shorter or relative"):
            use()


@pytest.mark.parametrize("raw", [b"\n", b"[]\n", b"{\n", b"\xff\n", b"{}", b"[" * 5000 + b"\n"])
def test_what_is_no_question_is_refused(raw: bytes, tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo), socket.socket(socket.AF_UNIX) as line:
        line.connect(str(tmp_path / "c"))
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        assert "one JSON object" in json.loads(line.makefile().readline())["error"]


def test_a_refusal_and_a_fault_are_told_in_words(tmp_path: Path) -> None:
    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        raise RoundError("no such client") if question["do"] == "drop" else KeyError("oh")

    with ControlServer(tmp_path / "c", answer):
        with pytest.raises(ControlError, match=r"^no such client$"):
            ask(tmp_path / "c", {"do": "drop"})
        with pytest.raises(ControlError, match="KeyError: 'oh'; see the log of the process"):
            ask(tmp_path / "c", STATUS)


def test_a_process_that_does_not_answer_is_named_in_time(tmp_path: Path) -> None:
    free = threading.Event()

    def stuck(question: Mapping[str, Any]) -> Mapping[str, Any]:
        free.wait(60)
        return {}

    with ControlServer(tmp_path / "c", stuck):
        with pytest.raises(ControlError, match=r"no answer within 0\.1 s"):
            ask(tmp_path / "c", STATUS, seconds=0.1)
        free.set()


def test_who_says_nothing_does_not_keep_others_out(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo), socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / "c"))
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}


class NoThread(threading.Thread):
    """A thread for which the system has no room."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_a_caller_without_a_thread_takes_no_place_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ControlServer(tmp_path / "c", echo):
        monkeypatch.setattr(threading, "Thread", NoThread)
        for _ in range(9):
            with pytest.raises(ControlError):
                ask(tmp_path / "c", STATUS)
        monkeypatch.undo()
        assert ask(tmp_path / "c", STATUS) == {"heard": STATUS}


def test_the_socket_of_one_that_begins_meanwhile_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, original = ControlServer(tmp_path / "c", echo), fcntl.flock
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(tmp_path / "other"))

    def let_another_begin(fd: int, how: int) -> None:
        original(fd, how)
        (tmp_path / "other").rename(tmp_path / "c")  # it had the lock just before

    monkeypatch.setattr(fcntl, "flock", let_another_begin)
    server.close()
    other.close()
    assert not (tmp_path / "other").exists(), "it was removed without the lock"
    assert (tmp_path / "c").exists()


def test_callers_beyond_the_bound_are_sent_away(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "c", echo):
        silent = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for each in silent:
            each.connect(str(tmp_path / "c"))
        with pytest.raises(ControlError, match=r"too many callers|reset|Broken pipe"):
            ask(tmp_path / "c", STATUS)
        for each in silent:
            each.close()


@pytest.mark.parametrize(
    ("store", "expected"),
    [("model", "model.control"), ("a/m.slz", "a/m.slz.control"), ("model/", "model.control")],
)
def test_the_socket_is_beside_the_store(store: str, expected: str) -> None:
    assert control_path(store) == Path(expected)


def test_the_socket_of_the_directory_one_is_in_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    assert control_path(".") == tmp_path / "model.control"
