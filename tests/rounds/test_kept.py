"""Jobs whose models are kept at both ends, and travel as differences."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import StreamlinkError
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.spec import TensorSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.kept import KeptModels
from streamlink.rounds.report import RoundReport
from streamlink.stores.memory import MemoryStore, spec_of
from tests.support.disk import flip_unnoticed
from tests.support.jobs import Job
from tests.support.peers import Array, Federation, Site, config

SIZE = 20_000
FACTOR = np.float32(1.0001)
Seen = list[TransferFacts]
SMALL_SHARE, WHOLE_SHARE = 0.4, 0.99
HEAD = 4096
INSIDE = HEAD + 64
"""A byte of a kept file that is of its tensors."""


def initial() -> dict[str, Any]:
    values = np.random.default_rng(1).standard_normal(SIZE).astype("<f4")
    return {"w": values, "frozen": np.arange(SIZE, dtype="<i8")}


def step(model: dict[str, Any], task: Task) -> TaskResult:
    """Change a few bits of some elements, as a small step of an optimizer does."""
    model["w"][task.round :: 7] *= FACTOR
    return TaskResult()


def after(rounds: int) -> Array:
    """Return what ``step`` makes of the first tensor; the mean of equal updates is the update."""
    values: Array = initial()["w"]
    for number in range(rounds):
        values[number::7] *= FACTOR
    return values


def keeping(folder: Path, **stream: Any) -> LinkConfig:
    return config(stream={"encodings": ("delta",), "kept": folder, **stream})


TURNS = [["site-0", "site-1"], ["site-0"], ["site-0"], ["site-1"]]


class Kept:
    """A job whose server and clients keep versions under ``folder``."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.folder, self.rules = folder, {"num_rounds": 3, "min_clients": 1, **rules}
        self.seen: Seen = []
        self.port = 0
        self.server: dict[str, Any] = {}
        self.clients: dict[str, Any] = {}
        self.extras: dict[str, Any] = {}
        self.arrays = initial()
        self.executor: Callable[[], Any] = lambda: WholeExecutor(step)
        self.reports: Sequence[RoundReport] = ()
        self.on_round: Callable[[int], None] = lambda number: None

    def run(self, clients: int = 2) -> dict[str, Any]:
        """Run it, with new processes as far as the disk can tell; return its model."""
        link = keeping(self.folder / "server", **self.server)
        federation = Federation(link, on_transfer=self.seen.append, port=self.port)
        self.port = federation.server.port
        extras = {"on_event": self._heard, **self.extras}
        with Job(link, arrays=self.arrays, federation=federation, extras=extras,
                 **self.rules) as job:  # fmt: skip
            for number in range(clients):
                self.site(federation, number)
            job.start(clients)
            self.reports = job.reports()
            self.arrays = {name: array.copy() for name, array in job.store.arrays.items()}
        return self.arrays

    def site(self, federation: Federation, number: int) -> Site:
        link = keeping(self.folder / "clients", **self.clients)
        return federation.client(f"site-{number}", self.executor(), link)

    def _heard(self, event: Any) -> None:
        if event.kind.value == "round started":
            self.on_round(event.attempt.round)

    def shares(self, round_: int, direction: str, peer: str = "") -> list[float]:
        """Return which share of the model travelled: each client's."""
        return [
            facts.wire_bytes / facts.bytes
            for facts in self.seen
            if facts.attempt is not None
            and (facts.attempt.round, facts.direction) == (round_, direction)
            and peer in ("", facts.peer_name)
        ]

    def versions(self, end: str) -> list[Path]:
        return sorted((self.folder / end).glob("*/*"))


