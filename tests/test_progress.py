"""Progress: bars for terminals, a line per phase for log files, cheap for both."""

import io
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from rich.console import Console

from streamlink.progress import LinkProgress, show_progress

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

    peer: str
    sent: int
    received: int = 0
    phase: str = "streaming"
    total: int = 4 * MB


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quiet(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[LinkProgress]:
    caplog.set_level(logging.INFO, "streamlink.progress")
    with LinkProgress(Console(file=io.StringIO()), clock=clock) as progress:
        yield progress


def drawn(act: Callable[[LinkProgress], None]) -> str:
    """Return what a terminal shows at the end of ``act``."""
    file = io.StringIO()
    with LinkProgress(Console(file=file, force_terminal=True, width=120)) as progress:
        act(progress)
    return file.getvalue()


def test_a_terminal_shows_peer_phase_and_bytes() -> None:
    screen = drawn(lambda p: p.update("site-1", "sending", 3 * MB, 4 * MB))
    assert "site-1" in screen
    assert "sending" in screen
    assert "3.0/4.0 MB" in screen


def test_each_direction_of_a_peer_has_its_own_bar() -> None:
    def both(progress: LinkProgress) -> None:
        progress.update("site-1", "sending", 1 * MB, 4 * MB)
        progress.update("site-1", "receiving", 2 * MB, 4 * MB)

    screen = drawn(both)
    assert "1.0/4.0 MB" in screen
    assert "2.0/4.0 MB" in screen


def test_a_new_phase_takes_over_its_directions_bar() -> None:
    def phases(progress: LinkProgress) -> None:
        progress.update("site-1", "receiving", 4 * MB, 4 * MB)
        progress.update("site-1", "verifying", 1 * MB, 4 * MB)

    last = [line for line in drawn(phases).splitlines() if "site-1" in line][-1]
    assert "verifying" in last
    assert "receiving" not in last


def test_the_last_number_is_shown_though_it_came_too_soon_for_a_refresh() -> None:
    def burst(progress: LinkProgress) -> None:
        for done in range(1, 4):
            progress.update("site-1", "sending", done * MB, 4 * MB)

    assert "3.0/4.0 MB" in drawn(burst)


def test_a_peer_nobody_tells_of_any_more_has_no_bar() -> None:
    def leave(progress: LinkProgress) -> None:
        progress.update("site-1", "sending", 1 * MB, 4 * MB)
        progress.update("site-1", "receiving", 1 * MB, 4 * MB)
        progress.update("site-2", "sending", 3 * MB, 4 * MB)
        progress.forget("site-1")
        progress.forget("site-7")

    last = drawn(leave).rpartition("\x1b[2K")[2]
    assert "site-2" in last
    assert "site-1" not in last


def test_who_leaves_a_round_is_forgotten_and_the_end_is_looked_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "streamlink.progress")
    looked = threading.Event()
    half = [Far("site-1", MB), Far("site-2", MB)]
    told = [half]

    def standings() -> list[Far]:
        looked.set()
        return told[0]

    with show_progress(standings, Console(file=io.StringIO())) as progress:
        looked.wait(10)
        told[0] = [Far("site-1", 4 * MB)]
    assert {peer for peer, _ in progress._lanes} == {"site-1"}
    assert "site-1 sending: 4000000 of 4000000 bytes" in caplog.text


def test_an_unknown_total_is_drawn_without_one() -> None:
    assert "3.0/? MB" in drawn(lambda p: p.update("site-1", "committing", 3 * MB, 0))


def test_a_peers_name_cannot_draw_on_the_terminal() -> None:
    screen = drawn(lambda p: p.update("[red]\x1b[2Jx", "sending", 1, 2))
    assert r"[red]\x1b[2Jx" in screen


def test_without_a_terminal_nothing_is_drawn_and_a_phase_ends_in_one_line(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(5):
        clock.now = step / 2
        quiet.update("site-1", "sending", step * MB, 4 * MB)
    quiet.update("site-1", "sending", 4 * MB, 4 * MB)
    assert caplog.messages == ["site-1 sending: 4000000 of 4000000 bytes in 2.0 s, 2.0 MB/s"]
    assert isinstance(quiet.console.file, io.StringIO)
    assert quiet.console.file.getvalue() == ""


def test_short_holds_are_no_news(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(10):
        clock.now += 0.3
        quiet.update("site-1", ("receiving", "waiting for site-2")[step % 2], step, 100)
    assert caplog.messages == []


def test_a_long_hold_is_news(
    quiet: LinkProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    quiet.update("site-1", "receiving", 50, 100)
    quiet.update("site-1", "waiting for site-2", 50, 100)
    clock.now = 90.0
    quiet.update("site-1", "receiving", 50, 100)
    assert caplog.messages == ["site-1 waiting for site-2: 50 of 100 bytes in 90.0 s, 0.0 MB/s"]


def test_the_next_round_is_a_phase_of_its_own(
    quiet: LinkProgress, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        quiet.update("site-1", "sending", 50, 100)
        quiet.update("site-1", "sending", 100, 100)
    assert len(caplog.messages) == 2


def test_leaving_ends_the_phases_that_still_run(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamlink.progress")
    with LinkProgress(Console(file=io.StringIO()), clock=clock) as progress:
        progress.update("site-1", "verifying", 0, 0)
        progress.update("site-1", "verifying", 7, 0)
        clock.now = 3.5
    assert caplog.messages == ["site-1 verifying: 7 bytes in 3.5 s, 0.0 MB/s"]


def test_a_named_direction_overrules_the_phase(
    quiet: LinkProgress, caplog: pytest.LogCaptureFixture
) -> None:
    quiet.update("site-1", "sending", 1, 2)
    quiet.update("site-1", "verifying", 1, 2, direction="receiving")
    quiet.update("site-1", "sending", 2, 2)
    assert [line.split(":")[0] for line in caplog.messages] == ["site-1 sending"]


def test_threads_may_report_at_once(quiet: LinkProgress, caplog: pytest.LogCaptureFixture) -> None:
    def report(peer: str) -> None:
        for done in range(1, 501):
            quiet.update(peer, "sending", done, 500)

    threads = [threading.Thread(target=report, args=(f"site-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line.split(":")[0] for line in caplog.messages) == [
        f"site-{n} sending" for n in range(4)
    ]


def test_a_call_between_refreshes_only_leaves_its_numbers(
    quiet: LinkProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.update("site-1", "sending", 1, 1000)
    monkeypatch.delattr(LinkProgress, "_show")
    for done in range(2, 1000):
        quiet.update("site-1", "sending", done, 1000)
