"""Clients that train privately in rounds."""

from importlib.util import find_spec

import pytest

from streamlink.profiling.dp.experiment import Mode
from streamlink.profiling.dp.rounds import run_rounds

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.timeout(600),
    pytest.mark.processes,
]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_client_states_noise_and_bound_where_it_trains_privately(mode: Mode) -> None:
    found = run_rounds(mode)
    for facts in found.facts:
        for each in facts.values():
            assert each["dp.mode"] == mode.value
            assert ("dp.sigma" in each) is mode.is_private
            assert ("dp.max_grad_norm" in each) is mode.is_private
    # No loss where training is private: epsilon does not cover it.
    for metrics in found.metrics:
        assert [set(each) for each in metrics.values()] == 2 * [
            {"epsilon"} if mode.is_private else {"loss"}
        ]
    assert len(found.clients) == 2
    for client in found.clients.values():
        assert client["peak_bytes"] > client["base_bytes"]


def test_epsilon_grows_over_the_rounds() -> None:
    first, second = run_rounds(Mode.GHOST).metrics
    assert first.keys() == second.keys() == {"site-1", "site-2"}
    for name, spent in first.items():
        assert 0 < spent["epsilon"] < second[name]["epsilon"]


def test_a_clients_peak_is_within_what_was_computed() -> None:
    for client in run_rounds(Mode.FLASH, seq_length=256, rounds=1).clients.values():
        held, computed = (
            client["peak_bytes"] - client["base_bytes"],
            sum(client["computed"].values()),
        )
        assert computed / 2 < held <= computed
