"""The spool by itself: updates that arrive over streams joined in memory, stored on the disk."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    CorruptStore,
    ModelError,
    SpecMismatch,
    StoreError,
    StoreFull,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.transfer import Receipt
from streamlink.model.commit import CommitSink
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore, Progress
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.rounds.resume import Answer
from streamlink.rounds.spool.spool import Spool
from streamlink.rounds.spool.stored import MANIFEST_NAME, StoredUpdate
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.joined_pumps import Transfer
from tests.support.models import content
from tests.support.peers import ODD, WAIT, Array, config, initial

PLAIN = Update()
ATTEMPT = Attempt()
"""What the streams of these tests belong to."""


class Site:
    """A client joined in memory, and whom the spool asks whether it has failed."""

    def __init__(
        self,
        arrays: dict[str, Array],
        update: Update = PLAIN,
        metrics: dict[str, float] | None = None,
        passed: Callable[[ReceiveTransfer], Any] = lambda transfer: transfer,
    ) -> None:
        self.source = MemoryStore(arrays).open()
        self.transfer = Transfer(self.source.spec, config(), update=update)
        self.incoming = self.transfer.incoming
        self.passed = passed(self.incoming)
        """What the spool is given of it."""
        self.error: StreamlinkError | None = None
        self.outcome: object = None
        self.began = 0
        self._metrics = metrics or {}
        self._thread = threading.Thread(target=self._send, daemon=True)

    def send(self) -> None:
        self.transfer.carrier.join()
        self._thread.start()

    def result(self) -> object:
        """Return what the client heard: a receipt or an error."""
        self._thread.join(WAIT)
        return self.outcome

    def note_beginning(self) -> None:
        self.began += 1

    def failure(self) -> StreamlinkError | None:
        return self.error

    def close(self) -> None:
        self.transfer.__exit__(None, None, None)
        if self._thread.ident:
            self._thread.join(WAIT)

    def _send(self) -> None:
        try:
            self.outcome = send_model(self.transfer.outgoing, self.source, self._metrics)
        except StreamlinkError as error:
            self.outcome = error


class Noticed:
    """A store that tells when a model is in it."""

    def __init__(self, store: ModelStore, act: Callable[[], object]) -> None:
        self._store, self._act = store, act

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)

        def commit(progress: Progress | None) -> None:
            sink.commit(progress)
            self._act()

        return CommitSink(sink, commit)


class Spooling:
    """A spool and its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._stack = directory, ExitStack()
        self.store_at: Callable[[Path], ModelStore] = SafetensorsStore
        self.sites: dict[str, Site] = {}
        self._spool: Spool | None = None

    def spool(self, part: ModelSpec = ODD, clients: int = 2) -> Spool:
        """Return the spool; made at the first call."""
        if self._spool is None:
            self._spool = Spool(
                self.directory,
                ODD,
                part,
                ATTEMPT,
                store_at=lambda path: self.store_at(path),
                clients=clients,
                clock=running_time,
            )
            self._stack.callback(self._spool.close)
        return self._spool

    def when_stored(self, act: Callable[[Path], object]) -> None:
        """Have ``act`` called with the directory of each update whose model has been stored."""
        self.store_at = lambda path: Noticed(SafetensorsStore(path), lambda: act(path))

    def start(self, name: str, *args: Any, **kwargs: Any) -> Site:
        """Let the spool await a client."""
        site = self.sites[name] = Site(*(args or (initial(),)), **kwargs)
        self._stack.callback(site.close)
        self.spool().start(name, Answer(site.passed, site.note_beginning, site.failure))
        return site

    def until(self, is_so: Callable[[Spool], object]) -> Spool:
        """Wait for changes until one of them makes it so."""
        until, spool = time.monotonic() + WAIT, self.spool()
        while not is_so(spool):
            assert spool.wait(until - time.monotonic()), "nothing changed any more"
        return spool

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def spooling(tmp_path: Path) -> Iterator[Spooling]:
    made = Spooling(tmp_path / "spool")
    yield made
    made.close()


# --- what arrives -------------------------------------------------------------------------


def test_an_update_that_arrives_is_stored_whole(spooling: Spooling) -> None:
    site = spooling.start("site-1", initial(), Update(3.0, UpdateKind.DIFFERENCES), {"loss": 0.5})
    assert (spooling.spool().waiting, spooling.spool().arrived) == ({"site-1"}, {})
    site.send()
    spool = spooling.until(lambda spool: spool.arrived)
    update = spool.arrived["site-1"]
    assert (spool.waiting, spool.failed, spool.fault) == (set(), {}, None)
    assert (update.peer_name, update.update.weight, update.metrics) == (
        "site-1",
        3.0,
        {"loss": 0.5},
    )
    assert content(update.store.open()) == content(site.source)
    assert site.began == 1


