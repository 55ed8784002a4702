"""Progress: bars for terminals, a line a minute for log files, cheap for both."""

import io
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from rich.console import Console

from streamlink.bars import Row
from streamlink.progress import LinkProgress, Watch, show_progress

MB = 1_000_000


class Clock:
    """Seconds that move when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Far:
    """How far a peer is."""

    peer_name: str
    sent: int
    received: int = 0
    phase: str = "streaming"
    total: int = 4 * MB
    returns: int = 0
    held_for: str = ""
    is_working: bool = False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quiet(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[LinkProgress]:
    """One without a terminal."""
    caplog.set_level(logging.INFO, "streamlink.progress")
    with LinkProgress(Console(file=io.StringIO()), clock=clock) as progress:
        yield progress


def play(progress: LinkProgress, clock: Clock, *told: tuple[float, str, int]) -> Row:
    """Tell of one transfer of 100 MB at recorded times; return how it stands after that."""
    for now, phase, done in told:
        clock.now = now
        progress.update("site-1", phase, done * MB, 100 * MB)
    return row(progress)


def row(progress: LinkProgress) -> Row:
    (found,) = progress.rows()
    return found


def drawn(act: Callable[[LinkProgress], None], width: int = 100, height: int = 24) -> str:
    """Return what a terminal shows at the end of ``act``."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, height=height)
    with LinkProgress(console) as progress:
        act(progress)
    return file.getvalue()


# --- what is known of one transfer ----------------------------------------------------------


def test_a_rate_is_that_of_the_last_seconds(quiet: LinkProgress, clock: Clock) -> None:
    slow = [(at / 2, "sending", at) for at in range(20)]
    assert play(quiet, clock, *slow).rate == pytest.approx(2 * MB)
    fast = [(10 + at / 2, "sending", 20 + 4 * at) for at in range(12)]
    assert play(quiet, clock, *fast).rate == pytest.approx(8 * MB)


def test_a_transfer_that_stands_still_has_no_rate(quiet: LinkProgress, clock: Clock) -> None:
    play(quiet, clock, *[(at / 2, "sending", at) for at in range(10)])
    clock.now = 20.0
    assert row(quiet).rate == 0.0
    assert row(quiet).seconds_left is None


def test_a_transfer_that_is_over_has_the_rate_of_the_time_in_which_it_moved(
    quiet: LinkProgress, clock: Clock
) -> None:
    waits = [(at / 5, "receiving", 0) for at in range(5 * 60)]  # a minute of training
    comes = [(60 + at / 5, "receiving", at) for at in range(101)]
    ended = play(quiet, clock, *waits, *comes)
    assert ended.is_complete
    assert ended.rate == pytest.approx(5 * MB, rel=0.02)
    clock.now = 900.0
    assert row(quiet).rate == ended.rate


def test_a_broken_connection_is_no_part_of_the_rate(quiet: LinkProgress, clock: Clock) -> None:
    told = [(at / 5, "sending", at) for at in range(51)]
    told += [(10.2, "waiting for its connection", 50)]
    told += [(300 + at / 5, "sending", 50 + at) for at in range(51)]
    assert play(quiet, clock, *told).rate == pytest.approx(5 * MB, rel=0.05)


def test_a_transfer_without_its_connection_has_no_rate(quiet: LinkProgress, clock: Clock) -> None:
    told = [(at / 5, "sending", at) for at in range(51)]
    away = play(quiet, clock, *told, (11.0, "waiting for its connection", 50))
    assert (away.rate, away.words) == (0.0, "waiting for its connection")


def test_bytes_that_were_there_before_are_no_part_of_the_rate(
    quiet: LinkProgress, clock: Clock
) -> None:
    told = [(at / 10, "checking", 10 * at) for at in range(8)]
    told += [(1 + at, "receiving", 70 + at) for at in range(31)]
    assert play(quiet, clock, *told).rate == pytest.approx(1 * MB, rel=0.05)


def test_the_next_transfer_of_a_peer_begins_anew(quiet: LinkProgress, clock: Clock) -> None:
    assert play(quiet, clock, (0, "sending", 0), (1, "sending", 100)).rate == 100 * MB
    after = play(quiet, clock, (50, "sending", 0), (51, "sending", 10))
    assert (after.done, after.rate) == (10 * MB, 10 * MB)


def test_the_arrows_say_which_way_and_other_phases_their_name(quiet: LinkProgress) -> None:
    quiet.update("site-1", "sending", 1, 2)
    quiet.update("site-2", "receiving", 1, 2)
    quiet.update("site-2", "checking", 1, 2)
    quiet.update("site-3", "noting", 1, 2, direction="sending")
    shown = [(each.name, each.words) for each in quiet.rows()]
    assert shown == [("→ site-1", ""), ("← site-2", "checking"), ("→ site-3", "noting")]


