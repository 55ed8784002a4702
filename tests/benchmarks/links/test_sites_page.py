"""The two-site job on a page: everything inside, a picture for each variant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.links.kept import append
from benchmarks.links.reports import Files
from benchmarks.links.reports import write as write_links
from benchmarks.links.savings import saved_rows, saved_shares
from benchmarks.links.sites.cases import Variant
from benchmarks.links.sites.report import write
from benchmarks.links.sizes import is_constant, large_rows
from benchmarks.links.tables import rows_of
from tests.benchmarks.links.cases import case_of, run_of
from tests.benchmarks.links.own_runs import ENCODED_RUNS, LARGE_RUNS
from tests.benchmarks.links.site_runs import site_case, site_run

VARIANTS = (Variant("lockstep"), Variant("spool", "bf16"), Variant("lockstep", duplex=True))
SITES = [site_run(site_case(each)) for each in VARIANTS]


@pytest.mark.slow  # matplotlib
@pytest.mark.slow
def test_a_page_has_the_times_of_each_encoding_and_the_use_of_each_variant(tmp_path: Path) -> None:
    files = Files(tmp_path, "sites")
    write(files, SITES)
    html = files.page.read_text("utf-8")
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert html.count("<img") == 2 + len(VARIANTS)
    assert "around 2300 seconds" in html
    assert "What FLARE&#x27;s notes say (NVIDIA FLARE, documentation" in html
    assert "the seed" not in html


@pytest.mark.slow
@pytest.mark.slow
def test_the_page_of_lines_has_parts_for_sites_encodings_and_sizes(tmp_path: Path) -> None:
    files = Files(tmp_path, "links")
    for run in SITES:
        append(tmp_path / "sites.jsonl", run)
    write_links(files, [run_of(case_of(line="10Mbit")), *ENCODED_RUNS, *LARGE_RUNS])
    html = files.page.read_text("utf-8")
    assert "Two sites: The job" in html
    assert "What each encoding saved" in html
    assert "bf16 and fp16 do not apply to BF16 (a cross)" in html
    # Rate, share and memory of the line; encodings; sizes; and those of the sites.
    assert html.count("<img") == 3 + 1 + 1 + 2 + len(VARIANTS)


def test_what_an_encoding_saved_is_beside_plain() -> None:
    rows = saved_rows(rows_of(ENCODED_RUNS))
    assert [row[2] for row in rows] == ["plain", "planes", "plain"]
    assert rows[1][4:8] == ("0.800", "20.0%", "1.00", "0.500")
    assert saved_shares(rows_of(ENCODED_RUNS))["weights, F32"]["planes"] == pytest.approx(0.8)


def test_seconds_for_each_gb_are_judged() -> None:
    assert "From 1.000 to 1.050 s" in is_constant(rows_of(LARGE_RUNS))
    assert is_constant(rows_of(LARGE_RUNS)).endswith("within 10%: met.")
    slow = run_of(LARGE_RUNS[0].case, 1.2)
    assert is_constant(rows_of([slow, LARGE_RUNS[1]])).endswith("not met.")
    assert "It takes two models" in is_constant(rows_of(LARGE_RUNS[:1]))
    assert [row[3] for row in large_rows(rows_of(LARGE_RUNS))] == ["1.000", "1.050"]
