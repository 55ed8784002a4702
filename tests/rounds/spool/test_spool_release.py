"""Who is waited for, who is let go, and what is left in the directory of a spool."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.rounds.resume import Answer
from streamlink.rounds.spool.spool import Spool
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.peers import WAIT, initial
from tests.support.spooling import ATTEMPT, Site, Spooling

"""What the streams of these tests belong to."""


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
