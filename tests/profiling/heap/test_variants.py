"""Versions of a job: each name switches what it says, and nothing else."""

import pytest

from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind
from streamlink.profiling.heap.experiments import default_client, default_server
from streamlink.profiling.heap.variants import PLACES, SINGLES, Variant, variant, versions_of

JOB = Experiment(
    kind=Kind.SYNTHETIC,
    server=default_server(Kind.SYNTHETIC),
    client=default_client(Kind.SYNTHETIC),
)


def switches(experiment: Experiment) -> dict[str, set[bool]]:
    """Return each switch as both ends have it."""
    server, client = experiment.server, experiment.client
    comms = (server.comm, client.comm)
    return {
        "server": {server.optimize_memory},
        "carrier": {each.optimize_memory for each in comms},
        "chunking": {each.use_model_chunking for each in comms},
        "client": {bool(client.optimize_memory), bool(server.order.optimize_memory)},
        "trainer": {bool(client.optimize_trainer), server.order.trainer.optimize_memory},
    }


@pytest.mark.parametrize(("name", "is_on"), [("original", False), ("optimized", True)])
def test_the_two_versions_have_every_optimization_off_or_on(name: str, is_on: bool) -> None:
    assert switches(variant(name).of(JOB)) == {place: {is_on} for place in PLACES}


@pytest.mark.parametrize("name", SINGLES)
def test_a_single_switches_one_thing_at_both_ends_and_leaves_the_others(name: str) -> None:
    word, place = name.split("_")
    is_only = word == "only"
    expected = {each: {is_only is (each == place)} for each in PLACES}
    assert switches(variant(name).of(JOB)) == expected


def test_the_singles_are_each_place_in_both_directions() -> None:
    assert len(SINGLES) == 2 * len(PLACES) == 10


def test_a_chunk_size_is_set_at_both_ends() -> None:
    changed = variant("chunk_1MiB").of(JOB)
    assert changed.server.comm.model_chunk_size == changed.client.comm.model_chunk_size == 1 << 20
    assert switches(changed) == switches(variant("optimized").of(JOB))


def test_configured_leaves_the_settings_as_the_files_have_them() -> None:
    assert variant("configured").of(JOB) == JOB


def test_the_spelling_of_the_seeds_is_one_version_with_ours() -> None:
    assert variant("optimised") == variant("optimized") == Variant("optimized")


def test_groups_and_names_are_joined_and_each_is_run_once() -> None:
    assert versions_of("both, optimised,no_chunking") == ("original", "optimized", "no_chunking")
    assert versions_of("places")[2:] == SINGLES


@pytest.mark.parametrize("name", ["fast", "no_such", "only_", "chunk_big", "chunk_1KiB", ""])
def test_another_name_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(ExperimentError, match="--version") as refused:
        versions_of(name)
    assert "chunk_1MiB" in str(refused.value) or "chunk_big" in str(refused.value)
