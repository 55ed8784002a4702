"""Writes the metrics of a job as curves for TensorBoard, while it runs."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from streamlink.closing import Closing
from streamlink.errors import StoreError
from streamlink.operate.event_file import file_version, record, scalars, session_start
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.report import RoundReport

__all__ = ["TensorBoardWriter"]

logger = logging.getLogger("streamlink.rounds")

_TAG_CHARACTERS = 300  # most of a curve's name; a client's metric may have any
_numbers = itertools.count()


class TensorBoardWriter(Closing):
    """Writes a point of each curve after each round and each evaluation: give it as ``on_event``.

    The step is the number of the round. There are ``train/METRIC`` and ``evaluation/METRIC``, the
    weighted means; ``train_clients/METRIC/CLIENT`` and ``evaluation_clients/METRIC/CLIENT``;
    ``schedule/FACT``; ``round/seconds``, ``round/updates`` and ``round/failures``. A resumed job
    continues its curves; a new job in the same folder replaces them from its first round on.

    Memory: the names of the curves, at most ``max_curves`` of 300 characters.

    Args:
        folder: created if it is missing; TensorBoard is started with ``--logdir`` of it.
        max_curves: further ones are left out, and the log says so (count). TensorBoard becomes
            slow with thousands.
        wall_clock: returns the time of a point (seconds since 1970).

    Raises:
        StoreError: the folder cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_curves: int = 1000,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._max, self._now = max_curves, wall_clock
        self._curves: set[str] = set()
        self._is_full = self._is_begun = False
        # TensorBoard reads the files in the order of their names, and expects this beginning.
        began, who = f"{self._now():017.6f}", f"{socket.gethostname()}.{os.getpid()}"
        name = f"events.out.tfevents.{began}.{who}.{next(_numbers)}"
        self.path = Path(folder) / name
        """The file of this writer."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise StoreError(
                f"{folder}: the curves for TensorBoard cannot be written: {error.strerror or error}"
            ) from error
        self._append(file_version(self._now()))

    def __call__(self, event: RoundEvent) -> None:
        """Write what an event of the rounds reports; most report nothing.

        Raises:
            StoreError: the disk is full or broken. The rounds log that, and go on.
        """
        report = event.report
        if report is None or event.kind not in (EventKind.ROUND_DONE, EventKind.EVALUATED):
            return
        is_done = event.kind is EventKind.ROUND_DONE
        if not self._is_begun:
            # A resumed job may begin with an evaluation, whose round has its other points already.
            self._append(session_start(self._now(), report.round + (not is_done)))
            self._is_begun = True
        points = dict(self._known(_of_round(report) if is_done else _of_evaluation(report)))
        if points:
            self._append(scalars(self._now(), report.round, points))

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        self._file.close()

    def _known(self, points: Iterator[tuple[str, float]]) -> Iterator[tuple[str, float]]:
        for name, value in points:
            tag = "".join(each if each.isprintable() else "_" for each in name[:_TAG_CHARACTERS])
            if tag in self._curves or len(self._curves) < self._max:
                self._curves.add(tag)
                yield tag, value
            elif not self._is_full:
                self._is_full = True
                logger.warning(
                    "TensorBoard gets %d curves, and not %s or any other (max_curves)",
                    self._max, tag,
                )  # fmt: skip

    def _append(self, event: bytes) -> None:
        data, before = record(event), self._file.tell()
        try:
            if self._file.write(data) != len(data):
                raise OSError("no room for all of it")
        except OSError as error:
            # A reader ends at a torn record: the next one must follow the last whole one.
            self._file.truncate(before)
            self._file.seek(before)
            raise StoreError(
                f"{self.path}: a point for TensorBoard is lost: {error.strerror or error}"
            ) from error


def _of_round(report: RoundReport) -> Iterator[tuple[str, float]]:
    yield "round/seconds", report.seconds
    yield "round/updates", len(report.weights)
    yield "round/failures", len(report.failures)
    for fact, text in report.scheduled.items():
        try:
            yield f"schedule/{fact}", float(text)
        except ValueError:
            continue  # it is no number
    yield from _metrics("train", report.metrics, report.client_metrics)


def _of_evaluation(report: RoundReport) -> Iterator[tuple[str, float]]:
    if (found := report.evaluation) is not None:
        yield from _metrics("evaluation", found.metrics, found.client_metrics)


def _metrics(
    what: str, means: Mapping[str, float], of_clients: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, float]]:
    """Yield the means first: they are the last to be left out."""
    yield from ((f"{what}/{name}", value) for name, value in means.items())
    for client, metrics in of_clients.items():
        yield from ((f"{what}_clients/{name}/{client}", value) for name, value in metrics.items())
