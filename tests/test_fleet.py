"""Fleets: whatever happens, everyone who was started has told what it knows and has ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamlink.descriptors import in_use
from streamlink.fleet import MAX_SAMPLES, Fleet, FleetError, Member, Reporter, peak_rss_bytes
from tests.support.commands import Command, environment
from tests.support.peers import WAIT, until

# A child that needs nothing of ours: `tell(...)` writes to the pipe it was handed.
CHILD = """
import json, os, signal, sys, threading
fd = int(sys.argv[sys.argv.index("--report-fd") + 1])
def tell(**facts): os.write(fd, json.dumps(facts).encode() + b"\\n")
def base(): tell(base_rss_bytes=1000)
"""
SERVER = "base(); tell(port=7);"
STAYS = "threading.Event().wait()"


def child(text: str) -> list[str]:
    return [sys.executable, "-c", CHILD + text]


def crew(*texts: str) -> list[tuple[str, list[str]]]:
    return [(f"site-{number + 1}", child(text)) for number, text in enumerate(texts)]


def assert_all_ended(fleet: Fleet) -> None:
    assert fleet.members
    for member in fleet.members:
        assert member.process.returncode is not None
        assert not psutil.pid_exists(member.process.pid)


@pytest.mark.processes(quick=True)
def test_a_fleet_runs_to_its_end_and_has_everybodys_facts() -> None:
    fleet, ports = Fleet(sample_seconds=0.01), list[int]()
    done = "tell(n=3)\ntell(peak_rss_bytes=5 << 40, cpu_seconds=1.5)"

    def clients(port: int) -> list[tuple[str, list[str]]]:
        ports.append(port)
        return crew("base(); tell(cpu_seconds=0.5)", "base()")

    head = fleet.run(child(f"{SERVER}\nsys.stdin.read(0)\n{done}"), clients)
    assert ports == [7]
    assert (head.facts["n"], head.report()["cpu_seconds"]) == (3, 1.5)
    assert head.report()["peak_rss_bytes"] == 5 << 40
    assert [each.report()["name"] for each in fleet.members] == ["server", "site-1", "site-2"]
    assert [each.report()["exit_code"] for each in fleet.members] == [0, 0, 0]
    assert [each.report()["base_rss_bytes"] for each in fleet.members] == [1000] * 3
    assert_all_ended(fleet)


@contextmanager
def opening(gate: Path, when: Callable[[], bool]) -> Iterator[None]:
    """Let the process that reads ``gate`` go on once it is so."""
    os.mkfifo(gate)

    def watch() -> None:
        until(when)
        gate.write_bytes(b"go on")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield
    watcher.join(WAIT)


@pytest.mark.processes
def test_a_running_process_is_sampled_from_outside(tmp_path: Path) -> None:
    fleet, gate = Fleet(sample_seconds=0.01), tmp_path / "gate"

    def is_sampled() -> bool:
        return bool(fleet.members) and len(fleet.members[0].samples) >= 3

    with opening(gate, is_sampled):
        head = fleet.run(child(f"{SERVER} open({str(gate)!r}).read()"), lambda port: crew("base()"))
    assert len(head.samples) >= 3
    assert min(rss for _, rss, _ in head.samples) > 1_000_000
    assert head.report()["peak_rss_bytes"] == max(rss for _, rss, _ in head.samples)
    assert_all_ended(fleet)


@pytest.mark.processes
def test_a_server_may_go_on_for_long_after_its_clients_have_left(tmp_path: Path) -> None:
    fleet, gate = Fleet(sample_seconds=0.01), tmp_path / "gate"

    def have_left() -> bool:
        return len(fleet.members) == 2 and fleet.members[1].process.returncode is not None

    program = f"{SERVER} open({str(gate)!r}).read(); tell(verified=True)"
    with opening(gate, have_left):
        head = fleet.run(child(program), lambda port: crew("base()"))
    assert head.facts["verified"] is True


@pytest.mark.processes
def test_clients_that_stay_after_the_server_has_ended_are_ended() -> None:
    fleet = Fleet(end_seconds=0.2)
    fleet.run(child(SERVER), lambda port: crew(f"base(); {STAYS}"))
    assert fleet.members[1].process.returncode == -signal.SIGKILL
    assert_all_ended(fleet)


@pytest.mark.processes
def test_a_server_that_fails_is_an_error_with_its_exit_code() -> None:
    fleet = Fleet()
    with pytest.raises(FleetError, match="exit code 3; its log above"):
        fleet.run(child(f"{SERVER} sys.exit(3)"), lambda port: crew("base()"))
    assert_all_ended(fleet)


@pytest.mark.processes
def test_a_server_that_never_listens_is_an_error() -> None:
    fleet = Fleet()
    with pytest.raises(FleetError, match="ended before it listened, exit code 4"):
        fleet.run(child("base(); sys.exit(4)"), lambda port: [])
    assert_all_ended(fleet)


@pytest.mark.processes
def test_a_server_that_falls_silent_and_stays_is_an_error() -> None:
    fleet = Fleet(end_seconds=0.2)
    with pytest.raises(FleetError, match="fell silent"):
        fleet.run(child(f"{SERVER} os.close(fd); {STAYS}"), lambda port: crew(f"base(); {STAYS}"))
    assert_all_ended(fleet)


@pytest.mark.processes
def test_a_client_that_ends_before_it_began_ends_the_fleet() -> None:
    fleet = Fleet(sample_seconds=0.01)
    with pytest.raises(FleetError, match="site-2 ended before it began, exit code 5"):
        fleet.run(child(SERVER + STAYS), lambda port: crew(f"base(); {STAYS}", "sys.exit(5)"))
    assert_all_ended(fleet)


@pytest.mark.processes
def test_an_interrupt_ends_everyone_even_those_who_do_not_listen() -> None:
    fleet = Fleet(end_seconds=0.3)

    def interrupted() -> Iterator[tuple[str, list[str]]]:
        yield from crew(f"base(); {STAYS}")  # it has begun when the next one is asked for
        raise KeyboardInterrupt

    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    with pytest.raises(KeyboardInterrupt):
        fleet.run(child(f"{deaf} {SERVER} {STAYS}"), lambda port: interrupted())
    assert [each.process.returncode for each in fleet.members] == [-signal.SIGKILL, -signal.SIGTERM]
    assert_all_ended(fleet)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt this process while each process of a fleet begins."""
    begin = subprocess.Popen

    def interrupting(*args: object, **kwargs: object) -> object:
        process = begin(*args, **kwargs)  # type: ignore[call-overload]
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupting)


