"""NVIDIA FLARE's own benchmarks: their turns, where they are kept, and their table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import typer

from benchmarks.links import theirs
from benchmarks.links.kept import RESULTS
from benchmarks.links.programs import measured_by, read_parts, run_program
from benchmarks.links.reports import Files, text_of
from benchmarks.links.their_scripts import BENCHES
from benchmarks.links.theirs import NAME, read_theirs, their_rows
from benchmarks.parts import Facts, Parts
from benchmarks.stats import Result
from tests.benchmarks.links.cases import run_of
from tests.benchmarks.links.commands import ASKS_GIT, run_here


@dataclass
class Turns:
    """Measures no turn: ours takes a second, each way of theirs two; can be interrupted."""

    stop_at: int = 100
    asked: list[str] = field(default_factory=list)

    def run(self, quick: bool, part: Parts) -> Result:
        return theirs.run(quick, partial(self.given, part), Path())

    def given(self, part: Parts, name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
        return part(name, seconds, partial(self.turn, name))

    def turn(self, name: str) -> Facts:
        if len(self.asked) == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(name)
        [bench] = [each for each in BENCHES if each.script in name]
        return {
            "seconds": {bench.ours: 1.0, **{f"NVFlare's own: {way}": 2.0 for way in bench.ways}}
        }


def go(folder: Path, turns: Turns, small: bool = False) -> None:
    run_program(Files(folder, NAME), small=small, report=False, plan=False, since=None,
                run=turns.run)  # fmt: skip


def test_each_of_their_times_is_beside_ours_of_as_many_bytes() -> None:
    seconds = {"streamlink, computed model": [1.0, 2.0, 9.0], "NVFlare's own": [5.0]}
    tensors = {"streamlink": [4.0], "NVFlare's own: tensors": [2.0]}
    benches = [
        {"ours": "streamlink, computed model", "nbytes": 4 * 10**9, "seconds": seconds},
        {"ours": "streamlink", "nbytes": 10**9, "seconds": tensors},
    ]
    ours, others, our_tensors, their_tensors = their_rows({"benches": benches})
    assert ours[1:] == ("4000000000", "3", "2.00", "2000", "1.00")
    assert others[1:] == ("4000000000", "1", "5.00", "800", "2.50")
    assert our_tensors[-1] == "1.00"
    assert their_tensors[-1] == "0.50"


def test_where_it_was_never_run_there_is_nothing_of_it(tmp_path: Path) -> None:
    assert read_theirs(tmp_path) is None
    assert their_rows(None) == []


@ASKS_GIT
def test_what_was_interrupted_goes_on_with_the_turn_that_was_left(tmp_path: Path) -> None:
    first, second = Turns(stop_at=4), Turns()
    with pytest.raises(typer.Exit) as ended:
        go(tmp_path, first)
    assert (ended.value.exit_code, len(first.asked)) == (130, 4)
    assert read_theirs(tmp_path) is None
    go(tmp_path, second)
    assert second.asked == [f"{BENCHES[1].script}, turn {number} of 3" for number in (2, 3)]
    assert len(read_parts(Files(tmp_path, NAME).raw)) == 6
    assert [row[2:] for row in their_rows(read_theirs(tmp_path))] == [
        ("3", "1.00", "4295", "1.00"), *[("3", "2.00", "2147", "2.00")] * 2,
        ("3", "1.00", "1074", "1.00"), *[("3", "2.00", "537", "2.00")] * 2,
    ]  # fmt: skip


@ASKS_GIT
def test_a_trial_has_one_small_turn_and_is_not_shown_with_the_peers(tmp_path: Path) -> None:
    turns = Turns()
    go(tmp_path, turns, small=True)
    assert turns.asked == [f"{bench.script}, turn 1 of 1" for bench in BENCHES]
    found = json.loads(Files(tmp_path, NAME).summary.read_text("utf-8"))
    assert {bench["nbytes"] for bench in found["benches"]} == {16 << 20}
    assert read_theirs(tmp_path) is None


def test_what_an_earlier_version_has_kept_is_shown_as_it_was(tmp_path: Path) -> None:
    seconds = {"streamlink": [2.0], "NVFlare's own: tensors into memory": [3.0]}
    bench = {"script": "a.py", "ours": "streamlink", "nbytes": 10**9, "seconds": seconds}
    (tmp_path / "theirs.json").write_text(json.dumps({"commit": "abc", "benches": [bench]}))
    assert [row[0] for row in their_rows(read_theirs(tmp_path))] == list(seconds)
    assert "NVFlare's own: tensors into memory" in text_of(Files(tmp_path, "peers"), [run_of()])


def test_the_record_has_a_row_for_each_way() -> None:
    ways = [["streamlink", *bench.ways] for bench in BENCHES]
    assert len(their_rows(read_theirs(RESULTS))) == sum(map(len, ways))


def test_a_turn_counts_while_streamlink_and_the_way_it_is_measured_are_the_same() -> None:
    measured = set(measured_by(NAME))
    assert {f":(top)benchmarks/links/{name}.py" for name in
            ("theirs", "their_scripts", "measuring", "ends", "peers/ours", "peers/ours_computed")
            } < measured  # fmt: skip
    assert ":(top)streamlink" in measured
    assert not measured & {f":(top)benchmarks/links/{name}.py" for name in
                           ("plans", "programs", "reports", "numbers")}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("theirs",), "theirs needs a clone: --nvflare ~/NVFlare"),
        pytest.param(
            ("theirs", "--nvflare", "."), "no dev_tools/f3/cellnet_bench.py at", marks=ASKS_GIT
        ),
        (("probe", "--nvflare", "."), "--nvflare is for theirs, not for probe"),
    ],
)
def test_a_clone_is_for_theirs_which_needs_it_and_nothing_is_kept_without(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    done = run_here(*words, "--small", folder=tmp_path)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


@ASKS_GIT
def test_what_is_left_to_do_needs_no_clone(tmp_path: Path) -> None:
    done = run_here("theirs", "--plan", folder=tmp_path)
    assert (done.returncode, "cellnet_bench.py, turn 1 of 3" in done.stderr) == (0, True)
