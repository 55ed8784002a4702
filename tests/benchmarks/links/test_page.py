"""The page: everything inside, and a reason for every failure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.links.goals import Goal
from benchmarks.links.page import findings
from benchmarks.links.reports import Files, text_of, write
from benchmarks.links.tables import rows_of
from tests.benchmarks.links.cases import case_of, run_of

pytestmark = pytest.mark.slow  # matplotlib

PEERS = ("raw socket", "streamlink", "plain grpcio")
RUNS = [
    *(run_of(case_of(peer, line, mib)) for peer in PEERS
      for line, mib in (("loopback", 8), ("loopback", 16), ("10Mbit", 8))),
    run_of(case_of("Flower, message"), error="NoEnvironment: <no index>"),
]  # fmt: skip


def test_a_page_fetches_nothing_and_shows_all_pictures(tmp_path: Path) -> None:
    files = Files(tmp_path, "peers")
    write(files, RUNS)
    html = files.page.read_text("utf-8")
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    # Of two lines: rate, share and memory of each; time against size of one.
    assert html.count("<img") == 7
    assert "tried again by the next invocation: &lt;no index&gt;" in html


def test_the_pictures_lie_beside_the_page_and_none_of_before(tmp_path: Path) -> None:
    files = Files(tmp_path, "peers")
    old = tmp_path / "peers-pictures" / "rate-of-before.png"
    old.parent.mkdir()
    old.write_bytes(b"")
    write(files, RUNS)
    pictures = {path.name: path.read_bytes() for path in old.parent.iterdir()}
    names = (f"{kind}-{line}" for kind in ("rate", "share", "memory")
             for line in ("loopback", "10Mbit"))  # fmt: skip
    assert set(pictures) == {f"{name}.png" for name in (*names, "sizes")}
    assert all(data.startswith(b"\x89PNG") for data in pictures.values())
    assert all(len(data) < 200_000 for data in pictures.values())


def test_the_page_and_the_text_have_all_numbers_that_are_given(tmp_path: Path) -> None:
    files = Files(tmp_path, "links")
    write(
        files, RUNS, [Goal("a number of a program", "there", 1.0, 0.5, commit="def", file="x.json")]
    )
    for path in (files.table, files.page):
        text = path.read_text("utf-8")
        assert all(word in text for word in ("a number of a program", "def", "x.json"))


def test_the_summary_has_every_case_and_the_runs_behind_it(tmp_path: Path) -> None:
    files = Files(tmp_path, "links")
    write(files, RUNS)
    summary = json.loads(files.summary.read_text("utf-8"))
    assert len(summary["rows"]) == len(RUNS)
    assert summary["commits"] == ["abc"]
    assert files.table.read_text("utf-8") == text_of(files, RUNS)


def test_the_tables_say_why_a_peer_failed_and_which_is_not_installed(tmp_path: Path) -> None:
    failed = run_of(case_of("APPFL, chunks"), error="WorkerFailed: it ended")
    text = text_of(Files(tmp_path, "peers"), [*RUNS, failed])
    assert "APPFL, chunks, 8 MiB in 1 array, loopback: WorkerFailed: it ended" in text
    assert "Flower, message, 8 MiB in 1 array, loopback: not installed, and tried again" in text


def test_a_failure_that_was_made_good_is_told_and_no_row_has_it(tmp_path: Path) -> None:
    files = Files(tmp_path, "links")
    again = [run_of(case_of(), error="WorkerFailed: <busy>"), run_of(case_of())]
    write(files, again)
    summary = json.loads(files.summary.read_text("utf-8"))
    assert [(row["runs"], row["error"]) for row in summary["rows"]] == [(1, "")]
    assert "when it was tried again: WorkerFailed: <busy>" in files.table.read_text("utf-8")
    assert "when it was tried again: WorkerFailed: &lt;busy&gt;" in files.page.read_text("utf-8")


@pytest.mark.parametrize("name", ["links", "peers"])
def test_text_summary_and_page_end_in_the_numbers_to_reach(name: str, tmp_path: Path) -> None:
    files = Files(tmp_path, name)
    write(files, RUNS)
    numbers = json.loads(files.summary.read_text("utf-8"))["numbers_to_reach"]
    assert {number["is_met"] for number in numbers} == {None, True}
    for each in (files.table, files.page):
        text = each.read_text("utf-8")
        assert "Numbers to reach" in text
        assert all(number["where"] in text for number in numbers)


def test_the_programs_and_the_congestion_control_behind_a_run_are_shown(tmp_path: Path) -> None:
    files = Files(tmp_path, "peers")
    run = run_of(case_of("rsync, daemon"), facts={"version": "rsync  version 3.4.1"},
                 line={"congestion_control": "bbr"})  # fmt: skip
    write(files, [run])
    for each in (files.table, files.page, files.summary):
        text = each.read_text("utf-8")
        assert "rsync  version 3.4.1" in text
        assert "bbr" in text


def test_their_own_benchmark_is_shown_beside_the_peers_where_it_was_run(tmp_path: Path) -> None:
    files = Files(tmp_path, "peers")
    assert "NVFlare's own" not in text_of(files, RUNS)
    seconds = {"streamlink, computed model": [2.0], "NVFlare's own: byte stream": [3.0]}
    bench = {"ours": "streamlink, computed model", "nbytes": 10**9, "seconds": seconds}
    (tmp_path / "theirs.json").write_text(json.dumps({"benches": [bench]}))
    write(files, RUNS)
    assert "NVFlare's own: byte stream" in files.table.read_text("utf-8")
    assert "NVFlare&#x27;s own: byte stream" in files.page.read_text("utf-8")
    links = Files(tmp_path, "links")
    assert "NVFlare's own" not in text_of(links, RUNS)


def test_what_is_found_of_a_line_names_the_best_of_the_others() -> None:
    seconds = {"raw socket": 1.0, "streamlink": 2.0, "plain grpcio": 4.0, "rsync, daemon": 2.5}
    runs = [run_of(case_of(peer), each) for peer, each in seconds.items()]
    [sentence] = findings(rows_of(runs))
    assert sentence.endswith("0.500 of a raw socket; the best of the others: rsync, daemon, 0.400")
    [alone] = findings(rows_of(runs[:2]))
    assert alone.endswith("0.500 of a raw socket")
