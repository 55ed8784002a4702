"""Jobs whose models are kept at both ends, and travel as differences."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.whole import WholeExecutor
from streamlink.link.transfer_facts import TransferFacts
from tests.support.jobs import Job
from tests.support.peers import Federation, config

SIZE = 40_000


def initial() -> dict[str, Any]:
    values = np.random.default_rng(1).standard_normal(SIZE).astype("<f4")
    return {"w": values, "frozen": np.arange(SIZE, dtype="<i8")}


def step(model: dict[str, Any], task: Task) -> TaskResult:
    """Change a few bits of some elements, as a small step of an optimizer does."""
    model["w"][task.round :: 7] *= np.float32(1.0001)
    return TaskResult()


def kept(folder: Path, **stream: Any) -> Any:
    return config(stream={"encodings": ("delta",), "kept": folder, **stream})


def job_of(folder: Path, seen: list[TransferFacts], **rules: Any) -> Job:
    link = kept(folder / "server")
    federation = Federation(link, on_transfer=seen.append)
    return Job(link, arrays=initial(), federation=federation, num_rounds=3, **rules)


def shares(seen: list[TransferFacts]) -> dict[tuple[int, str], list[float]]:
    """Return which share of the model's bytes travelled, by round and direction."""
    found = defaultdict(list)
    for facts in seen:
        found[facts.attempt.round, facts.direction].append(facts.wire_bytes / facts.bytes)
    return found


def test_after_its_first_way_a_model_travels_as_differences(tmp_path: Path) -> None:
    seen: list[TransferFacts] = []
    with job_of(tmp_path, seen) as job:
        for number in (1, 2):
            job.federation.client(
                f"site-{number}", WholeExecutor(step), kept(tmp_path / "clients")
            )
        job.start(2)
        job.reports()
        expected = initial()
        for round_ in range(3):
            expected["w"][round_::7] *= np.float32(1.0001)
        np.testing.assert_array_equal(job.store.arrays["w"], expected["w"])
    found = shares(seen)
    print(dict(found))
    assert min(found[0, "sent"]) > 0.9, "nobody had anything before"
    for key in ((0, "received"), (1, "sent"), (1, "received"), (2, "sent"), (2, "received")):
        assert max(found[key]) < 0.4, (key, found[key])
