"""The progress of each transfer: bars on a terminal, one log line per minute elsewhere.

The command line passes :meth:`LinkProgress.update` down as a callback; links and rounds call it for
every chunk and do not know the screen. A call that need not be shown costs about a microsecond: it
reads the clock, looks up its bar and stores two numbers.

Arrows show the direction as seen from this end: ``→ site-1`` is sent to it, ``← site-1`` is
received from it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live

from streamlink.bars import Row, board, size, span, summed

__all__ = ["LinkProgress", "PeerProgress", "Row", "show_progress"]

_log = logging.getLogger(__name__)

_ARROWS = {"sending": "→", "receiving": "←"}
_SAMPLE_SECONDS = 0.1
_WATCH_SECONDS = 0.2
_RATE_SECONDS = 5.0  # a rate is the mean over this time
_LINE_SECONDS = 60.0
_MOST_LINES = 4  # log lines at a time without a terminal; more transfers are summed up
# In lockstep all but the slowest client wait often and briefly. Only one that waits most of the
# time is shown as held.
_SEEN, _SEEN_HELD = 5, 3
_STILL = ("waiting for its connection", "checking", "noting")  # no byte of the model travels


class LinkProgress:
    """One bar for each peer and direction, as a context manager.

    Args:
        console: where to draw; by default stderr. If it is not a terminal, nothing is drawn.
        clock: monotonic seconds.
    """

    headline = ""
    """The line above the bars: the current round."""

    def __init__(
        self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console = console or Console(stderr=True)
        self._clock = clock
        self._lock = threading.Lock()
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._latest_way: dict[str, str] = {}
        self._live: Live | None = None
        self._line_at = clock() + _LINE_SECONDS

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._board, console=self.console, refresh_per_second=5
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()  # draws the final state

    def update(
        self, peer_name: str, phase: str, done: int, total: int, *, direction: str = ""
    ) -> None:
        """Report the progress of a peer. Any thread may call it, at any rate.

        Args:
            peer_name: the peer's name; it is escaped before it is shown.
            phase: ``"sending"`` and ``"receiving"`` are shown by their arrows only, any other one,
                such as ``"checking"``, by its name.
            done: bytes so far. Fewer than before means that another transfer began.
            total: bytes in all; 0: unknown.
            direction: ``"sending"`` or ``"receiving"``: which of the peer's bars. By default that
                of the phase; for any other phase the bar that was used last.
        """
        way = direction or (
            phase if phase in _ARROWS else self._latest_way.get(peer_name, "receiving")
        )
        now = self._clock()
        lane = self._lanes.get((peer_name, way))
        # Without the lock on purpose: a race only shows a number a moment late.
        if lane is not None and lane.is_current(phase, done, total) and now < lane.sample_at:
            lane.latest = done
            return
        with self._lock:
            if lane is None:
                lane = self._lanes[peer_name, way] = Lane(f"{_ARROWS[way]} {peer_name}", way)
            self._latest_way[peer_name] = way
            lane.sample(phase, done, total, now=now)
            lines = self._lines_due(now)
        # Not under the lock: else a full pipe behind stderr would stop every thread that reports.
        for line in lines:
            _log.info("%s", line)

    def forget(self, peer_name: str) -> None:
        """Remove the bars of a peer that is no longer reported. Any thread may call it."""
        with self._lock:
            for key in [key for key in self._lanes if key[0] == peer_name]:
                del self._lanes[key]

    def rows(self) -> list[Row]:
        """Return the progress of each transfer, in the order in which the peers appeared."""
        now = self._clock()
        with self._lock:
            return self._rows(now)

    def _rows(self, now: float) -> list[Row]:
        return [lane.row(now=now) for lane in self._lanes.values()]

    def _board(self) -> Group:
        width, height = self.console.size
        # One line stays free for the cursor: a full screen would scroll.
        return Group(*board(self.headline, self.rows(), width=width, height=height - 1))

    def _lines_due(self, now: float) -> list[str]:
        """Return the lines to log now: once per minute, if there is no terminal."""
        if self._live is not None or now < self._line_at:
            return []
        self._line_at = now + _LINE_SECONDS
        rows = [row for row in self._rows(now) if not row.is_complete]
        if len(rows) > _MOST_LINES:
            ways = [[row for row in rows if row.name[0] == arrow] for arrow in _ARROWS.values()]
            rows = [summed(each, f"{each[0].name[0]} {len(each)} peers") for each in ways if each]
        return [_sentence(row) for row in rows]


class Lane:
    """What was seen of one peer in one direction, from one sample to the next."""

    __slots__ = ("_moved", "_moving", "_phase", "_samples", "_total", "_way", "latest", "name",
                 "sample_at")  # fmt: skip

    def __init__(self, name: str, way: str) -> None:
        self.name = name
        self.latest = 0
        """Bytes so far, as told last."""
        self.sample_at = 0.0
        """When to take the next sample (seconds)."""
        self._way = way
        self._phase = ""
        self._total = 0
        self._begin()

    def _begin(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._moving, self._moved = 0.0, 0  # seconds in which bytes came, and how many

    def sample(self, phase: str, done: int, total: int, *, now: float) -> None:
        """Record the progress at ``now``."""
        if done < self.latest or total != self._total:
            self._begin()
        if self._samples and done > self._samples[-1][1] and self._phase not in _STILL:
            self._moving += now - self._samples[-1][0]
            self._moved += done - self._samples[-1][1]
        self._samples.append((now, done))
        # The oldest sample that stays is the last one that is old enough, so the rate covers the
        # whole time.
        while len(self._samples) > 2 and now - self._samples[1][0] >= _RATE_SECONDS:
            self._samples.popleft()
        self._phase, self.latest, self._total = phase, done, total
        self.sample_at = now + _SAMPLE_SECONDS

    def is_current(self, phase: str, done: int, total: int) -> bool:
        """Tell whether only the number of bytes changed: no new phase, and not the end of one."""
        is_same = phase == self._phase and done >= self.latest and total == self._total
        return is_same and (total <= 0 or done < total or self.latest == done)

    def row(self, *, now: float) -> Row:
        """Return how far it is, and how fast: a transfer that is over by the time it moved."""
        is_complete = 0 < self._total <= self.latest
        is_still = self._phase in _STILL
        rate = self._mean() if is_complete else 0.0 if is_still else self._rate(now)
        words = "" if self._phase in _ARROWS else self._phase
        return Row(self.name, words, self.latest, self._total, rate)

    def _mean(self) -> float:
        return self._moved / self._moving if self._moving > 0 else 0.0

    def _rate(self, now: float) -> float:
        if not self._samples:
            return 0.0
        since = max(self._samples[0][0], now - _RATE_SECONDS)
        # Of the samples the last one that is old enough: nothing of what came before it counts.
        first = next(done for at, done in reversed(self._samples) if at <= since)
        return (self.latest - first) / (now - since) if now > since else 0.0


class PeerProgress(Protocol):
    """The fields of ``ClientProgress`` that ``show_progress`` reads. Bytes."""

    @property
    def peer_name(self) -> str:
        """The client's name."""

    @property
    def phase(self) -> str:
        """What it does now, in a word."""

    @property
    def sent(self) -> int:
        """Of the model to it."""

    @property
    def received(self) -> int:
        """Of its update."""

    @property
    def total(self) -> int:
        """Length of the model to it."""

    @property
    def returns(self) -> int:
        """Length of its update; 0: not known yet."""

    @property
    def held_for(self) -> str:
        """The client that its update waits for; empty: none."""

    @property
    def is_working(self) -> bool:
        """Whether it computes: it has the whole model, and nothing of its update waits here."""


