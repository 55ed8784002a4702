"""How a server stands, as people read it: from recorded facts, on a screen of any size."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from streamlink.cli.status_text import fitting, lines_of
from tests.cli.facts import GiB, of_a_client, of_a_job, of_a_transfer, of_serving


def test_a_job_is_told_with_its_round_and_each_of_its_clients() -> None:
    memory = "memory 80.0 MiB, 10.0 MiB above its start, of 170.0 MiB allowed"
    update = "sent back 25% of 4.0 GiB at 1.049 MB/s, limited by network"
    assert lines_of(of_a_job(1)) == [
        "job 'job': round 0 (1 of 5), gathering for 12 s",
        f"listens on 10.0.0.5:8517, process 4198; {memory}",
        f"site-1: here, has 100% of 4.0 GiB, {update}",
    ]  # fmt: skip


def test_a_bandwidth_limit_is_told_with_what_moves_and_its_absence_is_not() -> None:
    facts = {"bwlimit": "1M:off", "up_limit": 1 << 20, "down_limit": None, "up_rate": 1 << 19}
    sends, receives = "sends at most 1.049 MB/s, now 0.5243 MB/s", "receives without a limit"
    line = f"bandwidth limit 1M:off: {sends}; {receives}, now 0 MB/s"
    for of_a_process in (of_a_job(0), of_serving(0), of_a_transfer(1, 2)):
        assert lines_of({**of_a_process, "bandwidth": {**facts, "down_rate": 0}})[2] == line
        silent = {**facts, "bwlimit": "", "down_rate": 0}
        assert line not in lines_of({**of_a_process, "bandwidth": silent})


def test_a_transfer_is_told_with_how_far_it_is() -> None:
    first = lines_of(of_a_transfer(GiB, 4 * GiB))[0]
    assert first == "receiving from me for 12 s: 1.0 GiB of 4.0 GiB, 1.049 MB/s"


def test_a_served_model_is_told_with_each_of_its_fetchers() -> None:
    fetcher = of_a_client("site-1", sent_bytes=GiB, sending_rate=1 << 20, received_bytes=0,
                          receive_total_bytes=0, receiving_rate=0)  # fmt: skip
    facts = of_serving(3, clients=[fetcher])
    memory = "memory 80.0 MiB, 10.0 MiB above its start, of 170.0 MiB allowed"
    assert lines_of(facts) == [
        "serving for 12 s: 3 fetches done, 1 now",
        f"listens on 10.0.0.5:8470, process 4198; {memory}",
        "site-1: here, has 25% of 4.0 GiB at 1.049 MB/s, limited by network",
    ]
    assert lines_of({**facts, "count": 4})[0] == "serving for 12 s: 3 of 4 fetches done, 1 now"


def test_what_has_not_begun_and_what_does_not_move_takes_no_words() -> None:
    works = of_a_client("site-1", received_bytes=0, receiving_rate=0, is_working=True)
    assert lines_of(of_a_job(0, clients=[works]))[2:] == [
        "site-1: here, has 100% of 4.0 GiB, at work"
    ]


def test_who_dropped_out_and_which_round_failed_is_shown() -> None:
    left = {"at": 100.0, "round": 1, "peer_name": "site-1", "reason": "its disk is full"}
    failed = {"at": 110.0, "round": 1, "peer_name": "", "reason": "too few updates"}
    assert lines_of(of_a_job(0, troubles=[left, failed]))[2:] == [
        "12 s ago, round 1: site-1: its disk is full",
        "2 s ago, round 1: failed: too few updates",
    ]


def test_the_last_metrics_and_the_best_model_are_shown() -> None:
    many = {f"m{number}": 0.5 for number in range(9)}
    facts = of_a_job(
        0,
        trained={"round": 3, "metrics": {"loss": 0.31}},
        evaluated={"round": 2, "metrics": many},
        best="accuracy 0.9 of round 2",
    )
    assert lines_of(facts)[2:] == [
        "training of round 3: loss 0.31",
        f"evaluation of round 2: {', '.join(f'm{n} 0.5' for n in range(8))} and 1 more",
        "the best model has accuracy 0.9 of round 2",
    ]


def test_what_fits_is_not_summed_up() -> None:
    facts = of_a_job(2)
    assert fitting(facts, width=200, height=4) == lines_of(facts)


def test_what_does_not_fit_is_summed_up() -> None:
    lines = fitting(of_a_job(16), width=120, height=10)
    assert len(lines) == 10
    assert lines[2].startswith("site-1: ")
    assert lines[-1] == (
        "and 9 more: 9 here, have 100% of 36.0 GiB, sent back 25% of 36.0 GiB at 9.437 MB/s"
    )


def test_who_is_not_here_is_shown_before_who_is_held() -> None:
    held = [of_a_client(f"site-{n}", held_for="site-99") for n in range(20)]
    away = of_a_client("site-98", presence="away")
    works = of_a_client("site-99", is_working=True)
    lines = fitting(of_a_job(0, clients=[*held, away, works]), width=200, height=6)
    assert [line.split(":")[0] for line in lines[2:]] == ["site-0", "site-98", "site-99",
                                                          "and 19 more"]  # fmt: skip
    assert lines[-1].endswith("19 held")


@pytest.mark.parametrize("width", [30, 40, 80, 200])
@pytest.mark.parametrize("height", [16, 24, 50])
@pytest.mark.parametrize("clients", [0, 1, 2, 16, 64])
def test_nothing_runs_over_the_edge(width: int, height: int, clients: int) -> None:
    past = [
        {"round": n, "attempt": 1, "seconds": 9.0, "contributors": ["site-1"]} for n in range(9)
    ]
    lines = fitting(of_a_job(clients, last_rounds=past), width=width, height=height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width


def test_letters_that_are_two_cells_wide_are_folded_as_they_are() -> None:
    facts = of_a_job(0, clients=[of_a_client("\u6a5f" * 50)])
    assert max(map(cell_len, fitting(facts, width=40, height=24))) <= 40
