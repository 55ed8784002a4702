"""The page: everything inside, and a reason for every failure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.links.reports import Files, text_of, write
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
    assert "NoEnvironment: &lt;no index&gt;" in html


def test_the_summary_has_every_case_and_the_runs_behind_it(tmp_path: Path) -> None:
    files = Files(tmp_path, "links")
    write(files, RUNS)
    summary = json.loads(files.summary.read_text("utf-8"))
    assert len(summary["rows"]) == len(RUNS)
    assert summary["commits"] == ["abc"]
    assert files.table.read_text("utf-8") == text_of(RUNS)


def test_the_tables_say_why_a_peer_failed() -> None:
    assert "Flower, message, 8 MiB in 1 array, loopback: NoEnvironment" in text_of(RUNS)