@pytest.mark.parametrize("rules", [{}, {"gather": "spool"}, {"duplex_bytes": 1 << 20}], ids=str)
def test_after_its_first_way_a_model_travels_as_differences(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    kept = Kept(tmp_path, **rules)
    if "gather" in rules:
        kept.extras["spool"] = tmp_path / "spool"
    if "duplex_bytes" in rules:
        kept.executor = lambda: WholeExecutor(step, next_model="memory")
    np.testing.assert_array_equal(kept.run()["w"], after(3))
    assert min(kept.shares(0, "sent")) > WHOLE_SHARE, "nobody had anything before"
    for number, direction in ((0, "received"), (1, "sent"), (1, "received"), (2, "sent")):
        shares = kept.shares(number, direction)
        assert len(shares) == 2
        assert max(shares) < SMALL_SHARE, (number, direction, shares)
    assert len(kept.versions("clients")) == 2, "one of each client"
    assert len(kept.versions("server")) == 2, "the model, and the one before it"


def test_chunks_of_whole_blocks_are_kept_too(tmp_path: Path) -> None:
    """Those are hashed once, when they arrive, and the digest never sees their bytes."""
    kept = Kept(tmp_path, num_rounds=2)
    kept.arrays = {"w": np.arange(3 << 18, dtype="<f4")}
    sizes = {"chunk_bytes": 1 << 20, "min_chunk_bytes": 1 << 20, "window_bytes": 4 << 20,
             "initial_window_bytes": 4 << 20}  # fmt: skip
    kept.server = kept.clients = sizes
    kept.run(1)
    kept_by_client, *others = kept.versions("clients")
    assert not others
    assert kept_by_client.stat().st_size == 4096 + (3 << 20)
    assert max(kept.shares(0, "received") + kept.shares(1, "sent")) < SMALL_SHARE


@pytest.mark.slow
def test_a_streaming_executor_sends_differences_from_the_round_before(tmp_path: Path) -> None:
    def scale(tensor: TensorSpec, start: int, values: Array) -> Array:
        return values * FACTOR if tensor.name == "w" else values

    kept = Kept(tmp_path)
    kept.executor = lambda: StreamingExecutor(scale)
    kept.run()
    assert min(kept.shares(0, "received")) > WHOLE_SHARE, "its base is still arriving"
    assert max(kept.shares(1, "sent") + kept.shares(1, "received")) < SMALL_SHARE


@pytest.mark.slow
def test_only_what_is_wanted_back_is_compared_with_the_whole_model(tmp_path: Path) -> None:
    kept = Kept(tmp_path, part=["w"])
    np.testing.assert_array_equal(kept.run()["w"], after(3))
    assert max(kept.shares(0, "received") + kept.shares(2, "received")) < SMALL_SHARE


def test_a_restart_of_both_ends_costs_no_base(tmp_path: Path) -> None:
    kept = Kept(tmp_path, num_rounds=1)
    kept.run()
    kept.seen.clear()
    kept.run()
    assert max(kept.shares(0, "sent") + kept.shares(0, "received")) < SMALL_SHARE


@pytest.mark.slow
def test_clients_that_are_not_asked_each_time_need_more_versions(tmp_path: Path) -> None:
    for most, is_small in ((1, False), (3, True)):
        kept = Kept(tmp_path / str(most), min_clients=1)
        kept.server = {"kept_versions": most}
        kept.rules["num_rounds"] = len(TURNS)
        kept.extras["choose"] = lambda number, clients: TURNS[number]
        kept.run()
        (share,) = kept.shares(3, "sent", "site-1")
        assert share < SMALL_SHARE if is_small else share > WHOLE_SHARE


def test_a_version_that_was_damaged_meanwhile_is_not_used(tmp_path: Path) -> None:
    kept = Kept(tmp_path, num_rounds=1)
    kept.run()
    for path in kept.versions("clients"):
        data = bytearray(path.read_bytes())
        data[5000] ^= 1
        path.write_bytes(data)
    kept.seen.clear()
    kept.run()
    assert min(kept.shares(0, "sent")) > WHOLE_SHARE
    assert max(kept.shares(0, "received")) < SMALL_SHARE, "the new one is a base again"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["clients", "server"])
