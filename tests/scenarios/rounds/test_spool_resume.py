"""A client that is lost while its update is spooled, and comes back: it resumes its update."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import streamlink as sl
from streamlink.config import LinkConfig
from streamlink.executors.executor import Executor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.filters import FilterFactory
from streamlink.model.computed import RangeFunction
from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.report import RoundReport
from streamlink.stores import ArrayModel
from tests.rounds.lockstep.test_resume import halved, seeded
from tests.support.jobs import Job as Rounds
from tests.support.peers import WAIT, Array, Gate, Site, assert_same, initial, mean_of, trained
from tests.support.processes import fact
from tests.support.round_processes import LINK, Job

MiB = 1 << 20
FIVE = ModelSpec(
    (
        TensorSpec("odd", "U8", (3,)),  # so that the ends of all blocks cut an element
        *(TensorSpec(f"t{n}", "F32", (MiB // 4,)) for n in range(4)),
    )
)
"""Of 4 MiB: several blocks."""

STREAM = {"chunk_bytes": 65536, "min_chunk_bytes": 4096, "window_bytes": 262144}
LINKED = {**LINK, "stream": STREAM}
EXPECTED = mean_of(initial(FIVE), {0: 1.0, 1: 1.0})


# --- with real processes ---------------------------------------------------------------------


def a_job(folder: Path, fate: str, **facts: Any) -> Job:
    """Two clients; the second meets its ``fate``."""
    rules = {"wait_time_after_min_received": 60, "model": FIVE, "link": LINKED}
    return Job(folder, gather="spool", fates={0: "", 1: fate}, **{**rules, **facts})


def assert_undisturbed(job: Job, attempt: int) -> Any:
    """Both count, and model and digest are those of a round without a loss; returns the digest."""
    report = fact(job.server, "contributors")
    assert report["contributors"] == ["site-0", "site-1"]
    assert (report["attempt"], report["failures"]) == (attempt, {})
    ended = fact(job.server, "digest")
    assert ended["digest"] == sl.digest_of(ArrayModel(EXPECTED))
    assert_same(job.model(), EXPECTED)
    assert job.spooled == []
    return ended


@pytest.mark.processes
def test_a_killed_client_resumes_its_update_and_only_the_rest_is_sent(tmp_path: Path) -> None:
    with a_job(tmp_path, "hang@t3") as job:
        job.reached(1).kill()
        again = job.client(1)
        sent, received = assert_undisturbed(job, attempt=1)["wire"]
        assert fact(job.clients[0], "seen") == FIVE.nbytes  # each range once
        assert (
            0 < fact(again, "seen") <= FIVE.nbytes // 2 + 1024
        )  # the block of elements that was cut, again
    # Two clients, a model each; to begin again would have taken another three quarters.
    assert sent < 2.6 * FIVE.nbytes
    assert received < 2.6 * FIVE.nbytes


@pytest.mark.processes
def test_a_client_that_is_killed_after_its_last_byte_is_asked_for_its_metrics_only(
    tmp_path: Path,
) -> None:
    with a_job(tmp_path, "hang@metrics") as job:
        job.reached(1).kill()
        again = job.client(1)
        assert_undisturbed(job, attempt=1)
        assert fact(again, "seen") == 0


@pytest.mark.processes
def test_a_killed_client_that_is_not_pure_begins_again(tmp_path: Path) -> None:
    # It may be asked twice, and is not asked in vain for the rest.
    with a_job(tmp_path, "hang@t3", is_pure=False, max_attempts=2) as job:
        job.reached(1).kill()
        again = job.client(1, is_pure=False)
        assert_undisturbed(job, attempt=2)
        assert fact(again, "seen") == FIVE.nbytes


# --- in one process --------------------------------------------------------------------------


class Lossy(Rounds):
    """A spooled round of two clients, of which the second is lost on its way."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.spool = folder / "spool"
        extras = {"spool": self.spool, **rules.pop("extras", {})}
        facts: dict[str, Any] = {"wait_time_after_min_received": WAIT, "gather": "spool", **rules}
        link = LinkConfig.model_validate({"stream": STREAM, "timeouts": {"rejoin_timeout": 0}})
        super().__init__(link, arrays=initial(FIVE), extras=extras, **facts)

    def lose(self, gate: Gate, site: Site) -> None:
        """Let a client leave that stands at its gate."""
        assert gate.reached.wait(WAIT)
        site.leave()
        gate.opens.set()
        self.federation.wait_left("site-1")

    def begin(self) -> None:
        """Start the round, and lose the second client at t3."""
        gate, site = self.gated(1, "t3")
        self.site(0)
        self.start(2)
        self.lose(gate, site)

    def files(self) -> list[Path]:
        """What the spool has of the second client."""
        return list((self.spool / "1").glob("*.safetensors"))


def open_files() -> list[str]:
    """Return the paths of this process's open files."""
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed by now
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
    return paths


class Noted:
    """A client's work that notes how much of the model it has seen (bytes)."""

    def __init__(self, function: RangeFunction) -> None:
        self.seen = 0
        self._function = function

    def __call__(self, tensor: TensorSpec, start: int, values: Array) -> Array:
        self.seen += values.nbytes
        return self._function(tensor, start, values)


def report_of(job: Lossy, attempt: int) -> RoundReport:
    report = job.report()
    assert (report.attempt, report.failures) == (attempt, {})
    assert not job.spool.exists()
    return report


def differences(function: RangeFunction) -> StreamingExecutor:
    return StreamingExecutor(function, returns="differences", filter_up=FilterFactory(seeded))