def test_the_manifest_tells_a_restart_all_there_is_to_know(spooling: Spooling) -> None:
    site = spooling.start("../ü", initial(), Update(3.0, UpdateKind.DIFFERENCES), {"loss": 0.5})
    site.send()
    update = spooling.until(lambda spool: spool.arrived).arrived["../ü"]
    again = StoredUpdate.read(update.path, SafetensorsStore)
    facts = ("peer_name", "attempt", "update", "metrics", "digest", "path")
    assert [getattr(again, fact) for fact in facts] == [getattr(update, fact) for fact in facts]
    assert content(again.store.open()) == content(site.source)


def test_names_of_clients_never_become_paths(spooling: Spooling) -> None:
    for name in ("../../evil", "/tmp/x", "a\0b"):
        spooling.start(name).send()
    spool = spooling.until(lambda spool: len(spool.arrived) == 3)
    assert sorted(path.name for path in spooling.directory.iterdir()) == ["0", "1", "2"]
    assert list(spool.arrived) == sorted(spool.arrived)


def test_a_client_hears_that_its_update_counts_when_it_is_stored(spooling: Spooling) -> None:
    site = spooling.start("site-1")
    stored: list[bool] = []

    def watch(frame: f.Frame) -> bool:
        if isinstance(frame, f.Commit):
            stored.append((spooling.directory / "0" / MANIFEST_NAME).exists())
        return True

    site.transfer.carrier.watch = watch
    site.send()
    spooling.until(lambda spool: spool.arrived)
    assert not isinstance(site.result(), Exception)
    assert stored == [True]


def test_what_is_stored_counts_even_if_its_sender_cannot_be_told(spooling: Spooling) -> None:
    site = spooling.start("site-1")
    spooling.when_stored(lambda path: site.incoming.abort(AbortCode.SESSION_LOST, "gone"))
    site.send()
    assert list(spooling.until(lambda spool: not spool.waiting).arrived) == ["site-1"]


def test_a_manifest_that_is_none_is_corrupt(tmp_path: Path) -> None:
    for text in (None, "", "[]", "{}", json.dumps({"peer": 1, "metrics": 3})):
        if text is not None:
            (tmp_path / MANIFEST_NAME).write_text(text)
        with pytest.raises(CorruptStore, match="no manifest of an update"):
            StoredUpdate.read(tmp_path, SafetensorsStore)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "update", "metrics", "words"),
    [
        ({"w": np.zeros(3)}, Update(), {}, "site-1 has another model: it lacks tensors"),
        (initial(), Update(float("nan")), {}, "gave its update the weight nan"),
        (initial(), Update(), {"loss": float("inf")}, "reported loss = inf"),
    ],
)
def test_what_cannot_count_fails_as_that_clients_update(
    arrays: dict[str, Array],
    update: Update,
    metrics: dict[str, float],
    words: str,
    spooling: Spooling,
) -> None:
    site = spooling.start("site-1", arrays, update, metrics)
    site.send()
    spool = spooling.until(lambda spool: spool.failed)
    assert words in str(spool.failed["site-1"])
    assert isinstance(spool.failed["site-1"], ModelError)
    assert words in str(site.result())
    assert (spool.arrived, spool.waiting, spool.fault) == ({}, set(), None)


def test_another_model_is_refused_before_a_byte_of_it_is_stored(spooling: Spooling) -> None:
    begun: list[Path] = []

    def store_at(path: Path) -> ModelStore:
        begun.append(path)
        return SafetensorsStore(path)

    spooling.store_at = store_at
    spooling.spool(ModelSpec(ODD.tensors[:2]))
    spooling.start("site-1").send()
    spool = spooling.until(lambda spool: spool.failed)
    assert isinstance(spool.failed["site-1"], SpecMismatch)
    assert "another part of the model" in str(spool.failed["site-1"])
    assert not begun


def test_an_update_of_another_round_is_refused(spooling: Spooling) -> None:
    site = Site(initial())
    late = Spool(
        spooling.directory,
        ODD,
        ODD,
        Attempt("job", 7, 1),
        store_at=SafetensorsStore,
        clients=1,
        clock=running_time,
    )
    late.start("site-1", Answer(site.incoming))
    site.send()
    assert late.wait(WAIT)
    assert "sent an update of" in str(late.failed["site-1"])
    late.close()
    site.close()


