"""Fine-tuning with differences: what is claimed of it, and a tiny job, plain and with them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from benchmarks import finetune
from benchmarks.finetune import Plan, Ran, Round

# Auto begins when it knows the line: what leaves before that must be little of this small model.
CHUNKS = {"chunk_bytes": "8KiB", "min_chunk_bytes": "4KiB", "initial_window_bytes": "8KiB"}
TINY = Plan({"words": 500, "width": 64, "layers": 1, "heads": 2}, rounds=2, steps=2, stream=CHUNKS)


def ran(*seconds: float, digest: str = "same") -> Ran:
    rounds = tuple(Round(100, 100, each / 2, each / 2) for each in seconds)
    return Ran(rounds, digest, (1.0,) * len(rounds))


PLAIN = ran(8.0, 8.0, 8.0)


def test_the_first_round_which_has_no_base_does_not_count() -> None:
    assert finetune.ratio({"plain": PLAIN, "auto": ran(8.0, 2.0, 2.0)}) == 4.0


def test_enough_time_saved_and_the_same_bits_meet_the_claim() -> None:
    good = {"plain": PLAIN, "auto": ran(8.0, 2.0, 2.0)}
    slow = {"plain": PLAIN, "auto": ran(8.0, 4.0, 4.0)}
    other = {"plain": PLAIN, "auto": ran(8.0, 2.0, 2.0, digest="another")}
    assert finetune.is_met({1e-5: good, 1e-4: slow})  # at 1e-4 it is reported only
    assert not finetune.is_met({1e-5: slow})
    assert not finetune.is_met({1e-5: good, 1e-4: other})


def test_a_job_survives_its_json() -> None:
    assert Ran.from_json(json.loads(json.dumps(asdict(PLAIN)))) == PLAIN


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_tiny_job_ends_with_the_same_bits_and_sends_less() -> None:
    pytest.importorskip("torch")
    plan = replace(TINY, bandwidth=2e6)
    plain, auto = (finetune.measure(plan, 1e-5, is_auto) for is_auto in (False, True))
    assert plain.digest == auto.digest
    assert plain.losses == auto.losses
    (first,), (later,) = plain.later, auto.later
    assert later.wire_bytes < first.wire_bytes / 2
