"""Measured processes: what they use is seen, and whatever they do wrong is told in words."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from benchmarks.processes import Sampler, Usage, Worker, WorkerFailed
from tests.support.peers import until

pytestmark = pytest.mark.processes

MIB = 1 << 20
HELD = 100 * MIB
SLACK = 16 * MIB  # NumPy's own pages; and the kernel counts resident pages in batches


def body(name: str) -> str:
    return f"tests.benchmarks.bodies:{name}"


def test_a_child_that_holds_100_mib_shows_them_in_its_peak() -> None:
    with Worker(body("allocate"), {"nbytes": HELD}, name="holder") as holder:
        assert holder.expect("allocated") == {"total": 1}
        holder.tell("release")
        usage = holder.finish()
    assert usage.base_rss_bytes == holder.base_rss_bytes
    assert HELD - MIB <= usage.over_base_bytes <= HELD + SLACK
    assert usage.cpu_seconds > 0


def test_a_sampler_sees_the_same_memory_over_time() -> None:
    with Worker(body("allocate"), {"nbytes": HELD}, name="holder") as holder:
        with Sampler({"holder": holder.pid}, interval_seconds=0.01) as sampler:
            holder.expect("allocated")
        holder.tell("release")
        holder.finish()
    seen = sampler.samples("holder")
    assert max(sample.rss_bytes for sample in seen) <= holder.base_rss_bytes + HELD + SLACK
    assert [sample.at for sample in seen] == sorted(sample.at for sample in seen)


def test_a_sampler_looks_at_least_once_and_outlives_its_process() -> None:
    with (
        Worker(body("wait"), {}, name="waiter") as waiter,
        Sampler({"waiter": waiter.pid}, interval_seconds=0.01) as sampler,
    ):
        waiter.tell("go")
        waiter.finish()
    assert len(sampler.samples("waiter")) >= 1


def test_a_failing_child_is_named_with_its_last_words() -> None:
    words = r"(?s)unlucky ended .*meant to fail"
    with (
        Worker(body("fail"), {}, name="unlucky") as unlucky,
        pytest.raises(WorkerFailed, match=words),
    ):
        unlucky.expect("anything")


def test_a_child_that_should_run_and_does_not_is_named_with_its_last_words() -> None:
    words = r"(?s)unlucky ended with status 1.*meant to fail"
    with Worker(body("wait"), {}, name="waiter") as waiter:
        waiter.require_running()
    with Worker(body("fail"), {}, name="unlucky") as unlucky:

        def has_ended() -> bool:
            unlucky.require_running()
            return False

        with pytest.raises(WorkerFailed, match=words):
            until(has_ended)


def test_a_silent_child_is_given_up_on_and_ended() -> None:
    words = "silent did not say 'ready'"
    with (
        Worker(body("wait"), {}, name="silent") as silent,
        pytest.raises(WorkerFailed, match=words),
    ):
        silent.expect("ready", timeout_seconds=0.05)
    assert not psutil.pid_exists(silent.pid)


def test_a_wrong_word_is_refused() -> None:
    words = "said 'said' where 'ready' was expected"
    with (
        Worker(body("print_and_say"), {}, name="chatty") as chatty,
        pytest.raises(WorkerFailed, match=words),
    ):
        chatty.expect("ready")


def test_a_child_ends_when_the_program_that_started_it_is_killed() -> None:
    program = """
import time
from benchmarks.processes import Worker
with Worker("tests.benchmarks.bodies:sleep", {}, name="sleeper") as sleeper:
    sleeper.expect("asleep")
    print("started", flush=True)
    time.sleep(600)
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        children = psutil.Process(starter.pid).children()
        starter.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
    assert len(children) == 1
    assert not alive


def test_what_a_library_prints_is_not_taken_for_an_event() -> None:
    with Worker(body("print_and_say"), {}, name="chatty") as chatty:
        assert chatty.expect("said") == {"what": "signal"}
        assert isinstance(chatty.finish(), Usage)