# --- what fails ---------------------------------------------------------------------------


def test_a_failure_known_from_elsewhere_is_noticed(spooling: Spooling) -> None:
    site = spooling.start("site-1")  # which never even opens its stream
    site.error = StreamAborted(AbortCode.TASK_FAILED, "no data", by_peer=True, who="site-1")
    assert spooling.spool().wait(WAIT)
    assert spooling.spool().failed == {"site-1": site.error}


def test_a_stream_that_breaks_off_fails_its_client_only(spooling: Spooling) -> None:
    first, second = spooling.start("site-1"), spooling.start("site-2")

    def break_off(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk) and frame.offset > 10_000:
            first.transfer.outgoing.abort(AbortCode.TASK_FAILED, "out of memory")
        return True

    first.transfer.carrier.watch = break_off
    first.send()
    second.send()
    spool = spooling.until(lambda spool: not spool.waiting)
    assert "out of memory" in str(spool.failed["site-1"])
    assert list(spool.arrived) == ["site-2"]
    assert [path.name for path in spooling.directory.iterdir()] == ["1"]


def test_a_full_disk_is_nobodys_fault_but_ours(spooling: Spooling) -> None:
    def store_at(path: Path) -> ModelStore:
        return SafetensorsStore(path, reserve_bytes=1 << 60)

    spooling.store_at = store_at
    site = spooling.start("site-1")
    site.send()
    spool = spooling.until(lambda spool: spool.fault)
    assert isinstance(spool.fault, StoreFull)
    assert (spool.failed, spool.waiting, spool.arrived) == ({}, set(), {})
    heard = site.result()
    assert isinstance(heard, StreamAborted)
    assert heard.code is AbortCode.STORE_FAILED


def test_a_manifest_that_cannot_be_written_is_our_fault_too(spooling: Spooling) -> None:
    spooling.when_stored(lambda path: (path / MANIFEST_NAME).mkdir())
    spooling.start("site-1").send()
    fault = spooling.until(lambda spool: spool.fault).fault
    assert isinstance(fault, OSError)
    assert MANIFEST_NAME in str(fault)


def test_a_directory_without_room_for_all_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 3 * ODD.nbytes - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(StoreFull, match=r"3 updates of 0\.0 MB each need 0\.1 MB there, but only"):
        Spooling(tmp_path / "new").spool(clients=3)
    assert not (tmp_path / "new").exists()
    made = Spooling(tmp_path / "new")
    made.spool(clients=2)
    made.close()


def test_a_directory_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file/spool: the spool cannot be used: Not a directory"):
        Spooling(tmp_path / "file" / "spool").spool()


# --- waiting and letting go ---------------------------------------------------------------


def test_waiting_is_for_changes_and_ends_in_time(spooling: Spooling) -> None:
    site = spooling.start("site-1")
    assert not spooling.spool().wait(0.01)
    site.send()
    assert spooling.spool().wait(WAIT)
    assert not spooling.spool().wait(0.01)


def test_a_client_that_never_began_is_not_held(spooling: Spooling) -> None:
    frames: list[f.Frame] = []
    late, early = spooling.start("site-1"), spooling.start("site-2")

    def watch(frame: f.Frame) -> bool:
        frames.append(frame)
        return True

    late.transfer.carrier.watch = watch
    late.transfer.carrier.join()
    early.send()
    spooling.until(lambda spool: spool.arrived)
    assert spooling.spool().waiting == {"site-1"}
    assert not [frame for frame in frames if isinstance(frame, f.Held)]


def test_a_straggler_can_be_let_go(spooling: Spooling) -> None:
    site = spooling.start("site-1")
    stuck = threading.Event()

    def lose_the_end(frame: f.Frame) -> bool:
        if isinstance(frame, f.Finish):
            stuck.set()
        return not isinstance(frame, f.Finish)

    site.transfer.carrier.watch = lose_the_end
    site.send()
    assert stuck.wait(WAIT)
    spooling.spool().drop("site-1", "it is late")
    assert spooling.spool().wait(WAIT)
    assert "it is late" in str(site.result())
    spool = spooling.spool()
    assert (spool.waiting, spool.failed, spool.arrived, spool.fault) == (set(), {}, {}, None)


