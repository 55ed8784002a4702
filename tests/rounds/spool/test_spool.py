"""The spool by itself: updates that arrive over streams joined in memory, stored on the disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

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
)
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.model.interfaces import ModelStore
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.rounds.resume import Answer
from streamlink.rounds.spool.spool import Spool
from streamlink.rounds.spool.stored import MANIFEST_NAME, StoredUpdate
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.models import content
from tests.support.peers import ODD, WAIT, Array, initial
from tests.support.spooling import Site, Spooling

"""What the streams of these tests belong to."""


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


def test_an_empty_spool_that_another_server_has_removed_is_made_again(spooling: Spooling) -> None:
    assert spooling.spool().arrived == {}
    spooling.directory.rmdir()  # as that one does at the end of its round
    spooling.start("site-1").send()
    assert spooling.until(lambda spool: spool.arrived or spool.fault).fault is None
    assert [path.name for path in spooling.directory.iterdir()] == ["0"]


def test_a_spool_that_cannot_be_made_again_is_an_error_that_names_it(spooling: Spooling) -> None:
    spooling.spool()
    spooling.directory.rmdir()
    spooling.directory.symlink_to("nowhere")
    with pytest.raises(StoreError, match=str(spooling.directory)):
        spooling.start("site-1")


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
