"""What a killed server left in its spool: what counts, and what is removed."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.link import Attempt, Update
from streamlink.model.copy import copy_model
from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.ledger import Ledger, Run
from streamlink.rounds.spool.recovery import path_name, recover
from streamlink.rounds.spool.spool import Spool
from streamlink.rounds.spool.stored import StoredUpdate
from streamlink.stores.memory import ArrayModel
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.jobs import Job
from tests.support.peers import ODD, WAIT, initial

RUN = Run("ab12", "base")
NEXT = Attempt("job", 3, 1)


def stored(
    folder: Path,
    number: int = 0,
    run: Run = RUN,
    attempt: Attempt = NEXT,
    *,
    named: str = RUN.id,
    peer: str = "site-1",
) -> Path:
    """Store an update as a spool does."""
    path = folder / path_name(named, number)
    model, store = ArrayModel(initial()), SafetensorsStore(path)
    path.mkdir(parents=True)
    copy_model(model, store.begin(ODD))
    StoredUpdate(
        peer, attempt, Update(2.0), {"loss": 1.0}, digest_of(model), path, store, run.id, run.base
    ).write()
    return path


def found(folder: Path, part: ModelSpec = ODD, **more: Any) -> list[StoredUpdate]:
    return recover(folder, RUN, NEXT, part, store_at=SafetensorsStore, **more)


@pytest.mark.parametrize("norm", [None, 0.0, 0.25, math.inf])
def test_a_recovered_update_has_the_norm_that_was_declared(
    tmp_path: Path, norm: float | None
) -> None:
    path, (before,) = stored(tmp_path), found(tmp_path)
    replace(before, update=Update(2.0, norm=norm)).write()
    (after,) = found(tmp_path)
    assert (after.path, after.update) == (path, Update(2.0, norm=norm))


def test_a_whole_update_of_this_run_round_and_model_is_found(tmp_path: Path) -> None:
    stored(tmp_path, 4, peer="site-2")
    stored(tmp_path, 11, attempt=Attempt("job", 3, 2))
    first, second = found(tmp_path)
    assert (first.peer_name, first.attempt.attempt, first.update.weight) == ("site-1", 2, 2.0)
    assert (second.peer_name, second.metrics) == ("site-2", {"loss": 1.0})


@pytest.mark.parametrize(
    "facts",
    [
        {"run": Run("ab12", "another base")},
        {"run": Run("cd34", "base")},
        {"attempt": Attempt("job", 2, 1)},
        {"attempt": Attempt("other", 3, 1)},
    ],
)
def test_what_is_of_no_use_any_more_is_removed(tmp_path: Path, facts: dict[str, Any]) -> None:
    path = stored(tmp_path / "spool", **facts)
    assert found(tmp_path / "spool") == []
    assert not path.exists()
    assert not (tmp_path / "spool").exists()


def test_the_update_of_who_was_excluded_is_removed(tmp_path: Path) -> None:
    path = stored(tmp_path)
    stored(tmp_path, 1, peer="site-2")
    assert [each.peer_name for each in found(tmp_path, without={"site-1"})] == ["site-2"]
    assert not path.exists()


def test_what_was_on_its_way_is_removed(tmp_path: Path) -> None:
    path = stored(tmp_path)
    (path / "update.json").unlink()
    assert found(tmp_path) == []
    assert not path.exists()


def test_what_others_have_there_stays(tmp_path: Path) -> None:
    theirs = [stored(tmp_path, named="cd34"), stored(tmp_path, named=""), tmp_path / "notes"]
    theirs[2].touch()
    assert found(tmp_path) == []
    assert [path for path in theirs if path.exists()] == theirs


def test_what_a_run_before_this_one_left_is_removed(tmp_path: Path) -> None:
    path = stored(tmp_path, run=Run("cd34", "base"), named="cd34")
    assert found(tmp_path, replaced_runs=["cd34"]) == []
    assert not path.exists()


@pytest.mark.parametrize("damage", ["a bit", "the manifest", "the end"])
def test_a_damaged_update_is_removed_and_said(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    path = stored(tmp_path)
    file = path / "update.json" if damage == "the manifest" else next(path.glob("*.safetensors"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data[: len(data) // 2] if damage == "the end" else data)
    assert found(tmp_path) == []
    assert not path.exists()
    assert "removed from the spool" in caplog.text


def test_an_update_with_other_tensors_is_removed(tmp_path: Path) -> None:
    stored(tmp_path)
    assert found(tmp_path, ModelSpec(ODD.tensors[:3])) == []


def test_a_second_update_of_a_client_does_not_count(tmp_path: Path) -> None:
    paths = [stored(tmp_path, number) for number in range(2)]
    (only,) = found(tmp_path)
    assert [path for path in paths if path.exists()] == [only.path]


def test_no_directory_is_nothing_to_recover(tmp_path: Path) -> None:
    assert found(tmp_path / "spool") == []


def test_an_interrupted_server_keeps_whole_updates_for_the_one_that_resumes(tmp_path: Path) -> None:
    def interrupt(event: RoundEvent) -> None:
        if event.kind is EventKind.UPDATE_ARRIVED and "ledger" in job.extras:
            raise KeyboardInterrupt

    extras = {"spool": tmp_path / "spool", "ledger": tmp_path / "ledger", "on_event": interrupt}
    with Job(extras=extras, gather="spool") as job:
        gate, _ = job.gated(1)
        job.site(0)
        job.start(2)
        assert isinstance(job.done.exception(WAIT), KeyboardInterrupt)
        assert len(list(tmp_path.glob("spool/*/update.json"))) == 1
        gate.opens.set()
        ledger = Ledger(tmp_path / "ledger", job.store, job.rules, job="test", resume=True)
        del job.extras["ledger"]
        rounds = ScatterAndGather(
            job.federation.server, job.store, job.rules,
            job="test", spool=tmp_path / "spool", ledger=ledger,
        )  # fmt: skip
        (report,) = rounds.run()
        job.assert_mean_of(0, 1)
    assert report.recovered == ("site-0",)
    assert not (tmp_path / "spool").exists()


def test_a_resumed_round_that_fails_is_run_again_without_what_it_removed(tmp_path: Path) -> None:
    may_fail = [KeyboardInterrupt, ValueError]  # the first server; then the one that resumes

    def fail(event: RoundEvent) -> None:
        if event.kind is EventKind.UPDATE_ARRIVED and may_fail:
            raise may_fail.pop(0)

    extras = {"spool": tmp_path / "spool", "ledger": tmp_path / "ledger", "on_event": fail}
    with Job(extras=extras, gather="spool") as job:
        gate, _ = job.gated(1)
        job.site(0)
        job.start(2)
        assert isinstance(job.done.exception(WAIT), KeyboardInterrupt)
        gate.opens.set()
        ledger = Ledger(tmp_path / "ledger", job.store, job.rules, job="test", resume=True)
        rounds = ScatterAndGather(
            job.federation.server, job.store, job.rules,
            job="test", spool=tmp_path / "spool", ledger=ledger, on_event=fail,
        )  # fmt: skip
        with pytest.raises(ValueError):
            rounds.run_round(0, is_last=True)
        report = rounds.run_round(0, is_last=True)
        job.assert_mean_of(0, 1)
    assert sorted(report.weights) == ["site-0", "site-1"]
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("keeps_whole", [True, False])
def test_a_spool_has_recovered_updates_and_keeps_them_only_for_a_run_that_resumes(
    tmp_path: Path, keeps_whole: bool
) -> None:
    paths = [stored(tmp_path, number, peer=f"site-{number}") for number in range(2)]
    spool = Spool(
        tmp_path, ODD, ODD, NEXT,
        store_at=SafetensorsStore, clients=0, run=RUN, recovered=found(tmp_path),
        clock=running_time,
    )  # fmt: skip
    assert list(spool.arrived) == ["site-0", "site-1"]
    spool.drop("site-0")
    assert list(spool.arrived) == ["site-1"]
    spool.close(keeps_whole=keeps_whole)
    assert [path.exists() for path in paths] == [False, keeps_whole]