@contextmanager
def answering(answer: Any) -> Iterator[None]:
    """Answer SIGINT so, whatever this process inherited."""
    before = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.processes
@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_while_a_process_begins_waits_until_it_is_known() -> None:
    fleet = Fleet()
    with answering(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        fleet.run(child(SERVER + STAYS), lambda port: [])
    assert len(fleet.members) == 1
    assert_all_ended(fleet)


@pytest.mark.processes
@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_that_the_program_ignores_is_ignored_while_a_process_begins() -> None:
    fleet = Fleet()
    with answering(signal.SIG_IGN):
        assert fleet.run(child(SERVER), lambda port: []).process.returncode == 0


@pytest.mark.processes
@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_while_a_process_begins_is_answered_once_it_is_over() -> None:
    # By a call, not by a second signal: what it raises cannot arise inside a destructor.
    fleet, frames = Fleet(), list[object]()
    with answering(lambda number, frame: frames.append(frame)):
        fleet.run(child(SERVER), lambda port: [])
    assert frames == [None]


@pytest.mark.processes
def test_last_words_that_were_cut_off_are_left_out() -> None:
    fleet = Fleet()
    head = fleet.run(child(f"{SERVER} tell(n=1); os.write(fd, b'{{\"n\": 2')"), lambda port: [])
    assert head.facts["n"] == 1


# --- the child's end --------------------------------------------------------


def test_a_reporter_without_a_pipe_tells_nobody() -> None:
    reporter = Reporter(None)
    reporter.report_base()
    reporter.report_usage()


@pytest.mark.processes
def test_a_reporter_tells_a_line_of_json_for_each_fact() -> None:
    program = (
        "from streamlink.fleet import Reporter\n"
        "r = Reporter(1)\n"
        "r.report_base(); r.report(port=5, names=['a']); r.report_usage()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=True
    )
    base, told, usage = map(json.loads, done.stdout.splitlines())
    assert told == {"port": 5, "names": ["a"]}
    assert usage["peak_rss_bytes"] >= base["base_rss_bytes"] > 1_000_000
    assert usage["cpu_seconds"] > 0


PARENT = """
import sys
import threading
from streamlink.fleet import Fleet
Fleet().run([sys.executable, "-c", sys.argv[1]], lambda port: [])
"""
ORPHAN = """
import os, sys, threading
from streamlink.fleet import Reporter
r = Reporter(int(sys.argv[2]))
try:
    r.report(port=1)
    print("child is", os.getpid(), file=sys.stderr, flush=True)
    threading.Event().wait()
finally:
    print("cleaned up", file=sys.stderr, flush=True)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_child_whose_parent_is_killed_cleans_up_and_ends(tmp_path: Path) -> None:
    with Command([sys.executable, "-c", PARENT, ORPHAN], tmp_path) as parent:
        number = int(parent.until(r"child is (\d+)")[1])
        parent.interrupt(signal.SIGKILL)
        assert parent.end() == -signal.SIGKILL  # and its stderr, which the child has too, is closed
    assert "cleaned up" in parent.log
    psutil.wait_procs([psutil.Process(number)] if psutil.pid_exists(number) else [], timeout=60)
    assert not psutil.pid_exists(number) or psutil.Process(number).status() == "zombie"


@pytest.mark.processes
def test_a_child_whose_parent_ended_before_it_looked_ends_as_well() -> None:
    reads, writes = os.pipe()
    os.close(reads)  # as the end of the parent does
    program = "import sys; from streamlink.fleet import Reporter; Reporter(int(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(writes)],
        env=environment(),
        pass_fds=(writes,),
        capture_output=True,
        text=True,
    )
    os.close(writes)
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.processes
def test_a_command_that_cannot_be_started_leaves_no_descriptor() -> None:
    before = in_use()
    with pytest.raises(FileNotFoundError):
        Fleet().run(["/no/such/command"], lambda port: [])
    assert in_use() == before


# --- small parts ------------------------------------------------------------


@pytest.mark.processes
def test_thinned_samples_keep_every_peak() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    samples = [(float(n), 5 if n != 777 else 9, 0.0) for n in range(5 * MAX_SAMPLES)]
    shown = Member("server", "server", process, {}, samples).report()["rss"]
    assert len(shown) <= MAX_SAMPLES
    assert [777.0, 9] in shown


def test_the_peak_of_a_process_that_is_gone_is_not_known() -> None:
    assert peak_rss_bytes(2**22 + 1) == 0
    assert peak_rss_bytes(os.getpid()) > 1_000_000