@pytest.mark.slow
@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"extras": {"filters_down": [FilterFactory(seeded)], "filters_up": [halved]}},
        {"part": ["odd", "t0", "t2", "t3"]},
    ],
    ids=["plain", "filters", "part"],
)
def test_the_new_model_is_that_of_a_round_without_a_loss(
    facts: dict[str, Any], tmp_path: Path
) -> None:
    digests = set()
    for is_lost in (True, False):
        with Lossy(tmp_path / str(is_lost), **facts) as job:
            gate = Gate(1, "t3")
            site = job.site(1, differences(gate if is_lost else trained(1)))
            job.site(0)
            job.start(2)
            rest = Noted(trained(1))
            if is_lost:
                job.lose(gate, site)
                job.site(1, differences(rest))
            report_of(job, attempt=1)
            assert rest.seen <= FIVE.nbytes // 2 + 1024  # the block of elements that was cut, again
            digests.add(digest_of(job.store.open()))
    assert len(digests) == 1


def test_a_client_that_is_lost_twice_resumes_twice(tmp_path: Path) -> None:
    with Lossy(tmp_path) as job:
        first, site = job.gated(1, "t2")
        job.site(0)
        job.start(2)
        job.lose(first, site)
        second = Gate(1, "t3")
        noted, last = Noted(second), Noted(trained(1))
        site = job.site(1, StreamingExecutor(noted))
        job.lose(second, site)
        job.site(1, StreamingExecutor(last))
        report_of(job, attempt=1)
        assert_same(job.store.arrays, EXPECTED)
    assert noted.seen <= 3 * MiB + 1024
    assert last.seen <= 2 * MiB + 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "weight"),
    [
        (lambda: StreamingExecutor(trained(1), weight=2.0), 2.0),
        (lambda: StreamingExecutor(trained(1), is_pure=False), 1.0),
        (lambda: WholeExecutor(work_whole, initial(FIVE)), 1.0),
    ],
    ids=["another weight", "not pure", "whole"],
)
def test_who_comes_back_with_another_update_begins_again_and_counts_with_it(
    make: Callable[[], Executor], weight: float, tmp_path: Path
) -> None:
    with Lossy(tmp_path) as job:
        job.begin()
        job.site(1, make())
        assert report_of(job, attempt=2).weights == {"site-0": 1.0, "site-1": weight}
        assert_same(job.store.arrays, mean_of(initial(FIVE), {0: 1.0, 1: weight}))


def work_whole(arrays: dict[str, Array], task: object) -> None:
    for tensor in FIVE.tensors:
        flat = arrays[tensor.name].reshape(-1)
        flat[:] = trained(1)(tensor, 0, flat)


@pytest.mark.slow
@pytest.mark.parametrize("place", [1000, 2 * MiB])
def test_a_damaged_beginning_is_noticed_and_asked_for_again(
    place: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Lossy(tmp_path) as job:
        job.begin()
        (file,) = job.files()
        with file.open("r+b") as opened:
            opened.seek(place)
            byte = opened.read(1)[0]
            opened.seek(place)
            opened.write(bytes([byte ^ 1]))
        rest = Noted(trained(1))
        job.site(1, StreamingExecutor(rest))
        report_of(job, attempt=2)
        assert_same(job.store.arrays, EXPECTED)
    assert rest.seen >= FIVE.nbytes
    assert "the beginning of the update of site-1 was damaged here" in caplog.text


@pytest.mark.slow
def test_what_is_sent_again_replaces_what_was_behind_the_resume_offset(tmp_path: Path) -> None:
    with Lossy(tmp_path) as job:
        gate = Gate(1, "t2", at=MiB // 8)  # half a block behind the mark is written
        site = job.site(1, StreamingExecutor(gate))
        job.site(0)
        job.start(2)
        job.lose(gate, site)
        (file,) = job.files()
        with file.open("r+b") as opened:
            opened.seek(file.stat().st_size - 3 * MiB // 2)
            opened.write(bytes(MiB))
        job.site(1)
        report_of(job, attempt=1)
        assert_same(job.store.arrays, EXPECTED)


def test_a_client_whose_work_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    dropped = threading.Event()

    def failing(tensor: TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == "t3":
            raise ValueError("the data set is empty")
        return trained(1)(tensor, start, values)

    with Lossy(tmp_path, extras={"on_event": lambda event: note(event)}) as job:

        def note(event: Any) -> None:
            if event.kind.value == "client dropped":
                assert job.files() == []
                dropped.set()

        job.rules = job.rules.model_copy(update={"min_clients": 1})
        job.site(1, StreamingExecutor(failing))
        job.site(0)
        job.start(2)
        assert list(job.report().failures) == ["site-1"]
        assert dropped.is_set()


@pytest.mark.slow
def test_who_comes_back_too_often_is_left_out_and_leaves_nothing(tmp_path: Path) -> None:
    with Lossy(tmp_path, max_attempts=2, min_clients=1) as job:
        job.begin()
        gate, site = job.gated(1, "t3")
        job.lose(gate, site)
        assert list(job.report().failures) == ["site-1"]
        assert not job.spool.exists()


def test_who_stays_away_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    with Lossy(tmp_path, wait_time_after_min_received=0.5, min_clients=1) as job:
        gc.disable()  # which would close files that are forgotten
        try:
            job.begin()
            assert list(job.report().failures) == ["site-1"]
            opened = open_files()
        finally:
            gc.enable()
        assert not job.spool.exists()
        assert not [path for path in opened if path.startswith(str(job.spool))]
