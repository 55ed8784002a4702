"""The two-site job without its processes: closed form, settings, series, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import streamlink
from benchmarks.links.cases import Accuracy
from benchmarks.links.failures import standing
from benchmarks.links.goals import MORE_MEMORY_BYTES
from benchmarks.links.lines import Line
from benchmarks.links.sites import flare, weights
from benchmarks.links.sites.cases import (
    CLIENTS,
    FAR,
    NEAR,
    SERVER,
    Probed,
    SiteCase,
    SiteRun,
    Used,
    Variant,
)
from benchmarks.links.sites.goals import limit_bytes, site_goals
from benchmarks.links.sites.plans import SitePlan, plan_seconds, site_plan, small_site_plan
from benchmarks.links.sites.probing import settings_of
from benchmarks.links.sites.report import read_sites, summary_of, text_of
from benchmarks.links.sites.running import limit_seconds, thinned
from benchmarks.links.sites.series import left_to_do, run_plan
from benchmarks.links.sites.tables import (
    LINE_COLUMNS,
    TIME_COLUMNS,
    job_rows,
    line_rows,
    rows_of,
    setting_rows,
    time_rows,
)
from benchmarks.processes import Sample
from streamlink.stores import SafetensorsStore
from tests.benchmarks.links.site_runs import probed_of, site_case, site_run

WHERE = site_run().where
PLAIN, SPOOL = site_case(), site_case(Variant("spool"))


@dataclass
class Here:
    where: str = WHERE

    def counts(self, outcome: SiteRun) -> bool:
        return outcome.commit == "abc"


@dataclass
class Series:
    """Runs nothing, and fails or is interrupted where it is told to."""

    failing: SiteCase | None = None
    stop_at: int = 1000
    done: list[SiteCase] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    probes: list[tuple[str, ...]] = field(default_factory=list)

    def measure_line(self, line: Line, seconds: float) -> Accuracy:
        self.measured.append(line.name)
        return Accuracy(line.round_trip, 0.0, 1e6, seconds, 2e6)

    def probe_lines(self, lines: Mapping[str, Line], seconds: float) -> dict[str, Probed]:
        self.probes.append(tuple(line.name for line in lines.values()))
        return {name: probed_of() for name in lines}

    def run_case(self, case: SiteCase, probed: dict[str, Probed]) -> SiteRun:
        if len(self.done) == self.stop_at:
            raise KeyboardInterrupt
        self.done.append(case)
        return site_run(case, probed=probed, error="no" if case == self.failing else "")

    def go(self, plan: SitePlan, path: Path) -> list[SiteRun]:
        run_plan(plan, path, read_sites(path), Here(), run_case=self.run_case,
                 measure_line=self.measure_line, probe_lines=self.probe_lines,
                 tell=lambda text: None, clock=lambda: 0.0)  # fmt: skip
        return read_sites(path)


# --- the closed form ----------------------------------------------------------------------------


def test_a_round_adds_the_mean_of_what_the_clients_add() -> None:
    entries = np.zeros(4, np.float32)
    added = float(sum(weights.ADDED[name] for name in CLIENTS)) / len(CLIENTS)
    assert weights.after(entries, 3, is_rounded=False).tolist() == [3 * added] * 4


def test_models_that_travel_rounded_end_elsewhere() -> None:
    entries = weights.table()[:1000]
    plain, rounded = (weights.after(entries, 3, is_rounded=each) for each in (False, True))
    assert 0 < np.abs(plain - rounded).max() < 2**-8


def test_a_model_that_is_not_the_closed_form_is_noticed(tmp_path: Path) -> None:
    case = site_case(keys=3)
    weights.write(case, tmp_path / "model")
    assert weights.count_wrong_bytes(case, tmp_path / "model") > 0


@pytest.mark.parametrize("encoding", ["plain", "bf16"])
def test_the_model_of_the_closed_form_is_right(encoding: str, tmp_path: Path) -> None:
    case = site_case(Variant("lockstep", encoding), keys=3)  # type: ignore[arg-type]
    entries = weights.after(weights.table(), case.rounds, is_rounded=encoding == "bf16")
    model = weights.model_of(case, entries)
    streamlink.copy_model(model, SafetensorsStore(tmp_path / "model").begin(model.spec))
    assert weights.count_wrong_bytes(case, tmp_path / "model") == 0


def test_no_two_tensors_are_alike() -> None:
    case = site_case()
    model = weights.model_of(case, weights.table())
    keys = {bytes(b"".join(model.read(at * case.key_bytes, 64))) for at in range(case.keys)}
    assert len(keys) == case.keys


# --- settings -----------------------------------------------------------------------------------

PROBED = {NEAR: probed_of(), FAR: probed_of(timeouts__streaming_ack_wait=90.0)}


def test_each_client_takes_what_is_proposed_for_its_line_and_the_server_the_larger() -> None:
    waits = [settings_of(PROBED, name, "plain")["timeouts"]["streaming_ack_wait"]
             for name in (NEAR, FAR, None)]  # fmt: skip
    assert waits == [60.0, 90.0, 90.0]


def test_what_is_proposed_for_one_line_alone_is_set_at_its_ends_alone() -> None:
    settings = dict(probed_of().settings)
    del settings["stream.window_bytes"]
    default = replace(probed_of(), settings=settings)
    probed = {NEAR: default, FAR: probed_of(stream__window_bytes=64 << 20)}
    windows = [settings_of(probed, name, "plain")["stream"].get("window_bytes")
               for name in (NEAR, FAR, None)]  # fmt: skip
    assert windows == [None, 64 << 20, 64 << 20]
    rows = {row[0]: row[1:4] for row in setting_rows([site_run(probed=probed)])}
    assert rows["window_bytes"] == ("default", "64 MiB", "64 MiB")
    run = site_run(site_case(Variant("lockstep", executor="streaming")), probed=probed)
    assert limit_bytes(run, NEAR) == ((2 * (16 + 4 * 2) + 64) << 20) + MORE_MEMORY_BYTES
    assert limit_bytes(run, FAR) == (2 * (64 + 4 * 2) << 20) + MORE_MEMORY_BYTES


def test_settings_are_those_of_a_link() -> None:
    for name in (NEAR, None):
        for encoding in ("plain", "auto", "bf16"):
            found = settings_of(PROBED, name, encoding)
            streamlink.LinkConfig.model_validate(found)


def test_a_lossy_format_is_set_at_the_end_that_sends() -> None:
    assert settings_of(PROBED, None, "bf16")["stream"]["lossy_down"] == ["*=bf16"]
    assert settings_of(PROBED, NEAR, "bf16")["stream"]["lossy_up"] == ["*=bf16"]


# --- the plan -----------------------------------------------------------------------------------


def test_the_plan_is_the_seeds_job_in_all_variants_and_ends_in_time() -> None:
    plan = site_plan()
    near, far = plan.cases[0].near, plan.cases[0].far
    assert near.rate is not None
    assert far.rate is not None
    assert near.rate / far.rate == pytest.approx(5)
    assert far.round_trip / near.round_trip == pytest.approx(5)
    assert {(case.keys, case.rounds) for case in plan.cases} == {(flare.KEYS, 3)}
    encodings = {case.variant.encoding for case in plan.cases}
    ways = {(case.variant.gather, case.variant.duplex) for case in plan.cases}
    assert encodings == {"plain", "auto", "bf16"}
    assert ways == {("lockstep", False), ("lockstep", True), ("spool", False)}
    assert plan_seconds(plan.cases, plan) < 25 * 60


def test_the_small_plan_has_every_way_and_encoding() -> None:
    assert _ways(site_plan()) == _ways(small_site_plan())
    assert plan_seconds(small_site_plan().cases, small_site_plan()) < 90


def _ways(plan: SitePlan) -> set[tuple[str, bool, str]]:
    variants = [case.variant for case in plan.cases]
    return {(each.gather, each.duplex, each.executor) for each in variants}


def test_a_run_may_be_slow_and_not_endless() -> None:
    alone = 6 * PLAIN.far.seconds(PLAIN.nbytes)
    assert 2 * alone < limit_seconds(PLAIN) < 600


# --- the series ---------------------------------------------------------------------------------


def test_the_lines_are_probed_once_and_their_runs_know_it(tmp_path: Path) -> None:
    series = Series()
    runs = series.go(SitePlan((PLAIN, SPOOL)), tmp_path / "sites.jsonl")
    assert series.probes == [("100Mbit,4ms", "20Mbit,20ms")]
    assert all(set(run.probed) == set(CLIENTS) for run in runs)


def test_each_line_is_measured_once_before_the_probe_and_shown(tmp_path: Path) -> None:
    series = Series()
    runs = series.go(SitePlan((PLAIN, SPOOL)), tmp_path / "sites.jsonl")
    assert series.measured == ["100Mbit,4ms", "20Mbit,20ms"]
    near, far = (dict(zip(LINE_COLUMNS, row, strict=True)) for row in line_rows(runs))
    assert (near["client"], near["asked Mbit/s"], near["found ms"]) == (NEAR, "100", "4.00")
    assert (far["found Mbit/s, up"], far["down"]) == ("1", "2")
    assert "found Mbit/s, up" in text_of(runs)


def test_an_interrupted_series_goes_on(tmp_path: Path) -> None:
    plan, path = SitePlan((PLAIN, SPOOL), runs=2), tmp_path / "sites.jsonl"
    with pytest.raises(KeyboardInterrupt):
        Series(stop_at=3).go(plan, path)
    second = Series()
    assert len(second.go(plan, path)) == 4
    assert second.done == [SPOOL]


def test_nothing_is_probed_where_nothing_is_left(tmp_path: Path) -> None:
    series, path = Series(), tmp_path / "sites.jsonl"
    Series().go(SitePlan((PLAIN,)), path)
    series.go(SitePlan((PLAIN,)), path)
    assert (series.probes, series.done) == ([], [])


def test_a_case_that_failed_twice_is_not_run_again(tmp_path: Path) -> None:
    runs = Series(failing=PLAIN).go(SitePlan((PLAIN, SPOOL)), tmp_path / "sites.jsonl")
    assert [run.error for run in runs] == ["no", ""]
    assert left_to_do(SitePlan((PLAIN, SPOOL), runs=2), [runs[0], *runs], Here()) == [SPOOL]


def test_a_case_that_failed_is_left_to_the_next_invocation_and_then_made_good(
    tmp_path: Path,
) -> None:
    plan, path = SitePlan((PLAIN,), runs=2), tmp_path / "sites.jsonl"
    first, second = Series(failing=PLAIN), Series()
    first.go(plan, path)
    runs = second.go(plan, path)
    assert (len(first.done), len(second.done)) == (1, 2)
    assert len(rows_of(runs)[0].good) == 2
    assert not any(run.error for run in standing(runs))
    assert "when it was tried again: no" in text_of(runs)


def test_nothing_is_begun_that_would_not_end_before_the_deadline(tmp_path: Path) -> None:
    series, path = Series(), tmp_path / "sites.jsonl"
    plan = SitePlan((PLAIN, SPOOL), stop_seconds=plan_seconds([PLAIN], SitePlan(())) - 1)
    assert series.go(plan, path) == []
    assert (series.probes, series.done) == ([], [])
    series.go(replace(plan, stop_seconds=plan.stop_seconds + 2), path)
    assert series.done == [PLAIN, SPOOL]


@pytest.mark.parametrize("here", [Here(where="another machine")])
def test_runs_of_another_machine_do_not_count(here: Here) -> None:
    assert left_to_do(SitePlan((PLAIN,)), [site_run(PLAIN)], here) == [PLAIN]


# --- what is shown ------------------------------------------------------------------------------


def test_a_run_survives_its_json() -> None:
    run = site_run()
    assert SiteRun.from_json(json.loads(json.dumps(run.as_json()))) == run


def test_the_seeds_times_stand_first_also_as_of_our_size() -> None:
    rows = [dict(zip(TIME_COLUMNS, each, strict=True)) for each in time_rows(rows_of([site_run()]))]
    assert (rows[0]["near down, s"], rows[0]["near up, s"]) == ("2000", "2300")
    assert float(rows[1]["near down, s"]) == pytest.approx(2000 * PLAIN.nbytes / 128e9, rel=1e-3)
    assert (rows[2]["near down, s"], rows[2]["far up, s"]) == ("0.5", "2.5")
    assert (rows[2]["far ÷ near: down"], rows[2]["up"]) == ("5.0", "5.0")


def test_bytes_on_the_wire_are_those_of_both_clients_ways() -> None:
    assert "1.000" in job_rows(rows_of([site_run()]))[1]


def test_a_case_that_failed_has_a_row_and_its_reason() -> None:
    text = text_of([site_run(error="WorkerFailed: far ended"), site_run(SPOOL)])
    assert "failed" in text
    assert "lockstep, plain; 64 x 0.016384 MB" in text
    assert "WorkerFailed: far ended" in text


MODEL = PLAIN.nbytes
SLACK = 64 << 20


@pytest.mark.parametrize(
    ("variant", "name", "limit"),
    [
        (Variant("lockstep"), SERVER, 200 << 20),
        (Variant("lockstep"), NEAR, MODEL + SLACK),
        (Variant("spool", "bf16"), FAR, MODEL + SLACK),
        (Variant("lockstep", duplex=True), FAR, 2 * MODEL + SLACK),
        (Variant("lockstep", executor="streaming"), NEAR, (2 * (16 + 4 * 2) << 20) + SLACK),
    ],
)
def test_each_process_is_judged_by_what_is_stated_for_it(
    variant: Variant, name: str, limit: int
) -> None:
    for over, met in ((limit, True), (limit + 1, False)):
        run = site_run(site_case(variant))
        run.used[name] = Used(40 << 20, (40 << 20) + over, 1.0)
        goals = {goal.what.rpartition(", ")[2].removesuffix(" client"): goal
                 for goal in site_goals([site_run(), run])}  # fmt: skip
        assert goals[name].is_met is met
        assert goals[name].reached == pytest.approx(over / limit)


def test_a_job_whose_model_is_not_exact_misses_its_number() -> None:
    wrong = "runs that failed, or whose model is not exact"
    failed = site_run(error="WorkerFailed: 4 bytes of the final model are not what they should")
    for runs, met in (([site_run()], True), ([site_run(), failed], False),
                      ([failed, site_run()], True), ([], None)):  # fmt: skip
        assert {goal.what: goal.is_met for goal in site_goals(runs)}[wrong] is met


def test_the_report_says_why_there_is_no_spool_with_duplex() -> None:
    assert "no spool with duplex" in text_of([site_run()])


def test_the_tables_name_whose_figures_are_beside_ours() -> None:
    text = text_of([site_run()])
    for words in (
        "FLARE's notes ",
        "FLARE's notes ÷ ",
        'NVIDIA FLARE, documentation, "Large Models"',
    ):
        assert words in text, words
    assert "seed" not in text


def test_the_summary_names_its_source_and_leaves_out_the_looks() -> None:
    summary = summary_of([site_run()])
    assert summary["seed"]["seconds"]["far down"] == 11500
    assert "looks" not in summary["runs"][0]["used"][NEAR]


def test_thinned_looks_keep_the_highest_memory_and_the_last_processor_time() -> None:
    samples = tuple(Sample(float(at), 100 if at == 1 else at, at / 10) for at in range(6))
    kept = thinned(samples, 2)
    assert [look.rss_bytes for look in kept] == [100, 5]
    assert [look.cpu_seconds for look in kept] == [0.2, 0.5]
