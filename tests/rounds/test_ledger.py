"""The ledger: what a server that comes back makes of it, and of the model that it finds."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamlink.config import RoundConfig
from streamlink.errors import CorruptStore, RoundError, StoreError, StoreFull
from streamlink.link.server import Server
from streamlink.model.copy import copy_model
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.rounds.clients import ClientRecord
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.ledger import Ledger, model_id
from streamlink.rounds.report import RoundReport
from streamlink.stores import open_store
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.disk import largest_file, with_rights, without_rights
from tests.support.peers import ODD, initial

RULES = RoundConfig(num_rounds=3)


def model(step: int) -> ModelSource:
    """A model that is another one for each ``step``."""
    arrays = initial()
    arrays["f64"] += step
    return ArrayModel(arrays)


def report(number: int) -> RoundReport:
    facts: dict[str, Mapping[str, str]] = {"site-1": {"note": "dünn"}}
    return RoundReport(number, 1, 0.5, {"site-1": 2.0}, {"loss": 0.25}, {}, facts, ("site-1",))


class Place:
    """A store on a disk, and a ledger beside it."""

    def __init__(self, folder: Path, compress: Any = "none") -> None:
        self.file = folder / "model.rounds.json"
        self.store: ModelStore = open_store(folder / "model", compress)
        copy_model(model(0), self.store.begin(ODD))

    def ledger(self, *, resume: bool = True, job: str = "job", **rules: Any) -> Ledger:
        settings = RoundConfig(**{**RULES.model_dump(), **rules})
        return Ledger(self.file, self.store, settings, job=job, resume=resume)

    def run(self, ledger: Ledger, rounds: int) -> None:
        """Run so many rounds, one model after the other."""
        for number in range(ledger.next_round, ledger.next_round + rounds):
            ledger.begin(["site-2", "site-1"])
            copy_model(model(number + 1), ledger.guard(self.store).begin(ODD))
            ledger.complete(report(number))

    def replace(self, step: int) -> None:
        """Put another model there, past the ledger."""
        copy_model(model(step), self.store.begin(ODD))

    @property
    def name(self) -> str:
        with closing(self.store.open()) as source:
            return model_id(source)


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, getattr(request, "param", "none"))


def test_a_resumed_run_continues_after_the_last_round_and_has_its_report(place: Place) -> None:
    first = place.ledger()
    place.run(first, 2)
    again = place.ledger()
    assert again.is_resumed
    assert again.next_round == 2
    assert again.clients == ("site-1", "site-2")
    assert again.reports == [report(0), report(1)]
    assert (again.run.id, again.run.base) == (first.run.id, place.name)


def test_nothing_to_resume_is_a_beginning_and_is_said(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ledger = place.ledger()
    assert not ledger.is_resumed
    assert ledger.next_round == 0
    assert "nothing to resume" in caplog.text
    assert not place.file.exists()  # a job that never got its clients leaves nothing


def test_a_round_that_only_was_intended_is_run_again(place: Place) -> None:
    ledger = place.ledger()
    place.run(ledger, 1)
    ledger.intend("1234")
    assert place.ledger().next_round == 1


@pytest.mark.parametrize("knows_digest", [True, False])
def test_a_model_that_was_committed_before_the_kill_is_a_round_that_is_done(
    place: Place, knows_digest: bool
) -> None:
    ledger = place.ledger()
    place.run(ledger, 1)
    if not knows_digest:
        ledger.intend("")
        place.replace(7)
    else:  # the sink has told it
        copy_model(model(7), ledger.guard(place.store).begin(ODD))
    again = place.ledger()
    assert (again.next_round, again.rounds, len(again.reports)) == (2, 2, 1)
    place.run(again, 1)
    assert place.ledger().is_finished


def test_what_is_known_of_the_clients_changes_with_the_model_and_with_nothing_else(
    place: Place,
) -> None:
    known, later = ({"site-1": ClientRecord("site-1", rounds)} for rounds in (1, 2))
    ledger = place.ledger()
    copy_model(model(1), ledger.guard(place.store, lambda: known).begin(ODD))
    ledger.complete(report(0))
    assert ledger.records == place.ledger().records == known
    ledger.intend("1234", later)
    assert ledger.records == place.ledger().records == known  # killed before the commit
    copy_model(model(2), ledger.guard(place.store, lambda: later).begin(ODD))
    assert place.ledger().records == later  # killed right after it
    ledger.complete(report(1))
    assert ledger.records == later


@pytest.mark.parametrize("place", ["none", "zstd"], indirect=True)
def test_the_digest_is_known_before_the_commit(place: Place) -> None:
    copy_model(model(1), place.ledger().guard(place.store).begin(ODD))
    assert json.loads(place.file.read_text())["intent"]["digest"] == place.name


@pytest.mark.parametrize("is_intended", [True, False])
def test_a_model_that_nobody_here_made_is_refused_in_words(place: Place, is_intended: bool) -> None:
    ledger = place.ledger()
    place.run(ledger, 1)
    if is_intended:
        ledger.intend("1234")
    place.replace(9)
    with pytest.raises(RoundError, match="restore that model to continue, or remove this file"):
        place.ledger()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"job": "other"}, "job"),
        ({"start_round": 1}, "start_round"),
        ({"part": ("f64",)}, "part"),
        ({"train_task_name": "test"}, "train_task_name"),
    ],
)
def test_other_rules_are_refused_by_name(place: Place, changed: dict[str, Any], key: str) -> None:
    place.run(place.ledger(), 1)
    with pytest.raises(RoundError, match=f"{key} = .* remove this file to begin again"):
        place.ledger(**changed)


def test_a_finished_job_may_be_given_more_rounds(place: Place) -> None:
    place.run(place.ledger(), 3)
    longer = place.ledger(num_rounds=4)
    assert (longer.is_finished, longer.next_round) == (False, 3)


def test_an_interrupted_job_is_not_begun_anew_by_mistake(place: Place) -> None:
    place.run(place.ledger(), 1)
    with pytest.raises(RoundError, match="after 1 of 3 rounds; continue it with --resume"):
        place.ledger(resume=False)


def test_an_interrupted_job_is_not_ended_by_fewer_rounds_by_mistake(place: Place) -> None:
    place.run(place.ledger(), 2)
    with pytest.raises(
        RoundError, match=r"after 2 of 3 rounds, and num_rounds is 2 now; give more"
    ):
        place.ledger(num_rounds=2)
    assert place.ledger().next_round == 2


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_job_that_is_over_or_has_done_nothing_is_begun_anew(place: Place, rounds: int) -> None:
    first = place.ledger()
    place.run(first, rounds)
    first.begin(["site-1"])
    again = place.ledger(resume=False)
    assert (again.next_round, again.is_resumed) == (0, False)
    assert again.run.id != first.run.id
    assert again.replaced_runs == (first.run.id,)


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_new_model_in_the_place_of_a_job_that_is_over_or_has_done_nothing_is_fine(
    place: Place, rounds: int
) -> None:
    first = place.ledger()
    place.run(first, rounds)
    if not rounds:
        first.intend("1234")
    place.replace(9)
    assert place.ledger(resume=False).next_round == 0


def test_a_job_that_is_over_makes_way_for_another_one(place: Place) -> None:
    first = place.ledger()
    place.run(first, 3)
    assert place.ledger(job="other").next_round == 0
    assert not first.is_over  # nobody said goodbye yet
    first.close()
    assert place.ledger().is_over


def test_a_run_is_resumed_with_the_aggregator_that_it_had(place: Place) -> None:
    first = place.ledger()
    first.use_aggregator("median")
    place.run(first, 1)
    again = place.ledger()
    again.use_aggregator("median")
    with pytest.raises(RoundError, match=r"aggregator = 'median'.*continue with 'mean'"):
        place.ledger().use_aggregator("mean")


@pytest.mark.parametrize("change", ["flip", "cut", "later"])
def test_a_damaged_ledger_is_refused_in_words(place: Place, change: str) -> None:
    place.run(place.ledger(), 1)
    text = place.file.read_text()
    damaged = {
        "flip": text.replace('"site-1": 2.0', '"site-1": 3.0'),
        "cut": text[:-20],
        "later": text.replace('"format": 1', '"format": 2'),
    }[change]
    assert damaged != text
    place.file.write_text(damaged)
    with pytest.raises(CorruptStore, match=r"not a ledger.*then begins at its first round"):
        place.ledger()


def test_a_ledger_that_cannot_be_read_is_not_to_be_removed(place: Place) -> None:
    place.file.mkdir()
    with pytest.raises(StoreError, match=r"cannot be written: this is a directory"):
        place.ledger()
    place.file.rmdir()
    place.run(place.ledger(), 1)
    with without_rights() as own:
        file = own / place.file.name
        with with_rights():
            own.chmod(0o777)
            file.write_bytes(place.file.read_bytes())
            file.chmod(0)
        with pytest.raises(StoreError) as unreadable:
            Ledger(file, MemoryStore(initial()), RULES)
    told = str(unreadable.value)
    assert f"{file}: the ledger cannot be read: Permission denied; let this process (user" in told
    assert "do not remove it" in told


def test_a_ledger_that_cannot_be_written_is_refused_before_the_first_round() -> None:
    with without_rights() as own:
        with pytest.raises(StoreError, match=r"the ledger cannot be written: Permission denied"):
            Ledger(own / "model.rounds.json", MemoryStore(initial()), RULES)


def test_a_model_without_stored_digests_is_known_by_its_files(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for digests in (tmp_path / "model").glob("*.digests"):
        digests.unlink()
    place.run(place.ledger(), 1)
    assert place.ledger().next_round == 1


@pytest.mark.slow
def test_a_ledger_stays_small_over_thousands_of_rounds(place: Place) -> None:
    ledger = place.ledger(num_rounds=10_000)
    for number in range(105):
        ledger.complete(report(number))
    again = place.ledger(num_rounds=10_000)
    assert again.rounds == 105
    assert again.reports == [report(number) for number in range(5, 105)]


@pytest.mark.parametrize(("size", "kept"), [(100_000, 2), (400_000, 1)])
def test_a_ledger_keeps_so_many_bytes_of_reports_and_the_last_one(
    place: Place, size: int, kept: int
) -> None:
    ledger = place.ledger()
    told = [replace(report(n), failures={"site-9": "n" * size}) for n in range(3)]
    for each in told:
        ledger.complete(each)
    assert place.ledger().reports == told[-kept:]


def test_a_ledger_without_a_directory_is_refused_before_anybody_works(tmp_path: Path) -> None:
    store = MemoryStore(initial())
    with pytest.raises(StoreError, match="directory of the ledger does not exist"):
        Ledger(tmp_path / "missing" / "ledger.json", store, RULES)


def test_a_full_disk_fails_the_commit_and_leaves_ledger_and_model_as_they_were(
    place: Place,
) -> None:
    ledger = place.ledger()
    place.run(ledger, 1)
    before, name = place.file.read_bytes(), place.name
    with largest_file(100), pytest.raises(StoreFull, match="the ledger cannot be written"):
        ledger.intend("1234")
    assert (place.file.read_bytes(), place.name) == (before, name)
    assert [path.name for path in place.file.parent.glob("*.part")] == []


def test_who_was_excluded_is_so_in_a_resumed_run_until_readmitted(place: Place) -> None:
    first = place.ledger()
    first.bar("site-1", "poisoned")
    first.bar("site-2", "late")
    place.run(first, 1)
    again = place.ledger()
    assert again.barred == {"site-1": "poisoned", "site-2": "late"}
    again.readmit("site-1")
    again.readmit("site-7")
    assert place.ledger().barred == {"site-2": "late"}


def test_a_job_that_begins_anew_begins_with_everybody(place: Place) -> None:
    place.ledger().bar("site-1", "poisoned")
    assert place.ledger(resume=False).barred == {}


def test_a_ledger_from_before_anybody_could_be_excluded_is_read(place: Place) -> None:
    place.run(place.ledger(), 1)
    facts = decode_checked_json(place.file.read_bytes(), place.file)
    del facts["barred"]
    place.file.write_bytes(encode_checked_json(facts))
    assert (place.ledger().next_round, place.ledger().barred) == (1, {})


def test_resuming_takes_a_ledger(tmp_path: Path) -> None:
    with Server() as server, pytest.raises(ValueError, match="resume needs a ledger"):
        ScatterAndGather(server, MemoryStore(initial()), RULES, resume=True)