def test_threads_may_report_at_once(quiet: LinkProgress) -> None:
    def report(peer: str) -> None:
        for done in range(1, 501):
            quiet.update(peer, "sending", done, 500)

    threads = [threading.Thread(target=report, args=(f"site-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.name for each in quiet.rows()) == [f"→ site-{n}" for n in range(4)]
    assert all(each.is_complete for each in quiet.rows())


def test_a_call_between_samples_only_leaves_its_number(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    play(quiet, clock, (59.95, "sending", 1), (60.01, "sending", 2))
    assert not caplog.messages  # a line is due, and is left to the next sample
    assert row(quiet).done == 2 * MB
    play(quiet, clock, (60.06, "sending", 3))
    assert len(caplog.messages) == 1


# --- the screen -----------------------------------------------------------------------------


def test_a_terminal_shows_the_round_the_peers_and_how_far_they_are() -> None:
    def act(progress: LinkProgress) -> None:
        progress.headline = "round 2 of 5"
        progress.update("site-1", "sending", 3 * MB, 4 * MB)
        progress.update("site-1", "receiving", 1 * MB, 4 * MB)

    lines = drawn(act).splitlines()
    assert any("round 2 of 5" in line for line in lines)
    assert any("→ site-1" in line and "75% of 4.0 MB" in line for line in lines)
    assert any("← site-1" in line and "25% of 4.0 MB" in line for line in lines)


def test_the_last_number_is_shown_though_it_came_too_soon_for_a_refresh() -> None:
    def burst(progress: LinkProgress) -> None:
        for done in range(1, 4):
            progress.update("site-1", "sending", done * MB, 4 * MB)

    assert "75% of 4.0 MB" in drawn(burst)


def test_more_bars_than_rows_are_summed_up() -> None:
    def many(progress: LinkProgress) -> None:
        for number in range(32):
            progress.update(f"site-{number}", "receiving", 1 * MB, 4 * MB)

    (last,) = {line for line in drawn(many).splitlines() if " more" in line}
    assert "10 more" in last
    assert "0 of 10 done" in last
    assert "25% of 40.0 MB" in last


def test_a_peer_nobody_tells_of_any_more_has_no_bar(quiet: LinkProgress) -> None:
    for peer in ("site-1", "site-2"):
        quiet.update(peer, "sending", 1, 4)
        quiet.update(peer, "receiving", 1, 4)
    quiet.forget("site-1")
    quiet.forget("site-7")
    assert [each.name for each in quiet.rows()] == ["→ site-2", "← site-2"]


# --- a log ----------------------------------------------------------------------------------


def test_without_a_terminal_the_log_is_told_once_a_minute(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    play(quiet, clock, *[(at, "sending", at // 2) for at in range(140)])
    assert caplog.messages == [
        "→ site-1: 30.0 MB of 100.0 MB, 600.0 kB/s, 1:57 left",
        "→ site-1: 60.0 MB of 100.0 MB, 600.0 kB/s, 1:07 left",
    ]
    assert isinstance(quiet.console.file, io.StringIO)
    assert quiet.console.file.getvalue() == ""


def test_what_is_over_within_a_minute_is_not_told(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    play(quiet, clock, (0, "sending", 1), (30, "sending", 100), (90, "sending", 100))
    assert caplog.messages == []


def test_the_log_is_told_of_many_transfers_in_two_lines(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(16):
        quiet.update(f"site-{number}", "sending", 4, 4)
        quiet.update(f"site-{number}", "receiving", 1 * MB, 4 * MB)
    clock.now = 60.0
    quiet.update("site-1", "receiving", 1 * MB, 4 * MB)
    assert caplog.messages == ["← 16 peers: 16.0 MB of 64.0 MB, 0 of 16 done"]


# --- what is watched ------------------------------------------------------------------------


def watched(progress: LinkProgress, *moments: list[Far]) -> None:
    told = iter(moments)
    watch = Watch(lambda: next(told), lambda: "round 2 of 5", progress)
    for _ in moments:
        watch.look()


@pytest.mark.parametrize(
    ("far", "down", "up"),
    [
        (Far("a", MB), "", ""),
        (Far("a", 4 * MB, is_working=True), "", "at work"),
        (Far("a", 4 * MB, MB, held_for="site-2"), "", "held for site-2"),
        (Far("a", 4 * MB, 4 * MB, phase="committing"), "", "committing"),
        (Far("a", 4 * MB, 4 * MB, phase="done"), "", "done"),
        (Far("a", 0, 4 * MB, phase="working"), "at work", ""),
        (Far("a", 1, phase="waiting for its connection"), *["waiting for its connection"] * 2),
    ],
)
def test_the_words_beside_the_bars_say_what_is_waited_for(
    quiet: LinkProgress, far: Far, down: str, up: str
) -> None:
    watched(quiet, *[[far]] * 5)
    assert [each.words for each in quiet.rows()] == [down, up]


def test_short_holds_are_no_news(quiet: LinkProgress) -> None:
    free, held = Far("a", MB), Far("a", MB, held_for="site-2")
    watched(quiet, *[[free], [held], [free]] * 4)
    assert [each.words for each in quiet.rows()] == ["", ""]


def test_an_updates_own_size_is_what_it_is_measured_by(quiet: LinkProgress) -> None:
    watched(quiet, [Far("a", 4 * MB, MB, returns=2 * MB)])
    assert [each.total for each in quiet.rows()] == [4 * MB, 2 * MB]


def test_who_leaves_a_round_is_forgotten(quiet: LinkProgress) -> None:
    watched(quiet, [Far("site-1", MB), Far("site-2", MB)], [Far("site-1", 2 * MB)])
    assert {each.name for each in quiet.rows()} == {"→ site-1", "← site-1"}


def test_the_end_is_looked_at() -> None:
    looked = threading.Event()
    told = [[Far("site-1", MB)]]

    def client_progress() -> list[Far]:
        looked.set()
        return told[0]

    quiet = Console(file=io.StringIO())
    with show_progress(client_progress, quiet, headline=lambda: "round 0") as progress:
        assert looked.wait(60)
        told[0] = [Far("site-1", 4 * MB, 4 * MB, phase="done")]
    assert progress.headline == "round 0"
    assert all(each.is_complete for each in progress.rows())
