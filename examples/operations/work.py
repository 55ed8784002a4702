"""What each site does: ``streamlink client ... --executor work.py:make`` calls ``make(name)``."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy.typing as npt

import streamlink

ADDS = {"site-1": 1.0, "site-2": 3.0, "site-3": 8.0}
SECONDS = {"site-1": 0.7, "site-2": 0.7, "site-3": 2.5}  # the third one is slow

logger = logging.getLogger("streamlink.work")  # below "streamlink", so that --log-file has it too


def make(name: str) -> streamlink.WholeExecutor:
    """Return the work of one site."""

    def train(model: dict[str, npt.NDArray[Any]], task: streamlink.Task) -> None:
        until = time.monotonic() + SECONDS[name]
        while time.monotonic() < until:
            task.progress()  # says that it moves; raises when the round went on without this site
            time.sleep(0.05)
        for array in model.values():
            array += ADDS[name]

    logger.info("%s is up", name)
    return streamlink.WholeExecutor(train, reports_progress=True)