def test_a_version_that_is_changed_under_a_job_never_gives_a_wrong_model(
    tmp_path: Path, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its time is put back, too: so only the digest of what was decoded can tell."""
    kept = Kept(tmp_path)

    def change(number: int) -> None:
        if number != 1:
            return
        for path in kept.versions(end):
            flip_unnoticed(path, INSIDE, 4000)

    kept.on_round = change
    model = None
    with suppress(StreamlinkError):
        model = kept.run()
    if model is not None:
        np.testing.assert_array_equal(model["w"], after(3))
    else:
        assert "a version that it was a difference from was changed" in caplog.text


def test_a_client_with_a_wrong_version_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its update is a difference from that; the server has the same version for all clients."""
    kept = Kept(tmp_path, num_rounds=4)
    numbers = iter(range(2))

    def executor() -> WholeExecutor:
        number = next(numbers)

        def work(model: dict[str, Any], task: Task) -> TaskResult:
            if (number, task.round) == (1, 1):
                for path in kept.versions("clients"):
                    if "site-1" in str(path):
                        flip_unnoticed(
                            path, INSIDE, 1
                        )  # a difference from it is as small as before
            return step(model, task)

        return WholeExecutor(work)

    kept.executor = executor
    np.testing.assert_array_equal(kept.run()["w"], after(4))
    assert [sorted(report.weights) for report in kept.reports] == [
        ["site-0", "site-1"],
        ["site-0"],
        ["site-0", "site-1"],
        ["site-0", "site-1"],
    ]
    # The second attempt of round 1, too.
    assert max(kept.shares(1, "sent", "site-0") + kept.shares(2, "sent", "site-0")) < SMALL_SHARE
    assert len(kept.shares(1, "sent", "site-0")) == 2
    assert min(kept.shares(2, "sent", "site-1")) > WHOLE_SHARE
    assert max(kept.shares(3, "sent")) < SMALL_SHARE


@pytest.mark.parametrize(
    ("end", "stream"),
    [
        ("clients", {}),
        ("server", {}),
        pytest.param("clients", {"data_listen": "none"}, marks=pytest.mark.slow),
        pytest.param("clients", {"lanes": 3, "max_lanes": 3}, marks=pytest.mark.slow),
        pytest.param("server", {"lanes": 3, "max_lanes": 3}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_version_that_cannot_be_read_any_more_costs_one_transfer_and_no_update(
    tmp_path: Path,
    end: str,
    stream: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A sector of the disk has gone bad; neither its size nor its time can tell."""
    bad: set[int] = set()
    real = os.pread

    def reading(fd: int, nbytes: int, offset: int) -> bytes:
        if offset > SIZE and os.fstat(fd).st_ino in bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, nbytes, offset)

    def spoil(number: int) -> None:
        bad.clear()  # in the next round, since new files may have the old numbers
        if number == 1:
            bad.update(path.stat().st_ino for path in kept.versions(end))

    kept = Kept(tmp_path, num_rounds=4)
    kept.server = kept.clients = stream
    kept.on_round = spoil
    monkeypatch.setattr(os, "pread", reading)
    np.testing.assert_array_equal(kept.run()["w"], after(4))
    assert [report.attempt for report in kept.reports] == [1, 1, 1, 1]
    assert [len(report.weights) for report in kept.reports] == [2, 2, 2, 2]
    assert "Input/output error" in caplog.text
    assert max(kept.shares(3, "sent") + kept.shares(3, "received")) < SMALL_SHARE


def test_what_rounding_loses_may_be_kept_in_the_same_directory(tmp_path: Path) -> None:
    kept = Kept(tmp_path, num_rounds=2)
    kept.clients = {"lossy_up": "w=bf16", "error_feedback": tmp_path / "clients"}
    kept.run()
    assert [len(report.weights) for report in kept.reports] == [2, 2]
    assert max(kept.shares(1, "sent")) < SMALL_SHARE
    names = {path.name for path in kept.versions("clients")}
    assert "remainder" in names
    assert any(name.endswith(".version") for name in names)


@pytest.mark.slow
def test_where_one_end_keeps_nothing_models_travel_whole(tmp_path: Path) -> None:
    for end in ("server", "clients"):
        kept = Kept(tmp_path / end, num_rounds=2)
        setattr(kept, end, {"kept": None})
        np.testing.assert_array_equal(kept.run()["w"], after(2))
        assert min(kept.shares(1, "sent") + kept.shares(1, "received")) > WHOLE_SHARE
        assert not (tmp_path / end / "clients").exists() or not kept.versions("clients")


def test_models_that_have_no_room_travel_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(tmp_path, num_rounds=2)
    kept.clients = {"kept_bytes": "100KiB"}
    np.testing.assert_array_equal(kept.run()["w"], after(2))
    assert min(kept.shares(1, "sent")) > WHOLE_SHARE
    assert "is not kept" in caplog.text


def test_a_model_that_each_client_gets_differently_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="omit kept or lossy_down"):
        StreamConfig(kept=tmp_path, lossy_down=("*=bf16",))
    with Federation(keeping(tmp_path)) as federation, pytest.raises(ValueError, match="filters"):
        ScatterAndGather(
            federation.server, tmp_path, job="test", filters_down=[lambda *given: given[-1]]
        )


def test_the_models_of_a_job_that_has_ended_make_way_for_those_of_the_next(tmp_path: Path) -> None:
    """``kept_bytes`` is for the whole directory, however many jobs have used it."""
    spec = spec_of(initial())
    settings = StreamConfig(kept=tmp_path, kept_bytes=2 * spec.nbytes + spec.nbytes // 2)
    folders = []
    for number, job in enumerate(("first", "second", "third")):
        kept = KeptModels(settings, job)
        model = {"w": after(number), "frozen": initial()["frozen"]}
        kept.require_current(MemoryStore(model), lambda: None)
        own = kept.bases.digests(spec.digest)
        sink = kept.keeping(MemoryStore().begin(spec))
        sink.write(0, memoryview(bytes(spec.nbytes)))
        sink.commit()
        assert len(own) == 1
        assert kept.bases.digests(spec.digest)[1:] == own, "what its clients have stays"
        kept.close()
        found = list(tmp_path.glob("*/*"))
        assert sum(path.stat().st_size - HEAD for path in found) <= settings.kept_bytes
        folders.append({path.parent.name for path in found})
    assert folders == [{"server-first"}, {"server-second"}, {"server-third"}]


def test_clients_beside_each_other_share_one_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(tmp_path)
    kept.clients = {"kept_bytes": spec_of(initial()).nbytes * 3 // 2}
    np.testing.assert_array_equal(kept.run()["w"], after(3))
    (only,) = kept.versions("clients")
    assert (
        max(kept.shares(1, "received", only.parent.name.removeprefix("kept-client-"))) < SMALL_SHARE
    )
    assert "are left of the limit" in caplog.text
