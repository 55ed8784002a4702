"""The soak's verdict, and one short run of it."""

import psutil
import pytest

from benchmarks import soak
from benchmarks.soak import MIB, Seen, is_flat


def _seen(rss: list[int], threads: list[int], files: list[int]) -> Seen:
    return Seen(list(map(float, range(len(rss)))), rss, threads, files)


LEVEL = _seen([100 * MIB] * 100, [20] * 100, [30] * 100)


def test_what_stays_level_is_flat() -> None:
    assert is_flat(LEVEL)


def test_what_grows_at_first_only_is_flat() -> None:
    warming = [50 * MIB] * 20 + [100 * MIB] * 80
    assert is_flat(_seen(warming, LEVEL.threads, LEVEL.descriptors))


def test_memory_that_creeps_is_not_flat() -> None:
    creeping = [(100 + second // 5) * MIB for second in range(100)]
    assert not is_flat(_seen(creeping, LEVEL.threads, LEVEL.descriptors))


def test_threads_or_descriptors_that_pile_up_are_not_flat() -> None:
    piled = [20 + second // 3 for second in range(100)]
    assert not is_flat(_seen(LEVEL.rss_bytes, piled, LEVEL.descriptors))
    assert not is_flat(_seen(LEVEL.rss_bytes, LEVEL.threads, piled))


def test_a_look_finds_this_process() -> None:
    seen = Seen()
    seen.look(1.0, psutil.Process())
    assert seen.rss_bytes[0] > MIB
    assert seen.threads[0] >= 1
    assert seen.as_json()["at"] == [1.0]


@pytest.mark.processes
def test_a_short_soak_gives_right_models_and_judges_nothing() -> None:
    result = soak.run(quick=True)
    assert result.met is None
    assert result.facts["wrong_bytes"] == 0
    assert result.facts["models"] == result.facts["rounds"] > 0
    assert result.facts["left_over"] == []
    assert sum(result.facts["faults"].values()) > 0
