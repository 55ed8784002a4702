"""The analysis of real profiles: figures equal memray's own, and no damage stops it."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamlink.profiling.heap.allocations import DamagedProfile, read_allocations
from streamlink.profiling.heap.analyze import Analysis, analyze
from streamlink.profiling.heap.observation import RunError
from tests.support.commands import environment
from tests.support.profiles import a_record, write_profile

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]"),
]

MAPPED = 50_000_000
BLOCKS = sum(1000 + number for number in range(3000))
IMPORTS = 3_000_000
"""What Python itself may allocate between the two (bytes)."""
SERVER = "server_original_memory_profile"


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / f"{SERVER}.bin"
    write_profile(path, MAPPED)
    return path


def in_run(folder: Path, name: str, content: bytes) -> None:
    path = folder / "profiles" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def analyzed(folder: Path, *, plots: bool = False) -> Analysis:
    return analyze(folder, folder / "analysis", plots)


def test_a_known_allocation_is_the_peak_as_memray_itself_says(
    profile: Path, tmp_path: Path
) -> None:
    from memray import FileReader
    from memray._memray import compute_statistics

    found = read_allocations(profile, tmp_path / "flamegraph.html")
    statistics = compute_statistics(str(profile))
    with FileReader(profile) as reader:
        assert found.peak_bytes == reader.metadata.peak_memory
    assert found.peak_bytes == statistics.peak_memory_allocated
    assert found.allocated_bytes == statistics.total_memory_allocated
    assert found.allocations == statistics.total_num_allocations
    assert sum(each.nbytes for each in found.at_peak) == found.peak_bytes
    assert 0 <= found.peak_bytes - MAPPED - BLOCKS < IMPORTS
    assert found.at_peak[0].nbytes == MAPPED
    assert found.fault is None


def test_a_run_gets_flame_graphs_summaries_tables_and_one_page_without_a_network(
    profile: Path, tmp_path: Path
) -> None:
    for version in ("original", "optimized"):
        a_record(version).write(tmp_path)
        a_record(version, profiled=True).write(tmp_path)
        name = f"server_{version}_memory_profile.bin"
        in_run(tmp_path, name, profile.read_bytes())
    found = analyzed(tmp_path, plots=True)
    output = tmp_path / "analysis"
    for folder, suffix in (("flamegraphs", "html"), ("summaries", "txt"), ("tables", "csv")):
        for version in ("original", "optimized"):
            path = output / folder / f"server_{version}_memory_profile.{suffix}"
            assert len(path.read_text("utf-8").splitlines()) > 2
            assert not re.search(r"<(script|link|img)[^>]+https?://", path.read_text("utf-8"))
    page = found.page.read_text("utf-8")
    assert not re.search(r"(src|href)=[\"']?https?://", page)
    assert found.page.stat().st_size < 1_000_000
    links = re.findall(r'href="([^"]+)"', page)
    assert links
    assert not [each for each in links if not (output / each).is_file()]
    assert {each.name for each in found.pictures} == {
        *("comparison.png", "roles.png", "memory_over_time.png", "memory_vs_time.png")
    }


def test_profiles_that_are_empty_cut_or_no_profiles_are_named_and_the_rest_goes_on(
    profile: Path, tmp_path: Path
) -> None:
    whole = profile.read_bytes()
    in_run(tmp_path, f"{SERVER}.bin", whole)
    in_run(tmp_path, "client_0_original_memory_profile.bin", b"")
    in_run(tmp_path, "client_1_original_memory_profile.bin", whole[: len(whole) // 2])
    in_run(tmp_path, "client_2_original_memory_profile.bin", b"something else" * 20)
    text = analyzed(tmp_path).text
    assert "client_0_original_memory_profile.bin cannot be read: the file is empty" in text
    assert re.search(r"client_1_original_memory_profile.bin (cannot be read|is incomplete)", text)
    assert "client_2_original_memory_profile.bin cannot be read: the file does not begin" in text
    assert re.search(r"^server +original +5[0-9]\.\d", text, re.MULTILINE)


def test_a_process_that_was_killed_has_figures_up_to_then_that_are_not_compared(
    profile: Path, tmp_path: Path
) -> None:
    in_run(tmp_path, f"{SERVER}.bin", profile.read_bytes())
    write_profile(
        tmp_path / "profiles" / "server_optimized_memory_profile.bin", MAPPED, is_killed=True
    )
    found = analyzed(tmp_path)
    expected = "server_optimized_memory_profile.bin is incomplete: memray never closed it"
    assert expected in found.text
    assert not found.findings.comparisons
    killed = next(each for each in found.findings.run.observations if each.version == "optimized")
    assert killed.allocations is not None
    assert killed.allocations.peak_bytes >= MAPPED


@pytest.mark.sampled
def test_a_profile_with_changed_bytes_never_ends_the_analysis(
    profile: Path, tmp_path: Path
) -> None:
    whole = bytearray(profile.read_bytes())
    for at in range(20, len(whole), len(whole) // 8):  # memray's reader dies of some of these
        damaged = bytearray(whole)
        damaged[at : at + 60] = bytes(reversed(damaged[at : at + 60]))
        path = tmp_path / "damaged.bin"
        path.write_bytes(damaged)
        with suppress(DamagedProfile):
            assert read_allocations(path, tmp_path / "flamegraph.html").peak_bytes >= 0


def test_processes_that_never_ran_at_the_same_time_are_two_runs(
    profile: Path, tmp_path: Path
) -> None:
    in_run(tmp_path, f"{SERVER}.bin", profile.read_bytes())
    write_profile(tmp_path / "profiles" / "client_0_original_memory_profile.bin", 1000)
    with pytest.raises(RunError, match=r"holds two runs: .* ended before .* began"):
        analyzed(tmp_path)


def test_without_plots_matplotlib_is_not_even_imported(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    code = (
        "import sys; from pathlib import Path; from streamlink.cli import app\n"
        "try: app(['profile', 'analyze', sys.argv[1], '--no-plots'])\n"
        "except SystemExit as end: print(end.code, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0 False"
    assert not list((tmp_path / "analysis").glob("*.png"))
