"""``streamlink status --watch``: in place on a terminal, plain elsewhere, and how it ends."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from streamlink import open_store
from streamlink.cli.watch import how_it_ended, in_place, plain, watched
from streamlink.config import RoundConfig
from streamlink.model.copy import copy_model
from streamlink.operate.control import ControlError, NothingRuns
from streamlink.rounds.ledger import Ledger
from streamlink.rounds.report import RoundReport
from streamlink.stores import ArrayModel
from tests.cli.facts import of_a_job, of_a_transfer


def once(*answers: Any) -> Callable[[], Any]:
    """Return what gives one answer after another, raising those that are errors."""
    left = iter(answers)

    def ask() -> Any:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def paused() -> None:
    """Take no time."""


def watch(show: Callable[[Any], None], *answers: Any) -> Any:
    first, *rest = answers
    return watched(first, once(*rest, NothingRuns("gone")), show, paused)


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_is_drawn_over_in_place() -> None:
    console = screen()
    with in_place(console) as show:
        watch(show, of_a_job(2), of_a_job(2, round=1))
    text = text_of(console)
    (_, after), lines = text.split("round 0 (1 of 5)", 1), 7
    # The cursor goes up over all the lines before they are drawn again.
    assert after.split("round 1 (2 of 5)")[0].count("\x1b[1A") == lines - 1


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (200, 50), (80, 12)])
def test_a_terminal_is_never_scrolled_however_many_clients_there_are(
    width: int, height: int
) -> None:
    console = screen(width, height)
    with in_place(console) as show:
        show(of_a_job(64))
    drawn = text_of(console).rpartition("\x1b[2K")[2]  # the last time, over what was there
    lines = drawn.replace("\x1b[?25h", "").splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any(" more: " in line for line in lines)


def test_without_a_terminal_each_status_follows_the_one_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with plain(as_json=False) as show:
        watch(show, of_a_job(2), of_a_job(2, round=1))
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("job ")]
    assert [head.split(",")[0] for head in heads] == [
        "job 'job': round 0 (1 of 5)",
        "job 'job': round 1 (2 of 5)",
    ]
    assert not any("\x1b" in line for line in lines)


def test_in_json_each_status_is_an_object_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with plain(as_json=True) as show:
        watch(show, of_a_job(1), of_a_job(1, round=1))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["round"] for each in told] == [0, 1]


def test_a_process_that_is_busy_for_a_moment_is_watched_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with plain(as_json=False) as show:
        last = watch(show, of_a_job(1), ControlError("no answer within 10 s"), of_a_job(1, round=3))
    assert "no answer within 10 s" in capsys.readouterr().out
    assert (last["round"], last["no_answer"]) == (3, "")


# --- how it ended ---------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    store = open_store(tmp_path / "model")
    copy_model(ArrayModel({"w": np.zeros(4, np.float32)}), store.begin(
        ArrayModel({"w": np.zeros(4, np.float32)}).spec
    ))  # fmt: skip
    ledger = Ledger(tmp_path / "ledger", store, RoundConfig(num_rounds=1))
    ledger.begin(["site-1"])
    return ledger


def test_a_job_whose_rounds_are_done_has_ended_well(ledger: Ledger) -> None:
    ledger.complete(RoundReport(0, 1, 0.5, {"site-1": 1.0}, {}))
    ledger.close()
    sentence = how_it_ended(of_a_job(1, ledger=str(ledger.path)))
    assert sentence == "job 'job' has ended: all its rounds are done"


def test_a_job_that_is_not_over_is_an_error_that_says_how_it_goes_on(ledger: Ledger) -> None:
    with pytest.raises(ControlError, match=r"job 'job' is not over.*--resume"):
        how_it_ended(of_a_job(1, ledger=str(ledger.path)))


def test_a_transfer_that_has_ended_says_how_far_it_was_seen() -> None:
    assert "last seen at 3 of 9 bytes" in how_it_ended(of_a_transfer(3, 9))
    assert (
        how_it_ended(of_a_transfer(9, 9))
        == "the transfer has ended; see the output of its process for the result"
    )
