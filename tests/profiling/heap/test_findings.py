"""What figures say: regressions in the same words as gains, nothing where there is nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamlink.profiling.heap.comparison import Comparison, Verdict
from streamlink.profiling.heap.figures import Measure
from streamlink.profiling.heap.findings import Findings, find, sentence
from streamlink.profiling.heap.observation import Subject
from streamlink.profiling.heap.observed import read_run
from streamlink.profiling.heap.recommendations import recommendations
from streamlink.profiling.heap.record import ProcessRecord
from streamlink.profiling.heap.report import report_text
from tests.support.profiles import a_record

BYTES = st.integers(1, 10**12)


def found(folder: Path, *records: ProcessRecord) -> Findings:
    for each in records:
        each.write(folder)
    return find(read_run(folder, None))


def compared(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    subject = Subject("grpc", "server", "server")
    measure = Measure.OVER_BASE
    ours_median, theirs_median = statistics.median(ours), statistics.median(theirs)
    return Comparison(
        subject, measure, "original", "optimized", theirs, ours, theirs_median, ours_median
    )


@given(BYTES, BYTES)
def test_the_word_agrees_with_the_sign(ours: int, theirs: int) -> None:
    each = compared([ours], [theirs])
    if each.verdict is Verdict.LOWER:
        assert ours < theirs
        assert "% lower than original" in sentence(each)
    elif each.verdict is Verdict.HIGHER:
        assert ours > theirs
        assert "% HIGHER than original" in sentence(each)
    else:
        assert abs(ours - theirs) <= 0.0101 * theirs
        assert "shows no difference" in sentence(each)


def test_repeats_that_overlap_show_no_difference() -> None:
    assert compared([90, 100, 110], [105, 120, 130]).verdict is Verdict.NONE
    assert compared([90, 100, 104], [105, 120, 130]).verdict is Verdict.LOWER
    assert compared([131, 140, 150], [105, 120, 130]).verdict is Verdict.HIGHER


def test_a_gain_and_a_regression_are_both_stated(tmp_path: Path) -> None:
    findings = found(
        tmp_path,
        a_record(over=4_000_000),
        a_record("optimized", over=1_000_000),
        a_record(role="client", client=0, over=1_000_000),
        a_record("optimized", role="client", client=0, over=1_500_000),
    )
    text = report_text(findings)
    assert (
        "- server, resident peak over the base: optimized is 75.0 % lower than original "
        "(1.0 MB against 4.0 MB, 1 run each)"
    ) in text
    assert (
        "- client 0, resident peak over the base: optimized is 50.0 % HIGHER than original "
        "(1.5 MB against 1.0 MB, 1 run each)"
    ) in text
    advice = recommendations(findings)
    assert any(each.startswith("client 0: optimized needs more") for each in advice)
    assert not any(each.startswith("use optimized") for each in advice)


def test_time_is_compared_without_memray_only(tmp_path: Path) -> None:
    findings = found(
        tmp_path,
        a_record(profiled=True, seconds=9.0),
        a_record("optimized", profiled=True, seconds=1.0),
    )
    assert not [each for each in findings.comparisons if each.measure.is_time]
    assert any("no conclusion about time" in each for each in recommendations(findings))


def test_what_memray_costs_is_shown(tmp_path: Path) -> None:
    findings = found(tmp_path, a_record(profiled=True, seconds=3.0), a_record(seconds=2.0))
    assert (
        "- server, original, time of a round under memray: 3.000 s, without memray 2.000 s "
        "(+50.0 %, 1 run each)"
    ) in report_text(findings)


def test_garbage_collections_are_counted_without_memray_and_where_they_were_noted(
    tmp_path: Path,
) -> None:
    findings = found(
        tmp_path,
        a_record(collections=3),
        a_record(profiled=True, collections=90),
        a_record("optimized"),  # by a version that did not count
    )
    assert findings.collections() == ["server, original: 3 collections (median of 1 run)"]


def test_a_client_is_also_compared_by_what_exceeds_its_training(tmp_path: Path) -> None:
    findings = found(
        tmp_path,
        a_record(role="client", client=0, over=9_000_000),
        a_record("optimized", role="client", client=0, over=5_000_000),
        a_record("alone", role="client", client=0, over=4_000_000),
    )
    assert (
        "- client 0, resident peak over training alone: optimized is 80.0 % lower than original "
        "(1.0 MB against 5.0 MB, 1 run each)"
    ) in report_text(findings)
    assert {each.version for each in findings.comparisons} == {"optimized"}


def test_a_process_that_failed_is_not_compared(tmp_path: Path) -> None:
    findings = found(tmp_path, a_record(), a_record("optimized", error="Error: died"))
    assert not findings.comparisons
    assert "server_optimized_plain failed" in report_text(findings)


def test_versions_that_end_with_other_models_are_named(tmp_path: Path) -> None:
    findings = found(tmp_path, a_record(digest="aa"), a_record("optimized", digest="bb"))
    assert findings.digests() == [
        "the versions did NOT end with the same model: optimized: bb; original: aa"
    ] or findings.digests() == [
        "the versions did NOT end with the same model: original: aa; optimized: bb"
    ]


def test_versions_that_end_with_the_same_model_are_named(tmp_path: Path) -> None:
    findings = found(tmp_path, a_record(digest="aa"), a_record("optimized", digest="aa"))
    assert findings.digests() == [
        "optimized and original ended with the same model, bit for bit (aa)"
    ]


def test_the_best_of_what_is_switched_on_alone_and_the_useless_are_named(tmp_path: Path) -> None:
    findings = found(
        tmp_path,
        a_record(over=4_000_000),
        a_record("only_chunking", over=1_000_000),
        a_record("only_trainer", over=4_000_000),
    )
    assert "only_trainer alone lowers no peak of this job" in recommendations(findings)


def test_of_chunk_sizes_the_lowest_peak_that_is_not_slow_is_proposed(tmp_path: Path) -> None:
    findings = found(
        tmp_path,
        a_record("chunk_64KiB", over=1_000_000, seconds=2.0),
        a_record("chunk_1MiB", over=2_000_000, seconds=1.05),
        a_record("chunk_16MiB", over=9_000_000, seconds=1.0),
    )
    assert any(
        each.startswith("chunk_1MiB has the lowest peak") for each in recommendations(findings)
    )