def test_an_update_that_arrived_can_be_let_go(spooling: Spooling) -> None:
    spooling.start("site-1").send()
    spool = spooling.until(lambda spool: spool.arrived)
    spool.drop("site-1")
    assert spool.arrived == {}
    assert not list(spooling.directory.iterdir())
    spool.drop("site-1")


class Passed:
    """A transfer whose abort comes too late while it ``is_deaf``, and whose commit is noticed."""

    def __init__(self, transfer: ReceiveTransfer) -> None:
        self._transfer = transfer
        self.is_deaf = False
        self.before_commit: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transfer, name)

    def abort(self, code: AbortCode, reason: str) -> None:
        if not self.is_deaf:
            self._transfer.abort(code, reason)

    def commit(self) -> Receipt:
        self.before_commit()
        return self._transfer.commit()


def test_nobody_is_told_that_a_dropped_update_counts(spooling: Spooling) -> None:
    site = spooling.start("site-1", passed=Passed)

    def drop(path: Path) -> None:
        site.passed.is_deaf = True
        spooling.spool().drop("site-1")
        site.passed.is_deaf = False

    spooling.when_stored(drop)
    site.send()
    assert isinstance(site.result(), StreamAborted)
    assert spooling.spool().arrived == {}


def test_an_update_that_is_stored_in_the_last_instant_counts_and_its_client_hears_so(
    spooling: Spooling,
) -> None:
    site, spool = spooling.start("site-1", passed=Passed), spooling.spool()
    was_left_out = Future[bool]()

    def leave_out() -> None:
        was_left_out.set_result(spool.leave_out("site-1", "it is late"))

    site.passed.before_commit = threading.Thread(target=leave_out, daemon=True).start
    site.send()
    assert was_left_out.result(WAIT) is False
    assert list(spool.arrived) == ["site-1"]
    assert isinstance(site.result(), Receipt)


def test_a_client_that_is_late_is_left_out_at_once(spooling: Spooling) -> None:
    spooling.start("site-1")
    assert spooling.spool().leave_out("site-1", "it is late")
    assert spooling.spool().arrived == {}
    assert spooling.spool().leave_out("site-1", "it is late")


def test_a_client_that_comes_back_begins_anew(spooling: Spooling) -> None:
    spooling.start("site-1", {"w": np.zeros(3)}).send()
    assert "site-1" in spooling.until(lambda spool: spool.failed).failed
    spooling.start("site-1").send()
    spool = spooling.until(lambda spool: spool.arrived)
    assert spool.failed == {}
    assert spool.arrived["site-1"].path.name == "1"


def test_closing_ends_all_and_leaves_nothing(spooling: Spooling) -> None:
    spooling.start("site-1").send()
    spool = spooling.until(lambda spool: spool.arrived)
    late = spooling.start("site-2")
    late.transfer.carrier.join()
    spool.close()
    spool.close()
    assert not spooling.directory.exists()
    assert not [each for each in threading.enumerate() if each.name.startswith("spool-")]


def test_what_others_left_in_the_directory_stays(spooling: Spooling) -> None:
    (spooling.directory / "0").mkdir(parents=True)
    (spooling.directory / "0" / "kept").touch()
    spooling.start("site-1").send()
    spool = spooling.until(lambda spool: spool.arrived)
    assert spool.arrived["site-1"].path.name == "1"
    spool.close()
    assert [path.name for path in spooling.directory.rglob("*")] == ["0", "kept"]


def test_updates_of_crashed_runs_expire_and_those_in_use_are_kept_young(tmp_path: Path) -> None:
    def make_older(path: Path) -> None:
        for each in (*path.iterdir(), path):
            os.utime(each, (1e9, 1e9))

    for name in ("0", "1", "keep"):
        SafetensorsStore(tmp_path / name).begin(ModelSpec(())).commit()
        make_older(tmp_path / name)
    (tmp_path / "1" / "fresh.digests").touch()  # no file of ours
    spec = MemoryStore(initial()).open().spec
    spool = Spool(
        tmp_path,
        spec,
        spec,
        ATTEMPT,
        store_at=SafetensorsStore,
        clients=1,
        expiry=2.0,
        clock=running_time,
    )
    try:
        assert {path.name for path in tmp_path.iterdir()} == {"1", "keep"}
        spool.start("site-1", Answer(Site(initial()).incoming))
        (ours,) = {*tmp_path.iterdir()} - {tmp_path / "1", tmp_path / "keep"}
        make_older(ours)
        until = time.monotonic() + WAIT
        while time.time() - ours.stat().st_mtime > 60:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        spool.close()
