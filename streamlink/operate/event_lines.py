"""Writes the events of a job as JSON, one object on a line, for programs that follow it."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from streamlink.closing import Closing
from streamlink.errors import StoreError
from streamlink.rounds.events import RoundEvent

__all__ = ["EventLines"]

logger = logging.getLogger("streamlink.rounds")


class EventLines(Closing):
    """Appends each event to a file as it happens: give it as ``on_event``.

    A line has ``time`` (seconds since 1970), ``event``, ``job``, ``round`` and ``attempt``; where
    the event has them ``peer``, ``detail`` and ``report``. A resumed job appends to the same file.

    Args:
        path: the file; created if it is missing.
        wall_clock: returns the time of an event (seconds since 1970).

    Raises:
        StoreError: the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self._now = Path(path), wall_clock
        try:
            # Append: lines of a killed server stay, and ``tail -f`` goes on.
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise self._not_written(error) from error

    def __call__(self, event: RoundEvent) -> None:
        """Append a line. If the disk is full or broken the line is lost, which is logged."""
        line = json.dumps(_facts(event, self._now()), default=dict).encode() + b"\n"
        try:
            if (written := self._file.write(line)) != len(line):
                # A reader takes a line for whole: what is there of it goes.
                self._file.truncate(self._file.tell() - (written or 0))
                raise OSError("no room for all of it")
        except OSError as error:
            # Not raised: a round must not fail because nobody can see it.
            logger.warning("an event is lost: %s", self._not_written(error))

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        self._file.close()

    def _not_written(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.path}: the events cannot be written: {error.strerror or error}; make room, or "
            "let this process write there"
        )


def _facts(event: RoundEvent, at: float) -> dict[str, Any]:
    attempt = event.attempt
    facts = {
        "time": at, "event": event.kind.value,
        "job": attempt.job, "round": attempt.round, "attempt": attempt.attempt,
    }  # fmt: skip
    more = {"peer": event.peer_name, "detail": event.detail}
    facts |= {name: fact for name, fact in more.items() if fact}
    return facts | ({"report": asdict(event.report)} if event.report is not None else {})