@contextmanager
def show_progress(
    clients: Callable[[], Sequence[PeerProgress]],
    console: Console | None = None,
    *,
    headline: Callable[[], object] = str,
) -> Iterator[LinkProgress]:
    """Draw two bars for each peer while the block runs: the model to it, its update back.

    Args:
        clients: returns the progress of each peer, such as ``job.client_progress``; called five
            times a second and once at the end. A peer that is no longer listed loses its bars.
        console: where to draw; by default stderr. Where it is no terminal, the log is told once a
            minute.
        headline: tells what stands above the bars, such as ``job.state``.
    """
    is_over = threading.Event()
    with LinkProgress(console) as progress:
        watch = Watch(clients, headline, progress)
        watcher = threading.Thread(target=watch.run, args=(is_over,), name="progress", daemon=True)
        watcher.start()
        try:
            yield progress
        finally:
            is_over.set()
            watcher.join()


class Watch:
    """Looks again and again at how far each peer is, and tells ``progress``."""

    def __init__(
        self,
        clients: Callable[[], Sequence[PeerProgress]],
        headline: Callable[[], object],
        progress: LinkProgress,
    ) -> None:
        self._clients = clients
        self._headline = headline
        self._progress = progress
        self._shown: set[str] = set()
        self._held: dict[str, deque[str]] = {}

    def run(self, is_over: threading.Event) -> None:
        """Look until ``is_over``, and once more then."""
        is_last = False
        while not is_last:
            is_last = is_over.wait(_WATCH_SECONDS)
            self.look()

    def look(self) -> None:
        """Tell how far each peer is now."""
        self._progress.headline = str(self._headline())
        now = self._clients()
        for each in now:
            self._tell(each)
        here = {each.peer_name for each in now}
        for peer in self._shown - here:
            self._progress.forget(peer)  # a bar that stands still would pass for one that hangs
            self._held.pop(peer, None)
        self._shown = here

    def _tell(self, each: PeerProgress) -> None:
        held, tell, of = self._held_for(each), self._progress.update, each.returns or each.total
        both = (
            each.phase if each.phase not in ("streaming", "working", "committing", "done") else ""
        )
        down = both or ("at work" if each.phase == "working" else "sending")
        up = each.phase if each.phase in ("committing", "done") else "receiving"
        if up == "receiving" and (held or each.is_working):
            up = f"held for {held}" if held else "at work"
        tell(each.peer_name, down, each.sent, each.total, direction="sending")
        tell(each.peer_name, both or up, each.received, of, direction="receiving")

    def _held_for(self, each: PeerProgress) -> str:
        """Return whom it waits for most of the time, if it does."""
        seen = self._held.setdefault(each.peer_name, deque(maxlen=_SEEN))
        seen.append(each.held_for)
        name, count = Counter(seen).most_common(1)[0]
        return name if count >= _SEEN_HELD else ""


def _sentence(row: Row) -> str:
    far = f"{size(row.done)} of {size(row.total)}" if row.total else size(row.done)
    parts = [far, f"{size(row.rate)}/s" if row.rate else "", row.words]
    if row.seconds_left is not None:
        parts.append(f"{span(row.seconds_left)} left")
    return f"{row.name}: {', '.join(filter(None, parts))}"
