"""How far each peer has come: bars on a terminal, a few plain log lines everywhere else.

The command line hands :meth:`LinkProgress.update` down as a callback; links and rounds call it for
every chunk and know nothing of the screen. A call that need not be shown costs about a microsecond:
it reads the clock, looks its bar up and leaves a pair of numbers behind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from streamlink.logs import escape

__all__ = ["LinkProgress", "show_progress"]

_log = logging.getLogger(__name__)

_WAYS = ("sending", "receiving")
_REFRESH_SECONDS = 0.1
_WATCH_SECONDS = 0.2
# A hold of a few milliseconds is no news; a lockstep round has thousands of them.
_NEWS_SECONDS = 1.0


class LinkProgress:
    """One bar for each peer and direction, as a context manager.

    Args:
        console: where to draw; by default stderr. Nothing is drawn where it is no terminal.
        clock: monotonic seconds.
    """

    def __init__(
        self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console = console or Console(stderr=True)
        self._clock = clock
        self._lock = threading.Lock()
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._latest_way: dict[str, str] = {}
        self._bars = _bars(self.console) if self.console.is_terminal else None

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            for lane in self._lanes.values():
                self._end(lane, self._clock())
            if self._bars is not None:
                self._bars.stop()

    def update(self, peer: str, phase: str, done: int, total: int, *, direction: str = "") -> None:
        """Say how far ``peer`` is. Any thread may call, as often as it likes.

        Args:
            peer: the peer's name; it is escaped before it is shown.
            phase: ``"sending"``, ``"receiving"``, ``"verifying"``, ``"waiting for site-2"``, ...
            done: bytes of this phase so far. Fewer than before means that the phase began again.
            total: bytes in all; 0 where that is not known.
            direction: which of the peer's bars. By default ``sending`` and ``receiving`` have one
                each, and any other phase goes to the one that was used last.
        """
        way = direction or (phase if phase in _WAYS else self._latest_way.get(peer, phase))
        now = self._clock()
        lane = self._lanes.get((peer, way))
        # Unlocked on purpose: at worst a number is shown a moment late. `show` looks again.
        if lane is not None and lane.is_current(phase, done, total) and now < lane.show_at:
            lane.latest = (done, total)
            return
        with self._lock:
            self._show(peer, way, phase, (done, total), now)

    def forget(self, peer: str) -> None:
        """End what is shown of ``peer``, whose numbers nobody tells any more; any thread may."""
        with self._lock:
            for key in [key for key in self._lanes if key[0] == peer]:
                lane = self._lanes.pop(key)
                self._end(lane, self._clock())
                if self._bars is not None and lane.bar is not None:
                    self._bars.remove_task(lane.bar)

    def _show(self, peer: str, way: str, phase: str, latest: tuple[int, int], now: float) -> None:
        self._latest_way[peer] = way
        lane = self._lanes.get((peer, way))
        if lane is None:
            lane = self._lanes[peer, way] = _Lane(peer, phase, now, latest, self._new_bar(peer))
        elif not lane.is_same(phase, latest[0]):
            self._end(lane, now)
            lane.begin(phase, now, latest)
            self._reset_bar(lane)
        lane.latest = latest
        lane.show_at = now + _REFRESH_SECONDS
        self._draw(lane)
        if lane.is_complete:
            self._end(lane, now)

    def _end(self, lane: _Lane, now: float) -> None:
        """Draw the last numbers; without a terminal log the phase, once, if it is worth a line."""
        self._draw(lane)
        if self._bars is None and not lane.is_ended:
            seconds = now - lane.began_at
            if lane.is_complete or seconds >= _NEWS_SECONDS:
                _log.info("%s", lane.sentence(seconds))
        lane.is_ended = True

    def _new_bar(self, peer: str) -> TaskID | None:
        if self._bars is None:
            return None
        return self._bars.add_task("", total=None, peer=escape(peer), phase="")

    def _reset_bar(self, lane: _Lane) -> None:
        if self._bars is not None and lane.bar is not None:
            self._bars.reset(lane.bar, completed=lane.latest[0])

    def _draw(self, lane: _Lane) -> None:
        if self._bars is not None and lane.bar is not None:
            done, total = lane.latest
            phase = escape(lane.phase)
            self._bars.update(lane.bar, completed=done, total=total or None, phase=phase)


class Standing(Protocol):
    """What is asked of a peer's standing (``rounds.controller.Standing``). Bytes."""

    @property
    def peer(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def sent(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def total(self) -> int: ...


@contextmanager
def show_progress(
    standings: Callable[[], Sequence[Standing]], console: Console | None = None
) -> Iterator[LinkProgress]:
    """Draw two bars for each peer while the block runs: the model to it, its update back.

    Args:
        standings: tells how far each peer is; asked five times a second, and once at the end. A
            peer that it names no more has no bars any more.
        console: see ``LinkProgress``.
    """
    is_over = threading.Event()
    with LinkProgress(console) as progress:
        watcher = threading.Thread(
            target=_watch, args=(standings, progress, is_over), name="progress", daemon=True
        )
        watcher.start()
        try:
            yield progress
        finally:
            is_over.set()
            watcher.join()


def _watch(
    standings: Callable[[], Sequence[Standing]], progress: LinkProgress, is_over: threading.Event
) -> None:
    shown: set[str] = set()
    while True:
        is_last = is_over.wait(_WATCH_SECONDS)
        now = standings()
        for each in now:
            back = "receiving" if each.phase == "streaming" else each.phase
            progress.update(each.peer, "sending", each.sent, each.total, direction="sending")
            progress.update(each.peer, back, each.received, each.total, direction="receiving")
        for peer in shown.difference(each.peer for each in now):
            progress.forget(peer)  # a bar that stands still would pass for one that hangs
        shown = {each.peer for each in now}
        if is_last:
            return


class _Lane:
    """What is known of one peer in one direction."""

    __slots__ = ("bar", "began_at", "is_ended", "latest", "peer", "phase", "show_at", "start")

    def __init__(
        self, peer: str, phase: str, now: float, latest: tuple[int, int], bar: TaskID | None
    ) -> None:
        self.peer = peer
        self.bar = bar
        self.begin(phase, now, latest)

    def begin(self, phase: str, now: float, latest: tuple[int, int]) -> None:
        self.phase = phase
        self.began_at = now
        self.show_at = now
        # A resumed transfer starts in the middle: what came before is not this phase's speed.
        self.start = latest[0]
        self.latest = latest
        self.is_ended = False

    def is_same(self, phase: str, done: int) -> bool:
        return phase == self.phase and done >= self.latest[0]

    def is_current(self, phase: str, done: int, total: int) -> bool:
        """Tell whether there is nothing to show but a number: no new phase, no end of one."""
        return self.is_same(phase, done) and (self.is_ended or total <= 0 or done < total)

    @property
    def is_complete(self) -> bool:
        done, total = self.latest
        return 0 < total <= done

    def sentence(self, seconds: float) -> str:
        done, total = self.latest
        of = f" of {total}" if total else ""
        rate = f", {(done - self.start) / seconds / 1e6:.1f} MB/s" if seconds > 0 else ""
        return f"{self.peer} {self.phase}: {done}{of} bytes in {seconds:.1f} s{rate}"


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.fields[peer]}", markup=False),
        TextColumn("{task.fields[phase]}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
