"""Probes of the line beside rounds: refused while one runs, and welcome after it."""

from __future__ import annotations

import pytest

from streamlink.config import RoundConfig
from streamlink.errors import RequestRefused
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.probe_line import ProbeLine
from streamlink.model.spec import TensorSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores.memory import MemoryStore
from tests.support.peers import Array, Federation, initial


@pytest.mark.slow
def test_no_probe_begins_while_a_round_runs_and_the_round_does_not_notice() -> None:
    refused: list[str] = []
    with Federation() as federation:
        address = federation.server.address

        def work(tensor: TensorSpec, start: int, values: Array) -> Array:
            if not refused:
                with pytest.raises(RequestRefused) as error:
                    ProbeLine(address).start()
                refused.append(str(error.value))
            return values

        federation.client("site-1", StreamingExecutor(work))
        rules = RoundConfig(min_clients=1, num_rounds=1)
        (report,) = ScatterAndGather(federation.server, MemoryStore(initial()), rules).run()
        with ProbeLine(address) as line:
            assert line.echo() > 0
    assert [*report.weights] == ["site-1"]
    assert "round 0 runs" in refused[0]
