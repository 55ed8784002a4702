"""What is recorded of a process's memory, whatever ends it."""

import gc
import os
import resource
import signal
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streamlink.profiling.heap.capture import Capture
from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind, Order
from streamlink.profiling.heap.experiments import default_client, default_server
from streamlink.profiling.heap.record import ProcessRecord, read_record, record_path
from tests.support.waiting import WAIT

MiB = 1 << 20


def order(run: Path, *, profiled: bool = False) -> Order:
    kind = Kind.SYNTHETIC
    experiment = Experiment(kind=kind, server=default_server(kind), client=default_client(kind))
    return Order(
        experiment=experiment,
        version="optimized",
        profiled=profiled,
        role="client",
        clients=(1,),
        address="127.0.0.1:1",
        run=run,
    )


def recorded(run: Path) -> ProcessRecord:
    return read_record(record_path(run, "client_1_optimized_plain"))


def test_the_peak_counts_what_was_held_and_freed_within_the_block(tmp_path: Path) -> None:
    with Capture(order(tmp_path)) as capture:
        capture.done(0, 1.5)
        held = np.ones(64 * MiB, np.uint8)
        del held
    seen = recorded(tmp_path)
    assert 60 * MiB < seen.over_base_bytes < 100 * MiB
    assert [each.seconds for each in seen.rounds] == [1.5]
    assert seen.error is None
    assert seen.samples[0][1] >= seen.base_bytes * 0.9


def test_garbage_collections_are_counted_within_the_block_only(tmp_path: Path) -> None:
    gc.disable()  # none but those that are asked for
    try:
        gc.collect()
        with Capture(order(tmp_path)):
            gc.collect()
            gc.collect()
        gc.collect()
    finally:
        gc.enable()
    assert recorded(tmp_path).collections == 2


def test_an_error_ends_the_block_and_the_record_has_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no more"), Capture(order(tmp_path)):
        raise ValueError("no more")
    assert recorded(tmp_path).error == "ValueError: no more"


def test_a_signal_while_the_block_ends_is_answered_after_the_record_is_written(
    tmp_path: Path,
) -> None:
    ends = threading.Event()

    def send() -> None:
        ends.wait(WAIT)
        os.kill(os.getpid(), signal.SIGTERM)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def fail() -> None:
        with suppress(ValueError), Capture(order(tmp_path)):
            ends.set()
            raise ValueError("the server left")
        threading.Event().wait(WAIT)  # it is answered here at the latest

    before = signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=send).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fail()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert recorded(tmp_path).error in ("ValueError: the server left", "it was stopped by a signal")


def test_a_second_run_into_the_same_folder_is_refused_before_it_begins(tmp_path: Path) -> None:
    with Capture(order(tmp_path)):
        pass
    before = recorded(tmp_path)
    with pytest.raises(ExperimentError, match="name another one"), Capture(order(tmp_path)):
        pytest.fail("it has begun")
    assert recorded(tmp_path) == before


def fill(given: Order) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with Capture(given):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        held = [bytearray(1000 + at % 100) for at in range(200_000)]
        del held
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]")
def test_a_disk_that_fills_with_a_profile_is_named_and_the_record_stays(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As a disk without room, for memray: neither for its records nor for the file it makes of them.
    try:
        with pytest.raises(ExperimentError, match=r"is damaged .* are free there: free some"):
            fill(order(tmp_path, profiled=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    seen = read_record(record_path(tmp_path, "client_1_optimized"))
    assert seen.error is not None
    assert "memory_profile.bin is damaged" in seen.error
    assert seen.over_base_bytes > 100 * MiB


@pytest.mark.slow
@pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]")
def test_memray_sees_what_the_block_allocates(tmp_path: Path) -> None:
    from memray import FileReader

    with Capture(order(tmp_path, profiled=True)):
        held = np.ones(64 * MiB, np.uint8)
        del held
    path = tmp_path / "profiles" / "client_1_optimized_memory_profile.bin"
    assert 64 * MiB <= FileReader(path).metadata.peak_memory < 80 * MiB
